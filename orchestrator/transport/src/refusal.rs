//! Reason why a call is refused for what it takes of the process, and the gRPC status that says so. Refuses nothing itself.

use crate::call_class::CallClass;
use crate::limits::{REQUEST_TIMEOUT, STATUS_DETAILS_BYTES_MAX, STATUS_MESSAGE_BYTES_MAX};
use crate::share::NotFree;
use escapement_access::Denial;
use escapement_wire::ERROR_DOMAIN;
use std::collections::HashMap;
use std::time::Duration;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt};

/// Reason why a call is not served, or not served to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The process ends, and what was asked stays without an answer.
    Stopping,
    /// Too many calls of a class are open.
    Overloaded(CallClass),
    /// The caller's tenant has as many calls of a class as it leaves to others.
    PartTaken(CallClass),
    /// The request was not complete in time.
    RequestTooSlow,
    /// The request is larger than any of its class may be.
    RequestTooLarge {
        /// Size, as it was announced.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// All bytes of unread answers are taken, and the call may have changed something.
    AnswerDropped,
    /// Too many bytes of requests are in transit, over all callers.
    RequestsTooLarge,
}

impl Refusal {
    /// Returns the refusal of a call of this class for want of what its tenant cannot have now.
    pub fn for_want(why: NotFree, class: CallClass) -> Self {
        match why {
            NotFree::AllTaken => Self::Overloaded(class),
            NotFree::PartTaken => Self::PartTaken(class),
        }
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Stopping => again_later(
                Code::Unavailable,
                "DRAINING",
                "The orchestrator stops and does not answer any more. Ask again once it is back; a plan that was \
                 handed in with an execution id, with the same one."
                    .to_owned(),
                [],
            ),
            Refusal::Overloaded(class) => again_later(
                class.row().overload_code,
                "OVERLOADED",
                format!("Too many {} at a time; ask again.", class.row().words),
                [("kind", class.row().words.to_owned())],
            ),
            Refusal::PartTaken(class) => again_later(
                class.row().overload_code,
                "OVERLOADED",
                format!(
                    "Too many {} at a time of the caller's namespace, of a caller with several, or of the connection; \
                     end some, or ask again.",
                    class.row().words
                ),
                [("kind", class.row().words.to_owned()), ("of", "tenant".to_owned())],
            ),
            Refusal::RequestTooSlow => plain(
                Code::DeadlineExceeded,
                "REQUEST_TOO_SLOW",
                format!(
                    "The request was not complete within {} s.",
                    REQUEST_TIMEOUT.as_secs()
                ),
                [],
            ),
            Refusal::AnswerDropped => again_later(
                Code::Unavailable,
                "OVERLOADED",
                "Too many large answers are not read yet, so this one was dropped; what the call changes may have changed. \
                 Ask again, with the same request id if it has one."
                    .to_owned(),
                [("kind", "unread answers".to_owned())],
            ),
            // The same again would be as large, so nothing says when to ask again.
            Refusal::RequestTooLarge { bytes, bytes_max } => plain(
                Code::ResourceExhausted,
                "REQUEST_TOO_LARGE",
                format!("The request has {bytes} bytes, the limit is {bytes_max}."),
                [
                    ("bytes", bytes.to_string()),
                    ("bytes_max", bytes_max.to_string()),
                ],
            ),
            Refusal::RequestsTooLarge => again_later(
                Code::ResourceExhausted,
                "REQUESTS_TOO_LARGE",
                "Too many large requests are being sent at a time; send it again.".to_owned(),
                [],
            ),
        }
    }
}

/// Returns the status of a call that is not permitted.
pub fn of_denial(denial: &Denial) -> Status {
    let code = match denial {
        Denial::KeysUnavailable { .. } => {
            let message = denial.to_string();
            return again_later(Code::Unavailable, denial.reason(), message, []);
        }
        Denial::UnknownCall => Code::Unimplemented,
        denial if denial.is_of_credentials() => Code::Unauthenticated,
        _ => Code::PermissionDenied,
    };
    let facts = denial.facts().into_iter();
    let facts: HashMap<String, String> = facts.map(|(key, value)| (key.to_owned(), value)).collect();
    let details = ErrorDetails::with_error_info(denial.reason(), ERROR_DOMAIN, facts);
    Status::with_error_details(code, denial.to_string(), details)
}

