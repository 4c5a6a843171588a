//! What the orchestrator answers: records of executions, simulations. Reads what is drawn and skips the rest.

use super::json::Problem;
use super::scene::{Activity, Outcome, Scene, Span, Step, Story};
use super::story::{Untold, settle_states, status, with_entries};
use escapement_model::StepId;
use escapement_model::limits::STEPS_MAX;
use escapement_wire::v1;
use escapement_wire::v1::timeline_span::Activity as WireActivity;
use std::collections::BTreeMap;

/// Adds a record to a plan: the entries of `ListAuditEntries`.
pub(super) fn recorded(plan: Scene, entries: &[v1::AuditEntry]) -> Result<Scene, Problem> {
    without_gaps(entries)?;
    with_entries(plan, entries).map_err(|untold| match untold {
        Untold::UnknownStep(id) => no_such_step(id),
        Untold::NoStepId { entry } => Problem(format!("entries[{entry}]: step_id is no UUID v4")),
    })
}

/// A `SimulatePlanResponse`, with its plan if it is known.
pub(super) fn simulated(plan: Option<Scene>, answer: v1::SimulatePlanResponse) -> Result<Scene, Problem> {
    let n_entries = answer.audit.len();
    let mut scene = match plan {
        // The record says more than the timeline: which steps were skipped, and why.
        Some(plan) if n_entries > 0 => recorded(plan, &answer.audit)?,
        plan => of_timeline(plan, answer.timeline)?,
    };
    if let (Some(result), Some(story)) = (answer.result, &mut scene.story) {
        story.status = status(result.status());
        if let Some(error) = result.error {
            story.error_code = error.error_code;
        }
        story.duration_ms = story.duration_ms.max(milliseconds(result.duration_ms));
        if n_entries == 0 || !scene.has_graph {
            settle_states(&mut scene);
        }
    }
    Ok(scene)
}

fn of_timeline(plan: Option<Scene>, timeline: Vec<v1::TimelineSpan>) -> Result<Scene, Problem> {
    let mut scene = plan.unwrap_or_default();
    let mut places: BTreeMap<StepId, usize> = scene.steps.iter().map(|step| step.id).zip(0..).collect();
    let mut spans = Vec::with_capacity(timeline.len());
    for (at, item) in timeline.into_iter().enumerate() {
        let id = item.step_id.parse();
        let id = id.map_err(|_| Problem(format!("timeline[{at}].step_id is no UUID v4")))?;
        let step = match places.get(&id) {
            Some(at) => *at,
            None if scene.has_graph => return Err(no_such_step(id)),
            None if scene.steps.len() == STEPS_MAX => {
                return Err(Problem(format!("the timeline has more than {STEPS_MAX} steps")));
            }
            None => {
                scene.steps.push(Step::new(id, &item.action));
                places.insert(id, scene.steps.len() - 1);
                scene.steps.len() - 1
            }
        };
        spans.extend(span(item, step));
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

fn span(item: v1::TimelineSpan, step: usize) -> Option<Span> {
    let activity = match item.activity() {
        WireActivity::Waiting => Activity::Waiting,
        WireActivity::Running => Activity::Running,
        WireActivity::BackingOff => Activity::BackingOff,
        WireActivity::Unspecified => return None,
    };
    let outcome = match item.outcome.as_str() {
        _ if activity != Activity::Running => Outcome::Open,
        "" => Outcome::Open,
        "completed" => Outcome::Completed,
        "returned" => Outcome::Returned,
        "stopped" => Outcome::Stopped,
        code => Outcome::Failed(code.to_owned()),
    };
    let from_ms = milliseconds(item.from_ms);
    Some(Span {
        step,
        activity,
        attempt: u32::try_from(item.attempt).unwrap_or(0),
        from_ms,
        to_ms: milliseconds(item.to_ms).max(from_ms),
        outcome,
    })
}

/// Entries are numbered from 1; half a record would be drawn as if the rest had not happened.
fn without_gaps(entries: &[v1::AuditEntry]) -> Result<(), Problem> {
    for (expected, entry) in (1..).zip(entries) {
        // 0 is no number: a record written by hand may leave it out.
        let found = entry.sequence;
        if found != 0 && found != expected {
            let at = expected - 1;
            return Err(Problem(format!(
                "entries[{at}] is entry {found} of the record, and entry {expected} is missing"
            )));
        }
    }
    Ok(())
}

fn milliseconds(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn no_such_step(id: StepId) -> Problem {
    Problem(format!(
        "the step {id} is not in the plan: is --plan the plan of this execution?"
    ))
}
