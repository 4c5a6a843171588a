//! Attempts, put together from the entries of a journal: what was intended, and how it ended.

use super::words::{effect_word, signed, skip_word, small, uuid_text};
use bytes::Bytes;
use escapement_model::hex;
use escapement_model::{Opaque, OpaqueValue, RunId};
use escapement_run::ids::{AttemptName, IdSeed};
use escapement_run::journal::{Entry, Event, OutcomeClass, Stored, ToolCalled, ToolOutput, UnitRef};
use escapement_run::plan::{Plan, StepKind};
use escapement_wire::runs::v1;
use escapement_wire::v1::SubmitPlanRequest;
use prost::Message;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Attempts that were intended and have not ended, while a journal is gone through.
#[derive(Debug)]
pub(crate) struct AttemptsFold {
    run_id: RunId,
    seed: Option<IdSeed>,
    live: BTreeMap<(u32, u32, u32, u32), Intended>,
}

#[derive(Clone, Debug)]
struct Intended {
    sequence: u64,
    at: i64,
    called: ToolCalled,
    /// The plan of its revision.
    plan: Arc<Plan>,
}

/// An attempt and how it ended, as far as that is known.
#[derive(Clone, Debug)]
pub(crate) struct Settled {
    intended: Intended,
    /// The entry, its time, and what it says; `None` if the attempt lives, or was left behind.
    end: Option<(u64, i64, ToolOutput)>,
    is_fenced: bool,
}

impl AttemptsFold {
    /// Nothing seen yet.
    pub(crate) fn new(run_id: RunId, seed: Option<IdSeed>) -> Self {
        Self {
            run_id,
            seed,
            live: BTreeMap::new(),
        }
    }

    /// Takes the next entry in, and gives the attempts that ended by it or were left behind. `plan`: that of its revision.
    pub(crate) fn take(&mut self, entry: &Entry, plan: &Arc<Plan>) -> Vec<Settled> {
        match entry.event.as_ref() {
            Some(Event::ToolCalled(called)) => {
                let intended = Intended {
                    sequence: entry.sequence,
                    at: entry.at,
                    called: called.clone(),
                    plan: Arc::clone(plan),
                };
                self.live.insert(key(called.unit, called.attempt), intended);
                Vec::new()
            }
            Some(Event::ToolOutput(output)) => {
                let intended = self.live.remove(&key(output.unit, output.attempt));
                let settled = intended.map(|intended| Settled {
                    intended,
                    end: Some((entry.sequence, entry.at, output.clone())),
                    is_fenced: false,
                });
                settled.into_iter().collect()
            }
            Some(Event::StepReset(reset)) => self.leave_behind(|unit| unit.step == reset.step),
            Some(Event::PlanCreated(_)) => self.leave_behind(|_| true),
            Some(event) if event.is_end() => self.leave_behind(|_| true),
            _ => Vec::new(),
        }
    }

    fn leave_behind(&mut self, is_left: impl Fn(&UnitRef) -> bool) -> Vec<Settled> {
        let left: Vec<_> = self
            .live
            .extract_if(.., |_, intended| is_left(&intended.called.unit))
            .collect();
        left.into_iter()
            .map(|(_, intended)| Settled {
                intended,
                end: None,
                is_fenced: true,
            })
            .collect()
    }

    /// The attempts that live, after the last entry.
    pub(crate) fn living(&self) -> impl Iterator<Item = Settled> {
        self.live.values().map(|intended| Settled {
            intended: intended.clone(),
            end: None,
            is_fenced: false,
        })
    }

    /// One attempt as a message.
    pub(crate) fn attempt_view(&self, attempt: &Settled) -> v1::AttemptView {
        let called = &attempt.intended.called;
        let name = self.name(&attempt.intended);
        let error = attempt
            .end
            .as_ref()
            .and_then(|(_, _, output)| output.error.clone());
        let error = error.unwrap_or_default();
        v1::AttemptView {
            number: small(called.attempt),
            unit: unit_text(&attempt.intended.plan, called.unit),
            index: small(called.unit.index),
            epoch: small(called.unit.epoch),
            execution_id: name.execution_id().to_string(),
            contract_plan_id: name.plan_id().to_string(),
            action: called.action.clone(),
            subject_digest: hex::text(&called.subject_digest),
            state: attempt.state().to_owned(),
            error_code: error.code,
            category: attempt.category().to_owned(),
            message: error.message,
            at: attempt.intended.at,
            settled_at: attempt.end.as_ref().map(|(_, at, _)| *at),
            approval_id: uuid_text(&called.approval),
        }
    }

