//! A small orchestrator for one worker, scripted by a test. Decides nothing by itself, except that
//! heartbeats are acknowledged.

use bytes::Bytes;
use escapement_sdk::{Worker, WorkerBuilder, WorkerError};
use escapement_wire::worker::v1::session_request::Message as Request;
use escapement_wire::worker::v1::session_response::Message as Response;
use escapement_wire::worker::v1::worker_service_server::{WorkerService, WorkerServiceServer};
use escapement_wire::worker::v1::{
    Assignment, Assignments, AttemptAcks, AttemptOutcome, Cancel, Cancels, DrainStarted, HeartbeatAck, Hello,
    OutcomeAck, OutcomeAcks, ReportOutcomesRequest, ReportOutcomesResponse, SessionError, SessionRequest,
    SessionResponse, Welcome, attempt_outcome, session_error,
};
use serde_json::Value;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::TcpIncoming;
use tonic::{Request as Call, Response as Answer, Status, Streaming};

/// Longest wait for anything in these tests.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The listening side. Each stream of the worker comes out of `streams`.
pub struct Fake {
    pub address: String,
    streams: mpsc::Receiver<Stream>,
}

/// A stream of a worker.
pub struct Stream {
    requests: Streaming<SessionRequest>,
    responses: mpsc::Sender<Result<SessionResponse, Status>>,
    sent: u64,
    received: u64,
    boot_id: Bytes,
    /// The metadata of the call.
    pub authorization: Option<String>,
    /// Heartbeats that were acknowledged.
    pub heartbeats: usize,
}

struct Service {
    streams: mpsc::Sender<Stream>,
    boot_id: Bytes,
}

#[tonic::async_trait]
impl WorkerService for Service {
    type SessionStream = ReceiverStream<Result<SessionResponse, Status>>;

    async fn session(
        &self,
        call: Call<Streaming<SessionRequest>>,
    ) -> Result<Answer<Self::SessionStream>, Status> {
        let (responses, receiver) = mpsc::channel(64);
        let authorization = call.metadata().get("authorization");
        let stream = Stream {
            authorization: authorization.map(|value| value.to_str().unwrap().to_owned()),
            requests: call.into_inner(),
            responses,
            sent: 0,
            received: 0,
            boot_id: self.boot_id.clone(),
            heartbeats: 0,
        };
        self.streams
            .send(stream)
            .await
            .map_err(|_| Status::unavailable("the test is over"))?;
        Ok(Answer::new(ReceiverStream::new(receiver)))
    }

    async fn report_outcomes(
        &self,
        _call: Call<ReportOutcomesRequest>,
    ) -> Result<Answer<ReportOutcomesResponse>, Status> {
        Err(Status::unimplemented("outcomes come on the stream"))
    }
}

impl Fake {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let local = listener.local_addr().unwrap();
        let address = format!("http://{local}");
        // No two processes have the same one.
        let boot_id = Bytes::from(local.port().to_be_bytes().repeat(8));
        let (sender, streams) = mpsc::channel(8);
        let service = Service {
            streams: sender,
            boot_id,
        };
        let server = tonic::transport::Server::builder()
            .add_service(WorkerServiceServer::new(service))
            .serve_with_incoming(TcpIncoming::from(listener));
        tokio::spawn(server);
        Self { address, streams }
    }

    pub fn worker(&self) -> WorkerBuilder {
        Worker::builder(&self.address).worker_id("under-test")
    }

    /// Returns the next stream, with its `Hello`.
    pub async fn accept(&mut self) -> (Stream, Hello) {
        let mut stream = patient(self.streams.recv()).await.unwrap();
        match stream.hear().await {
            Some(Request::Hello(hello)) => (stream, hello),
            other => panic!("the first message is {other:?}"),
        }
    }

    /// Returns the next stream, welcomed.
    pub async fn welcome(&mut self) -> Stream {
        let (mut stream, _) = self.accept().await;
        stream.welcome().await;
        stream
    }
}

impl Stream {
    pub async fn welcome(&mut self) {
        self.welcome_with_peers(&[]).await;
    }

    pub async fn welcome_with_peers(&mut self, peers: &[&str]) {
        self.say(Response::Welcome(Welcome {
            protocol: 1,
            session_id: Bytes::from_static(&[1; 16]),
            boot_id: self.boot_id.clone(),
            heartbeat_interval_ms: 20,
            lease_ms: 10_000,
            peers: peers.iter().map(|&peer| peer.to_owned()).collect(),
            ..Welcome::default()
        }))
        .await;
    }

    pub async fn say(&mut self, message: Response) {
        self.sent += 1;
        let response = SessionResponse {
            seq: self.sent,
            message: Some(message),
        };
        self.responses.send(Ok(response)).await.unwrap();
    }

