//! Endings that no step brings about: limits that ran out, and restarts. Decides nothing about steps.

use super::Ending;
use super::{Execution, Phase};
use crate::audit::AuditKind;
use crate::error::ExecutionError;
use crate::time::Moment;
use alloc::format;
use alloc::string::ToString;
use alloc::sync::Arc;
use escapement_model::opaque::{ListBuilder, StructBuilder};
use escapement_model::{Severity, codes};

/// Reason why an execution that was accepted must not run any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interruption {
    /// It had started when the orchestrator went down.
    Restarted {
        /// Unix milliseconds.
        started_at: i64,
    },
    /// It was queued in the backup that the store was restored from, and may have run since.
    Restored,
}

impl Interruption {
    /// `reason` in the context of the error.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Restarted { .. } => "orchestrator_restarted",
            Self::Restored => "restored_from_backup",
        }
    }
}

impl Execution {
    /// The deadline passed in the queue, or the plan's limit ran out.
    pub(super) fn settle_at_limit(&mut self, now: Moment) {
        let error = match self.phase {
            //
            Phase::Queued => {
                let window_ms = self.deadline_unix_ms.saturating_sub(self.accepted_at_unix_ms);
                let message = "The deadline passed while the execution was queued.";
                self.limit_error(codes::DEADLINE_EXCEEDED, message, window_ms, now)
            }
            //
            Phase::Starting | Phase::Running => {
                let timeout_ms = self.plan().timeout_ms();
                let message = format!("The execution exceeded the plan's limit of {timeout_ms} ms.");
                let limit_ms = i64::try_from(timeout_ms).unwrap_or(i64::MAX);
                self.limit_error(codes::PLAN_TIMEOUT, &message, limit_ms, now)
            }
            Phase::Settling | Phase::Settled => unreachable!("no limit is armed after the end"),
        };
        self.settle_by_plan_error(now, error);
    }

    /// The steps may have done anything, in this store's past or since it was backed up.
    pub(super) fn settle_interrupted(&mut self, interruption: Interruption, now: Moment) {
        // what ran, or may have run, is never taken up again.
        let message = match interruption {
            Interruption::Restarted { started_at } => {
                self.started_at_unix_ms = Some(started_at);
                self.audit.record(started_at, AuditKind::Started { started_at });
                "The orchestrator restarted while the execution ran; what its steps did is unknown."
            }
            Interruption::Restored => {
                "The execution was queued when the backup was made from which the store was restored; it was not \
                 started again, and whether it ran after the backup is unknown."
            }
        };
        let context = StructBuilder::new().text("reason", interruption.reason());
        let error =
            ExecutionError::new(codes::UNKNOWN_ERROR, Severity::Fatal, message).with_context(context.build());
        self.settle_by_plan_error(now, error);
    }

    pub(super) fn settle_by_plan_error(&mut self, now: Moment, error: ExecutionError) {
        let error = Arc::new(error);
        self.trace.note(Arc::clone(&error), None, self.timestamp(now));
        self.settle(now, Ending::Fatal(error));
    }

    /// Returns an error of the plan as a whole that says which limit it was and what was under way.
    pub(super) fn limit_error(
        &self,
        code: &str,
        message: &str,
        limit_ms: i64,
        now: Moment,
    ) -> ExecutionError {
        //
        let mut in_flight = ListBuilder::new();
        for step in self.plan().canonical_order() {
            if self.step_state(*step).holds_slot() {
                in_flight = in_flight.text(&self.plan().step(*step).id().to_string());
            }
        }
        let context = StructBuilder::new()
            .number("limit_ms", limit_ms as f64)
            .number("started_at", self.started_at().unwrap_or(now.unix_ms) as f64)
            .number("deadline_ms", self.deadline_unix_ms as f64)
            .list("steps_in_flight", in_flight);
        ExecutionError::new(code, Severity::Fatal, message).with_context(context.build())
    }
}
