//! An entry of a journal as an event: which step it is about, and what it says.

use super::attempts::{payload, unit_text};
use super::spending::{spent, usage_data};
use super::words::{count, digest_text, effect_word, signed, skip_word, uuid_text};
use bytes::Bytes;
use escapement_model::opaque::{ListBuilder, StructBuilder, value};
use escapement_model::{Opaque, RunId, hex};
use escapement_run::ids::{AttemptName, IdSeed};
use escapement_run::journal::{
    ArtifactCreated, Entry, Event, Failure, InputRequest, RequestAnswer, StepMemoized, Stored, ToolCalled,
    ToolOutput, ToolsAsked, UnitRef,
};
use escapement_run::outcome::value_of_object;
use escapement_run::plan::Plan;
use escapement_wire::runs::v1;

/// The entry as an event. `run`: what the ids of its executions follow from; `plan`: that of the entry's revision.
pub(crate) fn event(
    run: (RunId, Option<IdSeed>),
    plan: &Plan,
    entry: &Entry,
    link: &[u8; 32],
) -> v1::RunEvent {
    let Some(what) = entry.event.as_ref() else {
        return v1::RunEvent::default();
    };
    let step = step_of(what).filter(|step| *step != u32::MAX);
    v1::RunEvent {
        event_id: event_id(run.0, entry.sequence),
        run_id: run.0.to_string(),
        sequence: signed(entry.sequence),
        at: entry.at,
        event_type: what.name().to_owned(),
        alias: what.aliases().iter().map(|alias| (*alias).to_owned()).collect(),
        step_index: step.and_then(|step| i32::try_from(step).ok()),
        step_key: step.map_or_else(String::new, |step| key(plan, step)),
        tool_name: tool_name(plan, what),
        data: Some(data(run, plan, what)),
        hash: Bytes::copy_from_slice(link),
    }
}

/// The id of the event of an entry.
pub(crate) fn event_id(run_id: RunId, sequence: u64) -> String {
    format!("{run_id}/{sequence}")
}

fn key(plan: &Plan, step: u32) -> String {
    let step = plan.steps.get(step as usize);
    step.map_or_else(String::new, |step| step.key.clone())
}

/// The step that an entry is about.
fn step_of(event: &Event) -> Option<u32> {
    match event {
        Event::StepStarted(step) | Event::StepBlocked(step) | Event::StepReset(step) => Some(step.step),
        Event::EvaluationRequested(requested) => Some(requested.unit.step),
        Event::ToolCalled(called) => Some(called.unit.step),
        Event::ToolOutput(output) => Some(output.unit.step),
        Event::StepRetrying(retrying) => Some(retrying.unit.step),
        Event::UnitFailed(failed) => Some(failed.unit.step),
        Event::StepCompleted(completed) => Some(completed.step),
        Event::StepFailed(failed) => Some(failed.step),
        Event::StepSkipped(skipped) => Some(skipped.step),
        Event::StepMemoized(memo) => Some(memo.step),
        Event::ToolsAsked(asked) => Some(asked.unit.step),
        Event::StatePatched(patched) => Some(patched.step),
        Event::BudgetAwaited(awaited) => Some(awaited.unit.step),
        Event::InputRequested(request) => request.unit.map(|unit| unit.step),
        Event::DecisionRecorded(answer) | Event::InputReceived(answer) => answer.unit.map(|unit| unit.step),
        Event::InputExpired(request) | Event::InputClosed(request) => request.unit.map(|unit| unit.step),
        Event::ChildRunStarted(started) => Some(started.unit.step),
        Event::ChildRunEnded(ended) => Some(ended.unit.step),
        Event::RevisionFailing(failing) => failing.error.step,
        Event::ReplanTriggered(replan) => replan.error.step,
        Event::UnitMemoized(memo) => Some(memo.unit.step),
        Event::ArtifactCreated(artifact) => artifact.unit.map(|unit| unit.step),
        Event::RunFailed(failed) => failed.error.step,
        _ => None,
    }
}

fn tool_name(plan: &Plan, event: &Event) -> String {
    use escapement_run::plan::StepKind;
    match event {
        Event::ToolCalled(called) => called.action.clone(),
        Event::UnitMemoized(memo) => memo.action.clone(),
        Event::ArtifactCreated(artifact) => artifact.action.clone(),
        Event::ToolOutput(output) => match plan.steps.get(output.unit.step as usize).map(|step| &step.kind) {
            Some(StepKind::ToolCall(call)) => call.tool_name.clone(),
            Some(StepKind::Loop(repeated)) => repeated.call.tool_name.clone(),
            Some(StepKind::Parallel(parallel)) => {
                let item = parallel.items.get(output.unit.index as usize);
                item.map_or_else(String::new, |item| item.tool_name.clone())
            }
            _ => String::new(),
        },
        _ => String::new(),
    }
}

