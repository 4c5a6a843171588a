//! The digest of an accepted request. Judges no plan.

use super::Hash;
use super::canonical::Canonical;
use super::objects;
use escapement_wire::v1;
use prost::Message;
use std::collections::BTreeMap;

pub(super) fn digest(accepted: &[u8]) -> Result<Hash, String> {
    let request = v1::SubmitPlanRequest::decode(accepted).map_err(|_| "it does not decode")?;
    let v1::SubmitPlanRequest {
        plan,
        environment,
        execution_id: _,
        deadline_ms,
        parent_execution_id,
        user_id,
        request_id,
        correlation_context,
        options,
        // It stands among what is appended.
        namespace: _,
    } = &request;
    let plan = plan.as_ref().ok_or("it has no plan")?;
    let mut to = Canonical::new();
    to.text("escapement request 1");
    put_plan(&mut to, plan)?;
    put_object(&mut to, environment.as_ref())?;
    to.maybe(*deadline_ms, Canonical::number);
    to.maybe_id(parent_execution_id.as_deref())?;
    to.maybe(user_id.as_deref(), Canonical::text);
    to.maybe(request_id.as_deref(), Canonical::text);
    // The map is sorted by the bytes of its keys.
    to.count(correlation_context.len());
    for (key, value) in correlation_context {
        to.text(key);
        to.text(value);
    }
    let n_steps = options
        .and_then(|v1::ExecutionOptions { max_concurrent_steps }| max_concurrent_steps)
        .unwrap_or(1);
    to.number(n_steps.into());
    Ok(to.hash())
}

fn put_plan(to: &mut Canonical, plan: &v1::Plan) -> Result<(), String> {
    let v1::Plan {
        id,
        // There is no other than 1.
        version: _,
        created_at,
        steps,
        name,
        context_requirements,
        priority,
        timeout_ms,
        retry_policy,
        metadata,
        tags,
        estimated_duration_ms,
    } = plan;
    to.id(id)?;
    to.number(1);
    to.number(*created_at);
    let mut places = BTreeMap::new();
    for (n, step) in steps.iter().enumerate() {
        places.entry(step.id.to_ascii_lowercase()).or_insert(n);
    }
    to.count(steps.len());
    for step in steps {
        put_step(to, step, &places)?;
    }
    to.text(name);
    to.texts(context_requirements);
    to.number(priority.unwrap_or(0).into());
    to.number(timeout_ms.unwrap_or(300_000));
    let v1::RetryPolicy {
        max_attempts,
        backoff_ms,
        backoff_multiplier,
        max_backoff_ms,
        retryable_error_codes,
    } = retry_policy.clone().unwrap_or_default();
    to.number(max_attempts.unwrap_or(1).into());
    to.number(backoff_ms.unwrap_or(0));
    to.double(backoff_multiplier.unwrap_or(1.0));
    to.number(max_backoff_ms.unwrap_or(60_000));
    to.texts(&retryable_error_codes);
    put_object(to, metadata.as_ref())?;
    to.texts(tags);
    to.maybe(*estimated_duration_ms, Canonical::number);
    Ok(())
}

fn put_step(to: &mut Canonical, step: &v1::PlanStep, places: &BTreeMap<String, usize>) -> Result<(), String> {
    let v1::PlanStep {
        id,
        action,
        payload,
        depends_on,
        // Read below, as the enum that it is.
        on_failure: _,
        timeout_ms,
    } = step;
    to.id(id)?;
    to.text(action);
    put_object(to, payload.as_ref())?;
    // Of a step that is named twice, the first counts.
    let mut named = Vec::new();
    for name in depends_on {
        let place = places.get(&name.to_ascii_lowercase());
        let place = place.ok_or("a step depends on one that is not there")?;
        if !named.contains(place) {
            named.push(*place);
        }
    }
    to.count(named.len());
    named.into_iter().for_each(|place| to.count(place));
    to.text(match step.on_failure() {
        v1::plan_step::OnFailure::Halt => "halt",
        v1::plan_step::OnFailure::Skip => "skip",
        v1::plan_step::OnFailure::Retry => "retry",
    });
    to.maybe(*timeout_ms, Canonical::number);
    Ok(())
}

pub(super) fn put_object(
    to: &mut Canonical,
    object: Option<&escapement_model::Opaque>,
) -> Result<(), String> {
    objects::put(to, object.map_or(&[], |object| object.as_encoded()))
}
