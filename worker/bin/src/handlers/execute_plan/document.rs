//! From the step's input to the request: ids, times, and the plan document by the rules of proto JSON.
//! Sends nothing.

use super::super::{invalid, parse_json};
use super::Input;
use crate::digest::derived_uuid;
use escapement_process::unix_ms;
use escapement_sdk::{StepContext, StepError, headers};
use escapement_wire::json::outside;
use escapement_wire::v1::{ExecutionOptions, Plan, SubmitPlanRequest};
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage};
use serde::de::IntoDeserializer;
use serde_json::{Map, Value};
use std::sync::LazyLock;
use std::time::Duration;

/// Returns the request for this attempt of the parent's step.
/// Made once per attempt, so that it can be sent again unchanged.
pub(super) fn request(
    plan: Map<String, Value>,
    input: &Input,
    context: &StepContext,
) -> Result<SubmitPlanRequest, StepError> {
    let now = unix_ms();
    let plan = complete(plan, input.fresh_ids, context, now);
    let given_id = input.execution_id.clone().filter(|_| context.run_attempt() == 1);
    let environment = match &input.environment {
        Some(environment) => escapement_wire::json::to_opaque(environment),
        None => context.environment_encoded().clone(),
    };
    // The trace among them: metadata of a call that names its execution id goes no further than the edge.
    // The steps of the child have effects of their own.
    let of_attempt = [headers::IDEMPOTENCY_KEY, headers::ATTEMPT];
    let inherited = context.headers().iter();
    Ok(SubmitPlanRequest {
        plan: Some(to_plan(plan)?),
        environment: Some(environment),
        execution_id: Some(given_id.unwrap_or_else(|| derived_id(context, "execution"))),
        deadline_ms: Some(now.saturating_add(millis(context.time_left()))),
        parent_execution_id: Some(context.execution_id().to_owned()),
        user_id: None,
        request_id: None,
        correlation_context: inherited
            .filter(|(name, _)| !of_attempt.contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
        options: Some(ExecutionOptions {
            max_concurrent_steps: input.options.max_concurrent_steps,
        }),
        // The parent's.
        namespace: String::new(),
    })
}

/// The document that a file holds. Its 64-bit integers may be numbers or texts, but what a handler would get as another number than the
/// document has is refused.
pub(super) fn in_file(path: &str, content: &[u8]) -> Result<Map<String, Value>, StepError> {
    let Value::Object(plan) = parse_json(path, content)? else {
        return Err(invalid(format!("{path} holds no JSON object")));
    };
    let lost = outside::lost_integers(content).unwrap_or_default();
    match lost.into_iter().find(|(place, _)| is_for_handlers(place)) {
        Some((place, digits)) => Err(invalid(format!(
            "{path}: {place}: a double does not hold the integer {digits} exactly; write it as a text"
        ))),
        None => Ok(plan),
    }
}

/// True within the payload of a step and within the metadata, whose numbers are doubles.
fn is_for_handlers(place: &str) -> bool {
    let names = |part: &str| part.split('[').next().unwrap_or_default().to_owned();
    let mut parts = place.split('.').map(names);
    match parts.next().as_deref() {
        Some("metadata") => true,
        Some("steps") => parts.next().as_deref() == Some("payload"),
        _ => false,
    }
}

/// Fills in what depends on the attempt: a plan id that was never used, and a time limit that fits.
fn complete(
    mut plan: Map<String, Value>,
    fresh_ids: bool,
    context: &StepContext,
    now: i64,
) -> Map<String, Value> {
    // An accepted plan id is used up, so a further attempt needs another one.
    if fresh_ids || context.run_attempt() > 1 || !plan.contains_key("id") {
        plan.insert("id".to_owned(), derived_id(context, "plan").into());
        plan.insert("created_at".to_owned(), now.into());
    }
    fit(&mut plan, context);
    plan
}

/// Makes `timeout_ms` fit into what the parent's step has left, and warns if that shortens a stated one.
///
/// The contract asks for a window of at least the plan's timeout, so a longer one could not even start.
/// A part of the time left may pass in the queue.
fn fit(plan: &mut Map<String, Value>, context: &StepContext) {
    let left = context.time_left();
    let fitting = millis(left - (left / 10).min(QUEUE_TIME_MAX)).max(1);
    let stated = match plan.get("timeout_ms") {
        None | Some(Value::Null) => None,
        // Proto JSON writes 64-bit integers as texts, too.
        // What is neither is refused with the rest of the document.
        Some(Value::String(text)) => text.parse().ok().or(Some(0)),
        Some(other) => other.as_i64().or(Some(0)),
    };
    if stated.is_some_and(|stated| stated <= fitting) {
        return;
    }
    if let Some(stated) = stated {
        let message = format!("timeout_ms {stated} of the child is more than fits; it runs with {fitting}");
        context.warn(StepError::new("CHILD_TIMEOUT_CUT", message));
    }
    plan.insert(
        "timeout_ms".to_owned(),
        fitting.min(stated.unwrap_or(PLAN_TIMEOUT_MS_DEFAULT)).into(),
    );
}

/// Follows from the secret of the attempt: nobody can hand in something under the id before the handler does.
fn derived_id(context: &StepContext, what: &str) -> String {
    let (attempt, secret) = (context.attempt().to_string(), context.caller().secret());
    derived_uuid(&[
        "execute_plan",
        what,
        context.execution_id(),
        context.step_id(),
        &attempt,
        &secret,
    ])
}

fn to_plan(document: Map<String, Value>) -> Result<Plan, StepError> {
    let wrong = |why: String| invalid(format!("plan: {why}"));
    let descriptor = descriptors()
        .get_message_by_name("escapement.v1.Plan")
        .expect("the API has plans");
    let message = DynamicMessage::deserialize(descriptor, Value::Object(document).into_deserializer())
        .map_err(|error| wrong(error.to_string()))?;
    Plan::decode(message.encode_to_vec().as_slice()).map_err(|error| wrong(error.to_string()))
}

/// Returns the messages of the API.
pub(super) fn descriptors() -> &'static DescriptorPool {
    static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
        DescriptorPool::decode(escapement_wire::DESCRIPTORS).expect("the build wrote a descriptor set")
    });
    &POOL
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// What a plan without a limit of its own gets, as the contract says.
const PLAN_TIMEOUT_MS_DEFAULT: i64 = 300_000;
/// The longest part of the time left that is kept for the queue.
const QUEUE_TIME_MAX: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::super::Input;
    use super::{in_file, request};
    use escapement_sdk::testing::{ContextBuilder, take_warnings};
    use serde_json::{Map, Value, json};
    use std::time::Duration;

    const GIVEN: &str = "0b6a1b52-2f0e-4c0e-9d3e-5a1d6d1f7a09";

    fn plan() -> Map<String, Value> {
        let plan = json!({
            "id": "0b6a1b52-2f0e-4c0e-9d3e-5a1d6d1f7a01", "version": 1, "created_at": 1_700_000_000_000_i64,
            "name": "child", "context_requirements": ["project"],
            "steps": [
                { "id": "0b6a1b52-2f0e-4c0e-9d3e-5a1d6d1f7a02", "action": "echo", "payload": { "n": 1 } }
            ]
        });
        plan.as_object().unwrap().clone()
    }

    fn input(more: Value) -> Input {
        serde_json::from_value(more).unwrap()
    }

    #[test]
    fn the_first_attempt_keeps_the_ids_of_the_document() {
        let context = ContextBuilder::new("execute_plan")
            .environment(&json!({ "project": "x" }))
            .build();
        let request = request(plan(), &input(json!({ "execution_id": GIVEN })), &context).unwrap();
        let sent = request.plan.unwrap();
        assert_eq!(sent.id, "0b6a1b52-2f0e-4c0e-9d3e-5a1d6d1f7a01");
        assert_eq!(sent.created_at, 1_700_000_000_000);
        assert_eq!(request.execution_id.as_deref(), Some(GIVEN));
        assert_eq!(
            request.parent_execution_id.as_deref(),
            Some(context.execution_id())
        );
        assert_eq!(request.environment.as_ref(), Some(context.environment_encoded()));
    }

    #[test]
    fn a_second_attempt_takes_other_ids_and_repeats_them_exactly() {
        let first = ContextBuilder::new("execute_plan").attempt(1).build();
        let second = ContextBuilder::new("execute_plan").attempt(2).build();
        let of = |context| request(plan(), &input(json!({})), context).unwrap();
        assert_ne!(of(&first).execution_id, of(&second).execution_id);
        assert_ne!(of(&first).plan.unwrap().id, of(&second).plan.unwrap().id);
        assert_eq!(of(&second).execution_id, of(&second).execution_id);
        assert_eq!(of(&second).plan.unwrap().id, of(&second).plan.unwrap().id);
    }

    #[test]
    fn a_plan_without_a_limit_gets_one_that_fits_into_the_time_left() {
        let context = ContextBuilder::new("execute_plan")
            .time_left(Duration::from_secs(20))
            .build();
        let sent = request(plan(), &input(json!({})), &context).unwrap();
        let timeout_ms = sent.plan.unwrap().timeout_ms.unwrap();
        assert!((17_000..=18_000).contains(&timeout_ms), "{timeout_ms}");
    }

    #[test]
    fn a_further_attempt_of_a_run_gives_the_plan_another_id() {
        let plan_id = |attempt| {
            let context = ContextBuilder::new("execute_plan")
                .run_attempt("run/step", attempt)
                .build();
            let given = json!({ "execution_id": GIVEN });
            let sent = request(plan(), &input(given), &context).unwrap();
            (sent.plan.unwrap().id, sent.execution_id.unwrap() == GIVEN)
        };
        let (first, second) = (plan_id(1), plan_id(2));
        assert_eq!((first.0 == plan()["id"], first.1), (true, true));
        assert_eq!((second.0 == plan()["id"], second.1), (false, false));
    }

    #[test]
    fn a_file_is_refused_where_a_handler_would_get_another_number() {
        let file = |payload: &str| {
            format!(
                "\u{feff}{{\"timeout_ms\": 9223372036854775807, \"steps\": [{{\"payload\": {payload}}}]}}"
            )
        };
        let error = in_file("p.json", file(r#"{"ids": [2512292042121000001]}"#).as_bytes()).unwrap_err();
        assert!(
            error.message().starts_with("p.json: steps[0].payload.ids[0]: "),
            "{error}"
        );
        let plan = in_file("p.json", file(r#"{"n": 9007199254740992}"#).as_bytes()).unwrap();
        assert_eq!(
            plan["timeout_ms"], "9223372036854775807",
            "as proto JSON has it, too"
        );
        assert!(in_file("p.json", b"[]").is_err());
    }

    #[test]
    fn a_stated_limit_stays_where_it_fits_and_is_cut_with_a_warning_where_not() {
        let context = ContextBuilder::new("execute_plan")
            .time_left(Duration::from_secs(20))
            .build();
        let with = |limit: Value| {
            let mut plan = plan();
            plan.insert("timeout_ms".to_owned(), limit);
            request(plan, &input(json!({})), &context)
                .unwrap()
                .plan
                .unwrap()
                .timeout_ms
                .unwrap()
        };
        assert_eq!(with(json!(7)), 7);
        assert_eq!(with(json!("8")), 8);
        assert!(take_warnings(&context).is_empty());
        assert!((17_000..=18_000).contains(&with(json!(300_000))));
        assert_eq!(take_warnings(&context)[0].code(), "CHILD_TIMEOUT_CUT");
    }

    #[test]
    fn an_unknown_field_of_the_plan_is_refused() {
        let mut plan = plan();
        plan.insert("colour".to_owned(), "red".into());
        let context = ContextBuilder::new("execute_plan").build();
        let error = request(plan, &input(json!({})), &context).unwrap_err();
        assert_eq!(error.code(), "INVALID_PAYLOAD");
        assert!(error.message().contains("colour"), "{error}");
    }

    #[test]
    fn the_correlation_context_goes_on_with_the_trace() {
        let context = ContextBuilder::new("execute_plan")
            .header("traceparent", "00-1")
            .header("tenant", "a")
            .run_attempt("run/step", 1)
            .build();
        let request = request(plan(), &input(json!({})), &context).unwrap();
        assert_eq!(request.correlation_context.len(), 2);
        assert_eq!(request.correlation_context["traceparent"], "00-1");
        assert_eq!(request.correlation_context["tenant"], "a");
    }
}
