//! From the record of an execution to what each step did when, and what it came to. Reads no documents.

use super::scene::{Activity, Outcome, Scene, Span, State, Step, Story};
use escapement_model::StepId;
use std::collections::BTreeMap;

/// What a record tells of one step, or of the execution.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Event {
    /// Unix milliseconds.
    pub at_unix_ms: i64,
    /// What happened.
    pub happened: Happened,
}

/// What happened; a drawing needs no more of a record.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Happened {
    /// Something that is not drawn; its time counts.
    Else,
    /// The execution started.
    Started {
        /// Unix milliseconds.
        started_at: i64,
    },
    /// Something with a step.
    Step {
        /// The step.
        step: StepId,
        /// What.
        what: OfStep,
    },
    /// The execution ended.
    Settled {
        /// `success`, `partial` or `failure`.
        status: String,
    },
}

/// What happened to a step.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum OfStep {
    /// It waits for a worker.
    Waiting {
        /// 1 for the first.
        attempt: u32,
    },
    /// A worker has it.
    Assigned {
        /// 1 for the first.
        attempt: u32,
    },
    /// The attempt never ran.
    Returned,
    /// The attempt ended without completing the step.
    AttemptFailed {
        /// Why.
        error_code: String,
    },
    /// It sleeps.
    BackingOff {
        /// The attempt to come.
        next_attempt: u32,
    },
    /// It completed.
    Completed {
        /// How many attempts it took.
        attempts: u32,
    },
    /// It ended without completing.
    NotCompleted {
        /// How many attempts were made.
        attempts: u32,
        /// `skipped`, `failed` and so on.
        reason: String,
        /// Why.
        error_code: String,
    },
}

/// An event of a step that the plan does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnknownStep(pub StepId);

/// Adds a record to a plan.
///
/// # Errors
/// [`UnknownStep`] where the plan has no such step.
pub(super) fn with_events(mut scene: Scene, events: &[Event]) -> Result<Scene, UnknownStep> {
    let started_at = events.iter().find_map(|event| match event.happened {
        Happened::Started { started_at } => Some(started_at),
        _ => None,
    });
    let origin = started_at
        .or(events.first().map(|event| event.at_unix_ms))
        .unwrap_or(0);
    let mut teller = Teller::new(&mut scene);
    let mut now_ms = 0;
    for event in events {
        // The clock of a record may have been set back; a drawing goes on.
        now_ms = since(origin, event.at_unix_ms).max(now_ms);
        teller.tell(event, now_ms)?;
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

/// Finds the states of steps from what they did last, where a record that says them is not at hand.
pub(super) fn settle_states(scene: &mut Scene) {
    let Some(story) = &scene.story else { return };
    for span in &story.spans {
        let step = &mut scene.steps[span.step];
        step.state = match (span.activity, &span.outcome) {
            (Activity::Waiting, _) => State::Waiting,
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

    fn tell(&mut self, event: &Event, now_ms: u64) -> Result<(), UnknownStep> {
        match &event.happened {
            Happened::Else | Happened::Started { .. } => {}
            Happened::Settled { status } => self.status.clone_from(status),
            Happened::Step { step, what } => {
                let at = *self.places.get(step).ok_or(UnknownStep(*step))?;
                self.tell_of_step(at, what, now_ms);
            }
        }
        Ok(())
    }

    fn tell_of_step(&mut self, at: usize, what: &OfStep, now_ms: u64) {
        let next = match what {
            OfStep::Waiting { attempt } => {
                self.close(at, now_ms, Outcome::Open);
                self.step(at).state = State::Waiting;
                Some((Activity::Waiting, *attempt))
            }
            OfStep::Assigned { attempt } => {
                self.close(at, now_ms, Outcome::Open);
                self.step(at).state = State::Running;
                self.step(at).n_attempts = *attempt;
                Some((Activity::Running, *attempt))
            }
            OfStep::BackingOff { next_attempt } => {
                self.close(at, now_ms, Outcome::Open);
                self.step(at).state = State::BackingOff;
                Some((Activity::BackingOff, *next_attempt))
            }
            OfStep::Returned => {
                self.close(at, now_ms, Outcome::Returned);
                // It never ran, so it is none; the next one has its number.
                self.step(at).n_attempts = self.step(at).n_attempts.saturating_sub(1);
                None
            }
            OfStep::AttemptFailed { error_code } => {
                self.close(at, now_ms, Outcome::Failed(error_code.clone()));
                None
            }
            OfStep::Completed { attempts } => {
                self.close(at, now_ms, Outcome::Completed);
                self.step(at).state = State::Completed;
                self.step(at).n_attempts = *attempts;
                None
            }
            OfStep::NotCompleted {
                attempts,
                reason,
                error_code,
            } => {
                self.close(at, now_ms, Outcome::Failed(error_code.clone()));
                let step = self.step(at);
                step.state = if reason == "skipped" {
                    State::Skipped
                } else {
                    State::Failed
                };
                step.n_attempts = *attempts;
                step.error_code.clone_from(error_code);
                None
            }
        };
        if let Some((activity, attempt)) = next {
            self.open[at] = Some(Span {
                step: at,
                activity,
                attempt,
                from_ms: now_ms,
                to_ms: now_ms,
                outcome: Outcome::Open,
            });
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
