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
    /// The list that a status calls for.
    pub fn of(status: Status) -> Self {
        match status {
            Status::Success => RuleSet::Success,
            Status::Partial => RuleSet::Partial,
            Status::Failure => RuleSet::Failure,
        }
    }

    /// The actions in the order in which they are carried out.
    pub fn actions(self) -> &'static [MandatoryAction] {
        match self {
            RuleSet::Success => SUCCESS,
            RuleSet::Partial => PARTIAL,
            RuleSet::Failure => FAILURE,
        }
    }

    /// The actions that follow the commit point.
    pub(crate) fn actions_after_persist(self) -> &'static [MandatoryAction] {
        let actions = self.actions();
        let persist = actions
            .iter()
            .position(|item| item.action == Action::PersistResult);
        &actions[persist.expect("every list persists") + 1..]
    }
}

/// One line of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MandatoryAction {
    /// The contract's number; 0 for an action that a ruling adds.
    pub number: u32,
    /// What to do.
    pub action: Action,
}

spelled! {
    /// What a mandatory action does.
    #[allow(missing_docs, reason = "the names are the contract's own words")]
    pub enum Action {
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

const fn listed(number: u32, action: Action) -> MandatoryAction {
    MandatoryAction { number, action }
}

/// An action that ruling C12 adds.
const fn added(action: Action) -> MandatoryAction {
    MandatoryAction { number: 0, action }
}

//
const SUCCESS: &[MandatoryAction] = &[
    listed(1, Action::ValidateCompletion),
    listed(2, Action::CaptureMetadata),
    listed(3, Action::SetSuccessStatus),
    listed(4, Action::PersistResult),
    listed(5, Action::EmitCompletionEvent),
    listed(6, Action::UpdatePlanState),
    listed(7, Action::ReleaseResources),
    listed(8, Action::ReturnResult),
];

//
const PARTIAL: &[MandatoryAction] = &[
    listed(1, Action::ClassifyFailure),
    listed(2, Action::AggregateErrors),
    listed(3, Action::ValidatePartialProgress),
    listed(4, Action::PreserveOutput),
    listed(5, Action::CaptureMetadata),
    listed(6, Action::SetPartialStatus),
    listed(7, Action::PersistResult),
    listed(8, Action::EmitPartialEvent),
    listed(9, Action::MarkIncomplete),
    added(Action::UpdatePlanState),
    added(Action::ReleaseResources),
    listed(10, Action::ReturnResult),
];

//
const FAILURE: &[MandatoryAction] = &[
    listed(1, Action::IdentifyFailureCause),
    listed(2, Action::ClassifySeverity),
    listed(3, Action::HaltExecution),
    listed(4, Action::CaptureFailureContext),
    listed(5, Action::TruncateResult),
    listed(6, Action::ValidateConsistency),
    listed(7, Action::SetError),
    listed(8, Action::SetFailureStatus),
    listed(9, Action::PersistResult),
    listed(10, Action::EmitFailureEvent),
    listed(11, Action::ReleaseResources),
    listed(12, Action::NotifyErrorHandler),
    added(Action::UpdatePlanState),
    listed(13, Action::ReturnResult),
];
