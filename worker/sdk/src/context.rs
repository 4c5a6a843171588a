//! Context of the attempt that a handler runs. Never shows another step's output or the rest of the plan.

use crate::caller::Caller;
use crate::clock;
use crate::error::StepError;
use escapement_model::limits::WARNINGS_MAX;
use escapement_model::opaque::Malformed;
use escapement_model::{Opaque, codes, headers};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// The attempt that a handler runs. Cheap to clone; all clones are the same attempt.
#[derive(Clone, Debug)]
pub struct StepContext {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    facts: Facts,
    decoded: OnceLock<Result<Map<String, Value>, Malformed>>,
    idempotency_key: OnceLock<String>,
    cancelled: AtomicBool,
    /// Wakes those that wait for it.
    cancellation: Notify,
    warnings: Mutex<Vec<StepError>>,
}

/// Data of the assignment.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) action: String,
    pub(crate) execution_id: String,
    pub(crate) plan_id: String,
    pub(crate) step_id: String,
    pub(crate) attempt: u32,
    /// On the clock of leases and limits.
    pub(crate) deadline: Duration,
    pub(crate) environment: Opaque,
    pub(crate) headers: BTreeMap<String, String>,
    /// `traceparent` of the handler's own span, if it has one.
    pub(crate) traceparent: Option<String>,
    pub(crate) caller: Caller,
}

impl StepContext {
    pub(crate) fn new(facts: Facts) -> Self {
        Self {
            shared: Arc::new(Shared {
                facts,
                decoded: OnceLock::new(),
                idempotency_key: OnceLock::new(),
                cancelled: AtomicBool::new(false),
                cancellation: Notify::new(),
                warnings: Mutex::new(Vec::new()),
            }),
        }
    }

    /// Returns the action that the handler was called for.
    pub fn action(&self) -> &str {
        &self.shared.facts.action
    }

    /// Returns the execution, a UUID v4 in lower case. A nested execution names it as its parent.
    pub fn execution_id(&self) -> &str {
        &self.shared.facts.execution_id
    }

    /// Returns the plan instance, a UUID v4 in lower case.
    pub fn plan_id(&self) -> &str {
        &self.shared.facts.plan_id
    }

    /// Returns the step, a UUID v4 in lower case.
    pub fn step_id(&self) -> &str {
        &self.shared.facts.step_id
    }

    /// Returns the number of the attempt of the step of this execution; 1 for the first. It is always 1 in runs, each attempt of
    /// which is an
    /// execution of its own: see [`StepContext::run_attempt`].
    pub fn attempt(&self) -> u32 {
        self.shared.facts.attempt
    }

    /// Returns the number of the attempt as the plan's author counts; 1 for the first. In a run it counts the attempts of the run,
    /// elsewhere it
    /// is [`StepContext::attempt`].
    pub fn run_attempt(&self) -> u32 {
        let told = self
            .header(headers::ATTEMPT)
            .and_then(|number| number.parse().ok());
        told.unwrap_or_else(|| self.attempt())
    }

    /// Returns the idempotency key: equal for all attempts that may have only one effect, and for no other. A handler with effects outside
    /// passes it to what it calls, or stores it with what it did.
    ///
    /// In a run it names the run, the step and its unit; a step that a person has set back is another effect.
    /// Elsewhere it is the execution and the step.
    pub fn idempotency_key(&self) -> &str {
        self.shared.idempotency_key.get_or_init(|| {
            let told = self.header(headers::IDEMPOTENCY_KEY).map(str::to_owned);
            told.unwrap_or_else(|| format!("{}/{}", self.execution_id(), self.step_id()))
        })
    }

    /// Returns the time until the attempt times out; zero afterwards. At the limit the handler is cancelled, then aborted.
    pub fn time_left(&self) -> Duration {
        self.shared.facts.deadline.saturating_sub(clock::now())
    }

    /// Returns the execution's environment as JSON, decoded when it is asked for first.
    ///
    /// # Errors
    /// `INVALID_PAYLOAD` if it cannot be decoded.
    pub fn environment(&self) -> Result<&Map<String, Value>, StepError> {
        let decoded = self
            .shared
            .decoded
            .get_or_init(|| escapement_wire::json::from_opaque(&self.shared.facts.environment));
        decoded.as_ref().map_err(|malformed| {
            StepError::new(codes::INVALID_PAYLOAD, format!("the environment {malformed}"))
        })
    }

    /// Returns the execution's environment, the bytes that the caller sent.
    pub fn environment_encoded(&self) -> &Opaque {
        &self.shared.facts.environment
    }

    /// Returns one header: `traceparent`, `tracestate`, a source of the idempotency key or of the attempt's number, or an entry of
    /// the caller's
    /// correlation context.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.shared.facts.headers.get(name).map(String::as_str)
    }

    /// Returns all headers, by name.
    pub fn headers(&self) -> &BTreeMap<String, String> {
        &self.shared.facts.headers
    }

    /// Returns the `traceparent` for calls that the handler makes: of the handler's own span if the worker exports spans, else of the
    /// attempt. [`StepContext::caller`] sends it automatically.
    pub fn traceparent(&self) -> Option<&str> {
        let own = self.shared.facts.traceparent.as_deref();
        own.or_else(|| self.header("traceparent"))
    }

    /// Returns the id of the trace, for the log.
    pub(crate) fn trace_id(&self) -> Option<&str> {
        self.traceparent()?.split('-').nth(1)
    }

    /// Returns the id of the span, for the log.
    pub(crate) fn span_id(&self) -> Option<&str> {
        self.traceparent()?.split('-').nth(2)
    }

    /// Returns the way to the orchestrator that gave the attempt, in the name of this attempt: for handlers that execute plans.
    pub fn caller(&self) -> &Caller {
        &self.shared.facts.caller
    }

    /// Resolves when the attempt is no longer needed: a limit ran out, the execution ended, or the worker stops.
    ///
    /// The handler's result after that is discarded. It is aborted at its next `.await` shortly afterwards.
    pub async fn cancelled(&self) {
        // Created before the check: it resolves by every cancellation from now on.
        let cancellation = self.shared.cancellation.notified();
        if !self.is_cancelled() {
            cancellation.await;
        }
    }

    /// Returns true when the attempt is no longer needed. For handlers that block.
    pub fn is_cancelled(&self) -> bool {
        self.shared.cancelled.load(Ordering::Acquire)
    }

    /// Adds a warning to the success of this step. At most 64 are kept; a step that fails loses them.
    pub fn warn(&self, warning: StepError) {
        let mut warnings = self
            .shared
            .warnings
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if warnings.len() < WARNINGS_MAX {
            warnings.push(warning.warn());
        }
    }

    pub(crate) fn cancel(&self) {
        self.shared.cancelled.store(true, Ordering::Release);
        self.shared.cancellation.notify_waiters();
    }

    pub(crate) fn take_warnings(&self) -> Vec<StepError> {
        std::mem::take(
            &mut *self
                .shared
                .warnings
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }
}
