//! Every rejection and every fault that a caller may see, as a gRPC status with `google.rpc` details.
//! The only place that knows which code and which reason an answer has.

use crate::limits::SIMULATION_BYTES_MAX;
use escapement_access::Denial;
use escapement_contract::{Finding, Violations};
use escapement_engine::Refusal;
use escapement_model::{ExecutionId, Namespace};
use escapement_simulator::TooLong;
use escapement_store::RemovedExecution;
use escapement_transport::refusal::{again_later, invalid, invalid_field, of_denial, plain, violation};
use escapement_transport::{CallClass, Refusal as CallRefusal};
use tonic::{Code, Status};

/// Reason why a call is not answered with what it asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum Rejection {
    /// The request breaks rules of the contract.
    Violations(Violations),
    /// A request breaks rules, those of the contract and others; at least one.
    Findings(Vec<Finding>),
    /// A field of a request that holds no plan is wrong.
    InvalidField {
        /// Path.
        field: &'static str,
        /// A sentence.
        message: String,
    },
    /// An item of a list is wrong.
    InvalidItem {
        /// The path of the list.
        list: &'static str,
        /// Its place in it, counted from 0.
        index: usize,
        /// A sentence.
        message: String,
    },
    /// A page token that is not ours, or was made for other filters.
    PageTokenInvalid,
    /// The engine does not accept the request.
    Refused(Refusal),
    /// A namespace has as many executions that are accepted and not settled as it may have.
    NamespaceQuota {
        /// Which.
        namespace: Namespace,
        /// How many that is.
        max_live_executions: u32,
    },
    /// The execution id is in use for another request.
    ExecutionIdInUse {
        /// The path of the first field that differs, if that is known.
        differs: Option<String>,
    },
    /// The policy does not permit what the request asks for.
    Denied(Denial),
    /// The plan was accepted before, as an execution that the caller may not know of.
    PlanIdUsedElsewhere,
    /// The execution was never accepted.
    ExecutionNotFound(ExecutionId),
    /// The execution is settled and was removed; this is what is left of it.
    ExecutionRemoved(RemovedExecution),
    /// The request was accepted before, and its execution was removed since.
    RequestRemoved(RemovedExecution),
    /// The execution is not settled yet, and has no record that is whole.
    NotSettled(ExecutionId),
    /// The execution was settled by a version that recorded no inputs.
    InputsNotRecorded(ExecutionId),
    /// No worker session has this instance id or worker id.
    NoSuchWorker,
    /// What a watcher says it has seen of a record is not there any more.
    RecordRewritten,
    /// The worker that is to be declared dead works; this many milliseconds ago it was heard.
    WorkerAlive(u64),
    /// A live worker offers the action, or the operator declares it.
    ActionInUse,
    /// The call takes too much of the process, or the process ends.
    Call(CallRefusal),
    /// The simulation does not end within its limit of inputs.
    SimulationTooLong(TooLong),
    /// The answer to a simulation would be too large.
    SimulationTooLarge {
        /// Size.
        bytes: usize,
    },
    /// The store could not be read.
    StoreUnreadable,
    /// The records of one execution are damaged.
    RecordDamaged,
}

impl Rejection {
    /// There are too many calls of a class.
    pub fn overloaded(class: CallClass) -> Self {
        Self::Call(CallRefusal::Overloaded(class))
    }

    /// The same for a caller that asked for the execution by repeating its request.
    #[must_use]
    pub fn of_submission(self) -> Self {
        match self {
            Rejection::ExecutionRemoved(removed) => Rejection::RequestRemoved(removed),
            other => other,
        }
    }
}

impl From<Denial> for Rejection {
    fn from(denial: Denial) -> Self {
        Rejection::Denied(denial)
    }
}

impl From<CallRefusal> for Rejection {
    fn from(refusal: CallRefusal) -> Self {
        Rejection::Call(refusal)
    }
}

