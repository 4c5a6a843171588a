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

    /// The orchestrator came back and finds an execution whose steps may have done anything.
    pub(super) fn settle_after_restart(&mut self, started_at_unix_ms: i64, now: Moment) {
        // what ran is never taken up again.
        self.started_at_unix_ms = Some(started_at_unix_ms);
        self.audit.record(
            started_at_unix_ms,
            AuditKind::Started {
                started_at: started_at_unix_ms,
            },
        );
        let context = StructBuilder::new()
            .text("reason", "orchestrator_restarted")
            .build();
        let message = "The orchestrator restarted while the execution ran; what its steps did is unknown.";
        let error = ExecutionError::new(codes::UNKNOWN_ERROR, Severity::Fatal, message).with_context(context);
        self.settle_by_plan_error(now, error);
    }

    pub(super) fn settle_by_plan_error(&mut self, now: Moment, error: ExecutionError) {
        let error = Arc::new(error);
        self.trace.note(Arc::clone(&error), None, self.timestamp(now));
        self.settle(now, Ending::Fatal(error));
    }

    /// An error of the plan as a whole that says which limit it was and what was under way.
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
