//! Reason why a run is in its state, who or what moves it, and what happens at the latest. Decides nothing.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use escapement_run::journal::{InputRequest, RequestKind, RequestState};
use escapement_run::spec::Planner;
use escapement_run::state::{Planning, RunState, Stage, StepStage, UnitStage};
use escapement_run::{Run, ShownState};

/// Reason why a run is in its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The state in one word.
    pub state: ShownState,
    /// Ids of the rules that say so, the deciding one first.
    pub rules: Vec<&'static str>,
    /// A few sentences.
    pub text: String,
    /// The step that has its turn next, from 0; `None` if none has.
    pub next_step: Option<u32>,
    /// Unix milliseconds at which the run does something at the latest; `None` once it has ended.
    pub due_at: Option<i64>,
    /// Event that happens at `due_at` unless something comes first, as the end of a sentence.
    pub due: Option<&'static str>,
    /// The step whose failure ended the run or will end it, from 0.
    pub cause_step: Option<u32>,
}

/// Explains a run as it is.
pub fn explain(run: &Run) -> Explanation {
    let state = run.state();
    let (rules, text) = match run.shown() {
        ShownState::Queued => queued(state),
        ShownState::Planning => planning(state),
        ShownState::Running => running(run),
        ShownState::Verifying => verifying(run),
        ShownState::Waiting => (["RUN-2.2", "RUN-6.5"].into(), waits(run)),
        ShownState::Pausing => (
            ["RUN-8.1", "RUN-2.2"].into(),
            format!(
                "The run shall pause: {}, and nothing new is started.",
                in_flight(run)
            ),
        ),
        ShownState::Paused => (
            ["RUN-8.1", "RUN-8.2"].into(),
            "The run is paused. It goes on once somebody resumes it.".to_string(),
        ),
        ShownState::Completed | ShownState::Failed | ShownState::Timeout | ShownState::Cancelled => {
            ended(run)
        }
    };
    let of_end = state.end.as_ref().and_then(|end| end.error.as_ref());
    let cause = state.cause.as_ref().or(of_end);
    Explanation {
        state: run.shown(),
        rules,
        text,
        next_step: next_step(run),
        due_at: run.due_at(),
        due: due(run),
        cause_step: cause.and_then(|cause| cause.step),
    }
}

fn queued(state: &RunState) -> (Vec<&'static str>, String) {
    let text = match state.pause_wanted {
        true => "The run is in the queue and shall pause: it is admitted once somebody resumes it.",
        false => "The run waits in the queue until it is admitted.",
    };
    (["RUN-2.4"].into(), text.to_string())
}

fn planning(state: &RunState) -> (Vec<&'static str>, String) {
    let planning = state.planning.clone().unwrap_or_default();
    let (n, most) = (planning.generation, state.spec.limits.max_generations);
    let action = state.spec.planner.as_ref().map_or("", |planner| &planner.action);
    let does = match (&planning.live, planning.is_open) {
        (Some(_), _) => format!("{action} has been asked for a plan, generation {n} of {most}"),
        (None, true) => format!("the actions are listed that the plan of generation {n} of {most} may call"),
        (None, false) => format!("a further plan is wanted after {n} of {most} generations"),
    };
    let last = planning.previous.last().map_or_else(String::new, |last| {
        match (&last.error, last.violations.first()) {
            (Some(error), _) => format!(
                " The last plan failed with {}: {}.",
                error.code,
                bare(&error.message)
            ),
            (None, Some(part)) => format!(
                " The last plan was refused: {}: {}: {}",
                part.path, part.code, part.message
            ),
            (None, None) => String::new(),
        }
    });
    (
        ["RUN-11.2"].into(),
        format!("A plan is being made: {does}.{last}"),
    )
}

fn running(run: &Run) -> (Vec<&'static str>, String) {
    let state = run.state();
    let Some(cause) = &state.cause else {
        return (
            ["RUN-3.2"].into(),
            format!("The run executes: {}.", in_flight(run)),
        );
    };
    let ends = match state.drains {
        true => "what still can run does so first",
        false => "what is in flight ends first",
    };
    let (code, message, flying) = (&cause.code, bare(&cause.message), in_flight(run));
    let text = format!("The run will fail with {code}: {message}. Now {flying}; {ends}.");
    (["RUN-5.6", "RUN-10.1"].into(), text)
}

