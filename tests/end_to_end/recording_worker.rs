//! A worker inside the test, built on the SDK, whose handlers remember what they got. Judges nothing.

use escapement_model::Opaque;
use escapement_sdk::{StepContext, StepError, Worker, WorkerBuilder, WorkerError};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// What one attempt brought to its handler.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) action: String,
    pub(crate) execution_id: String,
    pub(crate) plan_id: String,
    pub(crate) step_id: String,
    pub(crate) attempt: u32,
    pub(crate) input: Value,
    pub(crate) environment: Opaque,
    pub(crate) headers: BTreeMap<String, String>,
}

/// A running worker. Dropped without [`RecordingWorker::stop`] it ends with the test.
pub(crate) struct RecordingWorker {
    seen: Arc<Mutex<Vec<Seen>>>,
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<(), WorkerError>>,
}

impl RecordingWorker {
    /// Offers `record`, whose output is `{}`, `panic`, `list_output`, and `large_output` of so many `bytes`.
    pub(crate) fn start(url: &str, max_in_flight: u32) -> Self {
        Self::start_with(url, |builder| builder.max_in_flight(max_in_flight))
    }

    /// Offers more, or says more about itself.
    pub(crate) fn start_with(url: &str, change: impl FnOnce(WorkerBuilder) -> WorkerBuilder) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let recording = Arc::clone(&seen);
        let builder = Worker::builder(url)
            .worker_id("recording")
            .handler("record", move |input: Value, context: StepContext| {
                recording.lock().unwrap().push(seen_in(input, &context));
                async { Ok(json!({})) }
            })
            .handler("panic", panicking)
            .handler("large_output", |input: Value, _| async move {
                let bytes = usize::try_from(input["bytes"].as_u64().unwrap()).unwrap();
                Ok(json!({ "fill": "x".repeat(bytes) }))
            })
            .handler("list_output", |_: Value, _| async { Ok(json!([1, 2])) });
        let (stop, stopped) = oneshot::channel::<()>();
        let worker = change(builder).build().unwrap();
        let running = tokio::spawn(worker.run_until(async {
            // The worker runs on where the test never stops it.
            if stopped.await.is_err() {
                std::future::pending::<()>().await;
            }
        }));
        Self { seen, stop, running }
    }

    /// Returns everything so far, in the order in which handlers ran.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Drains it.
    pub(crate) async fn stop(self) {
        self.stop.send(()).unwrap();
        self.running.await.unwrap().unwrap();
    }
}

fn seen_in(input: Value, context: &StepContext) -> Seen {
    Seen {
        action: context.action().to_owned(),
        execution_id: context.execution_id().to_owned(),
        plan_id: context.plan_id().to_owned(),
        step_id: context.step_id().to_owned(),
        attempt: context.attempt(),
        input,
        environment: context.environment_encoded().clone(),
        headers: context.headers().clone(),
    }
}

async fn panicking(_: Value, _: StepContext) -> Result<Value, StepError> {
    panic!("the handler breaks on purpose")
}
