//! An answer as callers send it, checked as far as the request need not be known.

use bytes::Bytes;
use escapement_access::Principal;
use escapement_model::InputRequestId;
use escapement_model::limits::{LABEL_CHARS_MAX, MESSAGE_CHARS_MAX, OUTPUT_BYTES_MAX};
use escapement_model::opaque::ValueView;
use escapement_model::{Namespace, OpaqueValue};
use escapement_run::Answer;
use escapement_run::journal::{Decision, Responder, ResponderKind};
use escapement_run::outcome::{encoded, value_of_object};
use escapement_run::plan::{self, Plan};
use escapement_runs_shell::Condition;
use escapement_store::runs::ClientRequest;
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::ambiguous_effect::Known;
use escapement_wire::runs::v1::approval::Decision as OfApproval;
use escapement_wire::runs::v1::respond_to_input_request::Answer as Given;
use sha2::{Digest, Sha256};

use crate::canonical::Repeatable;
use crate::errors::Rejection;
use crate::fields::Fields;
use escapement_model::hex;

/// What was read.
#[derive(Debug)]
pub(crate) struct Read {
    /// The answer.
    pub(crate) answer: Answer,
    /// When it is taken in.
    pub(crate) condition: Condition,
    /// The plan that is approved instead.
    pub(crate) plan: Option<Plan>,
}

/// Reads the request of this caller.
///
/// # Errors
/// [`Rejection::Denied`] if it is in another name than the one that the caller proved;
/// [`Rejection::Problems`] with everything that is wrong; [`Rejection::PlanInvalid`].
pub(crate) fn read(mut request: v1::RespondToInputRequest, caller: &Principal) -> Result<Read, Rejection> {
    let verified = verify(&mut request, caller)?;
    let mut fields = Fields::default();
    let id = fields.id::<InputRequestId>("input_request_id", &request.input_request_id);
    let subject_digest = subject_digest(&request.subject_digest, &mut fields);
    let given = said(request.answer.as_ref(), &mut fields);
    let responder = responder(request.responder.as_ref(), verified, &mut fields);
    fields.text("comment", &request.comment, 0..=MESSAGE_CHARS_MAX);
    fields.note("request_id", &request.request_id);
    fields.conclude()?;
    let document = match &request.answer {
        Some(Given::Approval(v1::Approval {
            decision: Some(OfApproval::ApproveWithEdits(edits)),
        })) => edits.document.as_ref(),
        _ => None,
    };
    let read = |document| plan::read(document).and_then(plan::carried_out);
    let plan = document.map(read).transpose();
    let plan = plan.map_err(|violations| Rejection::PlanInvalid {
        field: "approval.approve_with_edits.document",
        violations,
    })?;
    let (Some(request_id), Some((decision, value))) = (id, given) else {
        unreachable!("what is missing is a problem");
    };
    let repeated = (!request.request_id.is_empty()).then(|| ClientRequest {
        key: key(&responder, &caller.issuer, &request.request_id),
        digest: Sha256::digest(request.encode_meaning()).into(),
    });
    Ok(Read {
        answer: Answer {
            request_id,
            subject_digest,
            responder,
            decision,
            value,
            comment: request.comment,
        },
        condition: Condition {
            last_sequence: None,
            request: repeated,
        },
        plan,
    })
}

/// Fills in who answers: a caller that has proved its name answers under it alone. False if the caller has proved nothing.
///
/// # Errors
/// [`escapement_access::Denial::ResponderNotPermitted`] if the request is in another name.
fn verify(request: &mut v1::RespondToInputRequest, caller: &Principal) -> Result<bool, Rejection> {
    let requested = request.responder.as_ref().map_or("", |said| said.id.as_str());
    let Some(name) = caller.responder("responder.id", requested)? else {
        return Ok(false);
    };
    let responder = request.responder.get_or_insert_default();
    name.clone_into(&mut responder.id);
    // A program cannot call itself a person, whereas a person's client may well say that it answers by itself.
    if caller.is_agent() {
        responder.kind = v1::responder::Kind::Agent.into();
    } else if responder.kind == i32::from(v1::responder::Kind::Unspecified) {
        // What is left out and what is said are one request when it is repeated.
        responder.kind = v1::responder::Kind::Person.into();
    }
    Ok(true)
}

/// What a responder's id of a request is in the store: of a bounded length, and of this method alone.
/// What somebody said in a name is apart from what was said by who has proved it, and a name of one issuer of tokens from the same
/// name of another one.
fn key(responder: &Responder, issuer: &str, request_id: &str) -> String {
    let mut hasher = Sha256::new();
    let verified = responder.verified.then_some("verified");
    // Without an issuer it is what earlier versions have kept.
    let issuer = Some(issuer).filter(|issuer| !issuer.is_empty());
    let said = [responder.id.as_str(), request_id];
    for text in said.into_iter().chain(verified).chain(issuer) {
        hasher.update((text.len() as u64).to_le_bytes());
        hasher.update(text);
    }
    format!("respond_to_input {}", hex::text(&hasher.finalize()))
}