/// Returns a status with a reason, and facts for programs.
pub fn plain<const N: usize>(
    code: Code,
    reason: &str,
    message: String,
    metadata: [(&str, String); N],
) -> Status {
    Status::with_error_details(code, message, error_info(reason, metadata))
}

/// Returns the same status for a temporary shortage, with a retry delay of one second.
pub fn again_later<const N: usize>(
    code: Code,
    reason: &str,
    message: String,
    metadata: [(&str, String); N],
) -> Status {
    let mut details = error_info(reason, metadata);
    details.set_retry_info(Some(Duration::from_secs(1)));
    Status::with_error_details(code, message, details)
}

/// Returns the refusal of a position in a feed after which an event is missing. All events up to the position `removed` were removed;
/// `newest` is the last position.
pub fn cursor_gone(removed: u64, newest: u64) -> Status {
    let oldest = removed + 1;
    plain(
        Code::OutOfRange,
        "CURSOR_GONE",
        format!(
            "After this event not all events are there: those before {oldest} were removed, or the store was restored from an \
             older copy, which ends with {newest}; read anew with after_sequence 0."
        ),
        [("oldest", oldest.to_string()), ("newest", newest.to_string())],
    )
}

/// Returns the refusal of an event at a position of a feed: the subject of the event is damaged.
pub fn event_damaged(what: &str, place: u64) -> Status {
    plain(
        Code::DataLoss,
        "RECORD_DAMAGED",
        format!("The {what} of event {place} is damaged; go on behind it with after_sequence {place}."),
        [("sequence", place.to_string())],
    )
}

/// Returns the details of a status: a reason of ours, and facts for programs.
pub fn error_info<const N: usize>(reason: &str, metadata: [(&str, String); N]) -> ErrorDetails {
    let metadata: HashMap<String, String> = metadata
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect();
    ErrorDetails::with_error_info(reason, ERROR_DOMAIN, metadata)
}

/// Returns the status of a request with one field that is wrong.
pub fn invalid_field(field: &str, reason: &str, message: &str) -> Status {
    let mut details = error_info(reason, []);
    details.set_bad_request(vec![violation(field, reason, message)]);
    Status::with_error_details(Code::InvalidArgument, cut(format!("{field}: {message}")), details)
}

/// Returns the status of a request with `n_violations` faults, of which it lists as many as fit into headers.
pub fn invalid(
    reason: &str,
    message: String,
    n_violations: usize,
    violations: impl Iterator<Item = FieldViolation>,
) -> Status {
    let mut details = error_info(reason, [("violations", n_violations.to_string())]);
    let mut bytes_left = STATUS_DETAILS_BYTES_MAX;
    let fitting = violations.map_while(|violation| {
        let bytes = violation.field.len() + violation.description.len() + violation.reason.len() + 16;
        bytes_left = bytes_left.checked_sub(bytes)?;
        Some(violation)
    });
    details.set_bad_request(fitting.collect::<Vec<_>>());
    Status::with_error_details(Code::InvalidArgument, cut(message), details)
}

/// Returns a violation of one field, for [`invalid`].
pub fn violation(field: &str, reason: &str, message: &str) -> FieldViolation {
    FieldViolation {
        field: field.to_owned(),
        description: message.to_owned(),
        reason: reason.to_owned(),
        localized_message: None,
    }
}

/// Returns the message of a status, as long as it may be.
pub fn cut(mut message: String) -> String {
    message.truncate(message.floor_char_boundary(STATUS_MESSAGE_BYTES_MAX));
    message
}

#[cfg(test)]
mod tests;
