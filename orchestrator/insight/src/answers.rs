//! What the orchestrator answers, as JSON: records of executions, simulations. Reads what is drawn and skips the rest.

use super::json::{Object, Problem};
use super::scene::{Activity, Outcome, Scene, Span, Step, Story};
use super::story::{Event, Happened, OfStep, settle_states, with_events};
use escapement_model::StepId;
use escapement_model::limits::STEPS_MAX;
use std::collections::BTreeMap;

/// Adds a record to a plan: the entries of `ListAuditEntries`.
pub(super) fn recorded(plan: Scene, entries: &[Object<'_>]) -> Result<Scene, Problem> {
    without_gaps(entries)?;
    let events: Vec<Event> = entries.iter().map(event).collect::<Result<_, _>>()?;
    with_events(plan, &events).map_err(|unknown| no_such_step(unknown.0))
}

/// A `SimulatePlanResponse`, with its plan where it is known.
pub(super) fn simulated(plan: Option<Scene>, answer: &Object<'_>) -> Result<Scene, Problem> {
    let result = answer.object("result")?;
    let entries = answer.objects("audit")?;
    let mut scene = match plan {
        // The record says more than the timeline: which steps were skipped, and why.
        Some(plan) if !entries.is_empty() => recorded(plan, &entries)?,
        plan => of_timeline(plan, &answer.objects("timeline")?)?,
    };
    if let (Some(result), Some(story)) = (result, &mut scene.story) {
        story.status = status(&result)?;
        if let Some(error) = result.object("error")? {
            story.error_code = error.text("error_code")?;
        }
        story.duration_ms = story.duration_ms.max(milliseconds(&result, "duration_ms")?);
        if entries.is_empty() || !scene.has_graph {
            settle_states(&mut scene);
        }
    }
    Ok(scene)
}

fn of_timeline(plan: Option<Scene>, timeline: &[Object<'_>]) -> Result<Scene, Problem> {
    let mut scene = plan.unwrap_or_default();
    let mut places: BTreeMap<StepId, usize> = scene.steps.iter().map(|step| step.id).zip(0..).collect();
    let mut spans = Vec::with_capacity(timeline.len());
    for item in timeline {
        let id = step_id(item)?;
        let step = match places.get(&id) {
            Some(at) => *at,
            None if scene.has_graph => return Err(no_such_step(id)),
            None if scene.steps.len() == STEPS_MAX => {
                return Err(Problem(format!("the timeline has more than {STEPS_MAX} steps")));
            }
            None => {
                scene.steps.push(Step::new(id, &item.text("action")?));
                places.insert(id, scene.steps.len() - 1);
                scene.steps.len() - 1
            }
        };
        spans.extend(span(item, step)?);
    }
    spans.sort_by_key(|span| (span.step, span.from_ms));
    scene.shorten_ids();
    scene.tell(Story {
        duration_ms: spans.iter().map(|span| span.to_ms).max().unwrap_or(0),
        spans,
        ..Story::default()
    });
    settle_states(&mut scene);
    Ok(scene)
}

fn span(item: &Object<'_>, step: usize) -> Result<Option<Span>, Problem> {
    let activity = match item.choice("activity", &["unspecified", "waiting", "running", "backing_off"])? {
        1 => Activity::Waiting,
        2 => Activity::Running,
        3 => Activity::BackingOff,
        _ => return Ok(None),
    };
    let outcome = match item.text("outcome")?.as_str() {
        _ if activity != Activity::Running => Outcome::Open,
        "" => Outcome::Open,
        "completed" => Outcome::Completed,
        "returned" => Outcome::Returned,
        "stopped" => Outcome::Stopped,
        code => Outcome::Failed(code.to_owned()),
    };
    let from_ms = milliseconds(item, "from_ms")?;
    Ok(Some(Span {
        step,
        activity,
        attempt: count(item, "attempt")?,
        from_ms,
        to_ms: milliseconds(item, "to_ms")?.max(from_ms),
        outcome,
    }))
}

/// Entries are numbered from 1; half a record would be drawn as if the rest had not happened.
fn without_gaps(entries: &[Object<'_>]) -> Result<(), Problem> {
    for (expected, entry) in (1..).zip(entries) {
        match entry.integer("sequence")? {
            Some(sequence) if sequence != expected => {
                let path = entry.path();
                return Err(Problem(format!(
                    "{path} is entry {sequence} of the record, and entry {expected} is missing"
                )));
            }
            _ => {}
        }
    }
    Ok(())
}

/// What an `AuditEntry` tells.
fn event(entry: &Object<'_>) -> Result<Event, Problem> {
    let at_unix_ms = entry.integer("at")?.unwrap_or(0);
    let happened = happened(entry)?;
    Ok(Event { at_unix_ms, happened })
}

fn happened(entry: &Object<'_>) -> Result<Happened, Problem> {
    if let Some(started) = entry.object("started")? {
        let started_at = started.integer("started_at")?.unwrap_or(0);
        return Ok(Happened::Started { started_at });
    }
    if let Some(settled) = entry.object("settled")? {
        return Ok(Happened::Settled {
            status: status(&settled)?,
        });
    }
    for kind in OF_STEP {
        if let Some(said) = entry.object(kind)? {
            let what = of_step(kind, &said)?;
            return Ok(what.map_or(Happened::Else, |(step, what)| Happened::Step { step, what }));
        }
    }
    // Unknown kinds are ignored by readers.
    Ok(Happened::Else)
}

fn of_step(kind: &str, said: &Object<'_>) -> Result<Option<(StepId, OfStep)>, Problem> {
    let what = match kind {
        "step_waiting" => OfStep::Waiting {
            attempt: count(said, "attempt")?,
        },
        "attempt_assigned" => OfStep::Assigned {
            attempt: count(said, "attempt")?,
        },
        "attempt_returned" => OfStep::Returned,
        "attempt_failed" => OfStep::AttemptFailed {
            error_code: error_code(said)?,
        },
        "retry_scheduled" => OfStep::BackingOff {
            next_attempt: count(said, "next_attempt")?,
        },
        "step_completed" => OfStep::Completed {
            attempts: count(said, "attempts")?,
        },
        "step_not_completed" => OfStep::NotCompleted {
            attempts: count(said, "attempts")?,
            reason: said.text("reason")?,
            error_code: error_code(said)?,
        },
        _ => return Ok(None),
    };
    Ok(Some((step_id(said)?, what)))
}

fn step_id(object: &Object<'_>) -> Result<StepId, Problem> {
    let text = object.text("step_id")?;
    text.parse()
        .map_err(|_| Problem(format!("{}.step_id is no UUID v4", object.path())))
}

fn error_code(object: &Object<'_>) -> Result<String, Problem> {
    object
        .object("error")?
        .map_or(Ok(String::new()), |error| error.text("error_code"))
}

fn count(object: &Object<'_>, name: &str) -> Result<u32, Problem> {
    Ok(u32::try_from(object.integer32(name)?.unwrap_or(0)).unwrap_or(0))
}

fn milliseconds(object: &Object<'_>, name: &str) -> Result<u64, Problem> {
    Ok(u64::try_from(object.integer(name)?.unwrap_or(0)).unwrap_or(0))
}

fn status(object: &Object<'_>) -> Result<String, Problem> {
    let number = object.choice("status", &STATUSES)?;
    let name = usize::try_from(number)
        .ok()
        .and_then(|at| STATUSES.get(at))
        .unwrap_or(&"");
    Ok(if number == 0 {
        String::new()
    } else {
        (*name).to_owned()
    })
}

fn no_such_step(id: StepId) -> Problem {
    Problem(format!(
        "the step {id} is not in the plan: is --plan the plan of this execution?"
    ))
}

const STATUSES: [&str; 4] = ["unspecified", "success", "partial", "failure"];

const OF_STEP: [&str; 7] = [
    "step_waiting",
    "attempt_assigned",
    "attempt_returned",
    "attempt_failed",
    "retry_scheduled",
    "step_completed",
    "step_not_completed",
];
