//! The spans of a run that has ended, made of its journal entry by entry. Reads no clock: every time is the journal's.

use crate::drawing::{self, Drawing};
use crate::run_ids as ids;
use crate::span::{Attribute, Kind, Span, number, text};
use escapement_codec::trace::{SpanId, Trace};
use escapement_model::{ExecutionId, RunId};
use escapement_otlp::Encoded;
use escapement_run::ids::{AttemptName, IdSeed};
use escapement_run::journal::{
    Entry, Event, Failure, InputRequest, PlanCreated, RunCreated, SkipReason, ToolCalled, ToolOutput, UnitRef,
};
use escapement_run::plan::{Plan, StepKind};
use std::collections::BTreeMap;

/// What is made of the entries so far.
///
/// Spans hold ids, keys of steps, actions, error codes, words of the contract and times. They never hold inputs, environments,
/// outputs, questions, answers, or texts of errors, of people or of operators.
pub(crate) struct RunSpans<'a> {
    run_id: RunId,
    seed: Option<IdSeed>,
    drawing: Drawing<'a>,
    /// The revision at hand; `None` if it cannot be read.
    plan: Option<Plan>,
    revision: u32,
    /// Spans that are open, by what they stand for.
    open: BTreeMap<Part, usize>,
    n_spans: u32,
}

/// What a span stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Queued,
    Generation(u32),
    Step(u32),
    /// Step, unit, epoch, attempt.
    Attempt(u32, u32, u32, u32),
    /// Step, unit, epoch.
    Child(u32, u32, u32),
    Request([u8; 16]),
}

impl<'a> RunSpans<'a> {
    /// Begins with the first entry, which makes the run.
    pub(crate) fn begin(run_id: RunId, trace: &'a Trace, at: i64, created: &RunCreated) -> Self {
        let attributes = vec![
            text("escapement.run.id", run_id.to_string()),
            text("escapement.namespace", namespace_of(created)),
        ];
        let run = drawing::span(ids::run(run_id), "run", Kind::Server, at, attributes);
        let mut spans = Self {
            run_id,
            seed: created.spec.seed(),
            drawing: Drawing::begin(trace, run),
            plan: None,
            revision: 0,
            open: BTreeMap::new(),
            n_spans: 0,
        };
        spans.begin_span(Part::Queued, None, at, "queued", ids::queued(run_id), Vec::new());
        spans
    }

    /// Takes the plan of the revision that the entry makes; `None` if it cannot be read.
    pub(crate) fn revise(&mut self, plan: Option<Plan>) {
        if let (Some(plan), None) = (&plan, &self.plan) {
            let name = text("escapement.plan.name", plan.name.clone());
            self.run().attributes.push(name);
        }
        self.plan = plan;
    }

