//! What makes two requests the same: SHA-256 over one canonical encoding. Keeps no content.
//!
//! The encoding, in this order: the version of the encoding; of the plan id, version, created_at, steps, name, context
//! requirements, priority, timeout, retry policy, metadata, tags, estimate; then environment, deadline, parent, user,
//! request id, correlation context, max_concurrent_steps.
//! References are positions in the list of steps; how the rest is spelt stands in `encoder`.
//! That of a plan alone has another name and the part about the plan.
//! Defaults are filled in before, so that an absent field and its explicit default are the same.

use crate::plan::{Plan, RetryPolicy, Step};
use crate::request::Request;
use escapement_model::encoder::Encoder;

/// Names this encoding; a change of it must change this text.
const ENCODING: &str = "escapement request 1";

/// The same for a plan alone.
const PLAN_ENCODING: &str = "escapement plan 1";

/// Returns the digest of everything but the execution id, and that of the plan. They share the encoding of the plan, which is most
/// of what they cost.
pub(crate) fn digests(request: &Request) -> ([u8; 32], [u8; 32]) {
    let Request {
        plan,
        environment,
        execution_id: _,
        deadline_ms,
        parent_execution_id,
        user_id,
        request_id,
        correlation_context,
        max_concurrent_steps,
        // These three follow from the rest.
        missing_context_keys: _,
        digest: _,
        certificate: _,
        // It says where the request came from and not what it asks for.
        provenance: _,
    } = request;
    let mut of_plan = [0; 32];
    let of_request = Encoder::named(ENCODING, |encoder| {
        // the plan's id is part of it, so the same content under another id is another request.
        of_plan = encoder.with_second_digest(PLAN_ENCODING, |encoder| encode_plan(encoder, plan));
        encoder.object(environment);
        encoder.optional(*deadline_ms, |encoder, deadline_ms| {
            encoder.number(deadline_ms.cast_unsigned())
        });
        encoder.optional(*parent_execution_id, |encoder, id| encoder.bytes(id.as_bytes()));
        encoder.optional(user_id.as_deref(), Encoder::text);
        encoder.optional(request_id.as_deref(), Encoder::text);
        encoder.number(correlation_context.len() as u64);
        for (key, value) in correlation_context {
            encoder.text(key);
            encoder.text(value);
        }
        encoder.number(u64::from(*max_concurrent_steps));
    });
    (of_request, of_plan)
}

/// Returns the digest of a plan, everything in it included.
pub(crate) fn plan_digest(plan: &Plan) -> [u8; 32] {
    Encoder::named(PLAN_ENCODING, |encoder| encode_plan(encoder, plan))
}

fn encode_plan<'a>(encoder: &mut Encoder<'a>, plan: &'a Plan) {
    let Plan {
        id,
        created_at,
        name,
        steps,
        // It follows from the steps.
        order: _,
        context_requirements,
        priority,
        timeout_ms,
        retry_policy,
        metadata,
        tags,
        estimated_duration_ms,
    } = plan;
    encoder.bytes(id.as_bytes());
    // The version; there is no other.
    encoder.number(1);
    encoder.number(created_at.cast_unsigned());
    encoder.number(steps.len() as u64);
    for step in steps {
        encode_step(encoder, step);
    }
    encoder.text(name);
    encoder.texts(context_requirements);
    encoder.number(i64::from(*priority).cast_unsigned());
    encoder.number(*timeout_ms);
    encode_retry_policy(encoder, retry_policy);
    encoder.object(metadata);
    encoder.texts(tags);
    encoder.optional(*estimated_duration_ms, Encoder::number);
}

fn encode_step<'a>(encoder: &mut Encoder<'a>, step: &'a Step) {
    let Step {
        id,
        action,
        payload,
        depends_on,
        on_failure,
        timeout_ms,
    } = step;
    encoder.bytes(id.as_bytes());
    encoder.text(action);
    encoder.object(payload);
    encoder.number(depends_on.len() as u64);
    for dependency in depends_on {
        encoder.number(dependency.as_usize() as u64);
    }
    encoder.text(on_failure.as_str());
    encoder.optional(*timeout_ms, Encoder::number);
}

fn encode_retry_policy<'a>(encoder: &mut Encoder<'a>, policy: &RetryPolicy) {
    let RetryPolicy {
        max_attempts,
        backoff_ms,
        backoff_multiplier,
        max_backoff_ms,
        retryable_error_codes,
    } = policy;
    encoder.number(u64::from(*max_attempts));
    encoder.number(*backoff_ms);
    encoder.number(backoff_multiplier.to_bits());
    encoder.number(*max_backoff_ms);
    encoder.texts(retryable_error_codes);
}