/// The key in the store of a request about something of this namespace, apart from the same request about another one.
pub(super) fn key_in(namespace: &Namespace, key: String) -> String {
    match namespace.as_str() {
        // As earlier versions have kept it.
        Namespace::DEFAULT => key,
        // The key before it is of one length.
        namespace => format!("{key} {namespace}"),
    }
}

fn subject_digest(text: &str, fields: &mut Fields) -> Bytes {
    let digest = hex::array::<32>(text).filter(|_| !text.bytes().any(|digit| digit.is_ascii_uppercase()));
    if !text.is_empty() && digest.is_none() {
        fields.wrong("subject_digest", "must be 64 hexadecimal digits in lower case");
    }
    digest.into_iter().flatten().collect()
}

fn responder(responder: Option<&v1::Responder>, verified: bool, fields: &mut Fields) -> Responder {
    let Some(responder) = responder else {
        fields.wrong("responder", "is required");
        return Responder::default();
    };
    // The name of a certificate may be longer than what anybody can say.
    if !verified {
        fields.text("responder.id", &responder.id, 1..=LABEL_CHARS_MAX);
    }
    if responder.verified {
        fields.because(
            "responder.verified",
            "OUTPUT_ONLY",
            "is set by the orchestrator alone",
        );
    }
    let kind = match v1::responder::Kind::try_from(responder.kind) {
        Ok(v1::responder::Kind::Unspecified | v1::responder::Kind::Person) => ResponderKind::Person,
        Ok(v1::responder::Kind::Service) => ResponderKind::Service,
        Ok(v1::responder::Kind::Agent) => ResponderKind::Agent,
        Err(_) => {
            fields.wrong("responder.kind", "must be a known kind");
            ResponderKind::Agent
        }
    };
    Responder {
        id: responder.id.clone(),
        kind: kind.into(),
        verified,
        users: Vec::new(),
    }
}

/// The decision, and the value that goes with it.
fn said(given: Option<&Given>, fields: &mut Fields) -> Option<(Decision, Bytes)> {
    let said = match given {
        None => {
            fields.wrong("answer", "is required");
            return None;
        }
        Some(Given::Text(text)) => {
            fields.text("text", text, 0..=TEXT_CHARS_MAX);
            (Decision::Answer, encoded(ValueView::Text(text)))
        }
        Some(Given::Choice(choice)) => {
            fields.text("choice", choice, 0..=TEXT_CHARS_MAX);
            (Decision::Answer, encoded(ValueView::Text(choice)))
        }
        Some(Given::Confirm(confirm)) => (Decision::Answer, encoded(ValueView::Bool(*confirm))),
        Some(Given::Form(form)) => {
            fields.object("form", form, OUTPUT_BYTES_MAX);
            (Decision::Answer, value_of_object(form))
        }
        Some(Given::Extend(true)) => (Decision::Extend, Bytes::new()),
        Some(Given::Extend(false)) => (Decision::Fail, Bytes::new()),
        Some(Given::Approval(approval)) => return of_approval(approval, fields),
        Some(Given::Effect(effect)) => return of_effect(effect, fields),
    };
    Some(said)
}

fn of_approval(approval: &v1::Approval, fields: &mut Fields) -> Option<(Decision, Bytes)> {
    match &approval.decision {
        None => {
            fields.wrong("approval.decision", "is required");
            None
        }
        Some(OfApproval::Approve(_)) => Some((Decision::Approve, Bytes::new())),
        Some(OfApproval::Deny(_)) => Some((Decision::Deny, Bytes::new())),
        Some(OfApproval::Revise(_)) => Some((Decision::Revise, Bytes::new())),
        Some(OfApproval::ApproveWithEdits(edits)) => {
            let path = "approval.approve_with_edits";
            let (name, edited) = match (&edits.payload, &edits.document) {
                (Some(payload), None) => ("payload", payload),
                (None, Some(document)) => ("document", document),
                (None, None) | (Some(_), Some(_)) => {
                    fields.wrong(path, "must have a payload or a document");
                    return None;
                }
            };
            fields.object(&format!("{path}.{name}"), edited, OUTPUT_BYTES_MAX);
            Some((Decision::ApproveWithEdits, edited.as_encoded().clone()))
        }
    }
}

fn of_effect(effect: &v1::AmbiguousEffect, fields: &mut Fields) -> Option<(Decision, Bytes)> {
    match &effect.known {
        None => {
            fields.wrong("effect.known", "is required");
            None
        }
        Some(Known::DidNot(_)) => Some((Decision::DidNot, Bytes::new())),
        Some(Known::Fail(_)) => Some((Decision::Fail, Bytes::new())),
        Some(Known::Happened(happened)) => {
            let output = match &happened.output {
                Some(output) => output.clone(),
                None => OpaqueValue::from_view(ValueView::Null),
            };
            fields.value("effect.happened.output", &output);
            Some((Decision::Happened, output.as_encoded().clone()))
        }
    }
}

/// Code points of a text that is an answer.
const TEXT_CHARS_MAX: usize = 65_536;
