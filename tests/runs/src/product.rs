//! The core behind the words of the interpreter: its inputs, its effects and its state, translated. Decides nothing.

mod make;
mod values;
mod view;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use escapement_model::ExecutionId;
use escapement_run::ids::{AttemptName, RunId};
use escapement_run::journal::{
    Decision, Entry, Event, InputRequest, Limit as CoreLimit, OutcomeClass, RequestState,
    Responder as CoreResponder, ResponderKind,
};
use escapement_run::outcome::AttemptOutcome;
use escapement_run::plan::{Plan as CorePlan, StepKind};
use escapement_run::spec::ActionProfile;
use escapement_run::state::RunState;
use escapement_run::{
    Answer as CoreAnswer, Blobs, Commit, Effect, Input as CoreInput, OverrideWord, RewindScope, Rollback, Run,
};
use escapement_runs_insight::replay_with;
use prost::Message;

use crate::reference::plan::{Limits, Plan};
use crate::reference::run::Refusal;
use crate::reference::view::View;
use crate::reference::words::{
    Answer, AttemptId, Command, Input, Limit, Outcome, RequestKind, Responder, SAFETY_INDEX, Scope, UnitId,
    Value, Word,
};
use crate::subject::Subject;

/// The core.
#[derive(Clone)]
pub struct Product {
    run: Run,
    /// The plan of the first revision.
    first: Arc<CorePlan>,
    /// Profiles of the actions of the plan, known at the latest once the run is admitted.
    known: Vec<ActionProfile>,
    /// Reads the journal alone.
    folded: Run,
    /// The journal.
    journal: Vec<Bytes>,
    /// All requests, in the order in which they were made.
    requests: Vec<Bytes>,
    /// Which unit asks for which child run.
    children: BTreeMap<RunId, (UnitId, u32)>,
    /// The limit that was over.
    limit: Option<Limit>,
    n_ends: u32,
}

/// Nothing here is as long as a blob.
struct NoBlobs;

impl Blobs for NoBlobs {
    fn blob(&self, _: &[u8; 32]) -> Bytes {
        unreachable!("everything is kept in place")
    }
}

impl Subject for Product {
    fn make(plan: &Plan, limits: &Limits, now: u64) -> Self {
        let (run, commit) = make::run(plan, limits, at(now));
        let first = RunState {
            chain: Bytes::copy_from_slice(&escapement_model::chain::chain_begin(&make::run_id())),
            revision: Bytes::copy_from_slice(&run.plan().digest),
            updated_at: at(now),
            ..RunState::default()
        };
        let folded = Run::from_snapshot(first, run.plan().clone());
        let mut product = Self {
            first: Arc::clone(run.plan()),
            known: make::profiles(plan, limits),
            run,
            folded,
            journal: Vec::new(),
            requests: Vec::new(),
            children: BTreeMap::new(),
            limit: None,
            n_ends: 0,
        };
        product.keep(commit);
        product
    }

    fn feed(&mut self, now: u64, input: &Input) -> Result<Vec<Command>, Refusal> {
        let Some(translated) = self.translated(input) else {
            return Ok(Vec::new());
        };
        let mut commands = Vec::new();
        let mut next = translated;
        // Time has to be handed in until nothing is due any more.
        loop {
            let before = self.run.state().clone();
            match self.run.handle(next, at(now), &NoBlobs) {
                Ok(commit) => {
                    commands.extend(self.keep(commit));
                }
                Err(refused) => {
                    assert_eq!(
                        *self.run.state(),
                        before,
                        "RUN-2.1: a refused input changed something"
                    );
                    return Err(refused.reason.as_str());
                }
            }
            let is_due = self.run.due_at().is_some_and(|due| due <= at(now));
            if !matches!(input, Input::Tick | Input::StoodStill(_)) || !is_due {
                break;
            }
            next = CoreInput::Time;
        }
        Ok(commands)
    }

    fn view(&self) -> View {
        view::of(&self.run, self.limit)
    }

