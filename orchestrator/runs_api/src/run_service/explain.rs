//! `ExplainRun`: why a run is in its state, joined with what the executions of its attempts wait for.

use super::Runs;
use super::steps::unknown_step;
use crate::errors::Rejection;
use crate::fields::Fields;
use crate::views::{execution_of, state_of, step_state, uuid_text};
use escapement_model::limits::STEPS_MAX;
use escapement_model::{ExecutionId, RunId};
use escapement_run::Run;
use escapement_runs_insight::{Explanation, explain, explain_step};
use escapement_wire::runs::v1;
use escapement_wire::time::rfc3339;
use escapement_wire::v1::ExplainExecutionResponse;
use std::collections::{BTreeMap, BTreeSet};

/// Explanation of a run without its attempts, and the attempts in flight.
struct Explained {
    response: v1::ExplainRunResponse,
    /// Positions of steps in the response, with an execution each.
    attempts: Vec<(usize, ExecutionId)>,
}

impl Runs {
    pub(super) async fn explain_run(
        &self,
        request: v1::ExplainRunRequest,
    ) -> Result<v1::ExplainRunResponse, Rejection> {
        let mut fields = Fields::default();
        let run_id = fields.id::<RunId>("run_id", &request.run_id);
        if request.step_keys.len() > STEPS_MAX {
            fields.wrong("step_keys", format!("must have at most {STEPS_MAX} entries"));
        }
        fields.conclude()?;
        let run_id = run_id.expect("an id that is missing is a problem");
        let requested: BTreeSet<String> = request.step_keys.into_iter().collect();
        let now = self.runs.clock().now();
        let explained = self.look(run_id, move |run, _| explained(run_id, run, &requested, now));
        let Explained {
            mut response,
            attempts,
        } = explained.await??;
        let executions = attempts.iter().map(|(_, execution_id)| *execution_id).collect();
        let answers = self.runs.explanations_of(executions).await;
        for ((step, _), answer) in attempts.into_iter().zip(answers) {
            if let Some(answer) = answer {
                join(&mut response.steps[step], answer);
            }
        }
        Ok(response)
    }
}

/// Adds what the execution of an attempt waits for. The first attempt of a step also gives the step its text.
fn join(step: &mut v1::RunStepExplanation, answer: ExplainExecutionResponse) {
    let of_step = answer.steps.into_iter().next();
    let is_first = step.attempts.is_empty();
    if is_first && let Some(execution) = &answer.execution {
        // A step that has its turn says more than its execution; before that the execution waits as a whole.
        let text = match &of_step {
            Some(of_step) if execution.queue_position.is_none() => &of_step.text,
            Some(_) | None => &execution.text,
        };
        step.text.push(' ');
        step.text.push_str(text);
    }
    step.attempts.push(v1::AttemptExplanation {
        execution: answer.execution,
        step: of_step,
    });
}

fn explained(
    run_id: RunId,
    run: &Run,
    requested: &BTreeSet<String>,
    now: i64,
) -> Result<Explained, Rejection> {
    let n_known = { run.plan().steps.iter() }
        .filter(|step| requested.contains(&step.key))
        .count();
    if n_known < requested.len() {
        return Err(unknown_step("step_keys", run));
    }
    let explanation = explain(run);
    let mut live: BTreeMap<u32, Vec<ExecutionId>> = BTreeMap::new();
    for called in run.state().live_attempts() {
        let of_step = live.entry(called.unit.step).or_default();
        if of_step.len() < ATTEMPTS_OF_STEP_MAX {
            of_step.push(execution_of(run_id, run.state().spec.seed(), run.plan(), called));
        }
    }
    let (mut steps, mut attempts) = (Vec::new(), Vec::new());
    for (index, step) in (0_u32..).zip(&run.plan().steps) {
        if !requested.is_empty() && !requested.contains(&step.key) {
            continue;
        }
        let executions = live.remove(&index).unwrap_or_default();
        attempts.extend(
            executions
                .into_iter()
                .map(|execution_id| (steps.len(), execution_id)),
        );
        steps.push(explained_step(run, index));
    }
    attempts.truncate(ATTEMPTS_MAX);
    let run = v1::RunExplanation {
        run_id: uuid_text(&run.state().run_id),
        state: state_of(explanation.state).into(),
        rules: explanation.rules.iter().map(|rule| (*rule).to_owned()).collect(),
        text: with_due(&explanation, now),
        at: now,
        next_step_key: explanation
            .next_step
            .map_or_else(String::new, |step| key(run, step)),
        due_at: explanation.due_at,
        cause_step_key: explanation
            .cause_step
            .map_or_else(String::new, |step| key(run, step)),
    };
    Ok(Explained {
        response: v1::ExplainRunResponse {
            run: Some(run),
            steps,
        },
        attempts,
    })
}

fn explained_step(run: &Run, step: u32) -> v1::RunStepExplanation {
    let explanation = explain_step(run, step);
    let waits_for = explanation.waits_for_steps.into_iter();
    v1::RunStepExplanation {
        step_key: key(run, step),
        state: step_state(run.state(), step as usize).into(),
        rules: explanation.rules.iter().map(|rule| (*rule).to_owned()).collect(),
        text: explanation.text,
        waits_for_step_keys: waits_for.map(|step| key(run, step)).collect(),
        waits_for_input_request_ids: explanation
            .waits_for_requests
            .iter()
            .map(|id| uuid_text(id))
            .collect(),
        due_at: explanation.due_at,
        attempts: Vec::new(),
    }
}

fn key(run: &Run, step: u32) -> String {
    let step = run.plan().steps.get(step as usize);
    step.map_or_else(String::new, |step| step.key.clone())
}

/// Returns the text with the time of what comes next, for people.
fn with_due(explanation: &Explanation, now: i64) -> String {
    let text = &explanation.text;
    match (explanation.due_at, explanation.due) {
        (Some(at), Some(what)) => {
            let left = time_left(at.saturating_sub(now));
            format!("{text} At the latest at {} ({left}), {what}.", rfc3339(at))
        }
        _ => text.clone(),
    }
}

/// Returns the remaining time in the largest unit with a count of two or more.
fn time_left(ms: i64) -> String {
    const UNITS: [(i64, &str); 4] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")];
    let unit = UNITS.iter().find(|(unit, _)| ms >= 2 * unit);
    match unit {
        Some((unit, name)) => format!("in {} {name}", ms / unit),
        None if ms > 0 => "in 1 s".to_owned(),
        None => "now".to_owned(),
    }
}

/// Attempts of one step whose executions are explained.
const ATTEMPTS_OF_STEP_MAX: usize = 4;
/// Attempts of one answer whose executions are explained.
const ATTEMPTS_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::time_left;

    #[test]
    fn time_left_is_told_in_the_largest_unit() {
        let table = [
            (-5, "now"),
            (0, "now"),
            (1, "in 1 s"),
            (119_999, "in 119 s"),
            (120_000, "in 2 min"),
            (7_199_999, "in 119 min"),
            (7_200_000, "in 2 h"),
            (172_800_000, "in 2 d"),
            (i64::MAX, "in 106751991167 d"),
        ];
        for (ms, text) in table {
            assert_eq!(time_left(ms), text);
        }
    }
}
