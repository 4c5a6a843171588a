//! Who sees an execution's record grow. Shows nothing that may still turn out not to have happened.

use crate::effect::{Effect, Reply};
use crate::engine::Engine;
use crate::input::CallerId;
use crate::live::Live;
use crate::live::{ExecutionKey, Watcher};
use alloc::vec::Vec;
use escapement_contract::{AuditEntry, Execution, Persisted, Phase};
use escapement_model::ExecutionId;

impl Engine {
    pub(crate) fn watch(&mut self, caller: CallerId, execution_id: ExecutionId, from_sequence: u64) {
        let Some(key) = self.durable(execution_id) else {
            return self.watch_parked(caller, execution_id, from_sequence);
        };
        let watcher = Watcher {
            caller,
            next_sequence: from_sequence.max(1),
        };
        self.live.at_mut(key).watchers.push(watcher);
        self.callers.insert(caller, key);
        self.reply(caller, Reply::Watching);
        self.show_watchers(key);
    }

    /// Sends each watcher what it has not seen.
    // from the decision of the outcome until it is durable nothing is shown: a crash would take it back.
    pub(crate) fn show_watchers(&mut self, key: ExecutionKey) {
        let live = self.live.at_mut(key);
        if matches!(live.execution.phase(), Phase::Settling | Phase::Settled) {
            return;
        }
        let audit = shown_audit(&live.execution);
        for watcher in &mut live.watchers {
            let entries = watcher.take_unseen(audit);
            if !entries.is_empty() {
                self.effects.push_back(Effect::Entries {
                    caller: watcher.caller,
                    entries,
                    settled: None,
                });
            }
        }
    }

    /// Sends each watcher the rest and how it ended, even to whoever asked beyond the end.
    pub(crate) fn show_last(&mut self, key: ExecutionKey, persisted: &Persisted) {
        for watcher in &mut self.live.at_mut(key).watchers {
            let entries = watcher.take_unseen(&persisted.audit);
            let settled = Some(persisted.clone());
            self.effects.push_back(Effect::Entries {
                caller: watcher.caller,
                entries,
                settled,
            });
        }
    }
}

impl Live {
    // one that settles without ever having started is queued for everybody until its result is durable.
    /// When it started, once that is durable.
    pub(crate) fn shown_started_at(&self) -> Option<i64> {
        self.execution.started_at().filter(|_| self.start_is_durable)
    }
}

// the last entry of an execution whose start is being written is that start.
/// The record as far as a crash would not take it back.
fn shown_audit(execution: &Execution) -> &[AuditEntry] {
    let audit = execution.audit();
    match execution.phase() {
        Phase::Starting => &audit[..audit.len() - 1],
        Phase::Queued | Phase::Running | Phase::Settling | Phase::Settled => audit,
    }
}

impl Watcher {
    fn take_unseen(&mut self, audit: &[AuditEntry]) -> Vec<AuditEntry> {
        let seen = usize::try_from(self.next_sequence - 1).unwrap_or(usize::MAX);
        let unseen = audit.get(seen..).unwrap_or_default();
        self.next_sequence += unseen.len() as u64;
        unseen.to_vec()
    }
}