    fn name<'a>(&self, intended: &'a Intended) -> AttemptName<'a> {
        let UnitRef { step, index, epoch } = intended.called.unit;
        AttemptName {
            run_id: self.run_id,
            seed: self.seed,
            step: key_of(&intended.plan, step),
            index,
            epoch,
            attempt: intended.called.attempt,
        }
    }
}

/// The key of a step; a generation has that of the planner.
pub(crate) fn key_of(plan: &Plan, step: u32) -> &str {
    match plan.steps.get(step as usize) {
        Some(step) => &step.key,
        None if step == u32::MAX => AttemptName::PLANNER,
        None => "",
    }
}

fn key(unit: UnitRef, attempt: u32) -> (u32, u32, u32, u32) {
    (unit.step, unit.index, unit.epoch, attempt)
}

/// The step's key, and of steps with several units the unit behind it; of a tool that a model asks for its turn and the number
/// of the call, both from 0.
pub(crate) fn unit_text(plan: &Plan, unit: UnitRef) -> String {
    if unit.is_generation() {
        return format!("{}[{}]", AttemptName::PLANNER, unit.index);
    }
    let Some(step) = plan.steps.get(unit.step as usize) else {
        return String::new();
    };
    if let Some((turn, n)) = unit.as_tool_call() {
        return format!("{}[{turn}].{n}", step.key);
    }
    match &step.kind {
        StepKind::Parallel(_) | StepKind::Loop(_) | StepKind::LlmDecision(_) => {
            format!("{}[{}]", step.key, unit.index)
        }
        _ => step.key.clone(),
    }
}

impl Settled {
    /// The key of the step.
    pub(crate) fn step_key(&self) -> &str {
        key_of(&self.intended.plan, self.intended.called.unit.step)
    }

    fn class(&self) -> Option<OutcomeClass> {
        self.end.as_ref().map(|(_, _, output)| output.class())
    }

    fn state(&self) -> &'static str {
        match self.class() {
            None if self.is_fenced => "fenced",
            None => "submitted",
            Some(OutcomeClass::Completed) => "completed",
            Some(OutcomeClass::Unknown) => "unknown",
            Some(_) => "failed",
        }
    }

    fn category(&self) -> &'static str {
        match self.class() {
            None | Some(OutcomeClass::Completed) => "",
            Some(class) => class.as_str(),
        }
    }
}

/// What is known of an attempt that ended or was left behind.
pub(crate) fn evidence(fold: &AttemptsFold, attempt: &Settled, request_id: &str) -> v1::Evidence {
    let Intended {
        sequence,
        at,
        called,
        plan,
    } = &attempt.intended;
    let end = attempt.end.as_ref();
    let output = end.and_then(|(_, _, output)| output.output.as_ref());
    let error = end.and_then(|(_, _, output)| output.error.as_ref());
    let (settled_sequence, settled_at) = end.map_or((0, *at), |(sequence, at, _)| (*sequence, *at));
    let input = payload(&called.request);
    let is_model = matches!(
        plan.steps.get(called.unit.step as usize).map(|step| &step.kind),
        Some(StepKind::LlmDecision(_))
    ) && called.unit.as_tool_call().is_none();
    v1::Evidence {
        step_id: attempt.step_key().to_owned(),
        tool_name: called.action.clone(),
        unit: unit_text(plan, called.unit),
        attempt: small(called.attempt),
        model: input
            .as_ref()
            .filter(|_| is_model)
            .map_or_else(String::new, model),
        input,
        output: output
            .filter(|output| output.digest.is_empty())
            .map(|output| OpaqueValue::from_encoded(output.inline.clone())),
        output_sha256: output.map_or_else(String::new, |output| hex::text(&output.digest)),
        request_id: request_id.to_owned(),
        duration_ms: settled_at.saturating_sub(*at),
        retry_count: small(called.attempt.saturating_sub(1)),
        status: attempt.class().map_or("fenced", OutcomeClass::as_str).to_owned(),
        artifacts: Vec::new(),
        error_stack: error.map_or_else(String::new, |error| format!("{}: {}", error.code, error.message)),
        execution_id: fold.name(&attempt.intended).execution_id().to_string(),
        subject_digest: hex::text(&called.subject_digest),
        approval_id: uuid_text(&called.approval),
        intended_sequence: signed(*sequence),
        settled_sequence: signed(settled_sequence),
        at: *at,
        epoch: small(called.unit.epoch),
        effect: effect_word(called.effect()).to_owned(),
        memo_of: String::new(),
        schema_validation: match end.and_then(|(_, _, output)| output.fits_schema) {
            Some(true) => "pass".to_owned(),
            Some(false) => "fail".to_owned(),
            None => String::new(),
        },
        replan_events: Vec::new(),
        worker_id: String::new(),
        contract_digest: String::new(),
        late_outcome: String::new(),
        usage: end
            .and_then(|(_, _, output)| output.usage.as_ref())
            .map(crate::budget::usage_view),
    }
}