    /// Takes the next entry.
    pub(crate) fn take(&mut self, entry: &Entry) {
        let at = entry.at;
        let Some(event) = &entry.event else { return };
        match event {
            Event::PlanCreated(revision) => self.revision(at, revision),
            Event::RunStarted(_) => self.end_span(Part::Queued, at, Vec::new(), None),
            Event::StepStarted(_)
            | Event::StepCompleted(_)
            | Event::StepFailed(_)
            | Event::StepMemoized(_)
            | Event::StepSkipped(_)
            | Event::StepBlocked(_)
            | Event::StepReset(_) => self.of_step(at, event),
            Event::GenerationStarted(_)
            | Event::GenerationEnded(_)
            | Event::ToolCalled(_)
            | Event::ToolOutput(_)
            | Event::StepRetrying(_)
            | Event::ChildRunStarted(_)
            | Event::ChildRunEnded(_) => self.of_unit(at, event),
            Event::InputRequested(_)
            | Event::InputReceived(_)
            | Event::InputExpired(_)
            | Event::InputClosed(_) => self.of_request(at, event),
            Event::RunPaused(_)
            | Event::RunResumed(_)
            | Event::RunRecovered(_)
            | Event::RunStalled(_)
            | Event::RunRolledBack(_)
            | Event::ReplanTriggered(_)
            | Event::FallbackUsed(_) => self.run().events.push(event.name(), at, Vec::new()),
            Event::RunCompleted(_) => self.run_ended("completed", None),
            Event::RunFailed(failed) if failed.timed_out => self.run_ended("timeout", Some(&failed.error)),
            Event::RunFailed(failed) => self.run_ended("failed", Some(&failed.error)),
            Event::RunCancelled(_) => self.run_ended("cancelled", None),
            // They are parts of what has a span, or change nothing that a trace tells.
            Event::RunCreated(_)
            | Event::EvaluationRequested(_)
            | Event::Evaluated(_)
            | Event::UnitFailed(_)
            | Event::UnitMemoized(_)
            | Event::DecisionRecorded(_)
            | Event::PauseRequested(_)
            | Event::CheckpointCreated(_)
            | Event::TimeoutError(_)
            | Event::RevisionFailing(_)
            | Event::CatalogueGiven(_)
            | Event::PlanSummary(_)
            | Event::ArtifactCreated(_)
            | Event::RunVerifying(_)
            | Event::ArtifactVerified(_)
            | Event::ToolsAsked(_)
            | Event::SessionRead(_)
            | Event::StatePatched(_)
            | Event::SkillHealthChanged(_)
            | Event::ActionsKnown(_)
            | Event::BudgetWarning(_)
            | Event::BudgetAwaited(_) => {}
        }
    }

    fn of_step(&mut self, at: i64, event: &Event) {
        match event {
            Event::StepStarted(started) => self.step(at, started.step),
            Event::StepCompleted(step) => self.end_span(Part::Step(step.step), at, Vec::new(), None),
            Event::StepFailed(step) => {
                self.end_span(Part::Step(step.step), at, Vec::new(), Some(&step.error));
            }
            Event::StepMemoized(step) => self.step_without_work(at, step.step, "memoized"),
            Event::StepSkipped(step) => self.step_without_work(at, step.step, skip_word(step.reason())),
            Event::StepBlocked(step) => self.step_without_work(at, step.step, "blocked"),
            Event::StepReset(step) => self.end_span(Part::Step(step.step), at, reason("reset"), None),
            // No other one comes here.
            _ => {}
        }
    }

    fn of_unit(&mut self, at: i64, event: &Event) {
        match event {
            Event::GenerationStarted(started) => {
                let attributes = vec![number("escapement.generation", started.generation)];
                let part = Part::Generation(started.generation);
                self.begin_other(part, None, at, "generation", attributes);
            }
            Event::GenerationEnded(ended) => {
                let verdict = vec![text("escapement.generation.verdict", ended.verdict().as_str())];
                let part = Part::Generation(ended.generation);
                self.end_span(part, at, verdict, ended.error.as_ref());
            }
            Event::ToolCalled(called) => self.attempt(at, called),
            Event::ToolOutput(output) => self.attempt_ended(at, output),
            Event::StepRetrying(retrying) => {
                let attributes = vec![
                    number("escapement.retry", retrying.retry),
                    number("escapement.delay_ms", retrying.due_at.saturating_sub(at)),
                ];
                self.event(part_of(retrying.unit), at, "retry_scheduled", attributes);
            }
            Event::ChildRunStarted(child) => {
                let Some(child_id) = run_id_of(&child.run_id) else {
                    return;
                };
                let attributes = vec![text("escapement.child_run.id", child_id.to_string())];
                let (part, parent) = (child_part(child.unit), part_of(child.unit));
                let span_id = ids::child(child_id);
                self.begin_span(part, Some(parent), at, "child_run", span_id, attributes);
            }
            Event::ChildRunEnded(child) => {
                self.end_span(child_part(child.unit), at, Vec::new(), child.error.as_ref());
            }
            // No other one comes here.
            _ => {}
        }
    }