fn verifying(run: &Run) -> (Vec<&'static str>, String) {
    let artifacts = &run.state().artifacts;
    let n_live = artifacts
        .iter()
        .filter(|artifact| artifact.live.is_some())
        .count();
    let n_later = artifacts.iter().filter(|artifact| artifact.again_at > 0).count();
    let text = format!(
        "All steps have ended, and the run completes once its artifacts are verified: {n_live} are being looked at, {n_later} will be \
         looked at again."
    );
    (["RUN-12.8", "RUN-12.9"].into(), text)
}

fn ended(run: &Run) -> (Vec<&'static str>, String) {
    let end = run.state().end.as_ref();
    let error = end.and_then(|end| end.error.as_ref());
    let (code, message) = error.map_or(("", ""), |error| (error.code.as_str(), bare(&error.message)));
    match run.shown() {
        ShownState::Failed => {
            let text = match error.and_then(|error| error.step) {
                Some(step) => format!(
                    "The run failed: its step {} failed with {code}: {message}.",
                    key(run, step)
                ),
                None => format!("The run failed with {code}: {message}."),
            };
            (["RUN-10.1", "RUN-5.6"].into(), text)
        }
        ShownState::Timeout => (["RUN-7.6"].into(), format!("The run ran out of time: {message}.")),
        ShownState::Cancelled => (["RUN-8.3"].into(), format!("The run was cancelled: {message}.")),
        _ if end.is_some_and(|end| end.partial) => (
            ["RUN-10.1", "RUN-10.2"].into(),
            "All steps have ended and the run is completed, though a step failed on the way.".to_string(),
        ),
        _ => (
            ["RUN-10.1"].into(),
            "All steps have ended and the run is completed.".to_string(),
        ),
    }
}

/// What is under way.
fn in_flight(run: &Run) -> String {
    let mut parts = Vec::new();
    for (step, state) in (0..).zip(&run.state().steps) {
        if state.stage() != StepStage::Running {
            continue;
        }
        let n = |stage| state.units.iter().filter(|unit| unit.stage() == stage).count();
        let (key, live, later) = (key(run, step), n(UnitStage::Live), n(UnitStage::BackingOff));
        if live > 0 {
            parts.push(format!("step {key} has {}", attempts(live, "in flight")));
        }
        if later > 0 {
            parts.push(format!("step {key} has {}", attempts(later, "to be retried")));
        }
    }
    if run
        .state()
        .planning
        .as_ref()
        .is_some_and(|planning| planning.is_open)
    {
        parts.push("a plan is being made".to_string());
    }
    let evaluations = run.state().evaluations.len();
    if parts.is_empty() && evaluations > 0 {
        parts.push("an expression is evaluated".to_string());
    }
    let open = run.state().open_requests().count();
    if open > 0 {
        parts.push(format!("{open} asked of people"));
    }
    match parts.is_empty() {
        true => "nothing is in flight".to_string(),
        false => parts.join(", "),
    }
}

/// Returns a message without its full stop, for a sentence that goes around it.
pub(crate) fn bare(message: &str) -> &str {
    message.trim_end_matches('.')
}

/// Returns "1 attempt in flight" or "3 attempts in flight".
pub(crate) fn attempts(n: usize, what: &str) -> String {
    match n {
        1 => format!("1 attempt {what}"),
        n => format!("{n} attempts {what}"),
    }
}

fn waits(run: &Run) -> String {
    let asked: Vec<String> = run
        .state()
        .open_requests()
        .map(|request| asks(run, request))
        .collect();
    let shown = &asked[..asked.len().min(REQUESTS_SHOWN_MAX)];
    let more = match asked.len() - shown.len() {
        0 => String::new(),
        more => format!(" {more} more are open."),
    };
    format!("The run waits for people. {}{more}", shown.join(" "))
}

/// What a request asks, and who may say it.
pub(crate) fn asks(run: &Run, request: &InputRequest) -> String {
    let whose = match request.unit {
        Some(unit) => format!("The step {}", key(run, unit.step)),
        None if request.kind() == RequestKind::BudgetExtension => "The planner".to_string(),
        None => "The plan".to_string(),
    };
    match request.kind() {
        RequestKind::Question => format!("{whose} asks a question; everybody may answer it."),
        RequestKind::Approval => format!(
            "{whose} waits for an approval {}.",
            approvers(run.state(), request)
        ),
        RequestKind::RetryExtension => {
            format!(
                "{whose} has no retries left; a person says whether it goes on, everybody may give it up."
            )
        }
        RequestKind::BudgetExtension => {
            format!(
                "{whose} needs more than the budget has left; a person says whether the run may have as much again."
            )
        }
        RequestKind::AmbiguousEffect => {
            format!("{whose} may have had its effect; a person says what became of it.")
        }
    }
}

