//! Ids of new runs, and what requests are known by that callers may repeat. Makes no run.

use crate::canonical::Repeatable;
use crate::errors::Rejection;
use bytes::Bytes;
use escapement_model::RunId;
use escapement_model::hex;
use escapement_store::runs::ClientRequest;
use sha2::{Digest, Sha256};

/// A fresh id.
///
/// # Errors
/// [`Rejection::Failed`] if the operating system gives no random bytes.
pub(crate) fn new_run_id() -> Result<RunId, Rejection> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|_| Rejection::failed("NO_RANDOM_BYTES", "The operating system gives no random bytes."))?;
    Ok(RunId::from_random(bytes))
}

// RUN-4.3
/// Creates a fresh seed for the ids of a run's executions.
///
/// # Errors
/// As [`new_run_id`].
pub(crate) fn new_id_seed() -> Result<Bytes, Rejection> {
    Ok(Bytes::copy_from_slice(new_run_id()?.as_bytes()))
}

/// What a caller may repeat: the id of its request within its scope, and what it asked for. `None` without an id.
pub(super) fn client_request(
    verb: &str,
    scope: &str,
    request_id: &str,
    request: &impl Repeatable,
) -> Option<ClientRequest> {
    if request_id.is_empty() {
        return None;
    }
    // A run that is made is remembered longer than a verb that was answered.
    let kind = if matches!(verb, "create" | "fork" | "retry") {
        "runs"
    } else {
        "verbs"
    };
    let mut key = Sha256::new();
    for part in [kind, scope, request_id] {
        key.update((part.len() as u64).to_le_bytes());
        key.update(part);
    }
    Some(ClientRequest {
        key: format!("{kind} {}", hex::text(&key.finalize())),
        digest: digest_of(verb, &request.encode_meaning()),
    })
}

/// Returns the digest by which earlier versions have kept the request: that of its encoding.
pub(super) fn spelled_digest(verb: &str, request: &impl Repeatable) -> [u8; 32] {
    digest_of(verb, &request.encode_in_order())
}

fn digest_of(verb: &str, encoded: &[u8]) -> [u8; 32] {
    let digest = Sha256::new().chain_update(verb).chain_update([0]);
    digest.chain_update(encoded).finalize().into()
}
