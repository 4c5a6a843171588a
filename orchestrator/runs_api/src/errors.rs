//! Every rejection of the API of runs as a gRPC status with `google.rpc` details.
//! The only place that knows which code and which reason an answer has.

use crate::views::state_of_byte;
use escapement_access::Denial;
use escapement_model::RunId;
use escapement_run::RefusedReason;
use escapement_run::plan::Violations;
use escapement_runs_shell::{CallError, Decided};
use escapement_store::StoreFault;
use escapement_store::runs::RemovedRun;
use escapement_transport::refusal::{again_later, cut, invalid, of_denial, plain, violation};
use tonic::{Code, Status};

/// Something that is wrong with a field of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Its path.
    pub field: String,
    /// A stable word.
    pub reason: &'static str,
    /// The rest of a sentence that begins with the field.
    pub message: String,
}

/// Why a call is not answered with what it asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rejection {
    /// Fields of the request are wrong; at least one.
    Problems(Vec<Problem>),
    /// The document in this field is no plan.
    PlanInvalid {
        /// The field.
        field: &'static str,
        /// What is wrong.
        violations: Violations,
    },
    /// A saved plan would be wrong; at least one problem, whose reasons are the codes of violations.
    PlanWrong(Vec<Problem>),
    /// What a call changes has changed since its etag was read; nothing changed.
    EtagMismatch,
    /// A page token that is not ours, or was made for other filters.
    PageTokenInvalid,
    /// What runs answered.
    Call(CallError),
    /// The run that a call is about is not there, or did not take what was asked of it.
    OfRun(RunId, CallError),
    /// Something is not as the call needs it.
    Failed {
        /// A stable word.
        reason: &'static str,
        /// A sentence.
        message: String,
        /// A fact for programs.
        fact: Option<(&'static str, String)>,
    },
    /// The policy does not permit it.
    Denied(Denial),
    /// There is no such thing.
    NotFound {
        /// A stable word.
        reason: &'static str,
        /// A sentence.
        message: String,
    },
    /// There is such a thing already.
    AlreadyThere {
        /// A stable word.
        reason: &'static str,
        /// A sentence.
        message: String,
    },
    /// It is there and cannot be read.
    Damaged {
        /// A stable word.
        reason: &'static str,
        /// A sentence.
        message: String,
    },
}

impl Rejection {
    /// One field is wrong.
    pub(crate) fn field(field: &str, reason: &'static str, message: impl Into<String>) -> Self {
        Self::Problems(vec![Problem {
            field: field.to_owned(),
            reason,
            message: message.into(),
        }])
    }

    /// True if something that is stored cannot be read, and asking again does not help.
    pub(crate) fn is_of_damage(&self) -> bool {
        matches!(
            self,
            Self::Call(CallError::Damaged(_)) | Self::OfRun(_, CallError::Damaged(_)) | Self::Damaged { .. }
        )
    }

    /// Something is not as the call needs it.
    pub(crate) fn failed(reason: &'static str, message: impl Into<String>) -> Self {
        Self::Failed {
            reason,
            message: message.into(),
            fact: None,
        }
    }
}

impl From<Denial> for Rejection {
    fn from(denial: Denial) -> Self {
        Self::Denied(denial)
    }
}

impl From<CallError> for Rejection {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

impl From<Rejection> for Status {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::Problems(problems) => of_problems(&problems),
            Rejection::PlanInvalid { field, violations } => of_violations(field, &violations),
            Rejection::PlanWrong(problems) => of_wrong("PLAN_INVALID", &problems),
            Rejection::EtagMismatch => plain(
                Code::Aborted,
                "ETAG_MISMATCH",
                "etag: it has changed since.".to_owned(),
                [],
            ),
            Rejection::PageTokenInvalid => of_problems(&[Problem {
                field: "page_token".to_owned(),
                reason: "PAGE_TOKEN_INVALID",
                message: "must be the next_page_token of a page with the same filters".to_owned(),
            }]),
            Rejection::Call(error) => of_call(None, &error),
            Rejection::OfRun(run_id, error) => of_call(Some(run_id), &error),
            Rejection::Failed {
                reason,
                message,
                fact,
            } => {
                let code = Code::FailedPrecondition;
                match fact {
                    Some(fact) => plain(code, reason, cut(message), [fact]),
                    None => plain(code, reason, cut(message), []),
                }
            }
            Rejection::Denied(denial) => of_denial(&denial),
            Rejection::NotFound { reason, message } => plain(Code::NotFound, reason, message, []),
            Rejection::AlreadyThere { reason, message } => plain(Code::AlreadyExists, reason, message, []),
            Rejection::Damaged { reason, message } => plain(Code::DataLoss, reason, message, []),
        }
    }
}

