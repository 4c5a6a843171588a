//! What people are asked and what they say, as the journal has it.

use super::{Failure, Stored, UnitRef};
use crate::responder::Responder;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use prost::{Enumeration, Message};

/// What a person is asked.
#[derive(Clone, PartialEq, Message)]
pub struct InputRequest {
    /// 16 bytes, never used for another one.
    #[prost(bytes = "bytes", tag = "1")]
    pub id: Bytes,
    /// What kind of question it is.
    #[prost(enumeration = "RequestKind", tag = "2")]
    pub kind: i32,
    /// Whose it is; absent for the plan as a whole.
    #[prost(message, optional, tag = "3")]
    pub unit: Option<UnitRef>,
    /// The question.
    #[prost(string, tag = "4")]
    pub question: String,
    /// Of a choice.
    #[prost(string, repeated, tag = "5")]
    pub options: Vec<String>,
    /// What counts as an answer to a question.
    #[prost(enumeration = "AnswerType", tag = "6")]
    pub answer_type: i32,
    /// Digest of the subject, which a decision names, 32 bytes; empty for a question. Earlier versions wrote it for approvals alone.
    #[prost(bytes = "bytes", tag = "7")]
    pub subject_digest: Bytes,
    /// Exactly what would be sent, or of an effect in doubt what was: the payload of the attempt, an encoded object.
    #[prost(message, optional, tag = "8")]
    pub subject: Option<Stored>,
    /// Unix milliseconds.
    #[prost(int64, tag = "9")]
    pub expires_at: i64,
    /// What went wrong, if that is what is asked about.
    #[prost(message, optional, tag = "10")]
    pub error: Option<Failure>,
    /// Where the request is; in a journal always open.
    #[prost(enumeration = "RequestState", tag = "11")]
    pub state: i32,
    /// Who has approved so far.
    #[prost(string, repeated, tag = "12")]
    pub approved_by: Vec<String>,
    /// The users in whose names they act besides their own.
    #[prost(string, repeated, tag = "16")]
    pub approved_for: Vec<String>,
    /// What it was answered with.
    #[prost(message, optional, tag = "13")]
    pub answer: Option<RequestAnswer>,
    /// What the handler that asks for the approval says about it: an encoded `google.protobuf.Value`.
    #[prost(message, optional, tag = "14")]
    pub data: Option<Stored>,
    /// The part of the budget that is used up, if that is what is asked about.
    #[prost(enumeration = "crate::budget::BudgetKind", optional, tag = "55")]
    pub budget: Option<i32>,
    /// Unix milliseconds; in a journal 0, since the entry has its time.
    #[prost(int64, tag = "15")]
    pub opened_at: i64,
    /// The execution whose effect is in doubt, 16 bytes, if it is one of an earlier revision or of another run; else empty.
    #[prost(bytes = "bytes", tag = "17")]
    pub earlier_execution: Bytes,
    /// The action that is asked about; empty for a question, for a plan as a whole, and for a child run.
    #[prost(string, tag = "18")]
    pub action: String,
    /// Number of the unit's own attempt whose effect is in doubt; 0 without one.
    #[prost(uint32, tag = "19")]
    pub attempt: u32,
    /// Revision that is asked about, 32 bytes; empty if the request is not about a revision.
    #[prost(bytes = "bytes", tag = "20")]
    pub revision: Bytes,
    /// Amounts of an extension; absent for everything else.
    #[prost(message, optional, tag = "21")]
    pub extension: Option<Extension>,
}

/// The amounts of an extension of retries, or of a part of the budget.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Extension {
    /// Amount that is used or reserved.
    #[prost(uint64, tag = "1")]
    pub used: u64,
    /// Limit as it is.
    #[prost(uint64, tag = "2")]
    pub limit: u64,
    /// Limit as it will be if it is extended.
    #[prost(uint64, tag = "3")]
    pub extended: u64,
}

/// What kind of question it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum RequestKind {
    /// The step itself asks.
    Question = 0,
    /// Whether an attempt, or a plan, may run.
    Approval = 1,
    /// Whether a unit may be tried more often.
    RetryExtension = 2,
    /// What became of an effect in doubt.
    AmbiguousEffect = 3,
    /// Whether a part of the budget that is used up is given once more.
    BudgetExtension = 4,
}