/// What the entry says.
fn data(run: (RunId, Option<IdSeed>), plan: &Plan, event: &Event) -> Opaque {
    let data = StructBuilder::new();
    match event {
        Event::RunStarted(_) | Event::RunPaused(_) | Event::StepStarted(_) => data,
        Event::StepBlocked(_) | Event::StepReset(_) => data,
        Event::RunCreated(created) => {
            let data = data
                .text("user_id", &created.spec.user_id)
                .text("preset", &created.spec.preset)
                .number("priority", f64::from(created.spec.priority))
                .number("autonomy_level", f64::from(created.spec.autonomy_level))
                .text("request_id", &created.spec.request_id)
                .text("parent_run_id", &uuid_text(&created.spec.parent_run_id))
                .text("forked_from", &uuid_text(&created.spec.forked_from));
            stored_object(data, "input", &created.input)
        }
        Event::PlanCreated(created) => data
            .text("revision_digest", &digest_text(&created.digest))
            .number("number", f64::from(created.number))
            .text("cause", &created.cause)
            .number("total_steps", f64::from(created.n_steps))
            .number("generation", f64::from(created.generation)),
        Event::EvaluationRequested(requested) => unit(data, plan, requested.unit)
            .number("evaluation", f64::from(requested.evaluation))
            .text("expression", &requested.expression),
        Event::Evaluated(evaluated) => {
            let data = data.number("evaluation", f64::from(evaluated.evaluation));
            match evaluated.error.is_empty() {
                true => data.boolean("value", evaluated.value),
                false => data.text("error", &evaluated.error),
            }
        }
        Event::ToolCalled(called) => tool_called(data, run, plan, called),
        Event::ToolOutput(output) => tool_output(data, plan, output),
        Event::StepRetrying(retrying) => failure(unit(data, plan, retrying.unit), &retrying.error)
            .number("retry", f64::from(retrying.retry))
            .number("max_retries", f64::from(retrying.budget))
            .number("retry_at", retrying.due_at as f64),
        Event::UnitFailed(failed) => failure(unit(data, plan, failed.unit), &failed.error),
        Event::StepCompleted(completed) => {
            let data = optional(data, "output", completed.output.as_ref());
            word(data, "reason", &completed.reason)
        }
        Event::StepFailed(failed) => failure(data, &failed.error),
        Event::StepSkipped(skipped) => data.text("reason", skip_word(skipped.reason())),
        Event::StepMemoized(memo) => memoized(data, memo),
        Event::ToolsAsked(asked) => tools_asked(data, plan, asked),
        Event::SessionRead(_) | Event::StatePatched(_) | Event::SkillHealthChanged(_) => {
            super::session::data(data, event)
        }
        Event::BudgetWarning(warning) => data
            .text("kind", warning.kind().as_str())
            .number("used", warning.used as f64)
            .number("limit", warning.limit as f64),
        Event::BudgetAwaited(awaited) => unit(data, plan, awaited.unit).text("kind", awaited.kind().as_str()),
        Event::UnitMemoized(_)
        | Event::ArtifactCreated(_)
        | Event::RunVerifying(_)
        | Event::ArtifactVerified(_) => of_results(data, plan, event),
        Event::InputRequested(_)
        | Event::DecisionRecorded(_)
        | Event::InputReceived(_)
        | Event::InputExpired(_)
        | Event::InputClosed(_) => of_people(data, plan, event),
        _ => of_run(data, plan, event),
    }
    .build()
}

