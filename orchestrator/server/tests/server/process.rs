//! Starts the binary and plays a worker against it. Knows no test.

use escapement_model::Opaque;
use escapement_model::opaque::StructBuilder;
use escapement_wire::v1;
use escapement_wire::v1::fleet_service_client::FleetServiceClient;
use escapement_wire::v1::plan_execution_service_client::PlanExecutionServiceClient;
use escapement_wire::worker::v1 as worker;
use escapement_wire::worker::v1::session_request::Message as Request;
use escapement_wire::worker::v1::session_response::Message as Response;
use escapement_wire::worker::v1::worker_service_client::WorkerServiceClient;
use prost::Message;
use rustix::process::{Pid, Signal, kill_process};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};

/// How long a test waits for what must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A client of the callers' service.
pub(crate) type Plans = PlanExecutionServiceClient<Channel>;

/// A running orchestrator.
pub(crate) struct Orchestrator {
    child: Child,
    address: String,
}

impl Orchestrator {
    /// Starts one on a free port and waits until it serves.
    pub(crate) async fn start(directory: &TestDirectory, arguments: &[&str]) -> Self {
        Self::start_logging(directory, "warn", Stdio::inherit(), arguments).await
    }

    /// Starts one that logs so much, there.
    pub(crate) async fn start_logging(
        directory: &TestDirectory,
        level: &str,
        log: Stdio,
        arguments: &[&str],
    ) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_orchestrator"))
            .args(["--listen", "127.0.0.1:0", "--log", level])
            .stderr(log)
            .args(["--store-path", &directory.0])
            .args(arguments)
            .env("ESCAPEMENT_DRAIN_GRACE_MS", "500")
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.next_line().await.unwrap().expect("it serves");
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["event"], "serving");
        Self {
            child,
            address: line["address"].as_str().unwrap().to_owned(),
        }
    }

    /// Returns a connection.
    pub(crate) async fn channel(&self) -> Channel {
        Endpoint::from_shared(format!("http://{}", self.address))
            .unwrap()
            .connect()
            .await
            .unwrap()
    }

    /// Returns the callers' service.
    pub(crate) async fn plans(&self) -> Plans {
        PlanExecutionServiceClient::new(self.channel().await)
    }

    /// Returns the operators' service.
    pub(crate) async fn fleet(&self) -> FleetServiceClient<Channel> {
        FleetServiceClient::new(self.channel().await)
    }

    /// Returns the workers' service, for its calls without a stream.
    pub(crate) async fn reports(&self) -> WorkerServiceClient<Channel> {
        WorkerServiceClient::new(self.channel().await)
    }

    /// Asks it to stop.
    pub(crate) fn signal(&self) {
        let id = i32::try_from(self.child.id().unwrap()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), Signal::TERM).unwrap();
    }

    /// Waits for its end.
    pub(crate) async fn ended(mut self) -> Option<i32> {
        self.child.wait().await.unwrap().code()
    }

    /// Stops it and waits for its end.
    pub(crate) async fn stop(self) -> Option<i32> {
        self.signal();
        self.ended().await
    }
}

/// A worker that completes whatever it gets.
pub(crate) struct Worker {
    task: JoinHandle<()>,
}

impl Worker {
    /// Starts one for an action and waits for its welcome.
    pub(crate) async fn start(orchestrator: &Orchestrator, action: &str) -> Self {
        let (requests, mut responses) =
            Self::open(orchestrator, Some(Request::Hello(Self::hello(action)))).await;
        let welcome = responses.message().await.unwrap().unwrap();
        assert!(
            matches!(welcome.message, Some(Response::Welcome(_))),
            "{welcome:?}"
        );
        Self {
            task: tokio::spawn(work(requests, responses)),
        }
    }

    /// Opens a session, with a first message or without.
    pub(crate) async fn open(
        orchestrator: &Orchestrator,
        first: Option<Request>,
    ) -> (
        mpsc::Sender<worker::SessionRequest>,
        Streaming<worker::SessionResponse>,
    ) {
        let (requests, requests_rx) = mpsc::channel(16);
        if first.is_some() {
            requests
                .send(worker::SessionRequest {
                    seq: 1,
                    message: first,
                })
                .await
                .unwrap();
        }
        let mut client = WorkerServiceClient::new(orchestrator.channel().await);
        let responses = client
            .session(ReceiverStream::new(requests_rx))
            .await
            .unwrap()
            .into_inner();
        (requests, responses)
    }

    /// What it says first.
    pub(crate) fn hello(action: &str) -> worker::Hello {
        worker::Hello {
            protocol_min: 1,
            protocol_max: 1,
            worker_id: "worker".to_owned(),
            instance_id: vec![7; 16].into(),
            actions: vec![worker::ActionSpec {
                name: action.to_owned(),
                ..worker::ActionSpec::default()
            }],
            max_in_flight: 4,
            ..worker::Hello::default()
        }
    }

    /// Ends it.
    pub(crate) async fn stop(self) {
        self.task.abort();
        // Aborted on purpose.
        let _ = self.task.await;
    }
}

/// A worker that says only what its test says.
pub(crate) struct Session {
    requests: mpsc::Sender<worker::SessionRequest>,
    responses: Streaming<worker::SessionResponse>,
    seq: u64,
    /// Number of the last response.
    seq_heard: u64,
}