/// The status of what runs answered.
fn of_call(run_id: Option<RunId>, error: &CallError) -> Status {
    let message = match (run_id, error) {
        (Some(run_id), CallError::Damaged(_)) => {
            format!("Run {run_id}: {error}. DiscardRun removes it if it has not ended, DeleteRun if it has.")
        }
        (Some(run_id), _) => format!("Run {run_id}: {error}."),
        (None, _) => format!("{error}."),
    };
    let (code, reason) = match error {
        CallError::Refused(reason, _) => (code_of(*reason), reason.as_str()),
        CallError::NotFound => (Code::NotFound, "RUN_NOT_FOUND"),
        CallError::Removed(removed) => return of_removed(removed, message),
        CallError::Damaged(_) => (Code::DataLoss, "RUN_DAMAGED"),
        CallError::AlreadyRunning(live) => {
            let live = [("run_id", live.to_string())];
            return plain(Code::FailedPrecondition, "ALREADY_RUNNING", message, live);
        }
        CallError::TooLarge(_) => (Code::InvalidArgument, TOO_LARGE),
        CallError::RequestIdReused => (Code::AlreadyExists, "REQUEST_ID_REUSED"),
        CallError::EtagMismatch => (Code::Aborted, "ETAG_MISMATCH"),
        CallError::Contended => return again_later(Code::Aborted, "CONTENDED", message, []),
        CallError::Full => return again_later(Code::ResourceExhausted, "RUNS_FULL", message, []),
        CallError::Overloaded => return again_later(Code::ResourceExhausted, "OVERLOADED", message, []),
        CallError::StoreFull => return again_later(Code::ResourceExhausted, "STORE_FULL", message, []),
        CallError::Stopping => return again_later(Code::Unavailable, "STOPPING", message, []),
        CallError::Store => return again_later(Code::Unavailable, "STORE_UNAVAILABLE", message, []),
    };
    match run_id {
        Some(run_id) => plain(code, reason, cut(message), [("run_id", run_id.to_string())]),
        None => plain(code, reason, cut(message), []),
    }
}

/// Ends a decision: nothing is written, and the call is refused.
#[expect(clippy::unnecessary_wraps, reason = "decisions read, and that may fail")]
pub(crate) fn refused<T>(why: impl Into<Rejection>) -> Result<Decided<Result<T, Rejection>>, StoreFault> {
    Ok(Decided::Answer(Err(why.into())))
}

/// A run that was removed, with what is left of it.
fn of_removed(removed: &RemovedRun, message: String) -> Status {
    let state = state_of_byte(removed.state).map_or("", |state| state.as_str_name());
    let facts = [
        ("run_id", removed.run_id.to_string()),
        ("state", state.to_owned()),
        ("created_at", removed.created_at.to_string()),
        ("ended_at", removed.ended_at.to_string()),
        ("removed_at", removed.removed_at.to_string()),
    ];
    plain(Code::NotFound, "RUN_REMOVED", cut(message), facts)
}

fn code_of(reason: RefusedReason) -> Code {
    match reason {
        RefusedReason::RunEnded
        | RefusedReason::RunDiscarded
        | RefusedReason::NotQueued
        | RefusedReason::NotPaused
        | RefusedReason::AlreadyPaused
        | RefusedReason::EffectsWouldRepeat
        | RefusedReason::NoCheckpoint
        | RefusedReason::StepSettled
        | RefusedReason::RequestExpired
        | RefusedReason::AlreadyAnswered
        | RefusedReason::DigestMismatch
        | RefusedReason::RunTooLarge => Code::FailedPrecondition,
        RefusedReason::UnknownStep
        | RefusedReason::DataTooLarge
        | RefusedReason::AnswerInvalid
        | RefusedReason::KeptStepChanged
        | RefusedReason::ArtifactInvalid => Code::InvalidArgument,
        RefusedReason::ArtifactsFull => Code::ResourceExhausted,
        RefusedReason::RequestNotFound => Code::NotFound,
        RefusedReason::NotAnApprover | RefusedReason::SelfApproval => Code::PermissionDenied,
    }
}

fn of_problems(problems: &[Problem]) -> Status {
    let first = problems.first().expect("a rejection has a problem");
    of_wrong(first.reason, problems)
}

fn of_wrong(reason: &str, problems: &[Problem]) -> Status {
    let first = problems.first().expect("a rejection has a problem");
    let more = more(problems.len());
    let message = format!("{}: {}{more}", first.field, first.message);
    let violations = problems
        .iter()
        .map(|problem| violation(&problem.field, problem.reason, &problem.message));
    invalid(reason, message, problems.len(), violations)
}

fn of_violations(field: &str, violations: &Violations) -> Status {
    let path = |path: &str| match path {
        "document" => field.to_owned(),
        path => format!("{field}.{path}"),
    };
    let first = violations.first();
    let message = format!(
        "{}: {}{}",
        path(&first.path),
        first.message,
        more(violations.len())
    );
    let listed = violations
        .iter()
        .map(|found| violation(&path(&found.path), found.code.as_str(), &found.message));
    invalid("PLAN_INVALID", message, violations.len(), listed)
}

fn more(n_problems: usize) -> String {
    match n_problems {
        0 | 1 => String::new(),
        n_problems => format!(" ({} more)", n_problems - 1),
    }
}

/// The reason of a request that is too large as a whole.
pub(crate) const TOO_LARGE: &str = "REQUEST_TOO_LARGE";
