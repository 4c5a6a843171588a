//! Bare tonic in the worker's place: gives each payload back as the output. Starts nothing and keeps nothing.

use escapement_tests::Fault;
use escapement_wire::worker::v1::attempt_outcome::Outcome;
use escapement_wire::worker::v1::session_request::Message as FromWorker;
use escapement_wire::worker::v1::session_response::Message as ToWorker;
use escapement_wire::worker::v1::{
    Assignment, AttemptOutcome, Hello, Outcomes, SessionRequest, SessionResponse, Success,
};
use http::uri::PathAndQuery;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::transport::Endpoint;
use tonic::{Request, Streaming};
use tonic_prost::ProstCodec;

/// Works until the server is gone.
///
/// # Errors
/// The server cannot be reached.
pub(crate) async fn work(url: &str) -> Result<(), Fault> {
    let channel = Endpoint::from_shared(url.to_owned())?
        .tcp_nodelay(true)
        .connect()
        .await?;
    let mut grpc = Grpc::new(channel);
    grpc.ready().await?;
    let (requests, requests_rx) = mpsc::channel(QUEUE_MAX);
    requests
        .send(request(FromWorker::Hello(Hello::default())))
        .await?;
    let path = PathAndQuery::from_static("/escapement.worker.v1.WorkerService/Session");
    let codec = ProstCodec::<SessionRequest, SessionResponse>::default();
    let answer = grpc
        .streaming(Request::new(ReceiverStream::new(requests_rx)), path, codec)
        .await?;
    let mut stream: Streaming<SessionResponse> = answer.into_inner();
    while let Some(response) = stream.message().await? {
        match response.message {
            Some(ToWorker::Welcome(_)) => println!(r#"{{"event":"connected"}}"#),
            Some(ToWorker::Assignments(assignments)) => {
                for assignment in assignments.items {
                    requests.send(outcome(assignment)).await?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn outcome(assignment: Assignment) -> SessionRequest {
    let success = Success {
        output: assignment.payload,
        ..Success::default()
    };
    let outcome = AttemptOutcome {
        attempt_token: assignment.attempt_token,
        run_time_ms: 0,
        outcome: Some(Outcome::Success(success)),
    };
    request(FromWorker::Outcomes(Outcomes { items: vec![outcome] }))
}

fn request(message: FromWorker) -> SessionRequest {
    SessionRequest {
        seq: 1,
        message: Some(message),
    }
}

const QUEUE_MAX: usize = 4_096;