    /// RUN-2.1, RUN-9.2, RUN-10.3.
    fn check(&self) {
        let state = self.run.state();
        assert_eq!(
            self.folded.state(),
            state,
            "RUN-9.2: the fold of the journal is another state"
        );
        assert_eq!(
            self.run.size(),
            state.size(),
            "RUN-9.13: the size of the state is counted otherwise"
        );
        let decoded = RunState::decode(&state.encode_to_vec()[..]).expect("a snapshot decodes");
        assert_eq!(decoded, *state, "a snapshot is another state");
        assert_eq!(
            self.n_ends,
            u32::from(state.stage().is_end()),
            "RUN-10.3: one end"
        );
        for step in 0..u32::try_from(state.steps.len()).expect("a small plan") {
            let explained = escapement_runs_insight::explain_step(&self.run, step);
            assert!(
                explained.rules[0] != "RUN-3.7" || !explained.waits_for_steps.is_empty(),
                "RUN-3.2: nothing keeps step {step} back"
            );
        }
        if state.stage().is_end() {
            let replayed = replay_with(&self.journal, &NoBlobs, &|_| Ok(Arc::clone(&self.first)));
            let replayed = replayed.unwrap_or_else(|difference| panic!("RUN-2.1: {difference}"));
            assert_eq!(
                replayed.run.state().chain,
                state.chain,
                "RUN-2.1: the same inputs led to other entries"
            );
        }
    }
}

fn at(now: u64) -> i64 {
    i64::try_from(now).expect("the clock is far from its end")
}

impl Product {
    fn keep(&mut self, commit: Commit) -> Vec<Command> {
        let mut commands = Vec::new();
        for (encoded, entry) in commit.entries.iter().zip(&commit.events) {
            assert_eq!(self.n_ends, 0, "RUN-10.3: an entry behind the end");
            let decoded = Entry::decode(encoded.bytes.clone()).expect("an entry decodes");
            assert_eq!(decoded, *entry);
            self.folded.fold(&encoded.bytes, entry);
            self.journal.push(encoded.bytes.clone());
            commands.extend(self.note(entry));
        }
        for effect in commit.persisted() {
            commands.push(self.command(&effect));
        }
        commands
    }

    /// What an entry says that the state does not.
    fn note(&mut self, entry: &Entry) -> Option<Command> {
        match entry.event.as_ref().expect("an entry says something") {
            Event::InputRequested(request) => {
                self.requests.push(request.id.clone());
                Some(Command::Ask(view::kind_of(request), view::unit_of(request)))
            }
            Event::TimeoutError(error) => {
                self.limit = Some(match error.limit() {
                    CoreLimit::Lifetime => Limit::Lifetime,
                    CoreLimit::Run => Limit::Run,
                    CoreLimit::Watchdog => Limit::Watchdog,
                    CoreLimit::Revision => Limit::Revision,
                    CoreLimit::Pause => Limit::Pause,
                });
                None
            }
            Event::RunCompleted(_) | Event::RunFailed(_) | Event::RunCancelled(_) => {
                self.n_ends += 1;
                None
            }
            _ => None,
        }
    }

    fn command(&mut self, effect: &Effect) -> Command {
        match effect {
            Effect::Actions { .. } => Command::LearnActions,
            Effect::Catalogue { generation, .. } => Command::ListActions(*generation),
            Effect::Submit { execution_id, .. } => {
                if let Some((generation, attempt)) = self.asked_planner(*execution_id) {
                    return Command::AskPlanner(generation, attempt);
                }
                let (unit, attempt) = self.unit_with(|name| name.execution_id() == *execution_id);
                Command::Dispatch(unit, attempt)
            }
            Effect::Evaluate { evaluation, .. } => {
                let evaluations = &self.run.state().evaluations;
                let found = evaluations
                    .iter()
                    .find(|pending| pending.evaluation == *evaluation);
                Command::Evaluate(found.map_or(usize::MAX, |pending| pending.step as usize))
            }
            Effect::StartChild { run_id, .. } => {
                let (unit, attempt) = self.unit_with(|name| name.child_run_id() == *run_id);
                self.children.insert(*run_id, (unit, attempt));
                Command::StartChild(unit, attempt)
            }
            Effect::CancelChild { run_id } => {
                let (unit, attempt) = self.children[run_id];
                Command::CancelChild(unit, attempt)
            }
        }
    }

