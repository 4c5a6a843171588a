//! Exported records: from the bytes of a file to a scene. Draws what a whole file says; whether that is true `verify` tells.

use super::json::Problem;
use super::scene::Scene;
use super::story::{Event, Happened, OfStep, UnknownStep, with_events};
use bytes::Bytes;
use escapement_codec::archive::file::{ArchiveFile, read};
use escapement_model::StepId;
use escapement_wire::v1;
use escapement_wire::v1::audit_entry::Event as Said;
use prost::Message;

/// The execution of a record file, with its plan.
///
/// # Errors
/// [`Problem`]: the file is not as it was written, its plan breaks rules, or its entries are about another one.
pub(super) fn scene(file: &[u8]) -> Result<Scene, Problem> {
    let read = read(&Bytes::copy_from_slice(file));
    let ArchiveFile { record, faults } = read.map_err(|fault| damaged(&fault))?;
    if let Some(fault) = faults.first() {
        return Err(damaged(fault));
    }
    let request = record
        .decode_request()
        .map_err(|unreadable| damaged(&unreadable))?;
    let result = record
        .decode_result()
        .map_err(|unreadable| damaged(&unreadable))?;
    let events: Vec<Event> = record.entries.iter().map(event).collect::<Result<_, _>>()?;
    let told = with_events(Scene::of_plan(request.plan()), &events);
    let mut scene = told.map_err(|UnknownStep(id)| damaged(&format!("its plan has no step {id}")))?;
    if let (Some(story), Some(error)) = (&mut scene.story, result.error) {
        story.error_code = error.error_code;
    }
    Ok(scene)
}

fn damaged(what: &dyn std::fmt::Display) -> Problem {
    Problem(format!(
        "the record is not as it was written ({what}); `orchestrator verify` says more"
    ))
}

fn event(entry: &Bytes) -> Result<Event, Problem> {
    let entry = v1::AuditEntry::decode(entry.clone()).map_err(|error| damaged(&error))?;
    let happened = match &entry.event {
        Some(Said::Started(started)) => Happened::Started {
            started_at: started.started_at,
        },
        Some(Said::Settled(settled)) => Happened::Settled {
            status: status(settled.status()),
        },
        Some(said) => of_step(said)?,
        None => Happened::Else,
    };
    Ok(Event {
        at_unix_ms: entry.at,
        happened,
    })
}

fn of_step(said: &Said) -> Result<Happened, Problem> {
    let (id, what) = match said {
        Said::StepWaiting(said) => (
            &said.step_id,
            OfStep::Waiting {
                attempt: count(said.attempt),
            },
        ),
        Said::AttemptAssigned(said) => (
            &said.step_id,
            OfStep::Assigned {
                attempt: count(said.attempt),
            },
        ),
        Said::AttemptReturned(said) => (&said.step_id, OfStep::Returned),
        Said::AttemptFailed(said) => (
            &said.step_id,
            OfStep::AttemptFailed {
                error_code: code(said.error.as_ref()),
            },
        ),
        Said::RetryScheduled(said) => (
            &said.step_id,
            OfStep::BackingOff {
                next_attempt: count(said.next_attempt),
            },
        ),
        Said::StepCompleted(said) => (
            &said.step_id,
            OfStep::Completed {
                attempts: count(said.attempts),
            },
        ),
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
    let step: StepId = id
        .parse()
        .map_err(|_| damaged(&"it names a step by what is no UUID v4"))?;
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
