//! Messages as they come from anybody: decoded, encoded again, counted, and read a second time by the official types.
//! Asks nothing about what they mean.

use crate::seeds;
use crate::tree;
use bytes::Bytes;
use escapement_codec::simulation as convert;
use escapement_contract::{replay, validate_request};
use escapement_model::{ExecutionId, Opaque};
use escapement_simulator::simulate;
use escapement_wire::counted::{Counted, has_more_entries};
use escapement_wire::externalscaler::ScaledObjectRef;
use escapement_wire::v1;
use escapement_wire::worker::v1 as worker;
use prost::Message;
use std::sync::Arc;

/// The first byte says which message the rest is.
pub(crate) fn run(input: &[u8]) {
    let Some((kind, message)) = input.split_first() else {
        return;
    };
    match kind % KINDS {
        0 => again::<v1::ExecutePlanRequest>(message),
        1 => again::<v1::SubmitPlanRequest>(message),
        2 => again::<v1::ValidatePlanRequest>(message),
        3 => again::<v1::ListExecutionsRequest>(message),
        4 => again::<v1::WaitExecutionRequest>(message),
        5 => again::<v1::WatchExecutionRequest>(message),
        6 => again::<v1::ListAuditEntriesRequest>(message),
        7 => again::<v1::SubscribeEventsRequest>(message),
        8 => again::<v1::DrainWorkerRequest>(message),
        9 => again::<v1::PlanResult>(message),
        10 => again::<v1::ListAuditEntriesResponse>(message),
        11 | 12 => counted(message, weight_of_request),
        13 => counted(message, weight_of_response),
        14 => counted(message, |request: &worker::ReportOutcomesRequest| {
            request.items.iter().map(weight_of_outcome).sum::<usize>() + request.items.len()
        }),
        15 => counted(message, |response: &worker::ReportOutcomesResponse| {
            response.items.len()
        }),
        18 => again::<v1::ReadEventsRequest>(message),
        17 => {
            again::<v1::SimulatePlanRequest>(message);
            simulated(message);
        }
        19 => counted(message, |scaled: &ScaledObjectRef| scaled.scaler_metadata.len()),
        _ => object(message),
    }
}

const KINDS: u8 = 20;

/// What decodes can be encoded, and the encoded message says the same.
fn again<T: Message + Default>(message: &[u8]) {
    let Ok(decoded) = T::decode(message) else {
        return;
    };
    let encoded = decoded.encode_to_vec();
    assert_eq!(encoded.len(), decoded.encoded_len(), "the length is told before");
    let repeated = T::decode(encoded.as_slice()).expect("what was encoded decodes");
    // Bytes, because NaN is not equal to itself.
    assert!(
        repeated.encode_to_vec() == encoded,
        "a message says the same again"
    );
    // In pieces, as from a connection.
    let (front, back) = message.split_at(message.len() / 2);
    let pieces = bytes::Buf::chain(front, back);
    let pieced = T::decode(pieces).expect("a message in pieces is the same message");
    assert!(pieced.encode_to_vec() == encoded, "pieces change nothing");
}

/// What is wrong with stubs is said; whatever is right with a request is simulated, and replays.
fn simulated(message: &[u8]) {
    let Ok(request) = v1::SimulatePlanRequest::decode(message) else {
        return;
    };
    let (stubs, findings) = convert::stubs(request.stubs, request.plan.as_ref());
    for finding in &findings {
        assert!(finding.field.starts_with("stubs"), "{finding:?} says where");
        assert!(!finding.message.is_empty(), "{finding:?} says what");
    }
    let draft = convert::request_draft(
        request.plan,
        request.environment,
        request.options,
        request.deadline_ms,
    );
    let Ok(valid) = validate_request(draft, 256) else {
        return;
    };
    let valid = Arc::new(valid);
    let execution_id = ExecutionId::from_random([1; 16]);
    let started_at = request.started_at.unwrap_or(1);
    let deadline = valid.deadline_ms().unwrap_or(i64::MAX);
    let simulation = simulate(
        Arc::clone(&valid),
        execution_id,
        started_at,
        deadline,
        &stubs,
        SIMULATION_INPUTS_MAX,
    );
    let Ok(simulation) = simulation else {
        return;
    };
    let inputs = &simulation.settlement.inputs;
    let replayed = replay(Arc::clone(&valid), execution_id, started_at, deadline, inputs);
    let replayed = replayed.expect("the core takes what it took before");
    assert_eq!(replayed.settlement(), Some(&simulation.settlement));
    let answer = convert::answer(valid.plan(), &simulation);
    assert_eq!(answer.audit.len(), simulation.settlement.audit.len());
}

/// More than any request that is not an endless loop needs.
const SIMULATION_INPUTS_MAX: usize = 2_000;

/// As [`again`]; and the count that comes before decoding is never below what decoding makes.
fn counted<T: Message + Default + Counted + std::fmt::Debug>(message: &[u8], weigh: impl Fn(&T) -> usize) {
    again::<T>(message);
    let n_counted = count::<T>(message);
    // Each entry takes at least its key and its length.
    assert!(
        2 * n_counted <= message.len(),
        "{n_counted} entries in {} bytes",
        message.len()
    );
    let mut partly = T::default();
    let whole = partly.merge(message).is_ok();
    // A message that is malformed at its end was decoded up to there.
    let n_made = weigh(&partly);
    assert!(
        n_made <= n_counted,
        "{n_made} entries were made and {n_counted} counted, whole: {whole}, {partly:?}"
    );
    if whole {
        let encoded = partly.encode_to_vec();
        assert_eq!(count::<T>(&encoded), n_made, "a plain message is counted exactly");
    }
}