    fn unit_with(&self, is_it: impl Fn(&AttemptName<'_>) -> bool) -> (UnitId, u32) {
        for (step, state) in self.run.state().steps.iter().enumerate() {
            for (index, unit) in state.units.iter().enumerate() {
                for (index, number) in [(index, unit.attempts), (SAFETY_INDEX + index, unit.checks)] {
                    let id = AttemptId {
                        unit: (step, index),
                        epoch: state.epoch,
                        number,
                    };
                    if is_it(&self.name(id, &self.key(step))) {
                        return (id.unit, id.number);
                    }
                }
            }
        }
        panic!("RUN-4.3: an id follows from no unit of the run")
    }

    /// The generation and the attempt of the planner with this execution.
    fn asked_planner(&self, execution_id: ExecutionId) -> Option<(u32, u32)> {
        let planning = self.run.state().planning.as_ref()?;
        let asked = (planning.generation, planning.attempts);
        let name = planner_name(asked.0, asked.1);
        (name.execution_id() == execution_id).then_some(asked)
    }

    /// The key of a step of the current revision.
    fn key(&self, step: usize) -> String {
        self.run.plan().steps[step].key.clone()
    }

    fn is_decision(&self, step: usize) -> bool {
        matches!(self.run.plan().steps[step].kind, StepKind::LlmDecision(_))
    }

    fn name<'a>(&self, id: AttemptId, step: &'a str) -> AttemptName<'a> {
        AttemptName {
            run_id: make::run_id(),
            seed: None,
            step,
            index: u32::try_from(id.unit.1).expect("a small index"),
            epoch: id.epoch,
            attempt: id.number,
        }
    }

    /// None for an evaluation that was never asked.
    fn translated(&self, input: &Input) -> Option<CoreInput> {
        let reason = || String::from("user");
        let id_of = |attempt: AttemptId| self.key(attempt.unit.0);
        Some(match input {
            Input::Admit => CoreInput::Admit,
            Input::Tick => CoreInput::Time,
            Input::Settled(id, outcome) => CoreInput::Settled {
                execution_id: self.name(*id, &id_of(*id)).execution_id(),
                outcome: match id.unit.1 >= SAFETY_INDEX {
                    true => verdict_of(outcome),
                    false => outcome_of(outcome, self.is_decision(id.unit.0)),
                },
            },
            Input::Listed(generation) => CoreInput::Catalogue {
                generation: *generation,
                catalogue: make::catalogue(),
                own: Vec::new(),
            },
            Input::Planned(generation, attempt, outcome) => CoreInput::Settled {
                execution_id: planner_name(*generation, *attempt).execution_id(),
                outcome: make::planned(outcome, outcome_of(outcome, false)),
            },
            Input::ChildEnded(id, output) => CoreInput::ChildEnded {
                run_id: self.name(*id, &id_of(*id)).child_run_id(),
                result: output
                    .as_ref()
                    .map(values::encoded)
                    .ok_or_else(|| String::from("it failed")),
                used: None,
                doubts: None,
            },
            Input::Evaluated { step, value, .. } => {
                let mut pending = self.run.state().evaluations.iter();
                let pending = pending.find(|pending| pending.step as usize == *step)?;
                let result = value.ok_or_else(|| String::from("no value"));
                CoreInput::Evaluated {
                    evaluation: pending.evaluation,
                    result,
                }
            }
            Input::Answered(number, answer, responder) => self.answer(*number, answer, *responder),
            Input::Pause => CoreInput::Pause { reason: reason() },
            Input::Resume => CoreInput::Resume { reason: reason() },
            Input::Cancel => CoreInput::Cancel { reason: reason() },
            Input::Rewind { step, scope, repeats } => CoreInput::Rewind {
                step_key: self.key(*step),
                scope: match scope {
                    Scope::Later => RewindScope::Later,
                    Scope::Dependents => RewindScope::Dependents,
                },
                allow_repeat_effects: *repeats,
            },
            Input::Rollback { restores, repeats } => CoreInput::Rollback {
                to: match restores {
                    true => Rollback::Restore(None),
                    false => Rollback::Reset,
                },
                allow_repeat_effects: *repeats,
            },
            Input::Override(step, word) => CoreInput::Override {
                step_key: self.key(*step),
                word: word_of(word),
                reason: reason(),
            },
            Input::Checkpoint(n_bytes) => CoreInput::Checkpoint {
                data: values::object_of(*n_bytes),
            },
            Input::Recovered => CoreInput::Recovered,
            Input::Restarted => CoreInput::Restarted,
            Input::Known => CoreInput::ActionsKnown {
                profiles: self.known.clone(),
            },
            Input::StoodStill(ms) => CoreInput::Stalled { ms: *ms },
        })
    }

    fn answer(&self, number: usize, answer: &Answer, by: Responder) -> CoreInput {
        let id = &self.requests[number];
        let request = self
            .run
            .state()
            .requests
            .iter()
            .find(|request| request.id == *id)
            .expect("it was made");
        let mut subject_digest = request.subject_digest.clone();
        let (decision, value) = match answer {
            Answer::Value(value) => (Decision::Answer, values::encoded(value)),
            Answer::Invalid => (Decision::Answer, values::encoded(&Value::List(Vec::new()))),
            Answer::Approve => (Decision::Approve, Bytes::new()),
            Answer::ApproveAnother => {
                subject_digest = Bytes::from_static(&[9; 32]);
                (Decision::Approve, Bytes::new())
            }
            Answer::ApproveEdited => (
                Decision::ApproveWithEdits,
                values::object_of(8).as_encoded().clone(),
            ),
            // A retry that is refused is given up.
            Answer::Deny if request.kind() == escapement_run::journal::RequestKind::RetryExtension => {
                (Decision::Fail, Bytes::new())
            }
            Answer::Deny => (Decision::Deny, Bytes::new()),
            Answer::Revise => (Decision::Revise, Bytes::new()),
            Answer::Extend => (Decision::Extend, Bytes::new()),
            Answer::Happened(value) => (Decision::Happened, values::encoded(value)),
            Answer::DidNot => (Decision::DidNot, Bytes::new()),
            Answer::Fail => (Decision::Fail, Bytes::new()),
        };
        let kind = if by.is_agent {
            ResponderKind::Agent
        } else {
            ResponderKind::Person
        };
        CoreInput::Answer(CoreAnswer {
            request_id: escapement_run::ids::InputRequestId::from_bytes(id[..].try_into().expect("16 bytes"))
                .expect("an id"),
            subject_digest,
            responder: CoreResponder {
                id: make::responder(by),
                kind: kind.into(),
                verified: false,
                users: Vec::new(),
            },
            decision,
            value,
            comment: String::new(),
        })
    }
}

