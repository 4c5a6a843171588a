//! Plans and requests of the API to start from, in few words. Knows no rule: what a test is about stands in the test.

use std::time::{SystemTime, UNIX_EPOCH};

use escapement_model::Opaque;
use escapement_wire::v1::plan_step::OnFailure;
use escapement_wire::v1::{
    ExecutePlanRequest, ExecutionOptions, Plan, PlanStep, RetryPolicy, SubmitPlanRequest,
};
use prost::Message;
use serde_json::{Value, json};

use crate::fresh_id;

/// The action of steps whose worker is scripted.
pub const WORK: &str = "work";

/// Returns a UUID v4 that counts: the same number, the same id.
pub fn step_id(number: usize) -> String {
    format!("{number:08x}-0000-4000-8000-000000000000")
}

/// Returns the number in an id of [`step_id`].
///
/// # Panics
/// It is another id.
pub fn step_number(id: &str) -> usize {
    usize::from_str_radix(&id[..8], 16).expect("an id of a numbered step")
}

/// Returns a step without dependencies and with an empty payload that halts the plan when it fails.
pub fn step(number: usize, action: &str) -> PlanStep {
    PlanStep {
        id: step_id(number),
        action: action.to_owned(),
        payload: Some(Opaque::default()),
        ..PlanStep::default()
    }
}

/// Returns a step of the stock worker that completes with the given output.
pub fn echo(number: usize, output: Value) -> PlanStep {
    step(number, "echo").payload(output)
}

/// Returns a step of the stock worker that fails with the given code.
pub fn fail(number: usize, code: &str) -> PlanStep {
    step(number, "fail").payload(json!({ "code": code, "message": format!("{code} as told.") }))
}

/// Says more about a step.
pub trait StepWords: Sized {
    /// Waits for others.
    fn after(self, others: &[usize]) -> Self;
    /// Does not halt the plan.
    fn on_failure(self, on_failure: OnFailure) -> Self;
    /// Has a limit of its own.
    fn timeout_ms(self, timeout_ms: i64) -> Self;
    /// Has parameters.
    fn payload(self, payload: Value) -> Self;
}

impl StepWords for PlanStep {
    fn after(mut self, others: &[usize]) -> Self {
        self.depends_on = others.iter().map(|other| step_id(*other)).collect();
        self
    }

    fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = on_failure.into();
        self
    }

    fn timeout_ms(mut self, timeout_ms: i64) -> Self {
        self.timeout_ms = Some(timeout_ms);
        self
    }

    fn payload(mut self, payload: Value) -> Self {
        self.payload = Some(object(payload));
        self
    }
}

/// Returns a plan of these steps under a fresh id.
pub fn plan(steps: impl IntoIterator<Item = PlanStep>) -> Plan {
    Plan {
        id: fresh_id(),
        version: 1,
        created_at: 1_766_016_000_000,
        steps: steps.into_iter().collect(),
        name: "under test".to_owned(),
        context_requirements: vec!["region".to_owned()],
        ..Plan::default()
    }
}

/// Returns a plan whose `retry` steps have so many attempts for these codes, without pause.
pub fn plan_with_retries(
    steps: impl IntoIterator<Item = PlanStep>,
    max_attempts: i32,
    codes: &[&str],
) -> Plan {
    let policy = RetryPolicy {
        max_attempts: Some(max_attempts),
        retryable_error_codes: codes.iter().map(|code| (*code).to_owned()).collect(),
        ..RetryPolicy::default()
    };
    Plan {
        retry_policy: Some(policy),
        ..plan(steps)
    }
}

/// Returns the request to execute a plan, under a fresh execution id and with the environment that it requires.
pub fn request(plan: Plan) -> ExecutePlanRequest {
    ExecutePlanRequest {
        plan: Some(plan),
        environment: Some(object(json!({ "region": "eu" }))),
        execution_id: Some(fresh_id()),
        ..ExecutePlanRequest::default()
    }
}

/// Says more about a request.
pub trait RequestWords: Sized {
    /// Lets so many steps run at a time.
    fn concurrent(self, max_concurrent_steps: i32) -> Self;
    /// The same request to the other call: the two messages have the same fields.
    fn as_submission(&self) -> SubmitPlanRequest;
    /// Returns the id of the execution that it asks for.
    fn id(&self) -> String;
    /// Returns the id of its plan.
    fn plan_id(&self) -> String;
}

impl RequestWords for ExecutePlanRequest {
    fn concurrent(mut self, max_concurrent_steps: i32) -> Self {
        self.options = Some(ExecutionOptions {
            max_concurrent_steps: Some(max_concurrent_steps),
        });
        self
    }

    fn as_submission(&self) -> SubmitPlanRequest {
        SubmitPlanRequest::decode(self.encode_to_vec().as_slice()).expect("both have the same fields")
    }

    fn id(&self) -> String {
        self.execution_id
            .clone()
            .expect("a request of a test names its execution")
    }

    fn plan_id(&self) -> String {
        self.plan.as_ref().expect("it has a plan").id.clone()
    }
}

/// Returns an encoded object.
///
/// # Panics
/// It is none.
pub fn object(value: Value) -> Opaque {
    escapement_wire::json::to_opaque(value.as_object().expect("an object"))
}

/// Returns an object as JSON; whole numbers are integers.
///
/// # Panics
/// There is none, or it cannot be read.
pub fn json_of(object: Option<&Opaque>) -> Value {
    let object = object.expect("there is an object");
    Value::Object(escapement_wire::json::from_opaque(object).expect("it can be read"))
}

/// Returns the wall clock in Unix milliseconds.
///
/// # Panics
/// It is before 1970.
pub fn unix_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.expect("the clock is set").as_millis();
    i64::try_from(now).expect("a time fits")
}
