//! The stream of a scripted worker: numbers what is sent, reads by itself, and knows what is in flight. Decides nothing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use escapement_wire::worker::v1::in_flight::Phase;
use escapement_wire::worker::v1::session_request::Message as ToOrchestrator;
use escapement_wire::worker::v1::session_response::Message as FromOrchestrator;
use escapement_wire::worker::v1::worker_service_client::WorkerServiceClient;
use escapement_wire::worker::v1::{Heartbeat, Hello, InFlight, SessionRequest, SessionResponse, Snapshot};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use crate::Fault;

/// An open stream. On drop it breaks without a word.
#[derive(Debug)]
pub(super) struct Line {
    outbound: mpsc::Sender<Outgoing>,
    inbound: mpsc::Receiver<Result<SessionResponse, Status>>,
    books: Arc<Books>,
    reading: AbortHandle,
    beating: Option<AbortHandle>,
}

#[derive(Debug)]
enum Outgoing {
    /// Under the next number.
    Next(ToOrchestrator),
    /// As it is.
    Raw(SessionRequest),
}

/// What the worker has, and how many heartbeats it sent.
#[derive(Debug, Default)]
struct Books {
    in_flight: Mutex<BTreeMap<Bytes, Phase>>,
    last_assignment_seq: AtomicU64,
    n_heartbeats: AtomicU64,
    leaves_snapshots: AtomicU64,
}

impl Line {
    /// Calls, with `Hello` queued before. Shows the token, if there is one.
    pub(super) async fn open(channel: Channel, hello: Hello, token: Option<&str>) -> Result<Self, Fault> {
        let books = Arc::new(Books::default());
        for item in &hello.in_flight {
            books.lock().insert(item.attempt_token.clone(), item.phase());
        }
        let (outbound, requests) = mpsc::channel(MESSAGES_MAX);
        outbound
            .send(Outgoing::Next(ToOrchestrator::Hello(hello)))
            .await?;
        let mut last_seq = 0;
        let numbered = ReceiverStream::new(requests).map(move |outgoing| match outgoing {
            Outgoing::Raw(request) => request,
            Outgoing::Next(message) => {
                last_seq += 1;
                let (seq, message) = (last_seq, Some(message));
                SessionRequest { seq, message }
            }
        });
        let mut call = tonic::Request::new(numbered);
        if let Some(token) = token {
            let value = format!("Bearer {token}").parse()?;
            call.metadata_mut().insert("authorization", value);
        }
        let stream = WorkerServiceClient::new(channel)
            .session(call)
            .await?
            .into_inner();
        let (tx, inbound) = mpsc::channel(MESSAGES_MAX);
        let reading = tokio::spawn(read(stream, tx, outbound.clone(), Arc::clone(&books))).abort_handle();
        Ok(Self {
            outbound,
            inbound,
            books,
            reading,
            beating: None,
        })
    }

    /// Returns the next message; `None` at the end of the stream.
    pub(super) async fn next(&mut self) -> Option<Result<SessionResponse, Status>> {
        self.inbound.recv().await
    }

    pub(super) async fn send(&self, message: ToOrchestrator) {
        // Where the stream is over, the next read says so.
        let _ = self.outbound.send(Outgoing::Next(message)).await;
    }

    pub(super) async fn send_raw(&self, request: SessionRequest) {
        let _ = self.outbound.send(Outgoing::Raw(request)).await;
    }

    /// Sends a heartbeat without a hash and gives its number.
    pub(super) async fn heartbeat(&self) -> u64 {
        let n = self.books.next_heartbeat();
        let heartbeat = Heartbeat {
            n,
            ..Heartbeat::default()
        };
        self.send(ToOrchestrator::Heartbeat(heartbeat)).await;
        n
    }

