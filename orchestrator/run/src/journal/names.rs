//! The names under which entries are shown, and what else they are called. One table.

use super::{Event, RequestKind};

impl Event {
    // RUN-9.7
    /// The name of the event.
    pub fn name(&self) -> &'static str {
        self.names().0
    }

    /// What else it is called; accepted in filters.
    pub fn aliases(&self) -> &'static [&'static str] {
        self.names().1
    }

    // RUN-9.7
    fn names(&self) -> (&'static str, &'static [&'static str]) {
        match self {
            Event::RunCreated(_) => ("run_created", &[]),
            Event::PlanCreated(_) => ("plan_created", &[]),
            Event::RunStarted(_) => ("run_started", &["plan:started", "started", "plan_started"]),
            Event::StepStarted(_) => ("step_started", &["step:started", "plan_step_started"]),
            Event::EvaluationRequested(_) => ("evaluation_requested", &[]),
            Event::Evaluated(_) => ("evaluated", &[]),
            Event::ToolCalled(_) => ("tool_called", &[]),
            Event::ToolOutput(_) => ("tool_output", &[]),
            Event::StepRetrying(_) => ("step_retrying", &[]),
            Event::UnitFailed(_) => ("unit_failed", &[]),
            Event::StepCompleted(_) => ("step_completed", &["step:completed", "plan_step_completed"]),
            Event::StepFailed(_) => ("step_failed", &["step:failed", "plan_step_failed"]),
            Event::StepSkipped(_) => ("step_skipped", &["step:skipped"]),
            Event::StepBlocked(_) => ("step_blocked", &[]),
            Event::StepReset(_) => ("step_reset", &[]),
            Event::ToolsAsked(_) => ("tools_asked", &[]),
            Event::GenerationStarted(_) => ("generation_started", &[]),
            Event::CatalogueGiven(_) => ("catalogue_given", &[]),
            Event::GenerationEnded(_) => ("generation_ended", &[]),
            Event::PlanSummary(_) => ("plan_summary", &[]),
            Event::FallbackUsed(_) => ("fallback_used", &[]),
            Event::BudgetWarning(_) => ("budget_warning", &[]),
            Event::BudgetAwaited(_) => ("budget_awaited", &[]),
            Event::UnitMemoized(_) => ("step_memoized", &["plan_step_memoized"]),
            Event::StepMemoized(_) => ("step_memoized", &["plan_step_memoized"]),
            Event::SessionRead(_) => ("session_read", &[]),
            Event::StatePatched(_) => ("state_patched", &[]),
            Event::SkillHealthChanged(_) => ("skill_health_changed", &[]),
            Event::ActionsKnown(_) => ("actions_known", &[]),
            Event::InputRequested(request) => match request.kind() {
                RequestKind::Approval => ("approval_requested", &["approval:required"]),
                RequestKind::Question
                | RequestKind::RetryExtension
                | RequestKind::AmbiguousEffect
                | RequestKind::BudgetExtension => ("input_requested", &[]),
            },
            Event::DecisionRecorded(_) => ("decision_recorded", &[]),
            Event::InputReceived(answer) => match answer.decision().of_approval() {
                true => ("approval_resolved", &[]),
                false => ("input_received", &[]),
            },
            Event::InputExpired(_) => ("input_expired", &[]),
            Event::InputClosed(_) => ("input_closed", &[]),
            Event::PauseRequested(_) => ("pause_requested", &[]),
            Event::RunPaused(_) => ("run_paused", &["plan:paused", "paused"]),
            Event::RunResumed(_) => ("run_resumed", &["plan:resumed", "resumed"]),
            Event::RunRecovered(_) => ("run_recovered", &["plan_run_interrupted"]),
            Event::RunStalled(_) => ("run_stalled", &[]),
            Event::CheckpointCreated(_) => ("checkpoint_created", &["checkpoint"]),
            Event::RunRolledBack(_) => ("run_rolled_back", &["rollback"]),
            Event::ChildRunStarted(_) => ("child_run_started", &[]),
            Event::ChildRunEnded(_) => ("child_run_ended", &[]),
            Event::RevisionFailing(_) => ("revision_failing", &[]),
            Event::ReplanTriggered(_) => ("replan_triggered", &[]),
            Event::ArtifactCreated(_) => ("artifact_created", &[]),
            Event::RunVerifying(_) => ("run_verifying", &[]),
            Event::ArtifactVerified(_) => ("artifact_verified", &[]),
            Event::TimeoutError(_) => ("timeout_error", &[]),
            Event::RunCompleted(_) => (
                "run_completed",
                &["plan:completed", "completed", "plan_completed"],
            ),
            Event::RunFailed(_) => ("run_failed", &["plan:failed", "failed"]),
            Event::RunCancelled(_) => ("run_cancelled", &["cancelled", "plan_aborted"]),
        }
    }

    /// True for the entries that end a run.
    pub fn is_end(&self) -> bool {
        matches!(
            self,
            Event::RunCompleted(_) | Event::RunFailed(_) | Event::RunCancelled(_)
        )
    }
}
