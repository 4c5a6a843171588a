//! The digest of an accepted request. Judges no plan.

use super::Hash;
use super::canonical::Canonical;
use super::objects;
use escapement_wire::v1;
use prost::Message;
use std::collections::BTreeMap;

pub(super) fn digest(accepted: &[u8]) -> Result<Hash, String> {
    let request = v1::SubmitPlanRequest::decode(accepted).map_err(|_| "it does not decode")?;
    let plan = request.plan.as_ref().ok_or("it has no plan")?;
    let mut to = Canonical::new();
    to.text("escapement request 1");
    put_plan(&mut to, plan)?;
    put_object(&mut to, request.environment.as_ref())?;
    to.maybe(request.deadline_ms, Canonical::number);
    to.maybe_id(request.parent_execution_id.as_deref())?;
    to.maybe(request.user_id.as_deref(), Canonical::text);
    to.maybe(request.request_id.as_deref(), Canonical::text);
    // The map is sorted by the bytes of its keys.
    to.count(request.correlation_context.len());
    for (key, value) in &request.correlation_context {
        to.text(key);
        to.text(value);
    }
    let options = request.options.as_ref();
    let n_steps = options
        .and_then(|options| options.max_concurrent_steps)
        .unwrap_or(1);
    to.number(n_steps.into());
    Ok(to.hash())
}

fn put_plan(to: &mut Canonical, plan: &v1::Plan) -> Result<(), String> {
    to.id(&plan.id)?;
    to.number(1);
    to.number(plan.created_at);
    let mut places = BTreeMap::new();
    for (n, step) in plan.steps.iter().enumerate() {
        places.entry(step.id.to_ascii_lowercase()).or_insert(n);
    }
    to.count(plan.steps.len());
    for step in &plan.steps {
        put_step(to, step, &places)?;
    }
    to.text(&plan.name);
    to.texts(&plan.context_requirements);
    to.number(plan.priority.unwrap_or(0).into());
    to.number(plan.timeout_ms.unwrap_or(300_000));
    let policy = plan.retry_policy.clone().unwrap_or_default();
    to.number(policy.max_attempts.unwrap_or(1).into());
    to.number(policy.backoff_ms.unwrap_or(0));
    to.double(policy.backoff_multiplier.unwrap_or(1.0));
    to.number(policy.max_backoff_ms.unwrap_or(60_000));
    to.texts(&policy.retryable_error_codes);
    put_object(to, plan.metadata.as_ref())?;
    to.texts(&plan.tags);
    to.maybe(plan.estimated_duration_ms, Canonical::number);
    Ok(())
}

fn put_step(to: &mut Canonical, step: &v1::PlanStep, places: &BTreeMap<String, usize>) -> Result<(), String> {
    to.id(&step.id)?;
    to.text(&step.action);
    put_object(to, step.payload.as_ref())?;
    // Of a step that is named twice, the first counts.
    let mut named = Vec::new();
    for name in &step.depends_on {
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
    to.maybe(step.timeout_ms, Canonical::number);
    Ok(())
}

pub(super) fn put_object(
    to: &mut Canonical,
    object: Option<&escapement_model::Opaque>,
) -> Result<(), String> {
    objects::put(to, object.map_or(&[], |object| object.as_encoded()))
}
