//! The mandatory actions of section 5 as ordered lists. The code that ends an execution walks them; it has no
//! order of its own.

use crate::result::Status;
use crate::spelled::spelled;

spelled! {
    /// Which of the three lists.
    pub enum RuleSet {
        /// 5.1: the plan succeeds.
        Success = "5.1",
        /// 5.2: the plan partially succeeds.
        Partial = "5.2",
        /// 5.3: the plan fails.
        Failure = "5.3",
    }
}

impl RuleSet {
    /// Returns the list that a status calls for.
    pub fn of(status: Status) -> Self {
        match status {
            Status::Success => RuleSet::Success,
            Status::Partial => RuleSet::Partial,
            Status::Failure => RuleSet::Failure,
        }
    }

    /// Returns the actions in the order in which they are carried out.
    pub fn actions(self) -> &'static [MandatoryAction] {
        match self {
            RuleSet::Success => SUCCESS,
            RuleSet::Partial => PARTIAL,
            RuleSet::Failure => FAILURE,
        }
    }

    /// Returns the actions that follow the commit point.
    pub(crate) fn actions_after_persist(self) -> &'static [MandatoryAction] {
        let actions = self.actions();
        let persist = actions
            .iter()
            .position(|item| item.action == SettlementAction::PersistResult);
        &actions[persist.expect("every list persists") + 1..]
    }
}

/// A line of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MandatoryAction {
    /// The contract's number; 0 for an action that a ruling adds.
    pub number: u32,
    /// What to do.
    pub action: SettlementAction,
}

spelled! {
    /// What a mandatory action does.
    #[allow(missing_docs, reason = "the names are the contract's own words")]
    pub enum SettlementAction {
        ValidateCompletion = "validate_completion",
        CaptureMetadata = "capture_metadata",
        SetSuccessStatus = "set_success_status",
        ClassifyFailure = "classify_failure",
        AggregateErrors = "aggregate_errors",
        ValidatePartialProgress = "validate_partial_progress",
        PreserveOutput = "preserve_output",
        SetPartialStatus = "set_partial_status",
        IdentifyFailureCause = "identify_failure_cause",
        ClassifySeverity = "classify_severity",
        HaltExecution = "halt_execution",
        CaptureFailureContext = "capture_failure_context",
        TruncateResult = "truncate_result",
        ValidateConsistency = "validate_consistency",
        SetError = "set_error",
        SetFailureStatus = "set_failure_status",
        PersistResult = "persist_result",
        EmitCompletionEvent = "emit_completion_event",
        EmitPartialEvent = "emit_partial_event",
        EmitFailureEvent = "emit_failure_event",
        MarkIncomplete = "mark_incomplete",
        UpdatePlanState = "update_plan_state",
        ReleaseResources = "release_resources",
        NotifyErrorHandler = "notify_error_handler",
        ReturnResult = "return_result",
    }
}

const fn listed(number: u32, action: SettlementAction) -> MandatoryAction {
    MandatoryAction { number, action }
}

/// Returns an action that ruling C12 adds.
const fn added(action: SettlementAction) -> MandatoryAction {
    MandatoryAction { number: 0, action }
}

//
const SUCCESS: &[MandatoryAction] = &[
    listed(1, SettlementAction::ValidateCompletion),
    listed(2, SettlementAction::CaptureMetadata),
    listed(3, SettlementAction::SetSuccessStatus),
    listed(4, SettlementAction::PersistResult),
    listed(5, SettlementAction::EmitCompletionEvent),
    listed(6, SettlementAction::UpdatePlanState),
    listed(7, SettlementAction::ReleaseResources),
    listed(8, SettlementAction::ReturnResult),
];

//
const PARTIAL: &[MandatoryAction] = &[
    listed(1, SettlementAction::ClassifyFailure),
    listed(2, SettlementAction::AggregateErrors),
    listed(3, SettlementAction::ValidatePartialProgress),
    listed(4, SettlementAction::PreserveOutput),
    listed(5, SettlementAction::CaptureMetadata),
    listed(6, SettlementAction::SetPartialStatus),
    listed(7, SettlementAction::PersistResult),
    listed(8, SettlementAction::EmitPartialEvent),
    listed(9, SettlementAction::MarkIncomplete),
    added(SettlementAction::UpdatePlanState),
    added(SettlementAction::ReleaseResources),
    listed(10, SettlementAction::ReturnResult),
];

//
const FAILURE: &[MandatoryAction] = &[
    listed(1, SettlementAction::IdentifyFailureCause),
    listed(2, SettlementAction::ClassifySeverity),
    listed(3, SettlementAction::HaltExecution),
    listed(4, SettlementAction::CaptureFailureContext),
    listed(5, SettlementAction::TruncateResult),
    listed(6, SettlementAction::ValidateConsistency),
    listed(7, SettlementAction::SetError),
    listed(8, SettlementAction::SetFailureStatus),
    listed(9, SettlementAction::PersistResult),
    listed(10, SettlementAction::EmitFailureEvent),
    listed(11, SettlementAction::ReleaseResources),
    listed(12, SettlementAction::NotifyErrorHandler),
    added(SettlementAction::UpdatePlanState),
    listed(13, SettlementAction::ReturnResult),
];
