//! What makes two requests the same: SHA-256 over one canonical encoding. Keeps no content.
//!
//! The encoding, in this order: the version of the encoding; of the plan id, version, created_at, steps,
//! name, context
//! requirements, priority, timeout, retry policy, metadata, tags, estimate; then environment, deadline,
//! parent, user,
//! request id, correlation context, max_concurrent_steps.
//! A text is its length in bytes and its bytes; a list is its length and its items; a number is eight bytes,
//! big endian;
//! what may be absent is 0, or 1 and its value; ids are their 16 bytes; references are positions in the list
//! of steps.
//! An object is its number of keys and its entries, sorted by key, the last value of a repeated key; each
//! value has a tag.
//! Defaults are filled in before, so that an absent field and its explicit default are the same.

use crate::plan::{Plan, RetryPolicy, Step};
use crate::request::Request;
use alloc::string::String;
use alloc::vec::Vec;
use escapement_model::Opaque;
use escapement_model::opaque::{Entries, ValueView, entries, items};
use sha2::{Digest, Sha256};

/// Names this encoding; a change of it must change this text.
const ENCODING: &str = "escapement request 1";

/// The digest of everything but the execution id.
pub(crate) fn digest(request: &Request) -> [u8; 32] {
    // the plan's id is part of it, so the same content under another id is another request.
    let mut encoder = Encoder {
        hash: Sha256::new(),
        buffer: Vec::with_capacity(BUFFER_BYTES),
    };
    encoder.text(ENCODING);
    encoder.plan(&request.plan);
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
    encoder.finish()
}

struct Encoder {
    hash: Sha256,
    buffer: Vec<u8>,
}

impl Encoder {
    fn finish(mut self) -> [u8; 32] {
        self.hash.update(&self.buffer);
        self.hash.finalize().into()
    }

    fn bytes(&mut self, bytes: &[u8]) {
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.hash.update(&self.buffer);
            self.buffer.clear();
        }
        if bytes.len() > BUFFER_BYTES {
            self.hash.update(bytes);
        } else {
            self.buffer.extend_from_slice(bytes);
        }
    }

    fn plan(&mut self, plan: &Plan) {
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

    fn step(&mut self, step: &Step) {
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

    fn optional<T>(&mut self, value: Option<T>, encode: impl FnOnce(&mut Self, T)) {
        self.bytes(&[u8::from(value.is_some())]);
        if let Some(value) = value {
            encode(self, value);
        }
    }

    fn number(&mut self, number: u64) {
        self.bytes(&number.to_be_bytes());
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.bytes(text.as_bytes());
    }

    fn texts(&mut self, texts: &[String]) {
        self.number(texts.len() as u64);
        for text in texts {
            self.text(text);
        }
    }

    fn object(&mut self, object: &Opaque) {
        self.entries(object.entries());
    }

    fn entries(&mut self, entries: Entries<'_>) {
        // Protobuf maps have no order, and of a repeated key the last value counts. The sort keeps repeated
        // keys in order.
        let mut sorted: Vec<(&str, ValueView<'_>)> = entries
            .map(|entry| entry.expect("only objects that were checked are hashed"))
            .collect();
        sorted.sort_by_key(|(key, _)| *key);
        let is_last = |index: usize| {
            sorted
                .get(index + 1)
                .is_none_or(|(next, _)| *next != sorted[index].0)
        };
        self.number((0..sorted.len()).filter(|index| is_last(*index)).count() as u64);
        for index in (0..sorted.len()).filter(|index| is_last(*index)) {
            let (key, value) = sorted[index];
            self.text(key);
            self.value(value);
        }
    }

    /// Recursive; `Opaque::check` bounds the depth.
    fn value(&mut self, value: ValueView<'_>) {
        match value {
            ValueView::Null => self.bytes(&[0]),
            ValueView::Number(number) => {
                self.bytes(&[1]);
                self.number(number.to_bits());
            }
            ValueView::Text(text) => {
                self.bytes(&[2]);
                self.text(text);
            }
            ValueView::Bool(flag) => self.bytes(&[3, u8::from(flag)]),
            ValueView::Struct(bytes) => {
                self.bytes(&[4]);
                self.entries(entries(bytes));
            }
            ValueView::List(bytes) => {
                self.bytes(&[5]);
                self.number(items(bytes).count() as u64);
                for item in items(bytes) {
                    self.value(item.expect("only objects that were checked are hashed"));
                }
            }
        }
    }
}

/// Bytes that are hashed at a time; most values are a few bytes long.
const BUFFER_BYTES: usize = 4096;
