//! A thread of runs, the service in front of it, and a script that does what leaves it.

use escapement_transport::response_budget::ResponseBudget;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use escapement_model::opaque::StructBuilder;
use escapement_model::{ExecutionId, Opaque, RunId};
use escapement_run::Input;
use escapement_run::catalogue::{Catalogue, CatalogueAction};
use escapement_run::journal::OutcomeClass;
use escapement_run::outcome::{AttemptOutcome, value_of_object};
use escapement_run::spec::ActionProfile;
use escapement_runs::Config;
use escapement_runs_api::Runs;
use escapement_runs_shell::{Attempt, Ending, Outgoing, Returned, RunsHandle, RunsThread, Setup, start};
use escapement_store_kit::runs::{MemoryRuns, MemoryRunsDisk};
use escapement_wire::json::{from_opaque, to_opaque};
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::create_run_request::What;
use escapement_wire::runs::v1::run_service_client::RunServiceClient;
use escapement_wire::runs::v1::run_service_server::RunServiceServer;
use escapement_wire::v1::SubmitPlanRequest;
use prost::Message;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tonic::Status;
use tonic_types::StatusExt;

pub(crate) type Client = RunServiceClient<RunServiceServer<Runs>>;

pub(crate) struct World {
    disk: MemoryRunsDisk,
    pub(crate) handle: RunsHandle,
    pub(crate) client: Client,
    /// Attempts of the action `hang` that wait for the test.
    pub(crate) hung: Arc<Mutex<Vec<(RunId, ExecutionId)>>>,
    /// Every attempt that was sent, in order.
    pub(crate) sent: Arc<Mutex<Vec<ExecutionId>>>,
    thread: RunsThread<MemoryRuns>,
}

impl World {
    pub(crate) fn new() -> Self {
        let disk = MemoryRunsDisk::new();
        let store = disk.open();
        Self::over(disk, store)
    }