fn planner_name(generation: u32, attempt: u32) -> AttemptName<'static> {
    AttemptName {
        run_id: make::run_id(),
        seed: None,
        step: AttemptName::PLANNER,
        index: generation,
        epoch: 0,
        attempt,
    }
}

fn word_of(word: &Word) -> OverrideWord {
    match word {
        Word::Complete(output) => OverrideWord::Complete(values::encoded(output)),
        Word::Fail => OverrideWord::Fail {
            code: "OPERATOR".to_owned(),
            message: "no".to_owned(),
        },
        Word::Skip => OverrideWord::Skip,
    }
}

/// What a safety action says: yes for true alone.
fn verdict_of(outcome: &Outcome) -> AttemptOutcome {
    let said = outcome_of(outcome, false);
    match outcome {
        Outcome::Completed(value) => AttemptOutcome {
            output: Some(values::verdict(value)),
            ..said
        },
        _ => said,
    }
}

fn outcome_of(outcome: &Outcome, is_answer: bool) -> AttemptOutcome {
    let (class, code) = match outcome {
        Outcome::Completed(output) => {
            let output = if is_answer {
                values::answer_of_model(output)
            } else {
                values::encoded_output(output)
            };
            return AttemptOutcome {
                class: OutcomeClass::Completed,
                output: Some(output.0),
                code: String::new(),
                message: String::new(),
                pause: output.1,
                ..AttemptOutcome::default()
            };
        }
        Outcome::NeverRan(code) => (OutcomeClass::NeverRan, *code),
        Outcome::Failed(code) => (OutcomeClass::Failed, *code),
        Outcome::ForGood(code) => (OutcomeClass::FailedForGood, *code),
        Outcome::ApprovalRequired => (OutcomeClass::ApprovalRequired, "APPROVAL_REQUIRED"),
        Outcome::TimedOut => (OutcomeClass::TimedOut, "TOOL_TIMEOUT"),
        Outcome::Unknown { of_restart: true, .. } => (OutcomeClass::Unknown, "UNKNOWN_ERROR"),
        Outcome::Unknown { code, .. } => (OutcomeClass::Unknown, *code),
    };
    AttemptOutcome {
        class,
        output: None,
        code: code.to_owned(),
        message: "no".to_owned(),
        pause: false,
        ..AttemptOutcome::default()
    }
}

/// A request's state, for those who read it.
fn is_open(request: &InputRequest) -> bool {
    request.state() == RequestState::Open
}

/// What is asked of people, by kind: only a unit that has run has something that went wrong.
fn kind_with(core: escapement_run::journal::RequestKind, has_unit: bool, has_error: bool) -> RequestKind {
    use escapement_run::journal::RequestKind as Core;
    match core {
        Core::Question => RequestKind::Question,
        Core::Approval if !has_unit => RequestKind::PlanApproval,
        Core::Approval if has_error => RequestKind::HandlerApproval,
        Core::Approval => RequestKind::Gate,
        Core::RetryExtension | Core::BudgetExtension => RequestKind::Extension,
        Core::AmbiguousEffect => RequestKind::Effect,
    }
}
