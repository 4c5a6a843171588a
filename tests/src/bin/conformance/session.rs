//! A stream as the kit holds it: what arrives is kept and, where manners say so, answered; what is sent is numbered.
//! Demands nothing of the worker.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use escapement_tests::{Fault, wait_for};
use escapement_wire::worker::v1::outcome_ack::Verdict;
use escapement_wire::worker::v1::session_request::Message as FromWorker;
use escapement_wire::worker::v1::session_response::Message as ToWorker;
use escapement_wire::worker::v1::{
    DrainStarted, HeartbeatAck, OutcomeAck, OutcomeAcks, SessionRequest, SessionResponse,
};
use h2::{RecvStream, SendStream};
use hyper::HeaderMap;
use prost::Message;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::frames::{Unframer, framed};
use crate::log::{End, Entry, Log, Said};

/// A handle on one stream; clones are the same stream.
#[derive(Clone, Debug)]
pub(crate) struct Session(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    authorization: Option<String>,
    log: Mutex<Log>,
    outbox: Mutex<Outbox>,
    manners: Manners,
    connection: AbortHandle,
}

#[derive(Debug)]
struct Outbox {
    last_seq: u64,
    tx: mpsc::Sender<Outgoing>,
}

/// What the kit does by itself.
#[derive(Debug)]
struct Manners {
    acknowledges_heartbeats: AtomicBool,
    /// The verdict for every outcome; [`WITHHELD`] for none.
    verdict: AtomicI32,
    answers_drain: AtomicBool,
}

#[derive(Debug)]
enum Outgoing {
    Bytes(Bytes),
    /// The end of the stream with this gRPC status.
    Status(u16),
    /// The end of the stream only.
    Reset,
}

impl Session {
    /// Takes a stream over, and reads it until it ends.
    pub(crate) fn start(
        authorization: Option<String>,
        inbound: RecvStream,
        outbound: SendStream<Bytes>,
        connection: AbortHandle,
    ) -> Self {
        let (tx, rx) = mpsc::channel(OUTGOING_MAX);
        let session = Self(Arc::new(Inner {
            authorization,
            log: Mutex::new(Log::new(Instant::now())),
            outbox: Mutex::new(Outbox { last_seq: 0, tx }),
            manners: Manners {
                acknowledges_heartbeats: AtomicBool::new(true),
                verdict: AtomicI32::new(Verdict::Accepted.into()),
                answers_drain: AtomicBool::new(true),
            },
            connection,
        }));
        tokio::spawn(write(outbound, rx));
        tokio::spawn(session.clone().read(inbound));
        session
    }

    /// Returns the `authorization` metadata of the call.
    pub(crate) fn authorization(&self) -> Option<&str> {
        self.0.authorization.as_deref()
    }

