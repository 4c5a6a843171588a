//! Plans, records and results in few words. Judges nothing.

use escapement_model::Opaque;
use escapement_wire::json::to_opaque;
use escapement_wire::v1::audit_entry::Event;
use escapement_wire::v1::execution_error::Severity;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::plan_step::OnFailure;
use escapement_wire::v1::{self, AuditEntry, ExecutionError, Plan, PlanResult, PlanStep, RetryPolicy};
use serde_json::{Value, json};

use crate::reference::{Difference, Facts, retell};

/// An execution as it was recorded.
#[derive(Clone, Debug)]
pub(super) struct Recorded {
    pub(super) plan: Plan,
    pub(super) facts: Facts,
    pub(super) entries: Vec<AuditEntry>,
    pub(super) result: PlanResult,
}

impl Recorded {
    pub(super) fn retell(&self) -> Result<(), Difference> {
        retell(&self.plan, &self.facts, &self.entries, &self.result)
    }

    pub(super) fn is_true(&self) {
        if let Err(difference) = self.retell() {
            panic!("{difference}\n{self:#?}");
        }
    }
}

pub(super) fn id(n: usize) -> String {
    format!("{n:08x}-0000-4000-8000-000000000000")
}

pub(super) const PLAN: usize = 0xf0;
pub(super) const ACCEPTED_AT: i64 = 10_000;
pub(super) const STARTED_AT: i64 = 10_010;

pub(super) fn object(value: &Value) -> Opaque {
    to_opaque(value.as_object().expect("an object"))
}

pub(super) fn step(n: usize, after: &[usize], on_failure: OnFailure) -> PlanStep {
    PlanStep {
        id: id(n),
        depends_on: after.iter().map(|n| id(*n)).collect(),
        on_failure: on_failure.into(),
        ..PlanStep::default()
    }
}

/// Two attempts for `BUSY` and `STEP_TIMEOUT`, 20 ms between them; the plan's limit is 1 s.
pub(super) fn plan(steps: Vec<PlanStep>) -> Plan {
    Plan {
        id: id(PLAN),
        steps,
        timeout_ms: Some(1000),
        retry_policy: Some(RetryPolicy {
            max_attempts: Some(2),
            backoff_ms: Some(20),
            retryable_error_codes: vec!["BUSY".into(), "STEP_TIMEOUT".into()],
            ..RetryPolicy::default()
        }),
        context_requirements: vec!["region".into()],
        ..Plan::default()
    }
}

pub(super) fn error(n: usize, code: &str, severity: Severity) -> ExecutionError {
    ExecutionError {
        error_code: code.into(),
        message: "as it happened".into(),
        step_id: Some(id(n)),
        severity: severity.into(),
        recoverable: severity != Severity::Fatal,
        ..ExecutionError::default()
    }
}

pub(super) fn because(error: ExecutionError, cause: ExecutionError) -> ExecutionError {
    ExecutionError {
        cause: Some(Box::new(cause)),
        ..error
    }
}

/// Writes the entries of a record, each at a time.
pub(super) struct Writer {
    entries: Vec<AuditEntry>,
}

impl Writer {
    /// Accepted; the deadline is far away.
    pub(super) fn new() -> Self {
        Self::with_deadline(1_000_000)
    }

    pub(super) fn with_deadline(deadline_ms: i64) -> Self {
        let mut writer = Self { entries: Vec::new() };
        writer.say(
            ACCEPTED_AT,
            Event::Accepted(v1::ExecutionAccepted { deadline_ms }),
        );
        writer
    }

    pub(super) fn say(&mut self, at: i64, event: Event) {
        self.entries.push(AuditEntry {
            hash: Vec::new(),
            sequence: i64::try_from(self.entries.len()).expect("few") + 1,
            at,
            event: Some(event),
        });
    }

    pub(super) fn started(&mut self) {
        let started_at = STARTED_AT;
        self.say(STARTED_AT, Event::Started(v1::ExecutionStarted { started_at }));
    }

