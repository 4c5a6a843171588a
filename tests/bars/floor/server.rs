//! Bare tonic in the orchestrator's place: an assignment out for each step, an outcome in, an answer at the end.
//! Checks nothing, keeps nothing, and gives each execution to the next worker.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use escapement_tests::Fault;
use escapement_wire::v1::{
    CriticalStep, ExecutePlanRequest, ExecutePlanResponse, PlanCertificate, PlanResult, PlanStep,
    ValidatePlanRequest, ValidatePlanResponse,
};
use escapement_wire::worker::v1::attempt_outcome::Outcome;
use escapement_wire::worker::v1::session_request::Message as FromWorker;
use escapement_wire::worker::v1::session_response::Message as ToWorker;
use escapement_wire::worker::v1::{
    Assignment, Assignments, AttemptOutcome, HeartbeatAck, SessionRequest, SessionResponse, Welcome,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::server::{Grpc, NamedService, StreamingService, UnaryService};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

/// Serves until the process is killed.
///
/// # Errors
/// There is no port.
pub(crate) async fn serve() -> Result<(), Fault> {
    // Without delay, as the product: small messages must not wait for acknowledgements.
    let incoming = TcpIncoming::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?.with_nodelay(Some(true));
    let address = incoming.local_addr()?;
    let floor = Floor::default();
    println!(r#"{{"event":"serving","address":"{address}"}}"#);
    Server::builder()
        .add_service(Callers(floor.clone()))
        .add_service(Sessions(floor))
        .serve_with_incoming(incoming)
        .await?;
    Ok(())
}

type Responses = mpsc::Sender<Result<SessionResponse, Status>>;
type Outcomes = mpsc::UnboundedSender<AttemptOutcome>;

/// The workers, and the calls that wait for their outcomes.
#[derive(Clone, Default)]
struct Floor(Arc<State>);

#[derive(Default)]
struct State {
    workers: Mutex<Vec<Responses>>,
    waiting: Mutex<HashMap<u64, Outcomes>>,
    next: AtomicU64,
}

impl Floor {
    async fn execute(&self, request: ExecutePlanRequest) -> Result<ExecutePlanResponse, Status> {
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        let worker = self.worker_for(number)?;
        let plan = request.plan.unwrap_or_default();
        let environment = request.environment;
        let (outcomes, mut outcomes_rx) = mpsc::unbounded_channel();
        self.0
            .waiting
            .lock()
            .expect("nobody panics while holding it")
            .insert(number, outcomes);
        let execution_id = format!("{number:08x}-0000-4000-8000-{number:012x}");
        let n_steps = plan.steps.len();
        // Steps that wait for each other go one by one, others as many as the caller wants.
        let is_chain = plan.steps.get(1).is_some_and(|step| !step.depends_on.is_empty());
        let wanted = request.options.and_then(|options| options.max_concurrent_steps);
        let at_once = if is_chain {
            1
        } else {
            wanted.map_or(n_steps, |wanted| wanted as usize)
        };
        let mut steps = (0_u64..).zip(plan.steps);
        let assignment = |(index, step): (u64, PlanStep)| Assignment {
            attempt_token: token(number, index),
            execution_id: execution_id.clone(),
            plan_id: plan.id.clone(),
            step_id: step.id,
            attempt: 1,
            action: step.action,
            payload: step.payload,
            environment: environment.clone(),
            ..Assignment::default()
        };
        for step in steps.by_ref().take(at_once) {
            send(&worker, assignment(step)).await?;
        }
        let mut last = None;
        for _ in 0..n_steps {
            last = outcomes_rx.recv().await;
            if let Some(step) = steps.next() {
                send(&worker, assignment(step)).await?;
            }
        }
        self.0
            .waiting
            .lock()
            .expect("nobody panics while holding it")
            .remove(&number);
        let output = last.and_then(|outcome| match outcome.outcome {
            Some(Outcome::Success(success)) => success.output,
            _ => None,
        });
        let result = PlanResult {
            plan_id: plan.id.clone(),
            execution_id: execution_id.clone(),
            status: 1,
            steps_executed: n_steps as i32,
            steps_total: n_steps as i32,
            result_payload: output,
            ..PlanResult::default()
        };
        Ok(ExecutePlanResponse { result: Some(result) })
    }

    /// Returns all workers in turn.
    fn worker_for(&self, number: u64) -> Result<Responses, Status> {
        let workers = self.0.workers.lock().expect("nobody panics while holding it");
        let turn = number as usize % workers.len().max(1);
        workers
            .get(turn)
            .cloned()
            .ok_or_else(|| Status::unavailable("there is no worker"))
    }

    /// Takes a worker in and gives the stream to it.
    fn open(
        &self,
        mut inbound: Streaming<SessionRequest>,
    ) -> ReceiverStream<Result<SessionResponse, Status>> {
        let (responses, responses_rx) = mpsc::channel(QUEUE_MAX);
        let state = Arc::clone(&self.0);
        tokio::spawn(async move {
            while let Ok(Some(request)) = inbound.message().await {
                let outcomes = match request.message {
                    Some(FromWorker::Outcomes(outcomes)) => outcomes,
                    Some(FromWorker::Hello(hello)) => {
                        // An idle session says hello; the worker of the floor says nothing about itself.
                        if hello.actions.is_empty() {
                            state
                                .workers
                                .lock()
                                .expect("nobody panics while holding it")
                                .push(responses.clone());
                        }
                        if responses
                            .send(Ok(response(ToWorker::Welcome(Welcome::default()))))
                            .await
                            .is_err()
                        {
                            return;
                        }
                        continue;
                    }
                    Some(FromWorker::Heartbeat(heartbeat)) => {
                        let ack = HeartbeatAck {
                            n: heartbeat.n,
                            ..HeartbeatAck::default()
                        };
                        if responses
                            .send(Ok(response(ToWorker::HeartbeatAck(ack))))
                            .await
                            .is_err()
                        {
                            return;
                        }
                        continue;
                    }
                    _ => continue,
                };
                let waiting = state.waiting.lock().expect("nobody panics while holding it");
                for outcome in outcomes.items {
                    if let Some(call) = waiting.get(&number_of(&outcome.attempt_token)) {
                        // A caller that gave up waits for nothing.
                        let _gave_up = call.send(outcome);
                    }
                }
            }
        });
        ReceiverStream::new(responses_rx)
    }
}

async fn send(worker: &Responses, assignment: Assignment) -> Result<(), Status> {
    let message = ToWorker::Assignments(Assignments {
        items: vec![assignment],
    });
    worker
        .send(Ok(response(message)))
        .await
        .map_err(|_| Status::unavailable("the worker is gone"))
}

fn response(message: ToWorker) -> SessionResponse {
    SessionResponse {
        seq: 1,
        message: Some(message),
    }
}

/// As long as the product's.
fn token(number: u64, index: u64) -> Bytes {
    let mut token = [0; TOKEN_BYTES];
    token[..8].copy_from_slice(&number.to_be_bytes());
    token[8..16].copy_from_slice(&index.to_be_bytes());
    Bytes::copy_from_slice(&token)
}

fn number_of(token: &[u8]) -> u64 {
    token.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

/// What callers reach.
#[derive(Clone)]
struct Callers(Floor);

impl NamedService for Callers {
    const NAME: &'static str = "escapement.v1.PlanExecutionService";
}

type Answer<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl Service<http::Request<Body>> for Callers {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Answer<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let floor = self.0.clone();
        let validates = request.uri().path().ends_with("/ValidatePlan");
        Box::pin(async move {
            Ok(if validates {
                let mut grpc = Grpc::new(ProstCodec::default()).max_decoding_message_size(MESSAGE_BYTES_MAX);
                grpc.unary(Validate, request).await
            } else {
                let mut grpc = Grpc::new(ProstCodec::default()).max_decoding_message_size(MESSAGE_BYTES_MAX);
                grpc.unary(Execute(floor), request).await
            })
        })
    }
}

struct Execute(Floor);

impl UnaryService<ExecutePlanRequest> for Execute {
    type Response = ExecutePlanResponse;
    type Future = Answer<Result<Response<ExecutePlanResponse>, Status>>;

    fn call(&mut self, request: Request<ExecutePlanRequest>) -> Self::Future {
        let floor = self.0.clone();
        Box::pin(async move { floor.execute(request.into_inner()).await.map(Response::new) })
    }
}

struct Validate;

impl UnaryService<ValidatePlanRequest> for Validate {
    type Response = ValidatePlanResponse;
    type Future = Answer<Result<Response<ValidatePlanResponse>, Status>>;

    fn call(&mut self, request: Request<ValidatePlanRequest>) -> Self::Future {
        let plan = request.into_inner().plan.unwrap_or_default();
        // As long as the product's answer for a chain: its certificate names every step twice more.
        let order: Vec<String> = plan.steps.iter().map(|step| step.id.clone()).collect();
        let critical = |step: PlanStep| CriticalStep {
            step_id: step.id,
            action: step.action,
            worst_case_ms: 1,
            worst_case_attempts: 1,
        };
        let answer = ValidatePlanResponse {
            valid: true,
            canonical_order: order.clone(),
            certificate: Some(PlanCertificate {
                canonical_order: order,
                critical_path: plan.steps.into_iter().map(critical).collect(),
                ..PlanCertificate::default()
            }),
            ..ValidatePlanResponse::default()
        };
        Box::pin(async move { Ok(Response::new(answer)) })
    }
}

/// What the worker reaches.
#[derive(Clone)]
struct Sessions(Floor);

impl NamedService for Sessions {
    const NAME: &'static str = "escapement.worker.v1.WorkerService";
}

impl Service<http::Request<Body>> for Sessions {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Answer<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let floor = self.0.clone();
        Box::pin(async move {
            Ok(Grpc::new(ProstCodec::default())
                .streaming(Session(floor), request)
                .await)
        })
    }
}

struct Session(Floor);

impl StreamingService<SessionRequest> for Session {
    type Response = SessionResponse;
    type ResponseStream = ReceiverStream<Result<SessionResponse, Status>>;
    type Future = Answer<Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: Request<Streaming<SessionRequest>>) -> Self::Future {
        let stream = self.0.open(request.into_inner());
        Box::pin(async move { Ok(Response::new(stream)) })
    }
}

const QUEUE_MAX: usize = 4_096;
const TOKEN_BYTES: usize = 32;
const MESSAGE_BYTES_MAX: usize = 8 << 20;