    /// Returns all that was said.
    pub(crate) fn log(&self) -> MutexGuard<'_, Log> {
        self.0.log.lock().expect("nobody panics while holding it")
    }

    /// From now on heartbeats are acknowledged, or not.
    pub(crate) fn acknowledge_heartbeats(&self, yes: bool) {
        self.0
            .manners
            .acknowledges_heartbeats
            .store(yes, Ordering::SeqCst);
    }

    /// From now on every outcome gets this verdict.
    pub(crate) fn answer_outcomes(&self, verdict: i32) {
        self.0.manners.verdict.store(verdict, Ordering::SeqCst);
    }

    /// From now on no outcome is acknowledged.
    pub(crate) fn withhold_acks(&self) {
        self.answer_outcomes(WITHHELD);
    }

    /// From now on a `Drain` is answered by `DrainStarted`, or not.
    pub(crate) fn answer_drain(&self, yes: bool) {
        self.0.manners.answers_drain.store(yes, Ordering::SeqCst);
    }

    /// Sends a message with the next number, and returns the number. On a stream that is over it does nothing.
    pub(crate) fn send(&self, message: ToWorker) -> u64 {
        self.send_as(None, message)
    }

    /// Sends a message with a number that need not be the next one.
    pub(crate) fn send_as(&self, seq: Option<u64>, message: ToWorker) -> u64 {
        let mut outbox = self.outbox();
        let seq = seq.unwrap_or(outbox.last_seq + 1);
        outbox.last_seq = seq;
        let message = SessionResponse {
            seq,
            message: Some(message),
        };
        let bytes = message.encode_to_vec();
        self.note(seq, bytes.len(), Said::Kit(message.message));
        outbox.put(Outgoing::Bytes(framed(&bytes)));
        seq
    }

    /// Sends what `encode` makes of the next number, and notes it as this message.
    pub(crate) fn send_encoded(&self, noted: Option<ToWorker>, encode: impl FnOnce(u64) -> Vec<u8>) {
        let mut outbox = self.outbox();
        outbox.last_seq += 1;
        let bytes = encode(outbox.last_seq);
        self.note(outbox.last_seq, bytes.len(), Said::Kit(noted));
        outbox.put(Outgoing::Bytes(framed(&bytes)));
    }

    /// Sends bytes that need not even be a frame.
    pub(crate) fn send_bytes(&self, bytes: Bytes) {
        self.outbox().put(Outgoing::Bytes(bytes));
    }

    /// Returns the number that the next message would have.
    pub(crate) fn next_seq(&self) -> u64 {
        self.outbox().last_seq + 1
    }

    /// Sends a message with the next number, each byte in a frame of HTTP/2 of its own.
    pub(crate) fn send_in_single_bytes(&self, message: ToWorker) {
        let mut outbox = self.outbox();
        outbox.last_seq += 1;
        let message = SessionResponse {
            seq: outbox.last_seq,
            message: Some(message),
        };
        let bytes = message.encode_to_vec();
        self.note(message.seq, bytes.len(), Said::Kit(message.message));
        for byte in framed(&bytes).chunks(1) {
            outbox.put(Outgoing::Bytes(Bytes::copy_from_slice(byte)));
        }
    }

    /// Sends nothing more, and ends the stream with this gRPC status.
    pub(crate) fn finish(&self, status: u16) {
        self.outbox().put(Outgoing::Status(status));
    }

    /// Ends the stream by `RST_STREAM`; the connection lives on.
    pub(crate) fn reset_stream(&self) {
        self.outbox().put(Outgoing::Reset);
    }

    /// Ends the connection without a word: FIN, or RST where the stage was told so.
    pub(crate) fn cut(&self) {
        self.0.connection.abort();
    }

    /// Waits until the log gives a value. Ends early when the stream does.
    ///
    /// # Errors
    /// The limit passed or the stream ended; the text says what was waited for.
    pub(crate) async fn expect<T>(
        &self,
        what: &str,
        limit: Duration,
        ask: impl Fn(&Log) -> Option<T>,
    ) -> Result<T, Fault> {
        let answer = wait_for(what, limit, async || {
            let log = self.log();
            match (ask(&log), &log.end) {
                (Some(value), _) => Some(Ok(value)),
                (None, Some(end)) => Some(Err(end.how.clone())),
                (None, None) => None,
            }
        });
        answer
            .await?
            .map_err(|how| format!("expected {what}, but the stream ended: {how}").into())
    }

    /// Waits for a success of an attempt.
    ///
    /// # Errors
    /// As [`Session::expect`].
    pub(crate) async fn expect_success(
        &self,
        what: &str,
        token: &Bytes,
        limit: Duration,
    ) -> Result<(), Fault> {
        self.expect(what, limit, |log| log.succeeded(token).then_some(()))
            .await
    }

    /// Waits until the worker's side of the stream is over.
    ///
    /// # Errors
    /// The limit passed.
    pub(crate) async fn ended(&self, what: &str, limit: Duration) -> Result<End, Fault> {
        wait_for(what, limit, async || self.log().end.clone()).await
    }

    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.0.outbox.lock().expect("nobody panics while holding it")
    }

    fn note(&self, seq: u64, bytes: usize, said: Said) {
        let at = Instant::now();
        self.log().entries.push(Entry { at, seq, bytes, said });
    }

    async fn read(self, mut inbound: RecvStream) {
        let mut unframer = Unframer::default();
        let how = loop {
            let bytes = match inbound.data().await {
                Some(Ok(bytes)) => bytes,
                Some(Err(fault)) => break format!("the transport said: {fault}"),
                None => break "the worker closed its side".to_owned(),
            };
            // An error means that the stream is over, which the next read says better.
            let _ = inbound.flow_control().release_capacity(bytes.len());
            unframer.push(&bytes);
            if let Err(fault) = self.take(&mut unframer) {
                break fault;
            }
        };
        let end = End { how };
        self.log().end = Some(end);
        self.finish(OK);
    }

    fn take(&self, unframer: &mut Unframer) -> Result<(), String> {
        while let Some(bytes) = unframer.next()? {
            let request = SessionRequest::decode(bytes.clone()).map_err(|fault| {
                format!(
                    "the worker sent {} bytes that are no message: {fault}",
                    bytes.len()
                )
            })?;
            self.note(request.seq, bytes.len(), Said::Worker(request.message.clone()));
            if let Some(message) = request.message {
                self.answer(&message);
            }
        }
        Ok(())
    }

    fn answer(&self, message: &FromWorker) {
        let manners = &self.0.manners;
        match message {
            FromWorker::Heartbeat(heartbeat) if manners.acknowledges_heartbeats.load(Ordering::SeqCst) => {
                let n = heartbeat.n;
                self.send(ToWorker::HeartbeatAck(HeartbeatAck {
                    n,
                    ..HeartbeatAck::default()
                }));
            }
            FromWorker::Outcomes(outcomes) => {
                let verdict = manners.verdict.load(Ordering::SeqCst);
                let tokens = outcomes.items.iter().map(|item| item.attempt_token.clone());
                if verdict != WITHHELD {
                    self.acknowledge(tokens, verdict);
                }
            }
            FromWorker::Drain(_) if manners.answers_drain.load(Ordering::SeqCst) => self.start_drain(),
            FromWorker::Goodbye(_) => self.finish(OK),
            _ => {}
        }
    }

    /// Acknowledges these outcomes.
    pub(crate) fn acknowledge(&self, tokens: impl IntoIterator<Item = Bytes>, verdict: i32) {
        let items = tokens.into_iter().map(|attempt_token| OutcomeAck {
            attempt_token,
            verdict,
        });
        self.send(ToWorker::OutcomeAcks(OutcomeAcks {
            items: items.collect(),
        }));
    }

    /// Says that no assignment follows.
    pub(crate) fn start_drain(&self) {
        let last_assignment_seq = self.last_assignment_seq();
        self.send(ToWorker::DrainStarted(DrainStarted { last_assignment_seq }));
    }

    /// Returns the number of the last `Assignments`; 0 for none.
    pub(crate) fn last_assignment_seq(&self) -> u64 {
        let log = self.log();
        let assignments = log
            .told()
            .filter(|(_, _, message)| matches!(message, ToWorker::Assignments(_)));
        assignments.last().map_or(0, |(_, seq, _)| seq)
    }
}