/// What happened to the run as a whole.
fn of_run(data: StructBuilder, plan: &Plan, event: &Event) -> StructBuilder {
    match event {
        Event::PauseRequested(reason) | Event::RunResumed(reason) | Event::RunCancelled(reason) => {
            word(data, "reason", &reason.reason)
        }
        Event::GenerationStarted(_)
        | Event::CatalogueGiven(_)
        | Event::GenerationEnded(_)
        | Event::ReplanTriggered(_)
        | Event::PlanSummary(_)
        | Event::FallbackUsed(_) => super::planning::data(data, event),
        Event::RunRecovered(_) | Event::RunStalled(_) => super::restarts::data(data, event),
        Event::ActionsKnown(known) => {
            let names = known.profiles.iter().map(|profile| profile.action.as_str());
            data.list("actions", names.fold(ListBuilder::new(), ListBuilder::text))
        }
        Event::CheckpointCreated(created) => stored_object(
            data.number("number", f64::from(created.number)),
            "data",
            &created.data,
        ),
        Event::RunRolledBack(back) => {
            let data = data.text("mode", &back.mode);
            let data = match back.checkpoint {
                0 => data,
                checkpoint => data.number("checkpoint", f64::from(checkpoint)),
            };
            match &back.data {
                Some(of_checkpoint) => stored_object(data, "data", of_checkpoint),
                None => data,
            }
        }
        Event::ChildRunStarted(started) => {
            let data = unit(data, plan, started.unit).text("child_run_id", &uuid_text(&started.run_id));
            spent(
                stored_object(data, "input", &started.input),
                "reserved",
                started.reserved,
            )
        }
        Event::ChildRunEnded(ended) => {
            let data = optional(unit(data, plan, ended.unit), "output", ended.output.as_ref());
            let data = spent(data, "usage", ended.usage);
            ended
                .error
                .as_ref()
                .map_or(data.clone(), |error| failure(data, error))
        }
        Event::RevisionFailing(failing) => failure(data, &failing.error).boolean("drains", failing.drains),
        Event::TimeoutError(timeout) => data
            .text("limit", timeout.limit().as_str())
            .number("limit_ms", timeout.limit_ms as f64),
        Event::RunCompleted(completed) => {
            let outcome = if completed.partial { "partial" } else { "success" };
            optional(data.text("outcome", outcome), "output", completed.output.as_ref())
        }
        Event::RunFailed(failed) => failure(data, &failed.error).boolean("timed_out", failed.timed_out),
        _ => data,
    }
}

fn of_people(data: StructBuilder, plan: &Plan, event: &Event) -> StructBuilder {
    match event {
        Event::InputRequested(request) => requested(data, plan, request),
        Event::DecisionRecorded(answer) | Event::InputReceived(answer) => answered(data, answer),
        Event::InputExpired(request) | Event::InputClosed(request) => {
            data.text("input_request_id", &uuid_text(&request.id))
        }
        _ => data,
    }
}

fn tool_called(
    data: StructBuilder,
    (run_id, seed): (RunId, Option<IdSeed>),
    plan: &Plan,
    called: &ToolCalled,
) -> StructBuilder {
    let step = match called.unit.is_generation() {
        true => AttemptName::PLANNER.to_owned(),
        false => key(plan, called.unit.step),
    };
    let name = AttemptName {
        run_id,
        seed,
        step: &step,
        index: called.unit.index,
        epoch: called.unit.epoch,
        attempt: called.attempt,
    };
    let data = unit(data, plan, called.unit)
        .number("attempt", f64::from(called.attempt))
        .text("execution_id", &name.execution_id().to_string())
        .text("effect", effect_word(called.effect()))
        .number("attempt_ms", called.attempt_ms as f64)
        .text("subject_digest", &hex::text(&called.subject_digest));
    let data = word(data, "approval_id", &uuid_text(&called.approval));
    match payload(&called.request) {
        Some(payload) => data.object("payload", payload.as_encoded()),
        None => data,
    }
}

fn tool_output(data: StructBuilder, plan: &Plan, output: &ToolOutput) -> StructBuilder {
    let data = unit(data, plan, output.unit)
        .number("attempt", f64::from(output.attempt))
        .text("class", output.class().as_str());
    let data = optional(data, "output", output.output.as_ref());
    let data = match output.fits_schema {
        Some(fits) => data.boolean("fits_schema", fits),
        None => data,
    };
    let data = match &output.usage {
        Some(usage) => data.object("usage", usage_data(usage).as_encoded()),
        None => data,
    };
    match &output.error {
        Some(error) => failure(data, error),
        None => data,
    }
}

fn memoized(data: StructBuilder, memo: &StepMemoized) -> StructBuilder {
    let data = optional(data, "output", memo.output.as_ref());
    data.number("units", count(memo.units.len()).into())
        .number("as_of", memo.as_of as f64)
}

/// The calls that a turn of a model asks for; the code of the refusal with those that are not made.
fn tools_asked(data: StructBuilder, plan: &Plan, asked: &ToolsAsked) -> StructBuilder {
    let calls = asked.calls.iter().fold(ListBuilder::new(), |list, call| {
        let shown = StructBuilder::new().text("tool_name", &call.action);
        let shown = match &call.refusal {
            Some(refusal) => failure(shown, refusal),
            None => shown,
        };
        list.object(shown.build().as_encoded())
    });
    unit(data, plan, asked.unit)
        .list("calls", calls)
        .number("left_out", f64::from(asked.n_left_out))
}