    pub async fn assign(&mut self, name: u8, action: &str, payload: &Value, timeout_ms: i64) {
        let assignment = Assignment {
            attempt_token: token(name),
            execution_id: "11111111-1111-4111-8111-111111111111".to_owned(),
            attempt: 1,
            action: action.to_owned(),
            payload: Some(escapement_wire::json::to_opaque(payload.as_object().unwrap())),
            timeout_ms,
            ..Assignment::default()
        };
        self.say(Response::Assignments(Assignments {
            items: vec![assignment],
        }))
        .await;
    }

    pub async fn cancel(&mut self, name: u8, grace_ms: i64) {
        let item = Cancel {
            attempt_token: token(name),
            grace_ms,
            ..Cancel::default()
        };
        self.say(Response::Cancels(Cancels { items: vec![item] })).await;
    }

    /// The worker has said that it drains; reads its goodbye.
    pub async fn let_go(mut self) {
        let last_assignment_seq = 0;
        self.say(Response::DrainStarted(DrainStarted { last_assignment_seq }))
            .await;
        assert!(matches!(self.hear().await, Some(Request::Goodbye(_))));
        assert!(self.hear().await.is_none(), "goodbye is last");
    }

    pub async fn supersede(&mut self) {
        let error = SessionError {
            code: session_error::Code::Superseded.into(),
            ..SessionError::default()
        };
        self.say(Response::SessionError(error)).await;
    }

    pub async fn acknowledge(&mut self, name: u8) {
        let item = OutcomeAck {
            attempt_token: token(name),
            verdict: 1,
        };
        self.say(Response::OutcomeAcks(OutcomeAcks { items: vec![item] }))
            .await;
    }

    /// Returns the next message that is no heartbeat; `None` at the end of the requests.
    pub async fn hear(&mut self) -> Option<Request> {
        loop {
            let request = patient(self.requests.message()).await.unwrap()?;
            self.received += 1;
            assert_eq!(request.seq, self.received, "requests are numbered without gaps");
            match request.message.unwrap() {
                Request::Heartbeat(heartbeat) => {
                    self.heartbeats += 1;
                    self.say(Response::HeartbeatAck(HeartbeatAck {
                        n: heartbeat.n,
                        peers: Vec::new(),
                    }))
                    .await;
                }
                message => return Some(message),
            }
        }
    }

    pub async fn hear_acks(&mut self) -> AttemptAcks {
        match self.hear().await {
            Some(Request::AttemptAcks(acks)) => acks,
            other => panic!("acknowledgements were expected, not {other:?}"),
        }
    }

    /// Returns the next outcome, after the acknowledgements before it. Acknowledges it.
    pub async fn hear_outcome(&mut self) -> AttemptOutcome {
        loop {
            match self.hear().await {
                Some(Request::AttemptAcks(_)) => {}
                Some(Request::Outcomes(mut outcomes)) => {
                    assert_eq!(outcomes.items.len(), 1);
                    let outcome = outcomes.items.remove(0);
                    self.acknowledge(outcome.attempt_token[0]).await;
                    return outcome;
                }
                other => panic!("an outcome was expected, not {other:?}"),
            }
        }
    }

    /// Code, message and context of the next outcome, which is a failure.
    pub async fn hear_failure(&mut self) -> (String, String, Value) {
        match self.hear_outcome().await.outcome {
            Some(attempt_outcome::Outcome::Failure(failure)) => {
                let context = escapement_wire::json::from_opaque(&failure.context.unwrap_or_default());
                (failure.code, failure.message, Value::Object(context.unwrap()))
            }
            other => panic!("a failure was expected, not {other:?}"),
        }
    }

    /// Returns the output of the next outcome, which is a success, and the number of its warnings.
    pub async fn hear_success(&mut self) -> (Value, usize) {
        match self.hear_outcome().await.outcome {
            Some(attempt_outcome::Outcome::Success(success)) => {
                let output = escapement_wire::json::from_opaque(&success.output.unwrap_or_default());
                (Value::Object(output.unwrap()), success.warnings.len())
            }
            other => panic!("a success was expected, not {other:?}"),
        }
    }
}

/// A worker that runs until it is told to stop.
pub struct Running {
    pub stop: oneshot::Sender<()>,
    end: JoinHandle<Result<(), WorkerError>>,
}

impl Running {
    pub fn start(worker: WorkerBuilder) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let shutdown = async move {
            // A dropped sender stops the worker as well, so that a failed test ends.
            let _ = stopped.await;
        };
        Self {
            stop,
            end: tokio::spawn(worker.run_until(shutdown)),
        }
    }

    pub fn stop(self) -> JoinHandle<Result<(), WorkerError>> {
        self.stop.send(()).unwrap();
        self.end
    }
}

pub fn token(name: u8) -> Bytes {
    Bytes::from(vec![name; 16])
}

/// Waits for a condition, with a limit.
pub async fn patient<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future)
        .await
        .expect("it happens within the limit")
}
