//! Handler tasks: as tasks on the runtime of the caller, or on threads of their own if they block.
//! Cancels and aborts on command only.

use crate::caller::{Caller, Way};
use crate::clock;
use crate::context::{Facts, StepContext};
use crate::error::StepError;
use crate::event::{AttemptEnd, AttemptEvent};
use crate::handler::{Handler, HandlerFn, HandlerResult};
use crate::handler_span;
use crate::session::{TaskEnd, TaskStart};
use crate::shell::threads::Threads;
use crate::worker::AttemptCallback;
use escapement_model::{AttemptToken, Severity, codes};
use serde_json::json;
use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tracing::{Instrument, Span, debug, info};

/// All handler tasks that run. Dropping it aborts them.
pub(super) struct HandlerTasks {
    runtime: Handle,
    handlers: BTreeMap<String, Handler>,
    tasks: JoinSet<HandlerResult>,
    tokens: HashMap<Id, AttemptToken>,
    threads: Threads,
    blocking_tx: mpsc::UnboundedSender<BlockingEnd>,
    /// Holds at most one end for each handler task that runs.
    blocking_rx: mpsc::UnboundedReceiver<BlockingEnd>,
    running: BTreeMap<AttemptToken, Running>,
    on_attempt: AttemptCallback,
}

struct Running {
    /// None for a handler task that blocks: it cannot be aborted.
    abort: Option<AbortHandle>,
    context: StepContext,
    span: Span,
    /// On the clock of leases and limits.
    began: Duration,
}

/// End of a handler task that blocks; `Err` is its panic.
type BlockingEnd = (AttemptToken, Result<HandlerResult, Box<dyn Any + Send>>);