    pub(super) fn keep_alive(&mut self, interval: Duration) {
        self.fall_silent();
        let (outbound, books) = (self.outbound.clone(), Arc::clone(&self.books));
        let beats = async move {
            let mut ticks = tokio::time::interval(interval);
            loop {
                ticks.tick().await;
                let heartbeat = books.heartbeat();
                if outbound.send(Outgoing::Next(heartbeat)).await.is_err() {
                    return;
                }
            }
        };
        self.beating = Some(tokio::spawn(beats).abort_handle());
    }

    pub(super) fn fall_silent(&mut self) {
        if let Some(beating) = self.beating.take() {
            beating.abort();
        }
    }

    pub(super) fn leave_snapshots(&self) {
        self.books.leaves_snapshots.store(1, Ordering::Relaxed);
    }

    pub(super) fn last_assignment_seq(&self) -> u64 {
        self.books.last_assignment_seq.load(Ordering::Relaxed)
    }

    pub(super) fn in_flight(&self) -> Vec<InFlight> {
        self.books.in_flight()
    }

    pub(super) fn note(&self, token: &Bytes, phase: Phase) {
        if let Some(known) = self.books.lock().get_mut(token) {
            *known = phase;
        }
    }

    pub(super) fn forget(&self, token: &Bytes) {
        self.books.lock().remove(token);
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.reading.abort();
        self.fall_silent();
    }
}

impl Books {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Bytes, Phase>> {
        self.in_flight.lock().expect("nobody panics while holding it")
    }

    fn next_heartbeat(&self) -> u64 {
        self.n_heartbeats.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn heartbeat(&self) -> ToOrchestrator {
        let n = self.next_heartbeat();
        let in_flight = self.lock();
        let mut hash = [0; 16];
        for token in in_flight.keys() {
            hash.iter_mut()
                .zip(token.iter())
                .for_each(|(hash, byte)| *hash ^= byte);
        }
        ToOrchestrator::Heartbeat(Heartbeat {
            n,
            in_flight: u32::try_from(in_flight.len()).unwrap_or(u32::MAX),
            in_flight_hash: Bytes::copy_from_slice(&hash),
        })
    }

    fn in_flight(&self) -> Vec<InFlight> {
        let all = self.lock();
        let listed = all.iter().map(|(token, phase)| InFlight {
            attempt_token: token.clone(),
            phase: (*phase).into(),
        });
        listed.collect()
    }

    /// Takes note of a message, and answers it where the worker does so by itself.
    fn note(&self, response: &SessionResponse) -> Option<ToOrchestrator> {
        match response.message.as_ref()? {
            FromOrchestrator::Assignments(assignments) => {
                self.last_assignment_seq.store(response.seq, Ordering::Relaxed);
                let tokens = assignments.items.iter().map(|item| item.attempt_token.clone());
                self.lock().extend(tokens.map(|token| (token, Phase::Received)));
            }
            FromOrchestrator::OutcomeAcks(acks) => {
                let mut in_flight = self.lock();
                for ack in &acks.items {
                    in_flight.remove(&ack.attempt_token);
                }
            }
            FromOrchestrator::SnapshotRequest(request)
                if self.leaves_snapshots.load(Ordering::Relaxed) == 0 =>
            {
                return Some(ToOrchestrator::Snapshot(Snapshot {
                    n: request.n,
                    last_assignment_seq: self.last_assignment_seq.load(Ordering::Relaxed),
                    in_flight: self.in_flight(),
                }));
            }
            _ => {}
        }
        None
    }
}

async fn read(
    mut stream: Streaming<SessionResponse>,
    inbound: mpsc::Sender<Result<SessionResponse, Status>>,
    outbound: mpsc::Sender<Outgoing>,
    books: Arc<Books>,
) {
    while let Some(next) = stream.message().await.transpose() {
        let answer = next.as_ref().ok().and_then(|response| books.note(response));
        let is_last = next.is_err();
        if inbound.send(next).await.is_err() || is_last {
            return;
        }
        if let Some(answer) = answer {
            let _ = outbound.send(Outgoing::Next(answer)).await;
        }
    }
}

/// Messages that wait to be sent, and messages that wait to be read.
const MESSAGES_MAX: usize = 4_096;