/// Returns the least limit that lets the message through.
fn count<T: Counted>(message: &[u8]) -> usize {
    let (mut low, mut high) = (0, message.len());
    while low < high {
        let middle = low + (high - low) / 2;
        if has_more_entries(message, T::LISTS, middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    assert!(
        !has_more_entries(message, T::LISTS, low),
        "more entries than bytes"
    );
    low
}

fn weight_of_request(request: &worker::SessionRequest) -> usize {
    use worker::session_request::Message;
    match &request.message {
        Some(Message::Hello(hello)) => {
            weight_of_actions(&hello.actions) + hello.in_flight.len() + hello.labels.len()
        }
        Some(Message::RegisterActions(message)) => weight_of_actions(&message.actions),
        Some(Message::Capacity(message)) => message.per_action.len(),
        Some(Message::AttemptAcks(message)) => {
            message.started.len() + message.rejected.len() + message.stopped.len()
        }
        Some(Message::Outcomes(message)) => {
            message.items.len() + message.items.iter().map(weight_of_outcome).sum::<usize>()
        }
        Some(Message::Snapshot(message)) => message.in_flight.len(),
        Some(Message::Heartbeat(_) | Message::Drain(_) | Message::Goodbye(_)) | None => 0,
    }
}

fn weight_of_actions(actions: &[worker::ActionSpec]) -> usize {
    let traits = actions.iter().filter_map(|action| action.traits.as_ref());
    let lists = traits.map(|traits| traits.produces.len() + traits.alternatives.len());
    actions.len() + lists.sum::<usize>()
}

fn weight_of_outcome(item: &worker::AttemptOutcome) -> usize {
    use worker::attempt_outcome::Outcome;
    match &item.outcome {
        Some(Outcome::Success(success)) => success.warnings.len(),
        Some(Outcome::Failure(_) | Outcome::Released(_)) | None => 0,
    }
}

fn weight_of_response(response: &worker::SessionResponse) -> usize {
    use worker::session_response::Message;
    match &response.message {
        Some(Message::Welcome(welcome)) => {
            welcome.refused_actions.len() + welcome.verdicts.len() + welcome.peers.len()
        }
        Some(Message::HeartbeatAck(ack)) => ack.peers.len(),
        Some(Message::Assignments(message)) => {
            let headers = message.items.iter().map(|item| item.headers.len());
            message.items.len() + headers.sum::<usize>()
        }
        Some(Message::OutcomeAcks(message)) => message.items.len(),
        Some(Message::Cancels(message)) => message.items.len(),
        Some(
            Message::SnapshotRequest(_)
            | Message::DrainStarted(_)
            | Message::Reconnect(_)
            | Message::SessionError(_),
        )
        | None => 0,
    }
}

/// A free-form object: what passes our check means to the official decoder what it means to us.
fn object(bytes: &[u8]) {
    let opaque = Opaque::from_encoded(Bytes::copy_from_slice(bytes));
    let official = prost_types::Struct::decode(bytes);
    let carried = Opaque::decode(bytes);
    let checked = opaque.check();
    // Views end where something is wrong, and never run past the end.
    let n_entries = opaque.entries().count();
    assert!(
        2 * n_entries <= bytes.len() + 2,
        "{n_entries} entries in {} bytes",
        bytes.len()
    );
    let json = escapement_wire::json::from_opaque(&opaque);
    assert_eq!(
        json.is_ok(),
        checked.is_ok(),
        "JSON is made of what passes the check"
    );
    if checked.is_err() {
        return;
    }
    let carried = carried.expect("what passes the check can be carried in a message");
    tree::assert_same(
        &carried,
        &prost_types::Struct::decode(carried.as_encoded().clone()),
    );
    tree::assert_same(&opaque, &official);
    if opaque.check_context().is_ok() {
        assert!(escapement_model::opaque::check(bytes, usize::MAX).is_ok());
    }
    let json = json.expect("as was asserted");
    let rebuilt = escapement_wire::json::to_opaque(&json);
    let again = escapement_wire::json::from_opaque(&rebuilt).expect("what we build passes our check");
    assert_eq!(again, json, "JSON comes back as it went");
    for key in json.keys() {
        assert!(opaque.has_key(key), "{key:?} is there");
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut add = |kind: u8, message: Vec<u8>| all.push([vec![kind], message].concat());
    for request in seeds::requests() {
        add(1, request.encode_to_vec());
        let plan = v1::ValidatePlanRequest {
            options: None,
            plan: request.plan,
            environment: request.environment,
            ..Default::default()
        };
        add(2, plan.encode_to_vec());
    }
    add(17, seeds::simulation().encode_to_vec());
    add(3, seeds::list_request().encode_to_vec());
    for message in seeds::worker_messages() {
        add(11, message.encode_to_vec());
    }
    for message in seeds::orchestrator_messages() {
        add(13, message.encode_to_vec());
    }
    add(14, seeds::reported_outcomes().encode_to_vec());
    for object in seeds::objects() {
        add(16, object.as_encoded().to_vec());
    }
    let (result, audit) = seeds::settled();
    add(9, result);
    add(10, audit);
    all
}
