//! From the queue to the first step: the preconditions of an execution. Makes no step run before the start is
//! durable.

use super::steps::Steps;
use super::{Effect, Execution, Phase};
use crate::audit::AuditKind;
use crate::error::ExecutionError;
use crate::time::{Moment, NO_DEADLINE};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use escapement_model::opaque::{ListBuilder, StructBuilder};
use escapement_model::{Severity, codes};

impl Execution {
    pub(super) fn start(&mut self, now: Moment) -> bool {
        //
        self.started_at_unix_ms = Some(now.unix_ms);
        self.limit_due_ms = now.monotonic_ms.saturating_add(self.plan().timeout_ms());
        self.record(
            now,
            AuditKind::Started {
                started_at: now.unix_ms,
            },
        );
        if let Some(error) = self.unmet_precondition(now) {
            self.settle_by_plan_error(now, error);
            return true;
        }
        self.phase = Phase::Starting;
        self.start_is_being_written = true;
        self.want(Effect::PersistStart {
            started_at_unix_ms: now.unix_ms,
        });
        true
    }

    pub(super) fn start_persisted(&mut self, now: Moment) -> bool {
        //
        self.start_is_being_written = false;
        self.phase = Phase::Running;
        let n_steps = self.plan().steps().len();
        // A step that completes at its first attempt leaves four entries; settling leaves about fifteen.
        self.audit.reserve(4 * n_steps + 16);
        self.steps = Some(Box::new(Steps::new(
            self.request.plan(),
            self.request.max_concurrent_steps(),
        )));
        self.take_turns(now);
        true
    }

    /// Returns the answer to a start that was still being written when the limit ran out.
    pub(super) fn start_persisted_late(&mut self) -> bool {
        core::mem::replace(&mut self.start_is_being_written, false)
    }

    /// Returns true if a start now would not end the execution at once.
    pub fn meets_preconditions(&self, now: Moment) -> bool {
        self.unmet_precondition(now).is_none()
    }

    /// What the contract asks of a context before its execution, in the order of its appendix.
    fn unmet_precondition(&self, now: Moment) -> Option<ExecutionError> {
        //
        let window_ms = self.deadline_unix_ms.saturating_sub(now.unix_ms);
        let timeout_ms = self.plan().timeout_ms();
        let is_short = |window_ms| window_ms == 0 || window_ms < timeout_ms;
        if self.deadline_unix_ms != NO_DEADLINE && u64::try_from(window_ms).map_or(true, is_short) {
            let message = format!("The deadline leaves {window_ms} ms, the plan asks for {timeout_ms} ms.");
            return Some(self.limit_error(codes::DEADLINE_EXCEEDED, &message, window_ms, now));
        }
        let missing = self.request.missing_context_keys();
        //
        (!missing.is_empty()).then(|| context_missing(missing))
    }
}

fn context_missing(missing: &[String]) -> ExecutionError {
    let mut bytes_left = MISSING_KEYS_BYTES_MAX;
    let listed: Vec<&str> = missing
        .iter()
        .map(String::as_str)
        .take_while(|key| {
            let fits = key.len() <= bytes_left;
            bytes_left = bytes_left.saturating_sub(key.len());
            fits
        })
        .collect();
    let keys = listed.iter().fold(ListBuilder::new(), |keys, key| keys.text(key));
    let context = StructBuilder::new()
        .list("missing_keys", keys)
        .number("missing_keys_total", missing.len() as f64)
        .build();
    let message = format!(
        "The environment lacks {} required keys: {}.",
        missing.len(),
        listed.join(", ")
    );
    ExecutionError::new(codes::CONTEXT_MISSING, Severity::Fatal, &message).with_context(context)
}

/// Bytes of missing keys that an error lists; the message counts them all.
pub(crate) const MISSING_KEYS_BYTES_MAX: usize = 12 << 10;
