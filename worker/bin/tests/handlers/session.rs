//! The program in a session with a stand-in for the orchestrator: announced, given a step, asked to stop.

use escapement_wire::json::{from_opaque, to_opaque};
use escapement_wire::worker::v1::session_request::Message as FromWorker;
use escapement_wire::worker::v1::session_response::Message as ToWorker;
use escapement_wire::worker::v1::worker_service_server::{WorkerService, WorkerServiceServer};
use escapement_wire::worker::v1::{
    Assignment, Assignments, DrainStarted, HeartbeatAck, OutcomeAck, OutcomeAcks, ReportOutcomesRequest,
    ReportOutcomesResponse, SessionLimits, SessionRequest, SessionResponse, Welcome, attempt_outcome,
    outcome_ack,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::pin::Pin;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, oneshot};
use tonic::codegen::tokio_stream::Stream;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

/// Gives every worker one `echo` step.
struct Orchestrator {
    output: Arc<Mutex<Option<oneshot::Sender<Value>>>>,
}

#[tonic::async_trait]
impl WorkerService for Orchestrator {
    type SessionStream = Pin<Box<dyn Stream<Item = Result<SessionResponse, Status>> + Send>>;

    async fn session(
        &self,
        request: Request<Streaming<SessionRequest>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        if request
            .metadata()
            .get("authorization")
            .map(|value| value.as_bytes())
            != Some(b"Bearer t0ken")
        {
            return Err(Status::unauthenticated("the token is missing"));
        }
        let (tx, rx) = mpsc::channel(64);
        tokio::spawn(converse(request.into_inner(), tx, self.output.clone()));
        Ok(Response::new(Box::pin(ReceiverStream::new(rx))))
    }

    async fn report_outcomes(
        &self,
        _request: Request<ReportOutcomesRequest>,
    ) -> Result<Response<ReportOutcomesResponse>, Status> {
        Err(Status::unimplemented("outcomes come on the stream"))
    }
}

async fn converse(
    mut from_worker: Streaming<SessionRequest>,
    to_worker: mpsc::Sender<Result<SessionResponse, Status>>,
    output: Arc<Mutex<Option<oneshot::Sender<Value>>>>,
) {
    let mut seq = 0;
    while let Ok(Some(request)) = from_worker.message().await {
        for message in answers(request.message.unwrap(), &output) {
            seq += 1;
            let response = SessionResponse {
                seq,
                message: Some(message),
            };
            let _ = to_worker.send(Ok(response)).await;
        }
    }
}

fn answers(message: FromWorker, output: &Mutex<Option<oneshot::Sender<Value>>>) -> Vec<ToWorker> {
    match message {
        FromWorker::Hello(_) => vec![ToWorker::Welcome(welcome()), ToWorker::Assignments(one_step())],
        FromWorker::Heartbeat(beat) => vec![ToWorker::HeartbeatAck(HeartbeatAck {
            n: beat.n,
            peers: Vec::new(),
        })],
        FromWorker::Outcomes(outcomes) => {
            let items = outcomes.items.into_iter().map(|item| {
                if let Some(attempt_outcome::Outcome::Success(success)) = item.outcome {
                    let decoded = from_opaque(&success.output.unwrap_or_default()).unwrap();
                    if let Some(tell) = output.lock().unwrap().take() {
                        tell.send(Value::Object(decoded)).unwrap();
                    }
                }
                let verdict = outcome_ack::Verdict::Accepted.into();
                OutcomeAck {
                    attempt_token: item.attempt_token,
                    verdict,
                }
            });
            vec![ToWorker::OutcomeAcks(OutcomeAcks {
                items: items.collect(),
            })]
        }
        FromWorker::Drain(_) => vec![ToWorker::DrainStarted(DrainStarted {
            last_assignment_seq: 2,
        })],
        _ => Vec::new(),
    }
}

fn welcome() -> Welcome {
    Welcome {
        protocol: 1,
        session_id: vec![1; 16].into(),
        boot_id: vec![2; 16].into(),
        heartbeat_interval_ms: 3_000,
        lease_ms: 10_000,
        limits: Some(SessionLimits {
            message_bytes_max: 4 << 20,
            output_bytes_max: 1 << 20,
            in_flight_max: 4096,
            actions_max: 1024,
        }),
        ..Welcome::default()
    }
}

fn one_step() -> Assignments {
    let step = Assignment {
        attempt_token: vec![3; 16].into(),
        execution_id: "11111111-1111-4111-8111-111111111111".to_owned(),
        plan_id: "22222222-2222-4222-8222-222222222222".to_owned(),
        step_id: "33333333-3333-4333-8333-333333333333".to_owned(),
        attempt: 1,
        action: "echo".to_owned(),
        payload: Some(to_opaque(json!({ "hello": [1, "two"] }).as_object().unwrap())),
        timeout_ms: 60_000,
        ..Assignment::default()
    };
    Assignments { items: vec![step] }
}

fn start(address: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_worker"))
        .args(["--orchestrator", address, "--worker-id", "w1"])
        .env("ESCAPEMENT_TOKEN", "t0ken")
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

#[tokio::test]
async fn a_worker_announces_its_session_runs_a_step_and_stops_cleanly() {
    let (tell, told) = oneshot::channel();
    let service = Orchestrator {
        output: Arc::new(Mutex::new(Some(tell))),
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let server = Server::builder().add_service(WorkerServiceServer::new(service));
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));

    let mut worker = start(&address);
    let mut lines = BufReader::new(worker.stdout.take().unwrap()).lines();
    let story = async {
        let line = lines.next_line().await.unwrap().unwrap();
        let announced: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            announced,
            json!({ "event": "connected", "orchestrator": address, "worker_id": "w1" })
        );
        assert_eq!(told.await.unwrap(), json!({ "hello": [1, "two"] }));
        let id = Pid::from_raw(worker.id().unwrap().try_into().unwrap()).unwrap();
        kill_process(id, Signal::TERM).unwrap();
        assert_eq!(worker.wait().await.unwrap().code(), Some(0));
    };
    tokio::time::timeout(Duration::from_secs(30), story)
        .await
        .expect("the story ends within 30 s");
}
