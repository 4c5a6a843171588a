//! A run with everything around it that a story needs: a clock, a disk of blobs, workers that answer when told.

use std::sync::Arc;

use bytes::Bytes;
use escapement_model::ExecutionId;
use escapement_model::chain::{chain_begin, chain_next};
use escapement_model::opaque::ValueView;
use escapement_run::ids::{InputRequestId, RunId};
use escapement_run::journal::{Decision, Entry, Event, InputRequest, OutcomeClass, Responder, ResponderKind};
use escapement_run::outcome::AttemptOutcome;
use escapement_run::plan::{self, StepKind};
use escapement_run::presets::Preset;
use escapement_run::spec::{ActionProfile, EffectClass, Risk, Spec};
use escapement_run::state::{RunState, StepStage};
use escapement_run::{
    Answer, Blobs, Commit, EditedPlan, Effect, Input, Keep, Refused, RefusedReason, Rollback, Run, Takes,
};
use prost::Message;
use serde_json::{Value, json};

use crate::disk::Disk;
pub(crate) use crate::words::{and, call, call_after, encoded, json_of, json_of_value, opaque, tool};
use crate::words::{message_field, text_field};

pub(crate) const RUN_ID: [u8; 16] = [7, 1, 1, 1, 1, 1, 0x41, 1, 0x81, 1, 1, 1, 1, 1, 1, 1];
pub(crate) const START: i64 = 1_763_700_000_000;

/// A run and its surroundings.
pub(crate) struct World {
    pub(crate) run: Run,
    run_id: RunId,
    pub(crate) now: i64,
    pub(crate) disk: Disk,
    /// Everything in the journal.
    pub(crate) journal: Vec<Entry>,
    pub(crate) bytes: Vec<Bytes>,
    /// Every effect that left, in order.
    pub(crate) effects: Vec<Effect>,
    /// Entries that the last input led to.
    pub(crate) last: usize,
}

/// However a story ends: its journal, with what it refers to, is all that deciding it again takes.
impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let replayed = escapement_runs_insight::replay(&self.bytes, &self.disk);
        let replayed = replayed.unwrap_or_else(|difference| panic!("RUN-2.1: {difference}"));
        assert_eq!(
            replayed.run.state(),
            self.run.state(),
            "RUN-2.1: a replay ends elsewhere"
        );
    }
}

/// A spec by a preset, without gates.
pub(crate) fn spec(preset: Preset) -> Spec {
    Spec {
        input: opaque(&json!({"city": "Bern", "n": 3})),
        limits: preset.limits(4),
        policy: preset.policy(),
        autonomy_level: 4,
        user_id: "ada".to_owned(),
        priority: 5,
        llm_action: "llm.chat".to_owned(),
        llm_model: "small".to_owned(),
        preset: preset.as_str().to_owned(),
        ..Spec::default()
    }
}

impl World {
    /// A run of the steps with the standard preset, admitted.
    pub(crate) fn of(steps: Value) -> Self {
        Self::with(steps, spec(Preset::Standard))
    }

    /// A run of the steps, admitted.
    pub(crate) fn with(steps: Value, spec: Spec) -> Self {
        Self::document(
            json!({"schema": "escapement.plan/1", "name": "Story", "steps": steps}),
            spec,
        )
    }

    /// A run of the document, admitted.
    pub(crate) fn document(document: Value, spec: Spec) -> Self {
        let mut world = Self::queued(document, spec);
        world.input(Input::Admit);
        world
    }

    /// A run of the document in the queue.
    pub(crate) fn queued(document: Value, spec: Spec) -> Self {
        Self::knowing(document, spec, &[])
    }

