//! What an answer of the contract that is none means for an attempt.

use tonic::{Code, Status};
use tonic_types::StatusExt;

/// What a refused call means.
pub(super) enum Refusal {
    /// Nothing was accepted; it may be later.
    NotNow { reason: String },
    /// It is not known whether something was accepted; asking again tells.
    NotKnown { reason: String },
    /// Not now and not later.
    Never { reason: String, message: String },
    /// It was executed, and its result was removed.
    Removed,
    /// Another request has the execution id.
    OtherRequest,
}

/// Reads a status by its reason, and by its code if it gives none.
pub(super) fn refusal(status: &Status) -> Refusal {
    let details = status.get_error_details();
    let reason = details.error_info().map(|info| info.reason.as_str());
    let message = || status.message().to_owned();
    match (status.code(), reason) {
        (_, Some("EXECUTION_REMOVED")) => Refusal::Removed,
        (_, Some("EXECUTION_ID_IN_USE")) | (Code::AlreadyExists, _) => Refusal::OtherRequest,
        // The contract looks for what it has accepted under the id before it says one of these.
        (
            _,
            Some(
                reason @ ("QUEUE_FULL" | "NAMESPACE_QUOTA" | "STORE_FULL" | "DRAINING" | "TOO_MANY_CHILDREN"),
            ),
        ) => Refusal::NotNow {
            reason: reason.to_owned(),
        },
        (
            // Credentials that are refused may be being replaced.
            Code::Unauthenticated
            | Code::Unavailable
            | Code::ResourceExhausted
            | Code::DeadlineExceeded
            | Code::Cancelled
            | Code::Unknown
            | Code::Internal
            | Code::Aborted,
            reason,
        ) => Refusal::NotKnown {
            reason: reason.map_or_else(message, str::to_owned),
        },
        (code, reason) => Refusal::Never {
            reason: reason.map_or_else(|| format!("{code:?}"), str::to_owned),
            message: message(),
        },
    }
}
