//! What people are asked and what they said, as messages.

use super::plan::Document;
use super::run::error_view;
use super::words::{digest_text, small, uuid_text};
use bytes::Bytes;
use escapement_model::hex;
use escapement_model::opaque::StructBuilder;
use escapement_model::{Opaque, OpaqueValue};
use escapement_run::ids::{AttemptName, RunId};
use escapement_run::journal::{
    AnswerType, Decision, Extension, InputRequest, RequestAnswer, RequestKind, RequestState, ResponderKind,
    Stored,
};
use escapement_run::outcome::value_of_object;
use escapement_run::plan::{Plan, Step, StepKind, UserInput};
use escapement_run::spec::namespace_named;
use escapement_run::state::RunState;
use escapement_run::{Blobs, Run};
use escapement_wire::runs::v1;

/// A request of a run. What it would send and what was said to it are shown up to `bytes_max` bytes each.
///
/// `plan`: that of its revision. `closed_at` is not known to the run.
pub(crate) fn request_view(
    request: &InputRequest,
    run: &Run,
    plan: &Plan,
    blobs: &dyn Blobs,
    bytes_max: u64,
) -> v1::InputRequest {
    let state = run.state();
    let step = request.unit.and_then(|unit| plan.steps.get(unit.step as usize));
    let shown = |stored: &Stored| (stored.length <= bytes_max).then(|| stored.load(blobs));
    let policy = &state.spec.policy;
    let decides = request.kind() == RequestKind::Approval;
    let default_answer = step.and_then(|step| match &step.kind {
        StepKind::UserInput(UserInput { default_answer, .. }) => default_answer.clone(),
        _ => None,
    });
    v1::InputRequest {
        input_request_id: uuid_text(&request.id),
        run_id: uuid_text(&state.run_id),
        namespace: namespace_named(&state.spec.namespace).to_string(),
        step_key: step.map_or_else(String::new, |step| step.key.clone()),
        kind: request.kind().as_str().to_owned(),
        question: request.question.clone(),
        input_type: input_type(request).into(),
        options: request.options.clone(),
        subject_digest: hex::text(&request.subject_digest),
        // RUN-6.12
        subject: subject(request, state, &shown),
        revision_digest: digest_text(asked_revision(request, state)),
        action: request.action.clone(),
        execution_id: doubtful(request, state, step),
        attempt: small(request.attempt),
        // Only the contract knows it.
        worker_id: String::new(),
        created_at: request.opened_at,
        expires_at: request.expires_at,
        default_answer: default_answer
            .filter(|_| request.kind() == RequestKind::Question)
            .map(OpaqueValue::from_encoded),
        approvers: if decides {
            policy.approvers.clone()
        } else {
            Vec::new()
        },
        quorum: if decides { small(policy.quorum) } else { 1 },
        state: request_state(request.state()).into(),
        decisions: decisions(request, blobs, bytes_max),
        error: request.error.as_ref().map(|error| error_view(error, plan)),
        unit_index: request.unit.map(|unit| small(unit.index)),
        user_id: state.spec.user_id.clone(),
        closed_at: None,
        // RUN-12.14
        earlier_execution_id: match request.earlier_execution.is_empty() {
            true => String::new(),
            false => uuid_text(&request.earlier_execution),
        },
        // RUN-6.7
        data: request
            .data
            .as_ref()
            .and_then(shown)
            .map(OpaqueValue::from_encoded),
    }
}

/// Returns the subject of a request. That of a plan is its document, which the run keeps once.
fn subject(
    request: &InputRequest,
    state: &RunState,
    shown: &dyn Fn(&Stored) -> Option<Bytes>,
) -> Option<Opaque> {
    if request.state() != RequestState::Open {
        return None;
    }
    if let Some(extension) = &request.extension {
        return Some(amounts(request.account(), extension));
    }
    let of_plan = !asked_revision(request, state).is_empty();
    let stored = match of_plan {
        true => Some(&state.document),
        false => request.subject.as_ref(),
    };
    stored.and_then(shown).map(Opaque::from_encoded)
}