fn model(payload: &Opaque) -> String {
    match escapement_model::opaque::value_of(payload.as_encoded(), "model") {
        Some(escapement_model::opaque::ValueView::Text(model)) => model.to_owned(),
        _ => String::new(),
    }
}

/// What is known of a step or a unit for which nothing was called; `None` if the entry tells of none.
///
/// `plan`: that of its revision; `origin`: the run that the run is a fork of.
pub(crate) fn uncalled(plan: &Plan, entry: &Entry, origin: &str) -> Option<v1::Evidence> {
    let of_step = |step: u32| UnitRef {
        step,
        ..UnitRef::default()
    };
    let (unit, said) = match entry.event.as_ref()? {
        Event::StepMemoized(memo) => {
            let last = memo.units.last();
            let execution = last.map_or_else(String::new, |unit| uuid_text(&unit.execution_id));
            let output = memo.output.as_ref().or_else(|| last?.output.as_ref());
            let memo_of = if execution.is_empty() { origin } else { &execution };
            (of_step(memo.step), taken_over(output, memo_of))
        }
        Event::UnitMemoized(memo) => {
            let taken = taken_over(Some(&memo.result.output), &uuid_text(&memo.result.execution_id));
            let taken = v1::Evidence {
                tool_name: memo.action.clone(),
                epoch: small(memo.unit.epoch),
                ..taken
            };
            (memo.unit, taken)
        }
        Event::StepSkipped(skipped) => {
            let reason = skip_word(skipped.reason());
            (of_step(skipped.step), without_call("skipped", reason))
        }
        Event::StepBlocked(blocked) => (of_step(blocked.step), without_call("blocked", "")),
        _ => return None,
    };
    Some(v1::Evidence {
        step_id: key_of(plan, unit.step).to_owned(),
        unit: unit_text(plan, unit),
        settled_sequence: signed(entry.sequence),
        at: entry.at,
        ..said
    })
}

fn taken_over(output: Option<&Stored>, memo_of: &str) -> v1::Evidence {
    v1::Evidence {
        output: output
            .filter(|output| output.digest.is_empty())
            .map(|output| OpaqueValue::from_encoded(output.inline.clone())),
        output_sha256: output.map_or_else(String::new, |output| hex::text(&output.digest)),
        memo_of: memo_of.to_owned(),
        ..without_call("completed", "")
    }
}

fn without_call(status: &str, why: &str) -> v1::Evidence {
    v1::Evidence {
        status: status.to_owned(),
        error_stack: why.to_owned(),
        ..v1::Evidence::default()
    }
}

/// What was sent to the handler, if the request stands in the journal itself.
pub(super) fn payload(request: &Stored) -> Option<Opaque> {
    if !request.digest.is_empty() {
        return None;
    }
    let request = SubmitPlanRequest::decode(Bytes::clone(&request.inline)).ok()?;
    request.plan?.steps.into_iter().next()?.payload
}
