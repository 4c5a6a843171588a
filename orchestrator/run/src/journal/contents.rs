//! Which contents an entry refers to. Reads none of them.

use super::{
    CatalogueGiven, CheckpointCreated, ChildRunEnded, ChildRunStarted, Entry, Event, FallbackUsed,
    InputRequest, PlanCreated, RequestAnswer, RunCompleted, RunCreated, RunFailed, RunRolledBack,
    SessionRead, StatePatched, StepCompleted, StepMemoized, Stored, ToolCalled, ToolOutput, ToolsAsked,
};
use alloc::vec::Vec;

impl Entry {
    /// What it says outside of itself: SHA-256 of each content that it refers to, in the order of its fields. One that it
    /// names twice is there twice.
    pub fn contents(&self) -> Vec<[u8; 32]> {
        let Some(event) = &self.event else {
            return Vec::new();
        };
        let digest = |stored: &Stored| <[u8; 32]>::try_from(&stored.digest[..]).ok();
        stored_in(event).into_iter().filter_map(digest).collect()
    }
}

fn stored_in(event: &Event) -> Vec<&Stored> {
    match event {
        Event::RunCreated(RunCreated {
            input, environment, ..
        }) => [input, environment].into(),
        Event::PlanCreated(created) => of_plan(created),
        Event::ArtifactCreated(artifact) => artifact.content.iter().collect(),
        Event::UnitMemoized(memo) => [&memo.result.output].into(),
        Event::ToolCalled(ToolCalled { request, .. }) => [request].into(),
        Event::CheckpointCreated(CheckpointCreated { data, .. }) => [data].into(),
        Event::RunRolledBack(RunRolledBack { data, .. }) => data.iter().collect(),
        Event::ChildRunStarted(ChildRunStarted { input, .. }) => [input].into(),
        Event::CatalogueGiven(CatalogueGiven { catalogue, .. }) => [catalogue].into(),
        Event::FallbackUsed(FallbackUsed { output, .. }) => [output].into(),
        Event::ToolOutput(ToolOutput { output, .. })
        | Event::StepCompleted(StepCompleted { output, .. })
        | Event::ChildRunEnded(ChildRunEnded { output, .. })
        | Event::RunCompleted(RunCompleted { output, .. })
        | Event::RunFailed(RunFailed { output, .. }) => output.iter().collect(),
        Event::StepMemoized(StepMemoized { output, units, .. }) => {
            let of_units = units.iter().filter_map(|unit| unit.output.as_ref());
            output.iter().chain(of_units).collect()
        }
        Event::ToolsAsked(ToolsAsked { calls, .. }) => {
            calls.iter().filter_map(|call| call.arguments.as_ref()).collect()
        }
        Event::InputRequested(InputRequest {
            subject,
            answer,
            data,
            ..
        }) => {
            let answered = answer.iter().filter_map(|answer| answer.value.as_ref());
            subject.iter().chain(answered).chain(data).collect()
        }
        Event::DecisionRecorded(RequestAnswer { value, .. })
        | Event::InputReceived(RequestAnswer { value, .. }) => value.iter().collect(),
        Event::SessionRead(SessionRead { state, .. }) => state.iter().collect(),
        Event::StatePatched(StatePatched { patch, state, .. }) => [patch].into_iter().chain(state).collect(),
        Event::RunStarted(_)
        | Event::ActionsKnown(_)
        | Event::SkillHealthChanged(_)
        | Event::BudgetWarning(_)
        | Event::BudgetAwaited(_)
        | Event::StepStarted(_)
        | Event::EvaluationRequested(_)
        | Event::Evaluated(_)
        | Event::StepRetrying(_)
        | Event::UnitFailed(_)
        | Event::StepFailed(_)
        | Event::StepSkipped(_)
        | Event::StepBlocked(_)
        | Event::StepReset(_)
        | Event::InputExpired(_)
        | Event::InputClosed(_)
        | Event::PauseRequested(_)
        | Event::RunPaused(_)
        | Event::RunResumed(_)
        | Event::RunRecovered(_)
        | Event::RunStalled(_)
        | Event::TimeoutError(_)
        | Event::RunCancelled(_)
        | Event::RevisionFailing(_)
        | Event::RunVerifying(_)
        | Event::ArtifactVerified(_)
        | Event::ReplanTriggered(_)
        | Event::GenerationStarted(_)
        | Event::GenerationEnded(_)
        | Event::PlanSummary(_) => Vec::new(),
    }
}

/// Its document, and the results that it may take.
fn of_plan(created: &PlanCreated) -> Vec<&Stored> {
    let results = created.results.iter().map(|result| &result.output);
    core::iter::once(&created.document).chain(results).collect()
}
