//! From the record of an execution to what each step did when, and what it came to. Reads no documents.

use super::scene::{Activity, Outcome, Scene, Span, State, Step, Story};
use escapement_model::StepId;
use escapement_wire::v1;
use escapement_wire::v1::audit_entry::Event;
use escapement_wire::v1::plan_result::Status;
use std::collections::BTreeMap;

/// Why entries are not the record of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Untold {
    /// The plan has no such step.
    UnknownStep(StepId),
    /// An entry is about a step whose id is none.
    NoStepId {
        /// Its place among the entries, from 0.
        entry: usize,
    },
}

/// Adds a record to a plan.
///
/// # Errors
/// [`Untold`] if an entry is about a step that the plan does not have.
pub(super) fn with_entries(mut scene: Scene, entries: &[v1::AuditEntry]) -> Result<Scene, Untold> {
    let started_at = entries.iter().find_map(|entry| match &entry.event {
        Some(Event::Started(started)) => Some(started.started_at),
        _ => None,
    });
    let origin = started_at.or(entries.first().map(|entry| entry.at)).unwrap_or(0);
    let mut teller = Teller::new(&mut scene);
    let mut now_ms = 0;
    for (at, entry) in entries.iter().enumerate() {
        // The clock of a record may have been set back; a drawing goes on.
        now_ms = since(origin, entry.at).max(now_ms);
        if let Some(event) = &entry.event {
            teller.tell(event, at, now_ms)?;
        }
    }
    let (spans, status) = teller.end(now_ms);
    scene.tell(Story {
        spans,
        status,
        error_code: String::new(),
        duration_ms: now_ms,
    });
    Ok(scene)
}

/// `success`, `partial` or `failure`; empty for none of them.
pub(super) fn status(status: Status) -> String {
    match status {
        Status::Unspecified => String::new(),
        status => status.as_str_name().to_owned(),
    }
}

/// Finds the states of steps from what they did last, if a record that says them is not at hand.
pub(super) fn settle_states(scene: &mut Scene) {
    let Some(story) = &scene.story else { return };
    for span in &story.spans {
        let step = &mut scene.steps[span.step];
        step.state = match (span.activity, &span.outcome) {
            (Activity::Waiting | Activity::Asking, _) => State::Waiting,
            (Activity::BackingOff, _) => State::BackingOff,
            (Activity::Running, Outcome::Completed) => State::Completed,
            (Activity::Running, Outcome::Failed(code)) => {
                step.error_code.clone_from(code);
                State::Failed
            }
            (Activity::Running, Outcome::Stopped) => State::Stopped,
            (Activity::Running, Outcome::Open | Outcome::Returned) => State::Running,
        };
        if span.activity == Activity::Running && span.outcome != Outcome::Returned {
            step.n_attempts = step.n_attempts.max(span.attempt);
        }
    }
    if !story.status.is_empty() {
        for step in &mut scene.steps {
            step.state = at_the_end(step.state);
        }
    }
}

/// What the end of the execution makes of a step that had not ended.
fn at_the_end(state: State) -> State {
    match state {
        State::Planned => State::NeverRan,
        State::Waiting | State::Running | State::BackingOff => State::Stopped,
        State::Completed | State::Failed | State::Skipped | State::Stopped | State::NeverRan => state,
    }
}

fn since(origin: i64, at: i64) -> u64 {
    u64::try_from(at.saturating_sub(origin)).unwrap_or(0)
}

/// Turns events into spans.
struct Teller<'a> {
    scene: &'a mut Scene,
    places: BTreeMap<StepId, usize>,
    /// By step: the span that has not ended.
    open: Vec<Option<Span>>,
    spans: Vec<Span>,
    status: String,
}

impl<'a> Teller<'a> {
    fn new(scene: &'a mut Scene) -> Self {
        Self {
            places: scene.steps.iter().map(|step| step.id).zip(0..).collect(),
            open: vec![None; scene.steps.len()],
            spans: Vec::new(),
            status: String::new(),
            scene,
        }
    }

