//! A worker inside the test, built on the SDK, whose handlers remember what happened to them. Judges nothing.

use escapement_sdk::{SessionEvent, StepContext, StepError, Worker, WorkerBuilder, WorkerError};
use escapement_tests::{let_pass, wait_for};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::arena::{LIMIT, unix_ms};

/// Completes after `ms`, at once where there is none.
pub(crate) const WORK: &str = "work";
/// Runs until the test says so with [`Recorder::release`].
pub(crate) const HOLD: &str = "hold";

/// What happened to one attempt in its handler.
#[derive(Clone, Debug)]
#[allow(dead_code, reason = "every attack looks at what it needs")]
pub(crate) struct Seen {
    pub(crate) execution_id: String,
    pub(crate) step_id: String,
    pub(crate) attempt: u32,
    pub(crate) began_unix_ms: i64,
    /// Time at which the handler was told to stop.
    pub(crate) cancelled_unix_ms: Option<i64>,
    /// Time at which it came to its own end.
    pub(crate) completed_unix_ms: Option<i64>,
}

/// A running worker. Dropped without [`Recorder::stop`] it ends with the test.
pub(crate) struct Recorder {
    seen: Arc<Mutex<Vec<Seen>>>,
    sessions: Arc<Mutex<Vec<SessionEvent>>>,
    released: watch::Sender<bool>,
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<(), WorkerError>>,
}

impl Recorder {
    /// Offers [`WORK`] and [`HOLD`] and has a session when this returns.
    pub(crate) async fn connect(url: &str, worker_id: &str, max_in_flight: u32) -> Self {
        Self::connect_with(url, worker_id, |builder| builder.max_in_flight(max_in_flight)).await
    }

    /// Offers more, or says more about itself.
    pub(crate) async fn connect_with(
        url: &str,
        worker_id: &str,
        change: impl FnOnce(WorkerBuilder) -> WorkerBuilder,
    ) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sessions = Arc::new(Mutex::new(Vec::new()));
        let released = watch::Sender::new(false);
        let noting = Arc::clone(&sessions);
        let handler = |name: &'static str| {
            let (seen, released) = (Arc::clone(&seen), released.subscribe());
            move |input: Value, context: StepContext| {
                handle(name, input, context, Arc::clone(&seen), released.clone())
            }
        };
        let builder = Worker::builder(url)
            .worker_id(worker_id)
            .on_session(move |event| noting.lock().unwrap().push(event.clone()))
            .handler(WORK, handler(WORK))
            .handler(HOLD, handler(HOLD));
        let (stop, stopped) = oneshot::channel::<()>();
        let worker = change(builder).build().unwrap();
        let running = tokio::spawn(worker.run_until(async {
            // The worker runs on where the test never stops it.
            if stopped.await.is_err() {
                std::future::pending::<()>().await;
            }
        }));
        let recorder = Self {
            seen,
            sessions,
            released,
            stop,
            running,
        };
        recorder.wait_for_sessions(1).await;
        recorder
    }

    /// Returns every attempt so far, in the order in which handlers began.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Returns the number of sessions that it was welcomed to so far.
    pub(crate) fn n_sessions(&self) -> usize {
        let sessions = self.sessions.lock().unwrap();
        let welcomed = |event: &&SessionEvent| matches!(event, SessionEvent::Connected { .. });
        sessions.iter().filter(welcomed).count()
    }

    /// Waits until it was welcomed so often.
    pub(crate) async fn wait_for_sessions(&self, count: usize) {
        let enough = async || (self.n_sessions() >= count).then_some(());
        wait_for("sessions of the recorder", LIMIT, enough).await.unwrap();
    }

    /// Waits until so many handlers have begun.
    pub(crate) async fn wait_for_handlers(&self, count: usize) {
        let enough = async || (self.seen().len() >= count).then_some(());
        wait_for("handlers of the recorder", LIMIT, enough).await.unwrap();
    }

    /// Lets every handler of [`HOLD`] complete, those to come at once.
    pub(crate) fn release(&self) {
        self.released.send_replace(true);
    }

    /// Drains it.
    pub(crate) async fn stop(self) {
        self.stop.send(()).unwrap();
        self.running.await.unwrap().unwrap();
    }
}

async fn handle(
    name: &'static str,
    input: Value,
    context: StepContext,
    seen: Arc<Mutex<Vec<Seen>>>,
    mut released: watch::Receiver<bool>,
) -> Result<Value, StepError> {
    let index = {
        let mut seen = seen.lock().unwrap();
        seen.push(Seen {
            execution_id: context.execution_id().to_owned(),
            step_id: context.step_id().to_owned(),
            attempt: context.attempt(),
            began_unix_ms: unix_ms(),
            cancelled_unix_ms: None,
            completed_unix_ms: None,
        });
        seen.len() - 1
    };
    let body = async {
        if name == HOLD {
            let _ = released.wait_for(|released| *released).await;
        } else {
            let_pass(Duration::from_millis(input["ms"].as_u64().unwrap_or(0))).await;
        }
    };
    tokio::select! {
        biased; // The end of a handler counts when both come together, as it does for the worker.
        () = body => {
            seen.lock().unwrap()[index].completed_unix_ms = Some(unix_ms());
            Ok(json!({ "attempt": context.attempt() }))
        }
        () = context.cancelled() => {
            seen.lock().unwrap()[index].cancelled_unix_ms = Some(unix_ms());
            Err(StepError::new("CANCELLED", "told to stop"))
        }
    }
}
