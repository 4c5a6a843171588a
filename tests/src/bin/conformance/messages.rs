//! The messages that the kit sends, with the values that most checks want.

use std::time::Duration;

use bytes::Bytes;
use escapement_model::Opaque;
use escapement_tests::fresh_id;
use escapement_wire::json::{from_opaque, to_opaque};
use escapement_wire::worker::v1::attempt_outcome::Outcome;
use escapement_wire::worker::v1::attempt_verdict::Verdict;
use escapement_wire::worker::v1::cancel::Reason;
use escapement_wire::worker::v1::session_response::Message as ToWorker;
use escapement_wire::worker::v1::{
    Assignment, Assignments, AttemptOutcome, AttemptVerdict, Cancel, Cancels, SessionLimits, Welcome,
};
use serde_json::Value;

use crate::frames::MESSAGE_BYTES_MAX;

/// 16 random bytes: a token, a session, a boot.
pub(crate) fn fresh_bytes() -> Bytes {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the operating system has random numbers");
    Bytes::copy_from_slice(&bytes)
}

/// Returns an answer to `Hello` with a heartbeat each [`HEARTBEAT`] and a lease that no check outlives.
pub(crate) fn welcome(boot_id: &Bytes) -> Welcome {
    Welcome {
        protocol: 1,
        session_id: fresh_bytes(),
        boot_id: boot_id.clone(),
        heartbeat_interval_ms: milliseconds(HEARTBEAT),
        lease_ms: 30_000,
        limits: Some(SessionLimits {
            message_bytes_max: MESSAGE_BYTES_MAX as i64,
            output_bytes_max: 1 << 20,
            in_flight_max: 4096,
            actions_max: 1024,
        }),
        ..Welcome::default()
    }
}

/// One answer to an entry of `Hello.in_flight`.
pub(crate) fn verdict(token: &Bytes, verdict: Verdict) -> AttemptVerdict {
    AttemptVerdict {
        attempt_token: token.clone(),
        verdict: verdict.into(),
    }
}

/// Returns an attempt with a fresh token and a limit that no check reaches.
pub(crate) fn assignment(action: &str, payload: Value) -> Assignment {
    Assignment {
        attempt_token: fresh_bytes(),
        execution_id: fresh_id(),
        plan_id: fresh_id(),
        step_id: fresh_id(),
        attempt: 1,
        action: action.to_owned(),
        payload: Some(object(&payload)),
        environment: Some(object(&serde_json::json!({ "region": "eu" }))),
        timeout_ms: 120_000,
        headers: [("traceparent".to_owned(), TRACE.to_owned())].into(),
    }
}

/// Returns an attempt that runs for so long.
pub(crate) fn delay(duration: Duration) -> Assignment {
    assignment("delay", serde_json::json!({ "ms": milliseconds(duration) }))
}

/// So many of these.
pub(crate) fn delays(n: u32, duration: Duration) -> Vec<Assignment> {
    (0..n).map(|_| delay(duration)).collect()
}

/// Returns the tokens of these attempts.
pub(crate) fn tokens(items: &[Assignment]) -> Vec<Bytes> {
    items.iter().map(|item| item.attempt_token.clone()).collect()
}

/// Returns a message that hands these attempts out.
pub(crate) fn assignments(items: impl Into<Vec<Assignment>>) -> ToWorker {
    ToWorker::Assignments(Assignments { items: items.into() })
}

/// Returns a message that cancels these attempts, with a grace of [`CANCEL_GRACE`].
pub(crate) fn cancels(tokens: impl IntoIterator<Item = Bytes>, reason: Reason) -> ToWorker {
    let items = tokens.into_iter().map(|attempt_token| Cancel {
        attempt_token,
        reason: reason.into(),
        grace_ms: milliseconds(CANCEL_GRACE),
    });
    ToWorker::Cancels(Cancels {
        items: items.collect(),
    })
}

/// JSON as an opaque object.
pub(crate) fn object(value: &Value) -> Opaque {
    to_opaque(value.as_object().expect("the kit writes objects"))
}

/// Returns the output of a success as JSON; an absent one is empty.
///
/// # Errors
/// It is no success, or its output cannot be read.
pub(crate) fn output(item: &AttemptOutcome) -> Result<Value, String> {
    match &item.outcome {
        Some(Outcome::Success(success)) => {
            let output = success.output.clone().unwrap_or_default();
            let output = from_opaque(&output).map_err(|fault| format!("the output {fault}"))?;
            Ok(Value::Object(output))
        }
        other => Err(format!("expected a success, got {}", shown(other.as_ref()))),
    }
}

/// Returns true if the attempt is said to have succeeded.
pub(crate) fn is_success(item: &AttemptOutcome) -> bool {
    matches!(item.outcome, Some(Outcome::Success(_)))
}

/// Returns an outcome in a few words.
pub(crate) fn shown(outcome: Option<&Outcome>) -> String {
    match outcome {
        Some(Outcome::Success(_)) => "a success".to_owned(),
        Some(Outcome::Failure(failure)) => format!("a failure {} ({})", failure.code, failure.message),
        Some(Outcome::Released(released)) => format!("released ({:?})", released.reason()),
        None => "an outcome without content".to_owned(),
    }
}

/// Returns a token as people see it.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).expect("the kit waits for minutes at most")
}

/// Between heartbeats, where a check asks for nothing else.
pub(crate) const HEARTBEAT: Duration = Duration::from_millis(200);
/// What a cancelled body has to stop.
pub(crate) const CANCEL_GRACE: Duration = Duration::from_secs(1);
const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
