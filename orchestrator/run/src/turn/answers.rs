//! Answers that fit a request, and answers that mean the same.

use super::refused_because;
use crate::input::{Answer, Refused, RefusedReason};
use crate::journal::{AnswerType, Decision, InputRequest, RequestKind};
use crate::plan;
use crate::turn::values::view;
use alloc::format;
use bytes::Bytes;
use escapement_model::encoder::Encoder;
use escapement_model::limits::OUTPUT_BYTES_MAX;
use escapement_model::opaque::ValueView;
use escapement_model::{Opaque, OpaqueValue};

impl InputRequest {
    // RUN-6.5
    /// Returns the one shape of an answer that is right, in the words of the API.
    pub fn right_answer(&self) -> &'static str {
        match (self.kind(), self.answer_type(), self.unit) {
            (RequestKind::Question, AnswerType::Text, _) => "text",
            (RequestKind::Question, AnswerType::Choice, _) => "choice, which is one of its options",
            (RequestKind::Question, AnswerType::Confirm, _) => "confirm, which is true or false",
            (RequestKind::Question, AnswerType::Form, _) => "form, which is an object",
            (RequestKind::Approval, _, Some(_)) => {
                "approval, with approve, approve_with_edits and its payload, or deny"
            }
            (RequestKind::Approval, _, None) => {
                "approval, with approve, approve_with_edits and its document, deny or revise"
            }
            (RequestKind::RetryExtension | RequestKind::BudgetExtension, ..) => {
                "extend, which is true or false"
            }
            (RequestKind::AmbiguousEffect, ..) => "effect, with happened, did_not or fail",
        }
    }

    /// Returns the refusal of an answer of any other shape.
    pub fn wrong_answer(&self) -> Refused {
        let (kind, right) = (self.kind().as_str(), self.right_answer());
        refused_because(
            RefusedReason::AnswerInvalid,
            format!("answer: to this request, of the kind {kind}, only {right} is an answer"),
        )
    }
}

// RUN-6.5
/// Refuses an answer that does not fit this request.
pub(super) fn check_answer(request: &InputRequest, answer: &Answer) -> Result<(), Refused> {
    let fits = match request.kind() {
        RequestKind::Question => answer.decision == Decision::Answer,
        RequestKind::Approval => answer.decision.of_approval(),
        RequestKind::RetryExtension | RequestKind::BudgetExtension => {
            matches!(answer.decision, Decision::Extend | Decision::Fail)
        }
        RequestKind::AmbiguousEffect => {
            matches!(
                answer.decision,
                Decision::Happened | Decision::DidNot | Decision::Fail
            )
        }
    };
    if !fits {
        return Err(request.wrong_answer());
    }
    if answer.value.len() > OUTPUT_BYTES_MAX {
        return Err(refused_because(
            RefusedReason::AnswerInvalid,
            format!("answer: has more than {OUTPUT_BYTES_MAX} bytes"),
        ));
    }
    if request.kind() != RequestKind::Question {
        return Ok(());
    }
    let fits = match (request.answer_type(), view(&answer.value)) {
        (AnswerType::Text, Some(ValueView::Text(_)))
        | (AnswerType::Confirm, Some(ValueView::Bool(_)))
        | (AnswerType::Form, Some(ValueView::Struct(_))) => true,
        (AnswerType::Choice, Some(ValueView::Text(choice))) => {
            request.options.iter().any(|option| option == choice)
        }
        (AnswerType::Text | AnswerType::Confirm | AnswerType::Form | AnswerType::Choice, _) => false,
    };
    match fits {
        true => Ok(()),
        false => Err(request.wrong_answer()),
    }
}

// RUN-6.5
/// Returns true if two values of a decision mean the same: in any order of keys, and a plan by its digest.
pub fn says_the_same(request: &InputRequest, decision: Decision, one: &Bytes, other: &Bytes) -> bool {
    if one == other {
        return true;
    }
    let of_plan = request.unit.is_none();
    let meaning = |value: &Bytes| match (decision, of_plan) {
        (Decision::ApproveWithEdits, true) => plan_meaning(value),
        (Decision::ApproveWithEdits, false) => object_meaning(value),
        _ => value_meaning(value),
    };
    meaning(one).is_some_and(|one| meaning(other) == Some(one))
}

fn plan_meaning(document: &Bytes) -> Option<[u8; 32]> {
    let plan = plan::read(&Opaque::from_encoded(document.clone()));
    plan.ok().map(|plan| plan.digest)
}

fn object_meaning(object: &Bytes) -> Option<[u8; 32]> {
    let object = Opaque::from_encoded(object.clone());
    object.check().ok()?;
    Some(Encoder::named("object", |encoder| encoder.object(&object)))
}

fn value_meaning(value: &Bytes) -> Option<[u8; 32]> {
    let value = OpaqueValue::from_encoded(value.clone());
    value.check().ok()?;
    let view = value.view().ok()?;
    Some(Encoder::named("value", |encoder| encoder.value(view)))
}