impl From<Rejection> for Status {
    #[expect(clippy::too_many_lines, reason = "a table")]
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::Violations(violations) => {
                of_findings(violations.iter().as_slice(), violations.to_string())
            }
            Rejection::Findings(findings) => {
                let first = findings.first().map_or(String::new(), |first| {
                    format!("{}: {}", first.field, first.message)
                });
                let more = match findings.len() {
                    0 | 1 => String::new(),
                    n_findings => format!(" ({} more)", n_findings - 1),
                };
                of_findings(&findings, first + &more)
            }
            Rejection::InvalidField { field, message } => invalid_field(field, "INVALID_ARGUMENT", &message),
            Rejection::InvalidItem { list, index, message } => {
                invalid_field(&format!("{list}[{index}]"), "INVALID_ARGUMENT", &message)
            }
            Rejection::PageTokenInvalid => invalid_field(
                "page_token",
                "PAGE_TOKEN_INVALID",
                "must be the next_page_token of a page with the same filters",
            ),
            Rejection::Refused(refusal) => of_refusal(refusal),
            Rejection::NamespaceQuota {
                namespace,
                max_live_executions,
            } => {
                let message = format!(
                    "Namespace {namespace} has {max_live_executions} executions that are accepted and not settled, and may have no more."
                );
                let metadata = [
                    ("namespace", namespace.to_string()),
                    ("max_live_executions", max_live_executions.to_string()),
                ];
                again_later(Code::ResourceExhausted, "NAMESPACE_QUOTA", message, metadata)
            }
            Rejection::ExecutionIdInUse { differs } => of_id_in_use(differs),
            Rejection::PlanIdUsedElsewhere => {
                let message = "The plan was accepted before; a plan id is single-use.".to_owned();
                plain(Code::FailedPrecondition, "PLAN_ID_USED", message, [])
            }
            Rejection::Call(refusal) => refusal.into(),
            Rejection::Denied(denial) => of_denial(&denial),
            Rejection::ExecutionNotFound(execution_id) => plain(
                Code::NotFound,
                "EXECUTION_NOT_FOUND",
                format!("No execution {execution_id} was accepted."),
                [("execution_id", execution_id.to_string())],
            ),
            Rejection::ExecutionRemoved(removed) => of_removed(
                Code::NotFound,
                format!("Execution {} is settled and was removed.", removed.execution_id),
                &removed,
            ),
            // it has run, and never runs again.
            Rejection::RequestRemoved(removed) => of_removed(
                Code::FailedPrecondition,
                format!(
                    "The request was executed before, as execution {}, and its result was removed; an execution \
                     id is single-use.",
                    removed.execution_id
                ),
                &removed,
            ),
            Rejection::NotSettled(execution_id) => plain(
                Code::FailedPrecondition,
                "EXECUTION_NOT_SETTLED",
                format!("Execution {execution_id} is not settled; its record grows still."),
                [("execution_id", execution_id.to_string())],
            ),
            Rejection::InputsNotRecorded(execution_id) => plain(
                Code::FailedPrecondition,
                "INPUTS_NOT_RECORDED",
                format!("Execution {execution_id} was settled by a version that recorded no inputs."),
                [("execution_id", execution_id.to_string())],
            ),
            Rejection::NoSuchWorker => plain(
                Code::NotFound,
                "NO_SUCH_WORKER",
                "No worker session has this id; ListWorkers shows those that there are.".to_owned(),
                [],
            ),
            Rejection::WorkerAlive(heartbeat_age_ms) => plain(
                Code::FailedPrecondition,
                "WORKER_ALIVE",
                format!(
                    "The worker is active and was heard {heartbeat_age_ms} ms ago. Drain it, which loses nothing; or set \
                     force, which loses the steps that it runs."
                ),
                [("heartbeat_age_ms", heartbeat_age_ms.to_string())],
            ),
            Rejection::ActionInUse => plain(
                Code::FailedPrecondition,
                "ACTION_IN_USE",
                "A live worker offers the action, or --declare-action names it: forgetting it would change nothing."
                    .to_owned(),
                [],
            ),
            Rejection::RecordRewritten => plain(
                Code::Aborted,
                "RECORD_REWRITTEN",
                "A restart took back entries that were seen before they were durable; watch again from sequence 1."
                    .to_owned(),
                [],
            ),
            // The same again would be as long and as large, so nothing says when to ask again.
            Rejection::SimulationTooLong(too_long) => plain(
                Code::ResourceExhausted,
                "SIMULATION_TOO_LONG",
                format!("It was given up: {too_long}."),
                [("inputs_max", too_long.inputs_max.to_string())],
            ),
            Rejection::SimulationTooLarge { bytes } => plain(
                Code::ResourceExhausted,
                "SIMULATION_TOO_LARGE",
                format!("The answer would have {bytes} bytes, the limit is {SIMULATION_BYTES_MAX}."),
                [
                    ("bytes", bytes.to_string()),
                    ("bytes_max", SIMULATION_BYTES_MAX.to_string()),
                ],
            ),
            Rejection::StoreUnreadable => again_later(
                Code::Unavailable,
                "STORE_UNREADABLE",
                "The store could not be read; ask again.".to_owned(),
                [],
            ),
            Rejection::RecordDamaged => plain(
                Code::DataLoss,
                "RECORD_DAMAGED",
                "The records of this execution are damaged; restore the store from a backup.".to_owned(),
                [],
            ),
        }
    }
}

