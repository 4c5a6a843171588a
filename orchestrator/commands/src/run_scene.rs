//! Makes the scene of a run from its record: its steps, their attempts and waits, and its end.

use bytes::Bytes;
use escapement_insight::Problem;
use escapement_insight::scene::{Activity, Outcome, Scene, Span, State, Step, Story};
use escapement_model::StepId;
use escapement_run::Run;
use escapement_run::journal::{Entry, Event, OutcomeClass, UnitRef};
use escapement_run::plan::StepKind;
use escapement_run::record;
use escapement_run::state::StepStage;
use escapement_runs_insight::replay;
use std::collections::BTreeMap;

/// Makes the scene of a record file, with the steps of the newest revision.
///
/// # Errors
/// [`Problem`]: the file is not as it was written, or the run cannot be decided again.
pub(crate) fn scene(file: &Bytes) -> Result<Scene, Problem> {
    let (record, faults) = record::read(file).map_err(|fault| damaged(&fault))?;
    if let Some(fault) = faults.first() {
        return Err(damaged(fault));
    }
    let journal: Vec<Bytes> = record.entries.iter().map(|entry| entry.bytes.clone()).collect();
    let run = replay(&journal, &record)
        .map_err(|difference| damaged(&difference))?
        .run;
    let mut scene = of_plan(&run);
    let mut teller = Teller {
        origin: run.state().created_at,
        now_ms: 0,
        n_steps: scene.steps.len(),
        n_attempts: vec![0; scene.steps.len()],
        open: BTreeMap::new(),
        spans: Vec::new(),
    };
    for recorded in &record.entries {
        teller.entry(&recorded.entry);
    }
    let duration_ms = teller.now_ms;
    let n_attempts = teller.n_attempts.clone();
    let spans = teller.end(run.state().end.is_some());
    if spans.iter().all(|span| span.step + 1 < scene.steps.len()) {
        scene.steps.pop();
    }
    for (step, n_attempts) in scene.steps.iter_mut().zip(n_attempts) {
        step.n_attempts = n_attempts;
    }
    let error = run.state().end.as_ref().and_then(|end| end.error.as_ref());
    scene.tell(Story {
        spans,
        status: run.shown().as_str().to_owned(),
        error_code: error.map_or_else(String::new, |error| error.code.clone()),
        duration_ms,
    });
    Ok(scene)
}

/// Returns the steps and, last, the run itself: what planners and people do to it as a whole.
fn of_plan(run: &Run) -> Scene {
    let (plan, state) = (run.plan(), run.state());
    let steps = plan.steps.iter().zip(&state.steps).zip(1..);
    let steps = steps.map(|((step, of_run), number)| Step {
        short_id: step.key.clone(),
        title: if step.name == step.key {
            String::new()
        } else {
            step.name.clone()
        },
        depends_on: step.depends_on.clone(),
        state: state_of(of_run.stage(), state.end.is_some()),
        error_code: of_run
            .error
            .as_ref()
            .map_or_else(String::new, |error| error.code.clone()),
        ..Step::new(drawn_id(number), action(&step.kind))
    });
    let mut steps: Vec<Step> = steps.collect();
    steps.push(Step {
        short_id: "(run)".to_owned(),
        state: match state.end {
            None => State::Running,
            Some(_) => State::Completed,
        },
        ..Step::new(drawn_id(0), "planning and people")
    });
    Scene {
        name: match state.revision_number {
            0 | 1 => plan.name.clone(),
            number => format!("{} (revision {number})", plan.name),
        },
        steps,
        has_graph: true,
        story: None,
    }
}

/// Returns an id for the drawing, which shows the key instead.
fn drawn_id(number: u128) -> StepId {
    StepId::from_random(number.to_be_bytes())
}

fn action(kind: &StepKind) -> &str {
    match kind {
        StepKind::ToolCall(call) => &call.tool_name,
        StepKind::LlmDecision(_) => "llm_decision",
        StepKind::UserInput(_) => "user_input",
        StepKind::Condition(_) => "condition",
        StepKind::Parallel(_) => "parallel",
        StepKind::Loop(repeated) => &repeated.call.tool_name,
        StepKind::SubPlan(_) => "sub_plan",
    }
}

fn state_of(stage: StepStage, has_ended: bool) -> State {
    match (stage, has_ended) {
        (StepStage::Completed, _) => State::Completed,
        (StepStage::Failed, _) => State::Failed,
        (StepStage::Skipped, _) => State::Skipped,
        (StepStage::Blocked, _) | (StepStage::Pending, true) => State::NeverRan,
        (StepStage::Pending, false) => State::Planned,
        (StepStage::Running, true) => State::Stopped,
        (StepStage::Running, false) => State::Running,
    }
}

/// Owner of an open span.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    /// A unit: step and index.
    Unit(u32, u32),
    /// A request to a person.
    Request(Bytes),
}

impl Key {
    fn of(unit: UnitRef) -> Self {
        Self::Unit(unit.step, unit.index)
    }
}