    fn of_request(&mut self, at: i64, event: &Event) {
        match event {
            Event::InputRequested(request) => self.request(at, request),
            Event::InputReceived(answer) => {
                self.request_ended(at, &answer.id, "answered", answer.decision().as_str());
            }
            Event::InputExpired(request) => self.request_ended(at, &request.id, "expired", ""),
            Event::InputClosed(request) => self.request_ended(at, &request.id, "closed", ""),
            // No other one comes here.
            _ => {}
        }
    }

    /// Returns the spans, that of the run first, each behind its parent.
    pub(crate) fn finish(self, ended_at: i64) -> Vec<Encoded> {
        let missing = ids::missing(self.run_id);
        self.drawing.finish(ended_at, missing)
    }

    fn revision(&mut self, at: i64, revision: &PlanCreated) {
        let steps = self.open.keys().filter(|part| matches!(part, Part::Step(_)));
        for step in steps.copied().collect::<Vec<_>>() {
            self.end_span(step, at, reason("revised"), None);
        }
        self.revision = revision.number;
        let attributes = vec![
            number("escapement.revision", revision.number),
            text("escapement.revision.cause", revision.cause.clone()),
        ];
        self.run().events.push("revision", at, attributes);
    }

    fn step(&mut self, at: i64, index: u32) {
        let step = self.plan.as_ref().and_then(|plan| plan.steps.get(index as usize));
        let mut attributes = vec![number("escapement.revision", self.revision)];
        if let Some(step) = step {
            attributes.push(text("escapement.step.key", step.key.to_string()));
            attributes.push(text("escapement.step.type", type_word(&step.kind)));
        }
        self.begin_other(Part::Step(index), None, at, "step", attributes);
    }

    /// A step that ends, whether or not it began.
    fn step_without_work(&mut self, at: i64, index: u32, why: &'static str) {
        if !self.open.contains_key(&Part::Step(index)) {
            self.step(at, index);
        }
        self.end_span(Part::Step(index), at, reason(why), None);
    }

    fn attempt(&mut self, at: i64, called: &ToolCalled) {
        let mut attributes = vec![
            text("escapement.step.action", called.action.clone()),
            number("escapement.attempt", called.attempt),
        ];
        let execution_id = self.execution_id(called.unit, called.attempt);
        if let Some(execution_id) = execution_id {
            attributes.push(text("escapement.execution.id", execution_id.to_string()));
        }
        let parent = Some(part_of(called.unit));
        let part = attempt_part(called.unit, called.attempt);
        match execution_id {
            Some(id) => self.begin_span(part, parent, at, "attempt", ids::attempt(id), attributes),
            None => self.begin_other(part, parent, at, "attempt", attributes),
        }
    }

    // RUN-4.3
    /// Returns the execution that carries the attempt out; `None` if the plan cannot be read.
    fn execution_id(&self, unit: UnitRef, attempt: u32) -> Option<ExecutionId> {
        let step = match unit.is_generation() {
            true => AttemptName::PLANNER,
            false => &self.plan.as_ref()?.steps.get(unit.step as usize)?.key,
        };
        let name = AttemptName {
            run_id: self.run_id,
            seed: self.seed,
            step,
            index: unit.index,
            epoch: unit.epoch,
            attempt,
        };
        Some(name.execution_id())
    }

    fn attempt_ended(&mut self, at: i64, output: &ToolOutput) {
        let outcome = vec![text("escapement.outcome", output.class().as_str())];
        let part = attempt_part(output.unit, output.attempt);
        self.end_span(part, at, outcome, output.error.as_ref());
    }

    fn request(&mut self, at: i64, request: &InputRequest) {
        let Ok(id) = <[u8; 16]>::try_from(&request.id[..]) else {
            return;
        };
        let kind = request.kind().as_str();
        let attributes = vec![text("escapement.input.kind", kind)];
        let parent = request.unit.map(part_of);
        self.begin_other(Part::Request(id), parent, at, "input", attributes);
    }

    fn request_ended(&mut self, at: i64, id: &[u8], end: &'static str, decision: &'static str) {
        let Ok(id) = <[u8; 16]>::try_from(id) else { return };
        let mut attributes = vec![text("escapement.input.state", end)];
        if !decision.is_empty() {
            attributes.push(text("escapement.input.decision", decision));
        }
        self.end_span(Part::Request(id), at, attributes, None);
    }

