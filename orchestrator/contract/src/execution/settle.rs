//! How an execution ends: walks the mandatory actions of its rule set. Has no order of its own, see `rules`.

use super::{Delivery, Effect, Execution, Persisted, Phase};
use crate::audit::AuditKind;
use crate::error::ExecutionError;
use crate::result::Status;
use crate::settlement_actions::{RuleSet, SettlementAction};
use crate::time::Moment;
use alloc::sync::Arc;
use escapement_model::{Opaque, Severity};

/// Reason why an execution ends.
#[derive(Clone, Debug)]
pub(super) enum Ending {
    /// No step is left.
    AllStepsEnded,
    /// A step with `on_failure = halt` failed; this is its error.
    Halted(Arc<ExecutionError>),
    /// A fatal error, of a step or of the plan as a whole.
    Fatal(Arc<ExecutionError>),
}

/// The result while the mandatory actions put it together.
#[derive(Debug, Default)]
pub(super) struct Draft {
    /// What the failure comes from.
    pub(super) primary: Option<ExecutionError>,
    pub(super) completed_at: Option<i64>,
    pub(super) payload: Opaque,
    pub(super) error: Option<ExecutionError>,
    pub(super) status: Option<Status>,
}

impl Execution {
    /// Ends the execution: everything up to the commit point.
    pub(super) fn settle(&mut self, now: Moment, ending: Ending) {
        //
        assert!(self.settlement.is_none(), "an execution ends once");
        self.n_entries_before_settling = self.audit.entries().len();
        let status = self.status_of(&ending);
        let rule_set = RuleSet::of(status);
        let mut draft = Draft::default();
        for item in rule_set.actions() {
            //
            let (number, action) = (item.number, item.action);
            self.record(
                now,
                AuditKind::MandatoryAction {
                    rule_set,
                    number,
                    action,
                },
            );
            self.perform(now, action, &ending, &mut draft);
        }
        assert_eq!(
            draft.status,
            Some(status),
            "the rule set sets the status that called for it"
        );
        //
        self.record(now, AuditKind::Settled { status });
        let settlement = Arc::new(self.settlement_of(now, draft));
        self.settlement = Some(Arc::clone(&settlement));
        self.phase = Phase::Settling;
        self.effects.push_back(Effect::PersistResult(settlement));
    }

    /// What follows the commit point, in the order of the rule set.
    pub(super) fn deliver(&mut self) -> bool {
        let settlement = self
            .settlement
            .as_ref()
            .expect("what is being settled has its settlement");
        // nothing leads out of this phase.
        self.phase = Phase::Settled;
        for item in RuleSet::of(settlement.result.status).actions_after_persist() {
            //
            let persisted = Persisted::new(Arc::clone(settlement));
            self.effects.push_back(Effect::Deliver(match item.action {
                //
                SettlementAction::EmitCompletionEvent
                | SettlementAction::EmitPartialEvent
                | SettlementAction::EmitFailureEvent => Delivery::EmitEvent(persisted),
                // What it records stands in the record that has just been written.
                SettlementAction::MarkIncomplete => continue,
                SettlementAction::UpdatePlanState => Delivery::UpdatePlanRegistry(persisted),
                SettlementAction::ReleaseResources => Delivery::ReleaseResources(persisted),
                //
                SettlementAction::NotifyErrorHandler => Delivery::NotifyErrorHandler(persisted),
                SettlementAction::ReturnResult => Delivery::ReturnResult(persisted),
                SettlementAction::ValidateCompletion
                | SettlementAction::CaptureMetadata
                | SettlementAction::SetSuccessStatus
                | SettlementAction::ClassifyFailure
                | SettlementAction::AggregateErrors
                | SettlementAction::ValidatePartialProgress
                | SettlementAction::PreserveOutput
                | SettlementAction::SetPartialStatus
                | SettlementAction::IdentifyFailureCause
                | SettlementAction::ClassifySeverity
                | SettlementAction::HaltExecution
                | SettlementAction::CaptureFailureContext
                | SettlementAction::TruncateResult
                | SettlementAction::ValidateConsistency
                | SettlementAction::SetError
                | SettlementAction::SetFailureStatus
                | SettlementAction::PersistResult => unreachable!("precedes the commit point"),
            }));
        }
        true
    }

    fn status_of(&self, ending: &Ending) -> Status {
        let (n_completed, n_steps) = (self.n_completed(), self.plan().steps().len());
        //
        match ending {
            Ending::Halted(_) | Ending::Fatal(_) => Status::Failure,
            Ending::AllStepsEnded if n_completed == n_steps => Status::Success,
            Ending::AllStepsEnded if n_completed > 0 => Status::Partial,
            Ending::AllStepsEnded => Status::Failure,
        }
    }

    fn perform(&mut self, now: Moment, action: SettlementAction, ending: &Ending, draft: &mut Draft) {
        let (n_completed, n_steps) = (self.n_completed(), self.plan().steps().len());
        match action {
            // the assertions of the lists stay on in release.
            SettlementAction::ValidateCompletion => {
                assert_eq!(n_completed, n_steps, "success means that every step completed");
                assert!(
                    self.step_errors().next().is_none(),
                    "success means that no step failed"
                );
            }
            SettlementAction::CaptureMetadata => draft.completed_at = Some(self.timestamp(now)),
            // Clause 5.1 has no action of its own for the outputs, which its event and its return carry.
            SettlementAction::SetSuccessStatus => {
                draft.status = Some(Status::Success);
                draft.payload = self.compose_payload();
            }
            SettlementAction::ClassifyFailure => draft.primary = Some(self.primary_error()),
            SettlementAction::AggregateErrors => {
                draft.error = draft.primary.take().map(|error| self.with_trace(error))
            }
            //
            SettlementAction::ValidatePartialProgress => {
                assert!(
                    n_completed >= 1 && n_completed < n_steps,
                    "partial means some steps, but not all"
                );
            }
            SettlementAction::PreserveOutput => draft.payload = self.compose_payload(),
            SettlementAction::SetPartialStatus => draft.status = Some(Status::Partial),
            SettlementAction::IdentifyFailureCause => draft.primary = Some(self.failure_cause(ending)),
            SettlementAction::ClassifySeverity => {
                let severity = draft.primary.as_ref().map(|error| error.severity);
                assert_eq!(severity, Some(Severity::Fatal), "a failure is fatal");
            }
            SettlementAction::HaltExecution => self.withdraw_all(),
            SettlementAction::CaptureFailureContext => {
                draft.completed_at = Some(self.timestamp(now));
                draft.primary = draft.primary.take().map(|error| self.with_trace(error));
            }
            SettlementAction::TruncateResult => {
                draft.payload = self.compose_payload();
                self.mark_incomplete(now);
            }
            SettlementAction::ValidateConsistency => {
                assert!(n_completed < n_steps, "a failure leaves a step behind")
            }
            SettlementAction::SetError => draft.error = draft.primary.take(),
            SettlementAction::SetFailureStatus => draft.status = Some(Status::Failure),
            SettlementAction::MarkIncomplete => self.mark_incomplete(now),
            // The write follows the last entry, so that the record that is written is whole; see `settle`.
            SettlementAction::PersistResult => {}
            // Stated here, carried out after the write; see `deliver`.
            SettlementAction::EmitCompletionEvent
            | SettlementAction::EmitPartialEvent
            | SettlementAction::EmitFailureEvent
            | SettlementAction::UpdatePlanState
            | SettlementAction::ReleaseResources
            | SettlementAction::NotifyErrorHandler
            | SettlementAction::ReturnResult => {}
        }
    }
}