    /// A run of the document in the queue, with more known of some actions.
    pub(crate) fn knowing(document: Value, spec: Spec, known: &[ActionProfile]) -> Self {
        let plan = plan::read(&opaque(&document)).unwrap_or_else(|why| panic!("{why}"));
        let mut profiles = profiles(&plan);
        profiles.retain(|profile| known.iter().all(|known| known.action != profile.action));
        profiles.extend_from_slice(known);
        profiles.sort_by(|one, other| one.action.cmp(&other.action));
        let disk = Disk::default();
        let run_id = RunId::from_bytes(RUN_ID).unwrap();
        let (run, commit) = Run::create(run_id, spec, Arc::new(plan), profiles, START, &disk);
        let mut world = Self {
            run,
            run_id,
            now: START,
            disk,
            journal: Vec::new(),
            bytes: Vec::new(),
            effects: Vec::new(),
            last: 0,
        };
        world.keep(commit);
        world
    }

    fn keep(&mut self, commit: Commit) {
        self.last = commit.events.len();
        commit.events.iter().for_each(crate::entries::check);
        self.journal.extend(commit.events.clone());
        self.bytes
            .extend(commit.entries.iter().map(|entry| entry.bytes.clone()));
        let said: Vec<[u8; 32]> = commit.events.iter().flat_map(Entry::contents).collect();
        for (digest, blob) in &commit.blobs {
            assert!(said.contains(digest), "every content is one that an entry names");
            self.disk.keep(*digest, blob.clone());
        }
        self.effects.extend(commit.persisted());
        self.check();
    }

    /// What holds after every input.
    fn check(&self) {
        let state = self.run.state();
        let ends = self.journal.iter().filter(|entry| is_end(entry)).count();
        assert_eq!(
            ends,
            usize::from(state.stage().is_end()),
            "RUN-10.3: one end, if any"
        );
        if ends > 0 {
            assert!(is_end(self.journal.last().unwrap()), "RUN-10.3: the end is last");
        }
        assert_eq!(self.run.due_at().is_none(), state.stage().is_end(), "RUN-2.5");
        assert_eq!(self.folded(), *state, "RUN-9.2");
        assert_eq!(self.run.size(), state.size(), "RUN-9.13");
        crate::explained::check(&self.run);
    }

    /// Returns the state that the journal gives.
    pub(crate) fn folded(&self) -> RunState {
        folded(&self.run_id, &self.bytes)
    }

    /// A fork of the run, in a world of its own with the same disk.
    pub(crate) fn fork(&self, run_id: RunId, spec: Spec, keep: Keep<'_>) -> Result<World, Refused> {
        self.fork_edited(run_id, spec, keep, None)
    }

    /// A fork of the run with another plan.
    pub(crate) fn fork_edited(
        &self,
        run_id: RunId,
        spec: Spec,
        keep: Keep<'_>,
        edited: Option<EditedPlan>,
    ) -> Result<World, Refused> {
        let takes = Takes {
            keep,
            edited,
            allow_repeat_effects: false,
            doubts_of_children: Vec::new(),
        };
        self.fork_taking(run_id, spec, takes)
    }

    /// A fork of the run.
    pub(crate) fn fork_taking(&self, run_id: RunId, spec: Spec, takes: Takes<'_>) -> Result<World, Refused> {
        let disk = self.disk.clone();
        let (run, commit) = Run::fork(&self.run, run_id, spec, takes, self.now, &disk)?;
        let mut world = World {
            run,
            run_id,
            now: self.now,
            disk,
            journal: Vec::new(),
            bytes: Vec::new(),
            effects: Vec::new(),
            last: 0,
        };
        world.keep(commit);
        Ok(world)
    }

    /// The first unit with an attempt in flight.
    pub(crate) fn first_live(&self) -> Option<(String, usize)> {
        let steps = self.run.plan().steps.iter().zip(&self.run.state().steps);
        let mut live = steps.flat_map(|(spec, state)| {
            let live = state.all_units().filter(|(_, unit)| unit.live.is_some());
            live.map(|(index, _)| (spec.key.clone(), index as usize))
        });
        live.next()
    }

    /// Hands an input in that is not refused.
    pub(crate) fn input(&mut self, input: Input) -> &mut Self {
        self.try_input(input).unwrap();
        self
    }

