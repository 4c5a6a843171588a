//! An act in the words of its two entries, which are bounded whatever was asked for. Records nothing.

use escapement_access::{Principal, PrincipalKind};
use escapement_model::hex;
use escapement_store::OperatorIntent;
use escapement_transport::CallerAddress;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use tonic::{Extensions, Status};

/// What an operator is about to do by a call: `SERVICE/METHOD`, and its request without what is secret.
pub(crate) fn of_call(extensions: &Extensions, rpc: &str, request: &Value) -> OperatorIntent {
    let address = extensions.get::<CallerAddress>();
    let everybody = Principal::without_policy();
    let principal = extensions.get::<Arc<Principal>>().map(Arc::as_ref);
    let principal = principal.unwrap_or(&everybody);
    let kind = match principal.kind {
        PrincipalKind::Anonymous => "anonymous",
        PrincipalKind::Token => "token",
        PrincipalKind::Jwt => "jwt",
        PrincipalKind::Certificate => "certificate",
        PrincipalKind::Attempt => "attempt",
    };
    OperatorIntent {
        name: cut(&principal.name),
        kind: kind.to_owned(),
        issuer: cut(&principal.issuer),
        peer: address.map_or_else(String::new, |address| address.0.to_string()),
        rpc: cut(rpc),
        request: bounded(request),
    }
}

/// What the process is about to do without a call.
pub(crate) fn of_process(rpc: &str, request: &Value) -> OperatorIntent {
    OperatorIntent {
        kind: "process".to_owned(),
        rpc: cut(rpc),
        request: bounded(request),
        ..OperatorIntent::default()
    }
}

/// What came of it.
pub(crate) fn outcome(done: Result<&Value, &Status>) -> String {
    match done {
        Ok(answer) => bounded(&json!({"code": "OK", "answer": answer})),
        Err(status) => {
            let code = format!("{:?}", status.code());
            bounded(&json!({"code": screaming(&code), "message": cut(status.message())}))
        }
    }
}

/// What became of an act of which nobody knows any more.
pub(crate) fn unknown() -> String {
    let message = "The orchestrator ended before it wrote an outcome.";
    json!({"code": "UNKNOWN", "message": message}).to_string()
}

/// `NotFound` as `NOT_FOUND`.
fn screaming(code: &str) -> String {
    let mut name = String::new();
    for letter in code.chars() {
        if letter.is_uppercase() && !name.is_empty() && code != "Ok" {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

/// The JSON, or what it is known by if it is too long.
fn bounded(value: &Value) -> String {
    let text = value.to_string();
    if text.len() <= JSON_BYTES_MAX {
        return text;
    }
    json!({"sha256": hex::text(&Sha256::digest(&text)), "bytes": text.len()}).to_string()
}

fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(TEXT_BYTES_MAX)].to_owned()
}

/// Bytes of a name, an issuer, a call or a message.
const TEXT_BYTES_MAX: usize = 2_048;
/// Bytes of a request or an outcome.
const JSON_BYTES_MAX: usize = 4_096;

#[cfg(test)]
mod tests;