impl HandlerTasks {
    pub(super) fn new(
        runtime: Handle,
        handlers: BTreeMap<String, Handler>,
        on_attempt: AttemptCallback,
    ) -> Self {
        let (blocking_tx, blocking_rx) = mpsc::unbounded_channel();
        Self {
            runtime,
            handlers,
            tasks: JoinSet::new(),
            tokens: HashMap::new(),
            threads: Threads::default(),
            blocking_tx,
            blocking_rx,
            running: BTreeMap::new(),
            on_attempt,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    pub(super) fn start(&mut self, job: TaskStart, deadline: Duration, way: Arc<Way>) {
        let assignment = job.assignment;
        let handler = self
            .handlers
            .get(&assignment.action)
            .expect("the session starts known actions only");
        let (span, traceparent) = handler_span::of(&assignment);
        let told = |name| Some((name, assignment.headers.get(name)?.as_str()));
        let of_span = traceparent.as_deref().map(|own| (TRACEPARENT, own));
        let trace = of_span
            .or_else(|| told(TRACEPARENT))
            .into_iter()
            .chain(told("tracestate"));
        let caller = Caller::new(way, job.token, trace);
        let context = StepContext::new(Facts {
            action: assignment.action,
            execution_id: assignment.execution_id,
            plan_id: assignment.plan_id,
            step_id: assignment.step_id,
            attempt: assignment.attempt,
            deadline,
            environment: assignment.environment.unwrap_or_default(),
            headers: assignment.headers,
            traceparent,
            caller,
        });
        debug!(
            action = context.action(),
            execution_id = context.execution_id(),
            step_id = context.step_id(),
            attempt = context.attempt(),
            trace_id = context.trace_id(),
            span_id = context.span_id(),
            "attempt started"
        );
        let payload = assignment.payload.unwrap_or_default();
        // The handler may begin at once, on another thread.
        let began = clock::now();
        let abort = match &handler.function {
            HandlerFn::Async(function) => {
                let function = function.clone();
                let context = context.clone();
                // The call itself is inside the task too: a handler may panic before it returns its future.
                let task = async move { function(payload, context).await }.instrument(span.clone());
                let abort = self.tasks.spawn_on(task, &self.runtime);
                self.tokens.insert(abort.id(), job.token);
                Some(abort)
            }
            HandlerFn::Blocking(function) => {
                let function = function.clone();
                let span = span.clone();
                self.start_blocking(job.token, context.clone(), move |context| {
                    span.in_scope(|| function(payload, context))
                });
                None
            }
        };
        let action = context.action();
        self.on_attempt.call(AttemptEvent::Started { action });
        let running = Running {
            abort,
            context,
            span,
            began,
        };
        self.running.insert(job.token, running);
    }

    fn start_blocking(
        &self,
        token: AttemptToken,
        context: StepContext,
        function: impl FnOnce(StepContext) -> HandlerResult + Send + 'static,
    ) {
        let ends = self.blocking_tx.clone();
        let runtime = self.runtime.clone();
        let work = move || {
            // The handler may use the runtime, as on tokio's own blocking threads.
            let _entered = runtime.enter();
            // A handler task that panicked is dropped as a whole, so nothing half-changed is seen.
            let end = catch_unwind(AssertUnwindSafe(|| function(context)));
            // The receiver is gone after the worker has ended.
            let _ = ends.send((token, end));
        };
        if let Err(error) = self.threads.run(Box::new(work)) {
            let error = StepError::from_error(codes::UNKNOWN_ERROR, error);
            let _ = self.blocking_tx.send((token, Ok(Err(error))));
        }
    }

    pub(super) fn cancel(&self, token: AttemptToken) {
        if let Some(running) = self.running.get(&token) {
            info!(
                action = running.context.action(),
                execution_id = running.context.execution_id(),
                step_id = running.context.step_id(),
                attempt = running.context.attempt(),
                trace_id = running.context.trace_id(),
                span_id = running.context.span_id(),
                "attempt cancelled: its limit, its lease or the drain is over, or it is not wanted any more"
            );
            running.context.cancel();
        }
    }

    pub(super) fn abort(&self, token: AttemptToken) {
        if let Some(abort) = self
            .running
            .get(&token)
            .and_then(|running| running.abort.as_ref())
        {
            abort.abort();
        }
    }

    /// Returns the next handler task that ends. Resolves never if none runs.
    pub(super) async fn next(&mut self) -> (AttemptToken, TaskEnd) {
        // Not biased: neither kind can starve the other, and both are bounded by the slots.
        tokio::select! {
            Some(joined) = self.tasks.join_next_with_id() => self.settle_task(joined),
            Some((token, end)) = self.blocking_rx.recv() => self.settle(token, end.map_err(Some)),
        }
    }

    /// Returns a handler task that has ended already.
    pub(super) fn try_next(&mut self) -> Option<(AttemptToken, TaskEnd)> {
        if let Some(joined) = self.tasks.try_join_next_with_id() {
            return Some(self.settle_task(joined));
        }
        let (token, end) = self.blocking_rx.try_recv().ok()?;
        Some(self.settle(token, end.map_err(Some)))
    }

    /// Cancels all handler tasks, waits for a moment, and aborts the rest.
    pub(super) async fn end(mut self) {
        for running in self.running.values() {
            running.context.cancel();
        }
        let all = async {
            while !self.running.is_empty() {
                self.next().await;
            }
        };
        // The tasks that are left are aborted by the drop; the threads end with the process.
        let _ = tokio::time::timeout(END_GRACE, all).await;
    }

    fn settle_task(&mut self, joined: Result<(Id, HandlerResult), JoinError>) -> (AttemptToken, TaskEnd) {
        let id = joined.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let token = self
            .tokens
            .remove(&id)
            .expect("every task was entered at its start");
        let end = joined
            .map(|(_, result)| result)
            .map_err(|error| error.try_into_panic().ok());
        self.settle(token, end)
    }

    /// Settles a task; `Err` is a panic, or `None` for a task that was aborted.
    fn settle(
        &mut self,
        token: AttemptToken,
        end: Result<HandlerResult, Option<Box<dyn Any + Send>>>,
    ) -> (AttemptToken, TaskEnd) {
        let running = self.running.remove(&token).expect("every body has its context");
        let (context, took) = (running.context, clock::now().saturating_sub(running.began));
        let ended = match &end {
            _ if context.is_cancelled() => AttemptEnd::Cancelled,
            Ok(Ok(_)) => AttemptEnd::Success,
            Ok(Err(_)) | Err(_) => AttemptEnd::Failure,
        };
        self.on_attempt.call(AttemptEvent::Ended {
            action: context.action(),
            end: ended,
            took,
        });
        let end = match end {
            Ok(Ok(output)) => TaskEnd::Success {
                output,
                warnings: context.take_warnings(),
            },
            Ok(Err(error)) => TaskEnd::Failure(error),
            Err(Some(panic)) => TaskEnd::Failure(panicked(context.action(), panic.as_ref())),
            Err(None) => TaskEnd::Aborted,
        };
        // Codes only: a text may hold what came with the plan.
        let outcome = match &end {
            TaskEnd::Success { .. } => "success",
            TaskEnd::Failure(error) => error.code(),
            TaskEnd::Aborted => "aborted",
        };
        note_end(&running.span, &end);
        debug!(
            action = context.action(),
            execution_id = context.execution_id(),
            step_id = context.step_id(),
            attempt = context.attempt(),
            trace_id = context.trace_id(),
            span_id = context.span_id(),
            outcome,
            "attempt ended"
        );
        (token, end)
    }
}

/// Says in the handler's span what it ended with: codes only, as in the spans of the orchestrator.
fn note_end(span: &Span, end: &TaskEnd) {
    if let TaskEnd::Failure(error) = end {
        span.record("error.type", error.code());
        if error.stated_severity() != Some(Severity::Warn) {
            span.record("otel.status_code", "ERROR");
        }
    }
}

/// Returns the error of a panic, which is a defect of the handler and therefore fatal (C5).
fn panicked(action: &str, panic: &(dyn Any + Send)) -> StepError {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("the panic carries no text");
    let text: String = text.chars().take(PANIC_CHARS_MAX).collect();
    StepError::new(
        codes::UNKNOWN_ERROR,
        format!("the handler of {action:?} panicked"),
    )
    .fatal()
    .context(json!({ "panic": text }))
}

/// Time for handler tasks to end when the worker ends at once.
const END_GRACE: Duration = Duration::from_millis(500);
/// Header of the trace and the span.
const TRACEPARENT: &str = "traceparent";
/// Characters of a panic's text that are kept.
const PANIC_CHARS_MAX: usize = 4_000;