impl Outbox {
    fn put(&self, outgoing: Outgoing) {
        // Full means that the worker does not read, which the check that floods it finds out.
        let _ = self.tx.try_send(outgoing);
    }
}

async fn write(mut outbound: SendStream<Bytes>, mut rx: mpsc::Receiver<Outgoing>) {
    while let Some(outgoing) = rx.recv().await {
        let over = match outgoing {
            Outgoing::Bytes(bytes) => write_bytes(&mut outbound, bytes).await.is_none(),
            Outgoing::Status(status) => {
                let mut trailers = HeaderMap::new();
                trailers.insert("grpc-status", status.into());
                let _ = outbound.send_trailers(trailers);
                true
            }
            Outgoing::Reset => {
                outbound.send_reset(h2::Reason::INTERNAL_ERROR);
                true
            }
        };
        if over {
            return;
        }
    }
}

/// Writes as the worker's windows allow. `None` if the stream is over.
async fn write_bytes(outbound: &mut SendStream<Bytes>, mut bytes: Bytes) -> Option<()> {
    while !bytes.is_empty() {
        outbound.reserve_capacity(bytes.len());
        let n = poll_fn(|cx| outbound.poll_capacity(cx)).await?.ok()?;
        let part = bytes.split_to(n.min(bytes.len()));
        outbound.send_data(part, false).ok()?;
    }
    Some(())
}

const WITHHELD: i32 = -1;
const OK: u16 = 0;
/// Messages that wait to be written. A flood is larger than this in no check.
const OUTGOING_MAX: usize = 1 << 17;