/// What is taken over, and what is made and verified.
fn of_results(data: StructBuilder, plan: &Plan, event: &Event) -> StructBuilder {
    match event {
        Event::UnitMemoized(memo) => {
            let data = unit(data, plan, memo.unit)
                .text("action", &memo.action)
                .text("memo_of", &uuid_text(&memo.result.execution_id));
            optional(data, "output", Some(&memo.result.output))
        }
        Event::ArtifactCreated(artifact) => artifact_created(data, plan, artifact),
        Event::RunVerifying(verifying) => {
            let wanted = verifying.wanted.iter();
            let wanted = wanted.fold(ListBuilder::new(), |list, one| list.text(one));
            data.list("wanted", wanted)
        }
        Event::ArtifactVerified(verified) => {
            let data = data
                .number("number", f64::from(verified.number))
                .boolean("is_right", verified.problem.is_empty())
                .number("size_bytes", verified.size_bytes as f64);
            let data = word(data, "sha256", &hex::text(&verified.sha256));
            word(data, "problem", &verified.problem)
        }
        _ => data,
    }
}

fn artifact_created(data: StructBuilder, plan: &Plan, artifact: &ArtifactCreated) -> StructBuilder {
    let data = match artifact.unit {
        Some(of) => unit(data, plan, of),
        None => data,
    };
    let data = data
        .text("artifact_id", &uuid_text(&artifact.id))
        .number("number", f64::from(artifact.number))
        .text("type", &artifact.artifact_type)
        .text("mime_type", &artifact.mime_type);
    let data = word(data, "name", &artifact.name);
    let data = word(data, "path", &artifact.path);
    let data = word(data, "preview_url", &artifact.preview_url);
    let data = word(data, "sha256", &hex::text(&artifact.sha256));
    match artifact.size_bytes {
        Some(size_bytes) => data.number("size_bytes", size_bytes as f64),
        None => data,
    }
}

fn requested(data: StructBuilder, plan: &Plan, request: &InputRequest) -> StructBuilder {
    let options = request
        .options
        .iter()
        .fold(ListBuilder::new(), |list, option| list.text(option));
    let data = data
        .text("input_request_id", &uuid_text(&request.id))
        .text("kind", request.kind().as_str())
        .text("question", &request.question)
        .list("options", options)
        .text("subject_digest", &hex::text(&request.subject_digest))
        .number("expires_at", request.expires_at as f64);
    let data = match request.unit {
        Some(of) => unit(data, plan, of),
        None => data,
    };
    let data = match &request.subject {
        Some(subject) => stored_object(data, "subject", subject),
        None => data,
    };
    match &request.error {
        Some(error) => failure(data, error),
        None => data,
    }
}

fn answered(data: StructBuilder, answer: &RequestAnswer) -> StructBuilder {
    let data = data
        .text("input_request_id", &uuid_text(&answer.id))
        .text("decision", answer.decision().as_str())
        .text("responder", &answer.responder.id);
    let data = word(data, "comment", &answer.comment);
    match (&answer.value, answer.decision()) {
        (Some(value), escapement_run::journal::Decision::ApproveWithEdits) => {
            stored_object(data, "value", value)
        }
        (value, _) => optional(data, "value", value.as_ref()),
    }
}

fn unit(data: StructBuilder, plan: &Plan, unit: UnitRef) -> StructBuilder {
    data.text("unit", &unit_text(plan, unit))
        .number("index", f64::from(unit.index))
        .number("epoch", f64::from(unit.epoch))
}

pub(super) fn failure(data: StructBuilder, error: &Failure) -> StructBuilder {
    data.text("code", &error.code).text("message", &error.message)
}

pub(super) fn word(data: StructBuilder, key: &str, text: &str) -> StructBuilder {
    if text.is_empty() {
        data
    } else {
        data.text(key, text)
    }
}

pub(super) fn optional(data: StructBuilder, key: &str, stored: Option<&Stored>) -> StructBuilder {
    match stored {
        Some(stored) if stored.digest.is_empty() => match value(&stored.inline) {
            Ok(view) => data.value(key, view),
            Err(_) => data.null(key),
        },
        Some(stored) => elsewhere(data, key, stored),
        None => data,
    }
}

pub(super) fn stored_object(data: StructBuilder, key: &str, stored: &Stored) -> StructBuilder {
    if !stored.digest.is_empty() {
        return elsewhere(data, key, stored);
    }
    let object = value_of_object(&Opaque::from_encoded(stored.inline.clone()));
    match value(&object) {
        Ok(view) => data.value(key, view),
        Err(_) => data.null(key),
    }
}

fn elsewhere(data: StructBuilder, key: &str, stored: &Stored) -> StructBuilder {
    let place = StructBuilder::new()
        .text("sha256", &hex::text(&stored.digest))
        .number("size_bytes", stored.length as f64)
        .build();
    data.object(key, place.as_encoded())
}
