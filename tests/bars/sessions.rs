//! Very many workers that have nothing to do: a connection, a stream and heartbeats each. Takes no work.

use std::time::Duration;

use bytes::Bytes;
use escapement_model::limits::HEARTBEAT_INTERVAL_MS;
use escapement_tests::{Fault, ScriptedWorker};
use escapement_wire::worker::v1::session_request::Message as ToOrchestrator;
use escapement_wire::worker::v1::session_response::Message as FromOrchestrator;
use escapement_wire::worker::v1::worker_service_client::WorkerServiceClient;
use escapement_wire::worker::v1::{Heartbeat, Hello, SessionRequest, SessionResponse};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Endpoint;

/// Open sessions. They end on drop.
#[derive(Debug, Default)]
pub(crate) struct Sessions(JoinSet<()>);

impl Sessions {
    /// Opens so many more, each over a connection of its own, and waits until each of them is answered.
    ///
    /// Their heartbeats are spread evenly over the interval.
    ///
    /// # Errors
    /// One cannot be opened.
    pub(crate) async fn open(&mut self, url: &str, n_sessions: usize) -> Result<(), Fault> {
        let interval = Duration::from_millis(HEARTBEAT_INTERVAL_MS);
        for index in 0..n_sessions {
            let session = open(url).await?;
            let first = interval.mul_f64(index as f64 / n_sessions as f64);
            self.0.spawn(idle(session, first, interval));
        }
        Ok(())
    }

    /// Returns the number of sessions that have ended; it should be 0.
    pub(crate) fn n_ended(&mut self) -> usize {
        std::iter::from_fn(|| self.0.try_join_next()).count()
    }
}

type Session = (mpsc::Sender<SessionRequest>, Streaming<SessionResponse>);

async fn open(url: &str) -> Result<Session, Fault> {
    let (requests, requests_rx) = mpsc::channel(1);
    let hello = Hello {
        instance_id: Bytes::copy_from_slice(&escapement_tests::fresh_id().replace('-', "").as_bytes()[..16]),
        ..ScriptedWorker::hello_for(ScriptedWorker::specs(&["idle"]), 1)
    };
    requests.send(request(1, ToOrchestrator::Hello(hello))).await?;
    let channel = Endpoint::from_shared(url.to_owned())?.connect().await?;
    let mut client = WorkerServiceClient::new(channel);
    let mut responses = client
        .session(ReceiverStream::new(requests_rx))
        .await?
        .into_inner();
    match responses.message().await?.and_then(|response| response.message) {
        Some(FromOrchestrator::Welcome(_)) => Ok((requests, responses)),
        other => Err(format!("a session should be welcomed, and got {other:?}").into()),
    }
}

/// Sends heartbeats and reads what comes, until the stream ends.
async fn idle((requests, mut responses): Session, first: Duration, interval: Duration) {
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + first, interval);
    let mut n = 0;
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                n += 1;
                let heartbeat = Heartbeat { n, ..Heartbeat::default() };
                if requests.send(request(n + 1, ToOrchestrator::Heartbeat(heartbeat))).await.is_err() {
                    return;
                }
            }
            response = responses.message() => {
                if !matches!(response, Ok(Some(_))) {
                    return;
                }
            }
        }
    }
}

fn request(seq: u64, message: ToOrchestrator) -> SessionRequest {
    SessionRequest {
        seq,
        message: Some(message),
    }
}