    pub(crate) fn try_input(&mut self, input: Input) -> Result<(), Refused> {
        let before = self.run.state().clone();
        match self.run.handle(input, self.now, &self.disk) {
            Ok(commit) => {
                self.keep(commit);
                Ok(())
            }
            Err(refused) => {
                assert_eq!(
                    *self.run.state(),
                    before,
                    "RUN-2.1: what is refused changes nothing"
                );
                Err(refused)
            }
        }
    }

    pub(crate) fn refusal(&mut self, input: Input) -> RefusedReason {
        self.try_input(input).unwrap_err().reason
    }

    /// Time passes; what is due on the way fires at its time.
    pub(crate) fn pass(&mut self, ms: i64) -> &mut Self {
        let until = self.now + ms;
        while let Some(due) = self.run.due_at()
            && due <= until
        {
            self.now = due.max(self.now);
            self.input(Input::Time);
        }
        self.now = until;
        self
    }

    /// Execution of the attempt of the first unit of the step that lives.
    pub(crate) fn live(&self, step: &str) -> ExecutionId {
        self.live_unit(step, None)
            .unwrap_or_else(|| panic!("{step} has no attempt in flight"))
    }

    pub(crate) fn live_unit(&self, step: &str, index: Option<usize>) -> Option<ExecutionId> {
        let at = self.at(step);
        let units = self.run.state().steps[at].all_units();
        let is_wanted = |n: u32| index.is_none_or(|index| index == n as usize);
        let mut live = units.filter(|(n, unit)| unit.live.is_some() && is_wanted(*n));
        let (_, unit) = live.next()?;
        let bytes = unit.live.as_ref().unwrap();
        let request = self.request_of(&bytes.request);
        Some(text_field(&request, 3).parse().unwrap())
    }

    pub(crate) fn request_of(&self, stored: &escapement_run::journal::Stored) -> Bytes {
        match stored.digest.len() {
            0 => stored.inline.clone(),
            _ => self.disk.blob(stored.digest[..].try_into().unwrap()),
        }
    }

    pub(crate) fn at(&self, step: &str) -> usize {
        let mut steps = self.run.plan().steps.iter();
        steps
            .position(|spec| spec.key == step)
            .unwrap_or_else(|| panic!("no step {step}"))
    }

    /// The step's attempt completes.
    pub(crate) fn complete(&mut self, step: &str, output: Value) -> &mut Self {
        let execution_id = self.live(step);
        self.settle(execution_id, completed(output))
    }

    /// The attempt of one unit completes.
    pub(crate) fn complete_unit(&mut self, step: &str, index: usize, output: Value) -> &mut Self {
        let execution_id = self
            .live_unit(step, Some(index))
            .unwrap_or_else(|| panic!("{step}[{index}] is not live"));
        self.settle(execution_id, completed(output))
    }

    /// The step's attempt ends badly.
    pub(crate) fn fail(&mut self, step: &str, class: OutcomeClass) -> &mut Self {
        let execution_id = self.live(step);
        self.settle(execution_id, failed(class))
    }

    pub(crate) fn fail_unit(&mut self, step: &str, index: usize, class: OutcomeClass) -> &mut Self {
        let execution_id = self
            .live_unit(step, Some(index))
            .unwrap_or_else(|| panic!("{step}[{index}] is not live"));
        self.settle(execution_id, failed(class))
    }

    pub(crate) fn settle(&mut self, execution_id: ExecutionId, outcome: AttemptOutcome) -> &mut Self {
        self.input(Input::Settled {
            execution_id,
            outcome,
        })
    }

    /// The payload of the step's attempt as JSON.
    pub(crate) fn payload(&self, step: &str) -> Value {
        let at = self.at(step);
        let units = self.run.state().steps[at].all_units();
        let live = units.filter_map(|(_, unit)| unit.live.as_ref()).last().unwrap();
        let plan = message_field(&self.request_of(&live.request), 1);
        let step = message_field(&plan, 4);
        json_of(ValueView::Struct(&message_field(&step, 3)))
    }