    fn over(disk: MemoryRunsDisk, store: MemoryRuns) -> Self {
        let (outgoing, received) = unbounded_channel();
        let config = Config {
            max_live_runs: 50,
            max_runs: 1000,
        };
        let (handle, thread) = start(Setup::new(
            store,
            config.clone(),
            outgoing,
            Box::new(|why: Ending<'_>| panic!("{why:?}")),
        ))
        .unwrap();
        let hung = Arc::default();
        let sent = Arc::default();
        tokio::spawn(play(
            received,
            handle.clone(),
            Arc::clone(&hung),
            Arc::clone(&sent),
        ));
        for action in [
            "a",
            "b",
            "echo",
            "fail",
            "file.read",
            "hang",
            "llm.chat",
            "plan",
            "x",
            "y",
        ] {
            handle.seen().add(action);
        }
        let service = Runs::new(handle.clone(), config, ResponseBudget::default());
        Self {
            disk,
            handle,
            client: RunServiceClient::new(RunServiceServer::new(service)),
            hung,
            sent,
            thread,
        }
    }

    /// What is not durable is lost; the next start takes up the rest.
    pub(crate) fn killed(self) -> Self {
        let store = self.disk.crash();
        self.handle.stop();
        // Its store is dead, so its end may be a panic.
        let _store = self.thread.join();
        Self::over(self.disk, store)
    }

    /// Counts what readers have read.
    pub(crate) fn n_reads(&self) -> u64 {
        let names = ["", "tokio-rt-worker", "long-readings"];
        names.into_iter().map(|name| self.disk.n_reads_by(name)).sum()
    }

    pub(crate) async fn create(&mut self, request: v1::CreateRunRequest) -> v1::Run {
        self.client
            .create_run(request)
            .await
            .unwrap()
            .into_inner()
            .run
            .unwrap()
    }

    pub(crate) async fn run(&mut self, run_id: &str) -> v1::Run {
        let request = v1::GetRunRequest {
            run_id: run_id.to_owned(),
        };
        self.client
            .get_run(request)
            .await
            .unwrap()
            .into_inner()
            .run
            .unwrap()
    }

    /// Makes a run and waits for its end.
    pub(crate) async fn finish(&mut self, request: v1::CreateRunRequest) -> v1::Run {
        let run = self.create(request).await;
        self.ended(&run.run_id).await
    }

    pub(crate) async fn ended(&mut self, run_id: &str) -> v1::Run {
        let request = v1::WaitRunRequest {
            run_id: run_id.to_owned(),
            timeout_ms: Some(10_000),
        };
        let run = self
            .client
            .wait_run(request)
            .await
            .unwrap()
            .into_inner()
            .run
            .unwrap();
        assert!(run.completed_at.is_some(), "{run:?}");
        run
    }

    /// Waits until the run is in this state.
    pub(crate) async fn reaches(&mut self, run_id: &str, state: v1::run::State) -> v1::Run {
        let mut follow = self.handle.follow(run_id.parse().unwrap());
        loop {
            let run = self.run(run_id).await;
            if run.state() == state {
                return run;
            }
            let moved = tokio::time::timeout(Duration::from_secs(10), follow.moved()).await;
            moved
                .unwrap_or_else(|_| panic!("stays {:?}", run.state()))
                .unwrap();
        }
    }

    /// Ends every attempt that hangs.
    pub(crate) fn release(&self) {
        for (run_id, execution_id) in self.hung.lock().unwrap().drain(..) {
            let outcome = completed(&Opaque::default());
            let input = Input::Settled {
                execution_id,
                outcome,
            };
            self.handle.returned(Returned::Input(run_id, input));
        }
    }
}

async fn play(
    mut outgoing: UnboundedReceiver<Outgoing>,
    handle: RunsHandle,
    hung: Arc<Mutex<Vec<(RunId, ExecutionId)>>>,
    sent: Arc<Mutex<Vec<ExecutionId>>>,
) {
    while let Some(leaving) = outgoing.recv().await {
        if let Outgoing::Catalogue {
            run_id, generation, ..
        } = leaving
        {
            let input = Input::Catalogue {
                generation,
                catalogue: offered("echo"),
                own: Vec::new(),
            };
            handle.returned(Returned::Input(run_id, input));
            continue;
        }
        let Outgoing::Submit(Attempt {
            run_id,
            execution_id,
            request,
            ..
        }) = leaving
        else {
            continue;
        };
        sent.lock().unwrap().push(execution_id);
        let request = SubmitPlanRequest::decode(request).unwrap();
        let step = request.plan.unwrap().steps.remove(0);
        let outcome = match step.action.as_str() {
            "hang" => {
                hung.lock().unwrap().push((run_id, execution_id));
                continue;
            }
            "fail" => AttemptOutcome {
                class: OutcomeClass::FailedForGood,
                output: None,
                code: "NO_LUCK".to_owned(),
                message: "it did not work".to_owned(),
                pause: false,
                ..AttemptOutcome::default()
            },
            "plan" => {
                let steps = json!([call("b", "echo", &[]), call("late", "echo", &["b"])]);
                completed(&object(&json!({"plan": document(steps)})))
            }
            "deep" => completed(&deep()),
            "large" => completed(&to_opaque(
                json!({"text": "ä".repeat(50_000)}).as_object().unwrap(),
            )),
            _ => completed(&step.payload.unwrap_or_default()),
        };
        let input = Input::Settled {
            execution_id,
            outcome,
        };
        handle.returned(Returned::Input(run_id, input));
    }
}

/// What a planner may choose from.
fn offered(action: &str) -> Catalogue {
    let profile = ActionProfile {
        action: action.to_owned(),
        seen: true,
        ..ActionProfile::default()
    };
    let action = CatalogueAction {
        profile,
        ..CatalogueAction::default()
    };
    Catalogue {
        actions: vec![action],
        ..Catalogue::default()
    }
}

/// An object as deep as a handler may answer with: 90 nested messages.
fn deep() -> Opaque {
    (0..30).fold(Opaque::default(), |inner, _| {
        StructBuilder::new().object("in", inner.as_encoded()).build()
    })
}

fn completed(output: &Opaque) -> AttemptOutcome {
    AttemptOutcome {
        class: OutcomeClass::Completed,
        output: Some(value_of_object(output)),
        code: String::new(),
        message: String::new(),
        pause: false,
        ..AttemptOutcome::default()
    }
}

pub(crate) fn object(value: &Value) -> Opaque {
    to_opaque(value.as_object().unwrap())
}

pub(crate) fn json_of(object: Option<&Opaque>) -> Value {
    Value::Object(from_opaque(object.unwrap()).unwrap())
}

pub(crate) fn document(steps: Value) -> Value {
    json!({"schema": "escapement.plan/1", "name": "A test", "goal": "to know", "steps": steps})
}

/// A step that calls an action.
pub(crate) fn call(key: &str, action: &str, depends_on: &[&str]) -> Value {
    json!({"key": key, "type": "tool_call", "config": {"tool_name": action, "tool_args": {"key": key}}, "depends_on": depends_on})
}

/// A run of these steps that asks for no approval.
pub(crate) fn run_of(steps: Value) -> v1::CreateRunRequest {
    v1::CreateRunRequest {
        what: Some(What::Document(object(&document(steps)))),
        autonomy_level: Some(4),
        ..v1::CreateRunRequest::default()
    }
}

/// The reason of a refusal.
pub(crate) fn reason(status: &Status) -> String {
    let info = status.get_details_error_info();
    let info = info.unwrap_or_else(|| panic!("no reason: {status:?}"));
    assert_eq!(info.domain, "escapement.dev");
    info.reason
}

/// Fields and reasons of what is wrong with a request.
pub(crate) fn violations(status: &Status) -> Vec<(String, String)> {
    let bad = status.get_details_bad_request();
    let violations = bad
        .map(|bad| bad.field_violations)
        .unwrap_or_default()
        .into_iter();
    violations.map(|found| (found.field, found.reason)).collect()
}