impl RequestKind {
    /// As requests and figures spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            RequestKind::Question => "question",
            RequestKind::Approval => "approval",
            RequestKind::RetryExtension => "retry_extension",
            RequestKind::AmbiguousEffect => "ambiguous_effect",
            RequestKind::BudgetExtension => "budget_extension",
        }
    }
}

/// What counts as an answer to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum AnswerType {
    /// A text.
    Text = 0,
    /// One of the options.
    Choice = 1,
    /// Yes or no.
    Confirm = 2,
    /// An object.
    Form = 3,
}

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum RequestState {
    /// Waits for an answer.
    Open = 0,
    /// Has one.
    Answered = 1,
    /// Its time was over.
    Expired = 2,
    /// Not needed any more.
    Closed = 3,
}

/// A request, by its id.
#[derive(Clone, PartialEq, Message)]
pub struct RequestRef {
    /// 16 bytes.
    #[prost(bytes = "bytes", tag = "1")]
    pub id: Bytes,
    /// Whose it is; absent for the plan as a whole.
    #[prost(message, optional, tag = "2")]
    pub unit: Option<UnitRef>,
}

impl InputRequest {
    /// Returns the account that an extension is of.
    pub fn account(&self) -> &'static str {
        match self.kind() {
            RequestKind::BudgetExtension => self.budget().as_str(),
            _ => "retries",
        }
    }

    /// Names it in an entry.
    pub fn reference(&self) -> RequestRef {
        RequestRef {
            id: self.id.clone(),
            unit: self.unit,
        }
    }
}

/// What a person said.
#[derive(Clone, PartialEq, Message)]
pub struct RequestAnswer {
    /// The request, 16 bytes.
    #[prost(bytes = "bytes", tag = "1")]
    pub id: Bytes,
    /// Who says it.
    #[prost(message, required, tag = "2")]
    pub responder: Responder,
    /// What is decided.
    #[prost(enumeration = "Decision", tag = "3")]
    pub decision: i32,
    /// The answer to a question or the output of an effect that happened, an encoded `google.protobuf.Value`; or the edited
    /// payload, an encoded object.
    #[prost(message, optional, tag = "4")]
    pub value: Option<Stored>,
    /// At most 1,000 code points.
    #[prost(string, tag = "5")]
    pub comment: String,
    /// What is approved, 32 bytes: another digest than the request's if the payload was edited.
    #[prost(bytes = "bytes", tag = "6")]
    pub subject_digest: Bytes,
    /// Whose request it is; absent for the plan as a whole.
    #[prost(message, optional, tag = "7")]
    pub unit: Option<UnitRef>,
}

impl Decision {
    /// True for what is said to an approval alone.
    pub fn of_approval(self) -> bool {
        match self {
            Decision::Approve | Decision::ApproveWithEdits | Decision::Deny | Decision::Revise => true,
            Decision::Answer | Decision::Extend | Decision::Happened | Decision::DidNot | Decision::Fail => {
                false
            }
        }
    }
}

/// What is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum Decision {
    /// The answer to a question.
    Answer = 0,
    /// Let it run.
    Approve = 1,
    /// Let it run with another payload.
    ApproveWithEdits = 2,
    /// Do not.
    Deny = 3,
    /// The base limit of retries, or that part of the budget, again.
    Extend = 4,
    /// The effect happened; the value is its output.
    Happened = 5,
    /// It did not: repeat it.
    DidNot = 6,
    /// Give up.
    Fail = 7,
    /// Not this plan: another one, by what the comment says.
    Revise = 8,
}

impl Decision {
    /// As answers and figures spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Decision::Answer => "answer",
            Decision::Approve => "approve",
            Decision::ApproveWithEdits => "approve_with_edits",
            Decision::Deny => "deny",
            Decision::Revise => "revise",
            Decision::Extend => "extend",
            Decision::Happened => "happened",
            Decision::DidNot => "did_not",
            Decision::Fail => "fail",
        }
    }
}