    pub(super) fn waits(&mut self, at: i64, n: usize, attempt: i32) {
        let step_id = id(n);
        self.say(at, Event::StepWaiting(v1::StepWaiting { step_id, attempt }));
    }

    /// Handed out at once and begun a millisecond later.
    pub(super) fn begins(&mut self, at: i64, n: usize, attempt: i32) {
        let (step_id, worker_id) = (id(n), "worker".into());
        self.say(
            at,
            Event::AttemptAssigned(v1::AttemptAssigned {
                step_id: step_id.clone(),
                attempt,
                worker_id,
            }),
        );
        self.say(
            at + 1,
            Event::AttemptStarted(v1::AttemptStarted { step_id, attempt }),
        );
    }

    pub(super) fn fails(&mut self, at: i64, n: usize, attempt: i32, error: &ExecutionError) {
        let (step_id, error) = (id(n), Some(error.clone()));
        self.say(
            at,
            Event::AttemptFailed(v1::AttemptFailed {
                step_id,
                attempt,
                error,
            }),
        );
    }

    pub(super) fn retries(&mut self, at: i64, n: usize, next_attempt: i32) {
        let (step_id, delay_ms) = (id(n), 20);
        self.say(
            at,
            Event::RetryScheduled(v1::RetryScheduled {
                step_id,
                next_attempt,
                delay_ms,
            }),
        );
    }

    pub(super) fn completes(&mut self, at: i64, n: usize, attempts: i32) {
        let (step_id, warnings) = (id(n), Vec::new());
        self.say(
            at,
            Event::StepCompleted(v1::StepCompleted {
                step_id,
                attempts,
                warnings,
            }),
        );
    }

    pub(super) fn does_not_complete(
        &mut self,
        at: i64,
        n: usize,
        attempts: i32,
        reason: &str,
        error: &ExecutionError,
    ) {
        let (step_id, reason, error) = (id(n), reason.into(), Some(error.clone()));
        self.say(
            at,
            Event::StepNotCompleted(v1::StepNotCompleted {
                step_id,
                attempts,
                reason,
                error,
            }),
        );
    }

    /// The mandatory actions, and the end.
    pub(super) fn ends(mut self, at: i64, status: Status, incomplete: &[usize]) -> Vec<AuditEntry> {
        let known = crate::reference::retell::reading::status(status).expect("a status");
        let actions = crate::reference::lists::mandatory_actions(known);
        let place_of_the_list = match status {
            Status::Partial => 9,
            _ => 5,
        };
        for (n, (rule_set, number, action)) in actions.into_iter().enumerate() {
            if n == place_of_the_list && status != Status::Success {
                let step_ids = incomplete.iter().map(|n| id(*n)).collect();
                self.say(at, Event::StepsIncomplete(v1::StepsIncomplete { step_ids }));
            }
            let number = i32::try_from(number).expect("small");
            self.say(
                at,
                Event::MandatoryAction(v1::MandatoryAction {
                    rule_set: rule_set.into(),
                    number,
                    action: action.into(),
                }),
            );
        }
        self.say(
            at,
            Event::Settled(v1::ExecutionSettled {
                status: status.into(),
            }),
        );
        self.entries
    }
}

/// `errors` of a context.
pub(super) fn listed(error: &ExecutionError, attempt: Option<i32>, timestamp: i64) -> Value {
    let mut listed = json!({
        "error_code": error.error_code,
        "message": error.message,
        "severity": error.severity().as_str_name(),
        "recoverable": error.recoverable,
        "timestamp": timestamp,
    });
    if let Some(step_id) = &error.step_id {
        listed["step_id"] = json!(step_id);
    }
    if let Some(attempt) = attempt {
        listed["attempt"] = json!(attempt);
    }
    if let Some(cause) = &error.cause {
        listed["cause"] = json!({ "error_code": cause.error_code, "message": cause.message });
    }
    listed
}