    pub(crate) fn environment(&self, step: &str) -> Value {
        let at = self.at(step);
        let units = self.run.state().steps[at].all_units();
        let live = units.filter_map(|(_, unit)| unit.live.as_ref()).last().unwrap();
        json_of(ValueView::Struct(&message_field(
            &self.request_of(&live.request),
            2,
        )))
    }

    /// What an expression is about.
    pub(crate) fn bindings(&self, evaluation: u32) -> Value {
        let bindings = self.run.bindings(evaluation, &self.disk).unwrap().unwrap();
        json_of(ValueView::Struct(bindings.as_encoded()))
    }

    /// The state in one word, then each step's.
    pub(crate) fn shows(&self) -> String {
        let steps = self.run.plan().steps.iter().zip(&self.run.state().steps);
        let steps: Vec<String> = steps
            .map(|(spec, state)| {
                let word = match state.stage() {
                    StepStage::Pending => "pending".to_owned(),
                    StepStage::Running => "running".to_owned(),
                    StepStage::Completed => "completed".to_owned(),
                    StepStage::Failed => format!("failed {}", state.error.as_ref().unwrap().code),
                    StepStage::Skipped => format!("skipped {:?}", state.skip_reason()).to_lowercase(),
                    StepStage::Blocked => "blocked".to_owned(),
                };
                format!("{} {word}", spec.key)
            })
            .collect();
        format!("{}: {}", self.run.shown().as_str(), steps.join(", "))
    }

    /// Names of the last input's entries.
    pub(crate) fn last_events(&self) -> Vec<String> {
        let from = self.journal.len() - self.last;
        self.journal[from..]
            .iter()
            .map(|entry| event_name(entry.event.as_ref().unwrap()))
            .collect()
    }

    /// The only open request.
    pub(crate) fn asked(&self) -> InputRequest {
        let open: Vec<_> = self.run.state().open_requests().cloned().collect();
        assert_eq!(open.len(), 1, "{open:?}");
        open.into_iter().next().unwrap()
    }

    pub(crate) fn answer(&mut self, decision: Decision, value: Value) -> &mut Self {
        let answer = self.answer_of(&self.asked(), "bob", decision, value);
        self.input(Input::Answer(answer))
    }

    pub(crate) fn answer_of(
        &self,
        request: &InputRequest,
        who: &str,
        decision: Decision,
        value: Value,
    ) -> Answer {
        let value = match (&value, decision) {
            (Value::Null, Decision::Answer) => encoded(&value),
            (Value::Null, _) => Bytes::new(),
            (_, Decision::ApproveWithEdits) => opaque(&value).as_encoded().clone(),
            _ => encoded(&value),
        };
        Answer {
            request_id: InputRequestId::from_bytes(request.id[..].try_into().unwrap()).unwrap(),
            subject_digest: request.subject_digest.clone(),
            responder: Responder {
                id: who.to_owned(),
                kind: ResponderKind::Person.into(),
                verified: false,
                users: Vec::new(),
            },
            decision,
            value,
            comment: String::new(),
        }
    }

    /// The output of the run as JSON.
    pub(crate) fn output(&self) -> Value {
        let end = self.run.state().end.as_ref().expect("the run has ended");
        let stored = end.output.as_ref().expect("it has an output");
        json_of_value(&self.request_of(stored))
    }

    pub(crate) fn error(&self) -> (String, String) {
        let end = self.run.state().end.as_ref().expect("the run has ended");
        let error = end.error.as_ref().expect("it has an error");
        (error.code.clone(), error.message.clone())
    }

    pub(crate) fn submitted(&self) -> usize {
        let submits = self
            .effects
            .iter()
            .filter(|effect| matches!(effect, Effect::Submit { .. }));
        submits.count()
    }
}