    fn run_ended(&mut self, state: &'static str, error: Option<&Failure>) {
        let root = self.run();
        root.attributes.push(text("escapement.run.state", state));
        root.attributes.extend(error.map(error_type));
        root.is_error = error.is_some();
    }

    /// Returns the span of the run.
    fn run(&mut self) -> &mut Span<'static> {
        self.drawing.at_mut(0)
    }

    fn begin_other(
        &mut self,
        part: Part,
        parent: Option<Part>,
        at: i64,
        name: &'static str,
        attributes: Vec<Attribute<'static>>,
    ) {
        let span_id = ids::nth(self.run_id, self.n_spans);
        self.begin_span(part, parent, at, name, span_id, attributes);
    }

    /// Below the span of the parent if that is open, else below that of the run.
    fn begin_span(
        &mut self,
        part: Part,
        parent: Option<Part>,
        at: i64,
        name: &'static str,
        span_id: SpanId,
        attributes: Vec<Attribute<'static>>,
    ) {
        self.n_spans += 1;
        let parent = parent.and_then(|parent| self.open.get(&parent)).copied();
        let kind = match part {
            Part::Attempt(..) | Part::Child(..) => Kind::Client,
            _ => Kind::Internal,
        };
        let span = drawing::span(span_id, name, kind, at, attributes);
        if let Some(place) = self.drawing.push(parent.unwrap_or(0), span) {
            self.open.insert(part, place);
        }
    }

    fn end_span(
        &mut self,
        part: Part,
        at: i64,
        attributes: Vec<Attribute<'static>>,
        error: Option<&Failure>,
    ) {
        let Some(place) = self.open.remove(&part) else {
            return;
        };
        let span = self.drawing.at_mut(place);
        drawing::end(span, at);
        span.attributes.extend(attributes);
        span.attributes.extend(error.map(error_type));
        span.is_error = error.is_some() && matches!(part, Part::Step(_));
    }

    fn event(&mut self, part: Part, at: i64, name: &'static str, attributes: Vec<Attribute<'static>>) {
        let place = self.open.get(&part).copied().unwrap_or(0);
        self.drawing.at_mut(place).events.push(name, at, attributes);
    }
}

fn part_of(unit: UnitRef) -> Part {
    match unit.is_generation() {
        true => Part::Generation(unit.index),
        false => Part::Step(unit.step),
    }
}

fn attempt_part(unit: UnitRef, attempt: u32) -> Part {
    Part::Attempt(unit.step, unit.index, unit.epoch, attempt)
}

fn child_part(unit: UnitRef) -> Part {
    Part::Child(unit.step, unit.index, unit.epoch)
}

fn run_id_of(bytes: &[u8]) -> Option<RunId> {
    RunId::from_bytes(bytes.try_into().ok()?)
}

fn namespace_of(created: &RunCreated) -> String {
    escapement_run::spec::namespace_named(&created.spec.namespace).to_string()
}

fn error_type(error: &Failure) -> Attribute<'static> {
    text("error.type", error.code.clone())
}

fn reason(word: &'static str) -> Vec<Attribute<'static>> {
    vec![text("escapement.step.reason", word)]
}

fn skip_word(reason: SkipReason) -> &'static str {
    match reason {
        SkipReason::Branch => "branch",
        SkipReason::DependencyFailed => "dependency_failed",
        SkipReason::RunEnded => "run_ended",
        SkipReason::Override => "override",
    }
}

/// As plans spell it.
fn type_word(kind: &StepKind) -> &'static str {
    match kind {
        StepKind::ToolCall(_) => "tool_call",
        StepKind::LlmDecision(_) => "llm_decision",
        StepKind::UserInput(_) => "user_input",
        StepKind::Condition(_) => "condition",
        StepKind::Parallel(_) => "parallel",
        StepKind::Loop(_) => "loop",
        StepKind::SubPlan(_) => "sub_plan",
    }
}

#[cfg(test)]
mod tests;