pub(super) fn with_errors(
    mut error: ExecutionError,
    mut context: Value,
    errors: Vec<Value>,
) -> Option<ExecutionError> {
    context["errors"] = Value::Array(errors);
    error.context = Some(object(&context));
    Some(error)
}

/// A result; its payload has an empty object for each completed step.
pub(super) fn result(
    at: i64,
    (started_at, n_steps): (i64, i32),
    status: Status,
    completed: &[usize],
    error: Option<ExecutionError>,
) -> PlanResult {
    let payload = completed.iter().map(|n| (id(*n), json!({}))).collect();
    PlanResult {
        plan_id: id(PLAN),
        execution_id: id(0xe0),
        status: status.into(),
        completed_at: at,
        duration_ms: at - started_at,
        steps_executed: i32::try_from(completed.len()).expect("few"),
        steps_total: n_steps,
        result_payload: Some(object(&Value::Object(payload))),
        error,
    }
}

pub(super) fn facts() -> Facts {
    Facts {
        environment: Some(object(&json!({ "region": null }))),
        max_concurrent_steps: None,
        slack_ms: Some(1),
    }
}

/// Step 0 is attempted twice and times out, step 1 is skipped because of it, step 2 completes.
pub(super) fn partial() -> Recorded {
    let busy = error(0, "BUSY", Severity::Error);
    let timeout = error(0, "STEP_TIMEOUT", Severity::Error);
    let skipped = because(error(1, "STEP_SKIPPED", Severity::Warn), timeout.clone());
    let mut writer = Writer::new();
    writer.started();
    writer.waits(10_012, 0, 1);
    writer.begins(10_012, 0, 1);
    writer.fails(10_020, 0, 1, &busy);
    writer.retries(10_020, 0, 2);
    writer.waits(10_040, 0, 2);
    writer.begins(10_041, 0, 2);
    writer.fails(10_091, 0, 2, &timeout);
    writer.does_not_complete(10_091, 0, 2, "retries_exhausted", &timeout);
    writer.does_not_complete(10_091, 1, 0, "skipped", &skipped);
    writer.waits(10_091, 2, 1);
    writer.begins(10_092, 2, 1);
    writer.completes(10_100, 2, 1);
    let errors = vec![
        listed(&busy, Some(1), 10_020),
        listed(&timeout, Some(2), 10_091),
        listed(&skipped, None, 10_091),
    ];
    let limited = PlanStep {
        timeout_ms: Some(50),
        ..step(0, &[], OnFailure::Retry)
    };
    Recorded {
        plan: plan(vec![
            limited,
            step(1, &[0], OnFailure::Skip),
            step(2, &[], OnFailure::Halt),
        ]),
        facts: facts(),
        entries: writer.ends(10_100, Status::Partial, &[0, 1]),
        result: result(
            10_100,
            (STARTED_AT, 3),
            Status::Partial,
            &[2],
            with_errors(timeout, json!({ "limit_ms": 50 }), errors),
        ),
    }
}

/// An error of the plan.
pub(super) fn plan_error(code: &str) -> ExecutionError {
    ExecutionError {
        step_id: None,
        ..error(0, code, Severity::Fatal)
    }
}

/// What ended without any step: `started` says whether there was a start, `at` when it ended.
pub(super) fn without_steps(
    code: &str,
    started: bool,
    at: i64,
    deadline_ms: i64,
    context: Value,
) -> Recorded {
    let mut writer = Writer::with_deadline(deadline_ms);
    if started {
        writer.started();
    }
    let error = plan_error(code);
    let errors = vec![listed(&error, None, at)];
    let started_at = if started { STARTED_AT } else { at };
    Recorded {
        plan: plan(vec![step(0, &[], OnFailure::Halt), step(1, &[], OnFailure::Halt)]),
        facts: facts(),
        entries: writer.ends(at, Status::Failure, &[0, 1]),
        result: result(
            at,
            (started_at, 2),
            Status::Failure,
            &[],
            with_errors(error, context, errors),
        ),
    }
}
