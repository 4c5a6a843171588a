//! Bodies as tasks on the runtime of the caller. Knows no limit: it cancels and aborts when it is told to.

use crate::context::{Facts, StepContext};
use crate::error::StepError;
use crate::handler::{Body, BodyResult, Handler};
use crate::session::{BodyEnd, Job};
use escapement_model::{AttemptToken, codes};
use serde_json::json;
use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};

/// All bodies that run. Dropping it aborts them.
pub(super) struct Bodies {
    runtime: Handle,
    handlers: BTreeMap<String, Handler>,
    tasks: JoinSet<BodyResult>,
    tokens: HashMap<Id, AttemptToken>,
    running: BTreeMap<AttemptToken, (AbortHandle, StepContext)>,
}

impl Bodies {
    pub(super) fn new(runtime: Handle, handlers: BTreeMap<String, Handler>) -> Self {
        Self {
            runtime,
            handlers,
            tasks: JoinSet::new(),
            tokens: HashMap::new(),
            running: BTreeMap::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    pub(super) fn start(&mut self, job: Job, deadline: Instant) {
        let assignment = job.assignment;
        let handler = self
            .handlers
            .get(&assignment.action)
            .expect("the session starts known actions only");
        let context = StepContext::new(Facts {
            action: assignment.action,
            execution_id: assignment.execution_id,
            plan_id: assignment.plan_id,
            step_id: assignment.step_id,
            attempt: assignment.attempt,
            deadline,
            environment: assignment.environment.unwrap_or_default(),
            headers: assignment.headers,
        });
        let payload = assignment.payload.unwrap_or_default();
        let abort = match &handler.body {
            Body::Async(body) => {
                let body = body.clone();
                let context = context.clone();
                // The call itself is inside the task too: a handler may panic before it returns its future.
                self.tasks
                    .spawn_on(async move { body(payload, context).await }, &self.runtime)
            }
            Body::Blocking(body) => {
                let body = body.clone();
                let context = context.clone();
                self.tasks
                    .spawn_blocking_on(move || body(payload, context), &self.runtime)
            }
        };
        self.tokens.insert(abort.id(), job.token);
        self.running.insert(job.token, (abort, context));
    }

    pub(super) fn cancel(&self, token: AttemptToken) {
        if let Some((_, context)) = self.running.get(&token) {
            context.cancel();
        }
    }

    pub(super) fn abort(&self, token: AttemptToken) {
        if let Some((abort, _)) = self.running.get(&token) {
            abort.abort();
        }
    }

    /// The next body that ends; `None` where none runs.
    pub(super) async fn next(&mut self) -> Option<(AttemptToken, BodyEnd)> {
        let joined = self.tasks.join_next_with_id().await?;
        Some(self.settle(joined))
    }

    /// A body that has ended already.
    pub(super) fn try_next(&mut self) -> Option<(AttemptToken, BodyEnd)> {
        let joined = self.tasks.try_join_next_with_id()?;
        Some(self.settle(joined))
    }

    /// Tells all bodies to end, waits for a moment, and aborts the rest.
    pub(super) async fn end(mut self) {
        for (_, context) in self.running.values() {
            context.cancel();
        }
        let all = async { while self.tasks.join_next().await.is_some() {} };
        // Those that are left are aborted by the drop.
        let _ = tokio::time::timeout(END_GRACE, all).await;
    }

    fn settle(&mut self, joined: Result<(Id, BodyResult), JoinError>) -> (AttemptToken, BodyEnd) {
        let id = joined.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let token = self
            .tokens
            .remove(&id)
            .expect("every task was entered at its start");
        let (_, context) = self.running.remove(&token).expect("every task has its context");
        let end = match joined {
            Ok((_, Ok(output))) => BodyEnd::Success {
                output,
                warnings: context.take_warnings(),
            },
            Ok((_, Err(error))) => BodyEnd::Failure(error),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => BodyEnd::Failure(panicked(context.action(), panic.as_ref())),
                Err(_) => BodyEnd::Aborted,
            },
        };
        (token, end)
    }
}

/// A panic is a defect of the handler, so it is fatal (C5).
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

/// What bodies get to end when the worker ends at once.
const END_GRACE: Duration = Duration::from_millis(500);
/// Characters of a panic's text that are kept.
const PANIC_CHARS_MAX: usize = 4_000;