/// Returns the revision that the approval of a plan concerns; empty for every other request. Earlier versions
/// have not kept it. While such a request is open it is the current revision.
fn asked_revision<'a>(request: &'a InputRequest, state: &'a RunState) -> &'a [u8] {
    let of_plan = request.kind() == RequestKind::Approval && request.unit.is_none();
    match (of_plan, request.revision.is_empty(), request.state()) {
        (true, false, _) => &request.revision,
        (true, true, RequestState::Open) => &state.revision,
        _ => &[],
    }
}

fn amounts(account: &str, extension: &Extension) -> Opaque {
    let amount = |object: StructBuilder, name: &str, amount: u64| match amount <= EXACT_MAX {
        true => object.number(name, amount as f64),
        false => object.text(name, &amount.to_string()),
    };
    let object = StructBuilder::new().text("account", account);
    let object = amount(object, "used", extension.used);
    let object = amount(object, "limit", extension.limit);
    amount(object, "extended_limit", extension.extended).build()
}

/// Returns the execution with the uncertain effect: the one named in the request, or that of the unit's own
/// attempt.
fn doubtful(request: &InputRequest, state: &RunState, step: Option<&Step>) -> String {
    if !request.earlier_execution.is_empty() {
        return uuid_text(&request.earlier_execution);
    }
    let run_id = <[u8; 16]>::try_from(&state.run_id[..])
        .ok()
        .and_then(RunId::from_bytes);
    match (request.attempt, request.unit, step, run_id) {
        (1.., Some(unit), Some(step), Some(run_id)) => {
            let name = AttemptName {
                run_id,
                seed: state.spec.seed(),
                step: &step.key,
                index: unit.index,
                epoch: unit.epoch,
                attempt: request.attempt,
            };
            name.execution_id().to_string()
        }
        _ => String::new(),
    }
}

fn input_type(request: &InputRequest) -> v1::input_request::InputType {
    use v1::input_request::InputType;
    match (request.kind(), request.answer_type()) {
        (RequestKind::Question, AnswerType::Text) => InputType::Text,
        (RequestKind::Question, AnswerType::Choice) => InputType::Choice,
        (RequestKind::Question, AnswerType::Confirm) => InputType::Confirm,
        (RequestKind::Question, AnswerType::Form) => InputType::Form,
        _ => InputType::NoInput,
    }
}

/// Where a request is, as callers see it.
pub(crate) fn request_state(state: RequestState) -> v1::input_request::State {
    use v1::input_request::State;
    match state {
        RequestState::Open => State::Open,
        RequestState::Answered => State::Answered,
        RequestState::Expired => State::Expired,
        RequestState::Closed => State::Closed,
    }
}

/// What was said: of a quorum first those that were not enough, by their names.
fn decisions(request: &InputRequest, blobs: &dyn Blobs, bytes_max: u64) -> Vec<v1::Decision> {
    let approved = request.approved_by.iter().map(|id| v1::Decision {
        decision: Decision::Approve.as_str().to_owned(),
        responder: Some(v1::Responder {
            id: id.clone(),
            ..v1::Responder::default()
        }),
        subject_digest: hex::text(&request.subject_digest),
        ..v1::Decision::default()
    });
    let last = request
        .answer
        .as_ref()
        .map(|answer| decision_view(answer, blobs, bytes_max));
    approved.chain(last).collect()
}

/// One answer.
pub(super) fn decision_view(answer: &RequestAnswer, blobs: &dyn Blobs, bytes_max: u64) -> v1::Decision {
    let value = answer.value.as_ref().filter(|value| value.length <= bytes_max);
    let value = value.map(|value| value.load(blobs));
    v1::Decision {
        decision: answer.decision().as_str().to_owned(),
        responder: Some(v1::Responder {
            id: answer.responder.id.clone(),
            kind: match answer.responder.kind() {
                ResponderKind::Person => v1::responder::Kind::Person,
                ResponderKind::Service => v1::responder::Kind::Service,
                ResponderKind::Agent => v1::responder::Kind::Agent,
            }
            .into(),
            verified: answer.responder.verified,
        }),
        value: value.map(|bytes| {
            OpaqueValue::from_encoded(match answer.decision() {
                // An edited payload is an object.
                Decision::ApproveWithEdits => value_of_object(&Opaque::from_encoded(bytes)),
                _ => bytes,
            })
        }),
        comment: answer.comment.clone(),
        subject_digest: hex::text(&answer.subject_digest),
    }
}

/// The largest whole number up to which a double holds every one.
const EXACT_MAX: u64 = 1 << 53;