fn is_end(entry: &Entry) -> bool {
    entry.event.as_ref().unwrap().is_end()
}

/// Returns the state of a run after the entries of its journal.
pub(crate) fn folded(run_id: &RunId, journal: &[Bytes]) -> RunState {
    let mut state = RunState {
        chain: Bytes::copy_from_slice(&chain_begin(run_id)),
        ..RunState::default()
    };
    for bytes in journal {
        let entry = Entry::decode(bytes.clone()).unwrap();
        let before = state.chain_hash();
        state.apply(&entry);
        state.chain = Bytes::copy_from_slice(&chain_next(&before, entry.sequence, bytes));
    }
    state
}

pub(crate) fn event_name(event: &Event) -> String {
    let debug = format!("{event:?}");
    debug.split('(').next().unwrap().to_owned()
}

pub(crate) fn completed(output: Value) -> AttemptOutcome {
    let pause = output.get("$pause") == Some(&Value::Bool(true));
    AttemptOutcome {
        class: OutcomeClass::Completed,
        output: Some(encoded(&output)),
        code: String::new(),
        message: String::new(),
        pause,
        ..AttemptOutcome::default()
    }
}

pub(crate) fn failed(class: OutcomeClass) -> AttemptOutcome {
    let code = match class {
        OutcomeClass::TimedOut => "TOOL_TIMEOUT",
        OutcomeClass::Unknown => "WORKER_LOST",
        OutcomeClass::ApprovalRequired => "APPROVAL_REQUIRED",
        _ => "BROKEN",
    };
    AttemptOutcome {
        class,
        output: None,
        code: code.to_owned(),
        message: "it broke".to_owned(),
        pause: false,
        ..AttemptOutcome::default()
    }
}

/// Actions `pure.…` compute, `world.…` read, `danger.…` destroy, everything else has a side effect.
/// `safe.…`, `pure.…`, `world.…` and `llm.…` are safe.
fn profiles(plan: &plan::Plan) -> Vec<ActionProfile> {
    let mut names: Vec<String> = vec!["llm.chat".to_owned()];
    for step in &plan.steps {
        match &step.kind {
            StepKind::ToolCall(call) => names.push(call.tool_name.clone()),
            StepKind::Parallel(parallel) => {
                names.extend(parallel.items.iter().map(|item| item.tool_name.clone()))
            }
            StepKind::Loop(spec) => names.push(spec.call.tool_name.clone()),
            StepKind::LlmDecision(decision) => names.extend(decision.tools.clone()),
            _ => {}
        }
    }
    names.sort();
    names.dedup();
    names
        .into_iter()
        .map(|action| {
            let (effect, risk) = match action.split('.').next().unwrap() {
                "pure" => (EffectClass::Pure, Risk::Safe),
                "world" => (EffectClass::World, Risk::Safe),
                "llm" => (EffectClass::Llm, Risk::Safe),
                "danger" => (EffectClass::External, Risk::Destructive),
                "safe" => (EffectClass::SideEffect, Risk::Safe),
                _ => (EffectClass::SideEffect, Risk::Unusual),
            };
            ActionProfile {
                idempotent: action.ends_with(".idempotent"),
                description: format!("Does what {action} does."),
                input_schema: match action.as_str() {
                    "pure.sum" => SUM_SCHEMA.to_owned(),
                    _ => String::new(),
                },
                action,
                effect: effect.into(),
                risk: risk.into(),
                seen: true,
                ..ActionProfile::default()
            }
        })
        .collect()
}

/// What `pure.sum` takes.
const SUM_SCHEMA: &str = r#"{"type": "object", "additionalProperties": false, "required": ["of"],
    "properties": {"of": {"type": "array", "items": {"type": "integer"}, "maxItems": 3}}}"#;

/// Goes back; no effect may be repeated.
pub(crate) fn rollback(to: Rollback) -> Input {
    Input::Rollback {
        to,
        allow_repeat_effects: false,
    }
}