fn of_refusal(refusal: Refusal) -> Status {
    let (code, reason, message) = match refusal {
        Refusal::ExecutionIdUsed => return of_id_in_use(None),
        Refusal::PlanIdUsed { execution_id } => {
            return plain(
                Code::FailedPrecondition,
                "PLAN_ID_USED",
                format!(
                    "The plan was accepted before, as execution {execution_id}; a plan id is single-use."
                ),
                [("execution_id", execution_id.to_string())],
            );
        }
        Refusal::NestedTooDeep => {
            let message = "Plans execute plans deeper than the limit.".to_owned();
            return plain(Code::FailedPrecondition, "NESTED_TOO_DEEP", message, []);
        }
        Refusal::TooManyChildren => (
            Code::ResourceExhausted,
            "TOO_MANY_CHILDREN",
            "The parent has as many live children as steps with workers.",
        ),
        Refusal::QueueFull => (
            Code::ResourceExhausted,
            "QUEUE_FULL",
            "Too many executions are accepted and not settled.",
        ),
        // A caller that hands in is told the namespace as well.
        Refusal::NamespaceQuota { .. } => (
            Code::ResourceExhausted,
            "NAMESPACE_QUOTA",
            "Too many executions of the namespace are accepted and not settled.",
        ),
        Refusal::Draining => (
            Code::Unavailable,
            "DRAINING",
            "The orchestrator stops; nothing was accepted. Ask again once it is back.",
        ),
        Refusal::StoreFull => (
            Code::ResourceExhausted,
            "STORE_FULL",
            "The store has no space; nothing was accepted. Ask again when there is some.",
        ),
        Refusal::StoreFailed => (
            Code::Unavailable,
            "STORE_FAILED",
            "The store could not take the record, or took it unseen. Ask again with the same request: it attaches by \
             its execution id, and without one PLAN_ID_USED names its execution.",
        ),
    };
    again_later(code, reason, message.to_owned(), [])
}

fn of_id_in_use(differs: Option<String>) -> Status {
    let (code, reason) = (Code::AlreadyExists, "EXECUTION_ID_IN_USE");
    let message = "The execution id is in use for another request";
    match differs {
        Some(field) => {
            let message = format!("{message}: {field} differs.");
            plain(code, reason, message, [("differs", field)])
        }
        None => plain(code, reason, format!("{message}."), []),
    }
}

fn of_removed(code: Code, message: String, removed: &RemovedExecution) -> Status {
    plain(
        code,
        "EXECUTION_REMOVED",
        message,
        [
            ("execution_id", removed.execution_id.to_string()),
            ("plan_id", removed.plan_id.to_string()),
            ("settled_at", removed.settled_at.to_string()),
            ("removed_at", removed.removed_at.to_string()),
        ],
    )
}

/// `ValidatePlan` lists all violations of a plan.
fn of_findings(findings: &[Finding], message: String) -> Status {
    let reason = findings.first().map_or("INVALID_ARGUMENT", |first| first.code);
    let violations = findings
        .iter()
        .map(|finding| violation(&finding.field, finding.code, &finding.message));
    invalid(reason, message, findings.len(), violations)
}

#[cfg(test)]
mod tests;
