//! What makes two requests the same: SHA-256 over one canonical encoding. Keeps no content.
//!
//! The encoding, in this order: the version of the encoding; of the plan id, version, created_at, steps,
//! name, context
//! requirements, priority, timeout, retry policy, metadata, tags, estimate; then environment, deadline,
//! parent, user,
//! request id, correlation context, max_concurrent_steps.
//! References are positions in the list of steps; how the rest is spelt stands in `encoder`.
//! That of a plan alone has another name and the part about the plan.
//! Defaults are filled in before, so that an absent field and its explicit default are the same.

use crate::encoder::Encoder;
use crate::plan::{Plan, RetryPolicy, Step};
use crate::request::Request;

/// Names this encoding; a change of it must change this text.
const ENCODING: &str = "escapement request 1";

/// The same for a plan alone.
const PLAN_ENCODING: &str = "escapement plan 1";

/// The digest of everything but the execution id, and that of the plan. They share the encoding of the plan, which is most
/// of what they cost.
pub(crate) fn digests(request: &Request) -> ([u8; 32], [u8; 32]) {
    let mut of_plan = [0; 32];
    let of_request = Encoder::named(ENCODING, |encoder| {
        // the plan's id is part of it, so the same content under another id is another request.
        of_plan = encoder.aside(PLAN_ENCODING, |encoder| encoder.plan(&request.plan));
        encoder.object(&request.environment);
        encoder.optional(request.deadline_ms, |encoder, deadline_ms| {
            encoder.number(deadline_ms.cast_unsigned())
        });
        encoder.optional(request.parent_execution_id, |encoder, id| {
            encoder.bytes(id.as_bytes())
        });
        encoder.optional(request.user_id.as_deref(), Encoder::text);
        encoder.optional(request.request_id.as_deref(), Encoder::text);
        encoder.number(request.correlation_context.len() as u64);
        for (key, value) in &request.correlation_context {
            encoder.text(key);
            encoder.text(value);
        }
        encoder.number(u64::from(request.max_concurrent_steps));
    });
    (of_request, of_plan)
}

/// The digest of a plan, everything in it included.
pub(crate) fn plan_digest(plan: &Plan) -> [u8; 32] {
    Encoder::named(PLAN_ENCODING, |encoder| encoder.plan(plan))
}

impl<'a> Encoder<'a> {
    fn plan(&mut self, plan: &'a Plan) {
        self.bytes(plan.id.as_bytes());
        // The version; there is no other.
        self.number(1);
        self.number(plan.created_at.cast_unsigned());
        self.number(plan.steps.len() as u64);
        for step in &plan.steps {
            self.step(step);
        }
        self.text(&plan.name);
        self.texts(&plan.context_requirements);
        self.number(i64::from(plan.priority).cast_unsigned());
        self.number(plan.timeout_ms);
        self.retry_policy(&plan.retry_policy);
        self.object(&plan.metadata);
        self.texts(&plan.tags);
        self.optional(plan.estimated_duration_ms, Encoder::number);
    }

    fn step(&mut self, step: &'a Step) {
        self.bytes(step.id.as_bytes());
        self.text(&step.action);
        self.object(&step.payload);
        self.number(step.depends_on.len() as u64);
        for dependency in &step.depends_on {
            self.number(dependency.as_usize() as u64);
        }
        self.text(step.on_failure.as_str());
        self.optional(step.timeout_ms, Encoder::number);
    }

    fn retry_policy(&mut self, policy: &RetryPolicy) {
        self.number(u64::from(policy.max_attempts));
        self.number(policy.backoff_ms);
        self.number(policy.backoff_multiplier.to_bits());
        self.number(policy.max_backoff_ms);
        self.texts(&policy.retryable_error_codes);
    }
}
