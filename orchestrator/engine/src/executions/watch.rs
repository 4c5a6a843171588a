//! Callers that follow an execution's audit trail. Keeps nothing for them: a caller gets one piece and asks again for the
//! next.
//!
//! Shows no accept, no start and no end before it is durable. Entries between start and end are shown when they happen and
//! become durable with the end: a crash takes them back, and another history gets their numbers. A caller that names
//! the hash of the last entry that it saw learns so.

use super::Executions;
use crate::answer::{IsAll, Watched};
use crate::input::{Piece, Watch};
use crate::keys::{CallerId, ExecutionKey};
use crate::turn::Turn;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use escapement_contract::{AuditEntry, AuditKind, ExecutionError, Persisted};
use escapement_model::planted::{self, Bug};

/// Callers that wait for the next entry.
#[derive(Debug, Default)]
pub(super) struct Watchers(BTreeMap<CallerId, Wanted>);

/// What a watcher waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wanted {
    from_sequence: u64,
    piece: Piece,
}

impl Executions {
    /// Answers a watcher, or lets it wait. Returns the question if the execution is not live.
    pub(crate) fn watch(&mut self, watch: Watch, turn: &mut Turn) -> Option<Watch> {
        let Watch {
            caller,
            execution_id,
            from_sequence,
            after_hash,
            piece,
            waits,
        } = watch.clone();
        let Some((key, _)) = self.durable(execution_id) else {
            return Some(watch);
        };
        let live = self.live.at_mut(key);
        let wanted = Wanted {
            from_sequence: from_sequence.max(1),
            piece,
        };
        if after_hash.is_some_and(|hash| !wanted.follows(hash, live.shown_audit())) {
            self.answer(caller, Watched::Rewritten, turn);
            return None;
        }
        match wanted.cut_from(live.shown_audit()) {
            None if waits => {
                live.watchers.0.insert(caller.id, wanted);
                self.callers.insert(caller.id, key);
            }
            None => self.answer(caller, Watched::Entries(Arc::new([]), IsAll(true)), turn),
            Some(reply) => self.answer(caller, reply, turn),
        }
        None
    }

    // from the decision of the outcome until it is durable nothing is added: a crash would take it back.
    /// Answers the watchers that wait for something that may be seen now.
    pub(super) fn show_watchers(&mut self, key: ExecutionKey, turn: &mut Turn) {
        let live = self.live.at_mut(key);
        let audit = live.shown_audit();
        // Most wait for the same entry: they share the piece.
        let mut last: Option<(Wanted, Watched)> = None;
        let mut answered = Vec::new();
        for (caller, wanted) in &live.watchers.0 {
            let reply = match &last {
                Some((same, reply)) if same == wanted => Some(reply.clone()),
                _ => wanted.cut_from(audit),
            };
            if let Some(reply) = reply {
                last = Some((*wanted, reply.clone()));
                answered.push((*caller, reply));
            }
        }
        for (caller, reply) in answered {
            self.live.at_mut(key).watchers.forget(caller);
            self.answer(caller.into(), reply, turn);
        }
    }

    /// Tells every watcher how it ended: the rest of the audit trail is in that and in the store.
    pub(super) fn show_last(&mut self, key: ExecutionKey, persisted: &Persisted, turn: &mut Turn) {
        let watchers = core::mem::take(&mut self.live.at_mut(key).watchers);
        for caller in watchers.0.into_keys() {
            self.answer(caller.into(), Watched::Settled(persisted.clone()), turn);
        }
    }
}

impl Watchers {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn forget(&mut self, caller: CallerId) {
        self.0.remove(&caller);
    }
}

impl Wanted {
    /// Returns true if the entry before the first one wanted has this hash.
    fn follows(self, hash: [u8; 32], audit: &[AuditEntry]) -> bool {
        let before = usize::try_from(self.from_sequence).ok();
        let before = before.and_then(|from| audit.get(from.checked_sub(2)?));
        before.is_some_and(|entry| entry.hash == hash)
    }

    /// Returns the piece that there is now, if there is any.
    fn cut_from(self, audit: &[AuditEntry]) -> Option<Watched> {
        let skipped = u64::from(planted::is_on(Bug::WatchSkipsOne) && self.from_sequence > 1);
        let seen = usize::try_from(self.from_sequence - 1 + skipped).unwrap_or(usize::MAX);
        let unseen = audit.get(seen..).filter(|unseen| !unseen.is_empty())?;
        let mut bytes_left = self.piece.bytes_max;
        let fits = |entry: &&AuditEntry| {
            let fits = bytes_left > 0;
            bytes_left = bytes_left.saturating_sub(bytes_of(entry));
            fits
        };
        // The first entry always fits: a watcher must get on.
        let n_taken = unseen
            .iter()
            .take(self.piece.entries_max.max(1))
            .take_while(fits)
            .count()
            .max(1);
        Some(Watched::Entries(
            unseen[..n_taken].into(),
            IsAll(n_taken == unseen.len()),
        ))
    }
}

/// About what an entry takes.
fn bytes_of(entry: &AuditEntry) -> usize {
    let inside = match &entry.kind {
        AuditKind::AttemptFailed { error, .. } | AuditKind::StepNotCompleted { error, .. } => {
            bytes_of_error(error)
        }
        AuditKind::StepCompleted { warnings, .. } => warnings.iter().map(bytes_of_error).sum(),
        AuditKind::StepsIncomplete { step_ids } => size_of_val(step_ids.as_slice()),
        AuditKind::Accepted { .. }
        | AuditKind::Started { .. }
        | AuditKind::StepWaiting { .. }
        | AuditKind::AttemptAssigned { .. }
        | AuditKind::AttemptStarted { .. }
        | AuditKind::AttemptReturned { .. }
        | AuditKind::RetryScheduled { .. }
        | AuditKind::MandatoryAction { .. }
        | AuditKind::Settled { .. } => 0,
    };
    size_of::<AuditEntry>() + inside
}

fn bytes_of_error(error: &ExecutionError) -> usize {
    let cause = error.cause.as_deref().map_or(0, bytes_of_error);
    size_of::<ExecutionError>() + error.code.len() + error.message.len() + error.context.len() + cause
}