/// Turns entries into spans.
struct Teller {
    /// Unix milliseconds of the creation.
    origin: i64,
    now_ms: u64,
    /// The run itself is the last.
    n_steps: usize,
    n_attempts: Vec<u32>,
    open: BTreeMap<Key, Span>,
    spans: Vec<Span>,
}

impl Teller {
    fn entry(&mut self, entry: &Entry) {
        let at_ms = u64::try_from(entry.at.saturating_sub(self.origin)).unwrap_or(0);
        self.now_ms = self.now_ms.max(at_ms);
        let Some(event) = &entry.event else { return };
        match event {
            Event::PlanCreated(_) => self.revise(),
            Event::ToolCalled(called) => {
                let place = self.place(Some(called.unit));
                self.n_attempts[place] += 1;
                self.begin(Key::of(called.unit), place, Activity::Running, called.attempt);
            }
            Event::ChildRunStarted(child) => {
                let place = self.place(Some(child.unit));
                self.n_attempts[place] += 1;
                self.begin(Key::of(child.unit), place, Activity::Running, 1);
            }
            Event::ToolOutput(output) => {
                let code = output
                    .error
                    .as_ref()
                    .map_or_else(String::new, |error| error.code.clone());
                self.close(&Key::of(output.unit), outcome(output.class(), code));
            }
            Event::ChildRunEnded(child) => {
                let ended = child.error.as_ref();
                let outcome = ended.map_or(Outcome::Completed, |error| Outcome::Failed(error.code.clone()));
                self.close(&Key::of(child.unit), outcome);
            }
            Event::StepRetrying(retrying) => {
                let place = self.place(Some(retrying.unit));
                self.begin(
                    Key::of(retrying.unit),
                    place,
                    Activity::BackingOff,
                    retrying.retry,
                );
            }
            Event::InputRequested(request) => {
                let place = self.place(request.unit);
                self.begin(Key::Request(request.id.clone()), place, Activity::Asking, 1);
            }
            Event::InputReceived(answer) => self.close(&Key::Request(answer.id.clone()), Outcome::Open),
            Event::InputExpired(request) | Event::InputClosed(request) => {
                self.close(&Key::Request(request.id.clone()), Outcome::Open);
            }
            Event::StepReset(step) => {
                let units = Key::Unit(step.step, 0)..=Key::Unit(step.step, u32::MAX);
                let keys: Vec<Key> = self.open.range(units).map(|(key, _)| key.clone()).collect();
                keys.iter().for_each(|key| self.close(key, Outcome::Stopped));
            }
            _ => {}
        }
    }

    /// Forgets the steps of the revision before; what concerned the run itself stays.
    fn revise(&mut self) {
        let of_run = self.n_steps - 1;
        self.spans.retain(|span| span.step == of_run);
        self.open.retain(|_, span| span.step == of_run);
        self.n_attempts[..of_run].fill(0);
    }

    /// Returns the position of the step of a unit; that of the run for a unit of no step, or of a longer plan before.
    fn place(&self, unit: Option<UnitRef>) -> usize {
        let step = unit.and_then(|unit| usize::try_from(unit.step).ok());
        step.unwrap_or(usize::MAX).min(self.n_steps - 1)
    }

    fn begin(&mut self, key: Key, step: usize, activity: Activity, attempt: u32) {
        self.close(&key, Outcome::Open);
        let span = Span {
            step,
            activity,
            attempt,
            from_ms: self.now_ms,
            to_ms: self.now_ms,
            outcome: Outcome::Open,
        };
        self.open.insert(key, span);
    }

    fn close(&mut self, key: &Key, outcome: Outcome) {
        if let Some(span) = self.open.remove(key) {
            self.spans.push(Span {
                to_ms: self.now_ms,
                outcome: match span.activity {
                    Activity::Running => outcome,
                    Activity::Waiting | Activity::BackingOff | Activity::Asking => Outcome::Open,
                },
                ..span
            });
        }
    }

    fn end(mut self, has_ended: bool) -> Vec<Span> {
        let outcome = if has_ended {
            Outcome::Stopped
        } else {
            Outcome::Open
        };
        let keys: Vec<Key> = self.open.keys().cloned().collect();
        keys.iter().for_each(|key| self.close(key, outcome.clone()));
        self.spans.sort_by_key(|span| (span.step, span.from_ms));
        self.spans
    }
}

fn outcome(class: OutcomeClass, code: String) -> Outcome {
    match class {
        OutcomeClass::Completed => Outcome::Completed,
        OutcomeClass::NeverRan | OutcomeClass::ApprovalRequired => Outcome::Returned,
        OutcomeClass::Failed
        | OutcomeClass::FailedForGood
        | OutcomeClass::TimedOut
        | OutcomeClass::Unknown => Outcome::Failed(code),
    }
}

fn damaged(what: &dyn std::fmt::Display) -> Problem {
    Problem(format!(
        "the record is not as it was written ({what}); `orchestrator verify` says more"
    ))
}
