//! What a drawing says in words: of the plan, of an execution, of a step. Draws nothing.

use super::graph::Graph;
use super::scene::{Activity, Outcome, Scene, Span, State, Step, Story};
use super::words::{counted, duration, plain};
use escapement_contract::OnFailure;

/// How an execution went.
pub(super) fn story(scene: &Scene, story: &Story) -> String {
    let n_completed = scene
        .steps
        .iter()
        .filter(|step| step.state == State::Completed)
        .count();
    let n_attempts: u32 = scene
        .steps
        .iter()
        .map(|step| step.n_attempts)
        .fold(0, u32::saturating_add);
    let mut text = match story.status.as_str() {
        "" => "not settled".to_owned(),
        status => plain(status),
    };
    if !story.error_code.is_empty() {
        text.push_str(&format!(" ({})", plain(&story.error_code)));
    }
    text.push_str(&format!(" after {}: ", duration(story.duration_ms)));
    match scene.has_graph {
        true => text.push_str(&format!(
            "{n_completed} of {} completed",
            counted(scene.steps.len(), "step")
        )),
        false => text.push_str(&format!("{} completed", counted(n_completed, "step"))),
    }
    text.push_str(&format!(", {}", counted(n_attempts as usize, "attempt")));
    text
}

/// How large a plan is, and what of it is not drawn.
pub(super) fn graph(scene: &Scene, graph: &Graph) -> String {
    let mut text = format!(
        "{}, {}, {}",
        counted(scene.steps.len(), "step"),
        counted(graph.n_layers(), "layer"),
        match graph.n_dependencies {
            1 => "1 dependency".to_owned(),
            n => format!("{n} dependencies"),
        }
    );
    if graph.n_implied > 0 {
        // What a step needs through another dependency it need not be shown to need.
        text.push_str(&format!(" ({} implied, not drawn)", graph.n_implied));
    }
    text
}

/// What a step came to and how long it took, or what the plan says of it.
pub(super) fn step(step: &Step) -> String {
    let mut words = match step.state {
        State::Planned => return planned(step),
        State::Completed => vec![step.took_ms.map_or("completed".to_owned(), duration)],
        State::Failed | State::Skipped if !step.error_code.is_empty() => vec![plain(&step.error_code)],
        state => vec![state.as_str().to_owned()],
    };
    match (step.n_attempts, step.state) {
        (0 | 1, _) => {}
        (n, State::Running | State::BackingOff | State::Waiting) => words.push(format!("attempt {n}")),
        (n, _) => words.push(counted(n as usize, "attempt")),
    }
    words.join(", ")
}

fn planned(step: &Step) -> String {
    let on_failure = step.on_failure.map_or("", OnFailure::as_str);
    match step.timeout_ms {
        Some(timeout_ms) => format!("{on_failure:<5}  {}", duration(timeout_ms)),
        None => on_failure.to_owned(),
    }
}

/// What the plan says of a step.
pub(super) fn rules(step: &Step) -> String {
    let on_failure = step.on_failure.map_or("-", OnFailure::as_str);
    match step.timeout_ms {
        Some(timeout_ms) => format!(
            "on failure: {on_failure}; limit of an attempt: {}",
            duration(timeout_ms)
        ),
        None => format!("on failure: {on_failure}"),
    }
}

/// What a step did for a while.
pub(super) fn span(step: &Step, span: &Span) -> String {
    let what = match (span.activity, &span.outcome) {
        (Activity::Waiting, _) => "waits for a worker".to_owned(),
        (Activity::BackingOff, _) => "backs off".to_owned(),
        (Activity::Asking, _) => "waits for a person".to_owned(),
        (Activity::Running, Outcome::Open) => "runs".to_owned(),
        (Activity::Running, Outcome::Completed) => "completed".to_owned(),
        (Activity::Running, Outcome::Failed(code)) => format!("failed: {code}"),
        (Activity::Running, Outcome::Returned) => "never ran, is handed out again".to_owned(),
        (Activity::Running, Outcome::Stopped) => "stopped".to_owned(),
    };
    format!(
        "{}, attempt {}: {what}\n{} to {} ({})",
        step.label(),
        span.attempt,
        duration(span.from_ms),
        duration(span.to_ms),
        duration(span.to_ms - span.from_ms)
    )
}