impl Session {
    /// Opens one for an action and gives its welcome too.
    pub(crate) async fn open(orchestrator: &Orchestrator, action: &str) -> (Self, worker::Welcome) {
        let hello = Request::Hello(Worker::hello(action));
        let (requests, responses) = Worker::open(orchestrator, Some(hello)).await;
        let mut session = Self {
            requests,
            responses,
            seq: 1,
            seq_heard: 0,
        };
        let first = session.next().await;
        let Some(Response::Welcome(welcome)) = first else {
            panic!("{first:?}")
        };
        (session, welcome)
    }

    /// Says something.
    pub(crate) async fn say(&mut self, message: Request) {
        self.seq += 1;
        let request = worker::SessionRequest {
            seq: self.seq,
            message: Some(message),
        };
        self.requests.send(request).await.unwrap();
    }

    /// Says that an attempt has started.
    pub(crate) async fn start(&mut self, token: &bytes::Bytes) {
        let started = vec![token.clone()];
        let acks = worker::AttemptAcks {
            started,
            ..worker::AttemptAcks::default()
        };
        self.say(Request::AttemptAcks(acks)).await;
    }

    /// Returns the next message, numbered as it must be; `None` at a clean end.
    pub(crate) async fn next(&mut self) -> Option<Response> {
        let response = timeout(PATIENCE, self.responses.message())
            .await
            .unwrap()
            .unwrap()?;
        self.seq_heard += 1;
        assert_eq!(response.seq, self.seq_heard);
        response.message
    }

    /// Returns the one attempt that comes next.
    pub(crate) async fn assignment(&mut self) -> worker::Assignment {
        let next = self.next().await;
        let Some(Response::Assignments(mut assignments)) = next else {
            panic!("{next:?}")
        };
        assert_eq!(assignments.items.len(), 1);
        assignments.items.remove(0)
    }
}

/// Returns a success with an output.
pub(crate) fn success(token: bytes::Bytes, output: Opaque) -> worker::AttemptOutcome {
    let success = worker::Success {
        output: Some(output),
        warnings: Vec::new(),
    };
    worker::AttemptOutcome {
        attempt_token: token,
        run_time_ms: 1,
        outcome: Some(worker::attempt_outcome::Outcome::Success(success)),
    }
}

/// Returns a plan of one step.
pub(crate) fn short_plan(number: u32, action: &str) -> v1::Plan {
    let mut plan = plan(number, action);
    plan.steps.truncate(1);
    plan
}

async fn work(
    requests: mpsc::Sender<worker::SessionRequest>,
    mut responses: Streaming<worker::SessionResponse>,
) {
    let mut seq = 1;
    while let Ok(Some(response)) = responses.message().await {
        let Some(Response::Assignments(assignments)) = response.message else {
            continue;
        };
        let started = assignments
            .items
            .iter()
            .map(|item| item.attempt_token.clone())
            .collect();
        let acks = worker::AttemptAcks {
            started,
            ..worker::AttemptAcks::default()
        };
        let outcome = |item: worker::Assignment| {
            let success = worker::Success {
                output: item.payload,
                warnings: Vec::new(),
            };
            worker::AttemptOutcome {
                attempt_token: item.attempt_token,
                run_time_ms: 1,
                outcome: Some(worker::attempt_outcome::Outcome::Success(success)),
            }
        };
        let items = assignments.items.into_iter().map(outcome).collect();
        for message in [
            Request::AttemptAcks(acks),
            Request::Outcomes(worker::Outcomes { items }),
        ] {
            seq += 1;
            if requests
                .send(worker::SessionRequest {
                    seq,
                    message: Some(message),
                })
                .await
                .is_err()
            {
                return;
            }
        }
    }
}

/// Returns a UUID v4.
pub(crate) fn uuid(number: u32) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

/// Returns a plan of two steps, one after the other.
pub(crate) fn plan(number: u32, action: &str) -> v1::Plan {
    let step = |step: u32, depends_on: Vec<String>| v1::PlanStep {
        id: uuid(1_000 * number + step),
        action: action.to_owned(),
        payload: Some(StructBuilder::new().number("step", f64::from(step)).build()),
        depends_on,
        ..v1::PlanStep::default()
    };
    v1::Plan {
        id: uuid(1_000 * number),
        version: 1,
        created_at: 1_700_000_000_000,
        steps: vec![step(1, Vec::new()), step(2, vec![uuid(1_000 * number + 1)])],
        name: "two steps".to_owned(),
        context_requirements: vec!["key".to_owned()],
        ..v1::Plan::default()
    }
}

/// Returns a request for a plan, with the environment that it needs.
pub(crate) fn request(plan: v1::Plan) -> v1::SubmitPlanRequest {
    v1::SubmitPlanRequest {
        plan: Some(plan),
        environment: Some(StructBuilder::new().text("key", "value").build()),
        ..v1::SubmitPlanRequest::default()
    }
}

/// The same request for the other way of handing it in.
pub(crate) fn execute(request: v1::SubmitPlanRequest) -> v1::ExecutePlanRequest {
    v1::ExecutePlanRequest::decode(request.encode_to_vec().as_slice()).expect("both have the same fields")
}

/// A directory of its own that goes with the test.
pub(crate) struct TestDirectory(String);

impl TestDirectory {
    /// Makes one.
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("escapement-serving-{name}-{}", std::process::id()));
        // A leftover of an earlier process with the same id.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path.to_str().unwrap().to_owned())
    }

    /// Returns the path of something in it.
    pub(crate) fn join(&self, name: &str) -> String {
        format!("{}/{name}", self.0)
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        // A leftover directory hurts nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
