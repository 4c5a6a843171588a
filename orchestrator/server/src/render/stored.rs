//! The record of an execution as it is stored and exported: request, entries and result as messages. Reads no bytes.

use super::json::Problem;
use super::plan::refused;
use super::scene::Scene;
use super::story::{Event, Happened, OfStep, UnknownStep, with_events};
use crate::convert::request::plan_draft;
use escapement_contract::validate_plan;
use escapement_model::StepId;
use escapement_wire::v1;
use escapement_wire::v1::audit_entry::Event as Said;

/// An execution with its plan.
///
/// # Errors
/// [`Problem`]: there is no plan, it breaks rules, or the record is about another one.
pub(super) fn scene(
    request: v1::SubmitPlanRequest,
    entries: &[v1::AuditEntry],
    result: &v1::PlanResult,
) -> Result<Scene, Problem> {
    let plan = request.plan.ok_or_else(|| Problem("the record holds no plan".to_owned()))?;
    let plan = validate_plan(plan_draft(plan)).map_err(|violations| refused(&violations))?;
    let events: Vec<Event> = entries.iter().map(event).collect::<Result<_, _>>()?;
    let told = with_events(Scene::of_plan(&plan), &events);
    let mut scene = told.map_err(|UnknownStep(id)| Problem(format!("the record tells of the step {id}, which its plan lacks")))?;
    if let (Some(story), Some(error)) = (&mut scene.story, &result.error) {
        story.error_code.clone_from(&error.error_code);
    }
    Ok(scene)
}

fn event(entry: &v1::AuditEntry) -> Result<Event, Problem> {
    let happened = match &entry.event {
        Some(Said::Started(started)) => Happened::Started { started_at: started.started_at },
        Some(Said::Settled(settled)) => Happened::Settled { status: status(settled.status()) },
        Some(said) => of_step(said)?,
        None => Happened::Else,
    };
    Ok(Event { at_unix_ms: entry.at, happened })
}

fn of_step(said: &Said) -> Result<Happened, Problem> {
    let (id, what) = match said {
        Said::StepWaiting(said) => (&said.step_id, OfStep::Waiting { attempt: count(said.attempt) }),
        Said::AttemptAssigned(said) => (&said.step_id, OfStep::Assigned { attempt: count(said.attempt) }),
        Said::AttemptReturned(said) => (&said.step_id, OfStep::Returned),
        Said::AttemptFailed(said) => (&said.step_id, OfStep::AttemptFailed { error_code: code(said.error.as_ref()) }),
        Said::RetryScheduled(said) => (&said.step_id, OfStep::BackingOff { next_attempt: count(said.next_attempt) }),
        Said::StepCompleted(said) => (&said.step_id, OfStep::Completed { attempts: count(said.attempts) }),
        Said::StepNotCompleted(said) => (
            &said.step_id,
            OfStep::NotCompleted {
                attempts: count(said.attempts),
                reason: said.reason.clone(),
                error_code: code(said.error.as_ref()),
            },
        ),
        Said::Accepted(_)
        | Said::Started(_)
        | Said::AttemptStarted(_)
        | Said::MandatoryAction(_)
        | Said::StepsIncomplete(_)
        | Said::Settled(_) => return Ok(Happened::Else),
    };
    let step: StepId = id.parse().map_err(|_| Problem("the record names a step by what is no UUID v4".to_owned()))?;
    Ok(Happened::Step { step, what })
}

fn status(status: v1::plan_result::Status) -> String {
    match status {
        v1::plan_result::Status::Unspecified => String::new(),
        status => status.as_str_name().to_owned(),
    }
}

fn code(error: Option<&v1::ExecutionError>) -> String {
    error.map(|error| error.error_code.clone()).unwrap_or_default()
}

fn count(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}