fn approvers(state: &RunState, request: &InputRequest) -> String {
    let policy = &state.spec.policy;
    let missing = (policy.quorum.max(1) as usize).saturating_sub(request.approved_by.len());
    let who = match (&policy.approvers[..], policy.four_eyes) {
        ([], false) => "a person".to_string(),
        ([], true) => format!("a person other than {}", state.spec.user_id),
        (named, false) => format!("one of {}", named.join(", ")),
        (named, true) => format!("one of {} other than {}", named.join(", "), state.spec.user_id),
    };
    match missing {
        0 | 1 => format!("of {who}"),
        missing => format!("of {missing} different people, each {who}"),
    }
}

/// What happens at the time that is due, if nothing comes before.
fn due(run: &Run) -> Option<&'static str> {
    let state = run.state();
    // Compared with times of the run.
    let at = run.due_at()?.saturating_add_unsigned(state.ahead_ms);
    let request = state.open_requests().find(|request| request.expires_at == at);
    let units = state.steps.iter().flat_map(|step| &step.units);
    let mut later = units.filter(|unit| unit.stage() == UnitStage::BackingOff);
    let limits = &state.spec.limits;
    let after = |since: i64, ms: u64| i64::try_from(ms).is_ok_and(|ms| since.saturating_add(ms) == at);
    let active = |limit: u64| after(state.updated_at, limit.saturating_sub(state.active_ms));
    let generation = state.planning.as_ref().filter(|planning| planning.is_open);
    let generation = generation.zip(state.spec.planner.as_deref());
    let of_generation = |(planning, planner): (&Planning, &Planner)| {
        active(planning.began_ms.saturating_add(planner.limit_ms))
    };
    let what = if later.any(|unit| unit.retry_at == at) {
        "a retry is due"
    } else if let Some(request) = request {
        match request.kind() {
            RequestKind::Approval => "an approval that nobody gave is denied",
            RequestKind::Question => "a question takes its default, or fails its step",
            RequestKind::BudgetExtension if request.unit.is_none() => {
                "no further plan is made because nobody answered"
            }
            RequestKind::RetryExtension | RequestKind::AmbiguousEffect | RequestKind::BudgetExtension => {
                "a step fails because nobody answered"
            }
        }
    } else if after(state.created_at, limits.lifetime_ms) {
        "its lifetime is over and it ends as timeout"
    } else if generation.is_some_and(of_generation) {
        "the planner has had its time and a further plan is wanted, if one may be made"
    } else if state.paused_at != 0 {
        "its pause is over and it ends as timeout"
    } else if active(limits.run_ms) {
        "its time is over and it ends as timeout"
    } else if limits.revision_ms > 0 && active(state.revision_ms.saturating_add(limits.revision_ms)) {
        "the time of its plan is over and it ends as timeout"
    } else {
        "it ends as timeout, unless a step makes progress before"
    };
    Some(what)
}

/// Returns the first pending step that waits for no other one, else the first pending step.
fn next_step(run: &Run) -> Option<u32> {
    let state = run.state();
    let ends = state.cause.is_some() && !state.drains;
    if state.stage() != Stage::Executing && state.stage() != Stage::Queued || ends {
        return None;
    }
    let pending = (0..)
        .zip(&state.steps)
        .filter(|(_, step)| step.stage() == StepStage::Pending);
    let pending: Vec<u32> = pending.map(|(step, _)| step).collect();
    let is_free = |step: &&u32| {
        let on = &run.plan().steps[**step as usize].depends_on;
        on.iter().all(|on| state.steps[*on].stage().is_settled())
    };
    pending.iter().find(is_free).or(pending.first()).copied()
}

pub(crate) fn key(run: &Run, step: u32) -> &str {
    run.plan().steps.get(step as usize).map_or("", |step| &step.key)
}

/// Returns true if the request waits for an answer.
pub(crate) fn is_open(request: &InputRequest) -> bool {
    request.state() == RequestState::Open
}

/// Requests that a text tells of.
const REQUESTS_SHOWN_MAX: usize = 5;