    /// `entry`: the place of the event's entry.
    fn tell(&mut self, event: &Event, entry: usize, now_ms: u64) -> Result<(), Untold> {
        let Some(id) = step_id(event) else {
            if let Event::Settled(settled) = event {
                self.status = status(settled.status());
            }
            return Ok(());
        };
        let id = id.parse().map_err(|_| Untold::NoStepId { entry })?;
        let at = *self.places.get(&id).ok_or(Untold::UnknownStep(id))?;
        if let Some((activity, attempt)) = self.tell_of_step(at, event, now_ms) {
            self.open[at] = Some(Span {
                step: at,
                activity,
                attempt,
                from_ms: now_ms,
                to_ms: now_ms,
                outcome: Outcome::Open,
            });
        }
        Ok(())
    }

    /// Returns what the step does from now on, with the number of the attempt.
    fn tell_of_step(&mut self, at: usize, event: &Event, now_ms: u64) -> Option<(Activity, u32)> {
        match event {
            Event::StepWaiting(said) => {
                self.close(at, now_ms, Outcome::Open);
                self.step(at).state = State::Waiting;
                Some((Activity::Waiting, count(said.attempt)))
            }
            Event::AttemptAssigned(said) => {
                self.close(at, now_ms, Outcome::Open);
                self.step(at).state = State::Running;
                self.step(at).n_attempts = count(said.attempt);
                Some((Activity::Running, count(said.attempt)))
            }
            Event::RetryScheduled(said) => {
                self.close(at, now_ms, Outcome::Open);
                self.step(at).state = State::BackingOff;
                Some((Activity::BackingOff, count(said.next_attempt)))
            }
            Event::AttemptReturned(_) => {
                self.close(at, now_ms, Outcome::Returned);
                // It never ran, so it is none; the next one has its number.
                self.step(at).n_attempts = self.step(at).n_attempts.saturating_sub(1);
                None
            }
            Event::AttemptFailed(said) => {
                self.close(at, now_ms, Outcome::Failed(error_code(said.error.as_ref())));
                None
            }
            Event::StepCompleted(said) => {
                self.close(at, now_ms, Outcome::Completed);
                self.step(at).state = State::Completed;
                self.step(at).n_attempts = count(said.attempts);
                None
            }
            Event::StepNotCompleted(said) => {
                let code = error_code(said.error.as_ref());
                self.close(at, now_ms, Outcome::Failed(code.clone()));
                let step = self.step(at);
                step.state = if said.reason == "skipped" {
                    State::Skipped
                } else {
                    State::Failed
                };
                step.n_attempts = count(said.attempts);
                step.error_code = code;
                None
            }
            Event::Accepted(_)
            | Event::Started(_)
            | Event::AttemptStarted(_)
            | Event::MandatoryAction(_)
            | Event::StepsIncomplete(_)
            | Event::Settled(_) => None,
        }
    }

    fn step(&mut self, at: usize) -> &mut Step {
        &mut self.scene.steps[at]
    }

    /// Ends what the step does; only a worker's part has an outcome.
    fn close(&mut self, at: usize, now_ms: u64, outcome: Outcome) {
        let Some(mut span) = self.open[at].take() else {
            return;
        };
        span.to_ms = now_ms;
        if span.activity == Activity::Running {
            span.outcome = outcome;
        }
        self.spans.push(span);
    }

    fn end(mut self, now_ms: u64) -> (Vec<Span>, String) {
        let is_over = !self.status.is_empty();
        for at in 0..self.open.len() {
            self.close(at, now_ms, if is_over { Outcome::Stopped } else { Outcome::Open });
            if is_over {
                self.step(at).state = at_the_end(self.scene.steps[at].state);
            }
        }
        self.spans.sort_by_key(|span| (span.step, span.from_ms));
        (self.spans, self.status)
    }
}

/// The step whose part of the drawing an event changes.
fn step_id(event: &Event) -> Option<&str> {
    match event {
        Event::StepWaiting(said) => Some(&said.step_id),
        Event::AttemptAssigned(said) => Some(&said.step_id),
        Event::RetryScheduled(said) => Some(&said.step_id),
        Event::AttemptReturned(said) => Some(&said.step_id),
        Event::AttemptFailed(said) => Some(&said.step_id),
        Event::StepCompleted(said) => Some(&said.step_id),
        Event::StepNotCompleted(said) => Some(&said.step_id),
        Event::Accepted(_)
        | Event::Started(_)
        | Event::AttemptStarted(_)
        | Event::MandatoryAction(_)
        | Event::StepsIncomplete(_)
        | Event::Settled(_) => None,
    }
}

fn error_code(error: Option<&v1::ExecutionError>) -> String {
    error.map(|error| error.error_code.clone()).unwrap_or_default()
}

fn count(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}
