//! A small worker over the generated client, with one flaw that the kit must find. Written from the protocol's page.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use escapement_model::Opaque;
use escapement_wire::json::{from_opaque, to_opaque};
use escapement_wire::v1::execution_error::Severity;
use escapement_wire::worker::v1::attempt_outcome::Outcome;
use escapement_wire::worker::v1::attempt_verdict::Verdict;
use escapement_wire::worker::v1::in_flight::Phase;
use escapement_wire::worker::v1::rejected_attempt::Reason;
use escapement_wire::worker::v1::session_request::Message as ToOrchestrator;
use escapement_wire::worker::v1::session_response::Message as FromOrchestrator;
use escapement_wire::worker::v1::worker_service_client::WorkerServiceClient;
use escapement_wire::worker::v1::{
    ActionSpec, Assignment, AttemptAcks, AttemptOutcome, Failure, Heartbeat, Hello, InFlight, Outcomes,
    RejectedAttempt, SessionRequest, Success, Welcome,
};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Endpoint;

/// What is wrong with the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    None,
    NeverAnswers,
    ForgetsOutcomesAtABreak,
    NewInstanceAtABreak,
    WrongHash,
    RunsTokensTwice,
    ChangesOutcomes,
    IgnoresCancels,
    IgnoresTheLease,
    ForgetsANumber,
}

const FLAWS: [Flaw; 10] = [
    Flaw::None,
    Flaw::NeverAnswers,
    Flaw::ForgetsOutcomesAtABreak,
    Flaw::NewInstanceAtABreak,
    Flaw::WrongHash,
    Flaw::RunsTokensTwice,
    Flaw::ChangesOutcomes,
    Flaw::IgnoresCancels,
    Flaw::IgnoresTheLease,
    Flaw::ForgetsANumber,
];

impl Flaw {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Flaw::None => "none",
            Flaw::NeverAnswers => "never answers",
            Flaw::ForgetsOutcomesAtABreak => "forgets outcomes at a break",
            Flaw::NewInstanceAtABreak => "new instance at a break",
            Flaw::WrongHash => "wrong hash",
            Flaw::RunsTokensTwice => "runs tokens twice",
            Flaw::ChangesOutcomes => "changes outcomes",
            Flaw::IgnoresCancels => "ignores cancels",
            Flaw::IgnoresTheLease => "ignores the lease",
            Flaw::ForgetsANumber => "forgets a number",
        }
    }

    pub(crate) fn named(name: &str) -> Self {
        FLAWS
            .into_iter()
            .find(|flaw| flaw.name() == name)
            .expect("the test names a flaw")
    }

    /// Checks that wait for what this flaw leaves out, and so fail beside those that look for it.
    pub(crate) fn spoils(self) -> &'static [&'static str] {
        match self {
            Flaw::NeverAnswers => &[
                "heartbeats_go_on_while_all_slots_are_busy",
                "never_more_than_capacity",
                "a_cancel_stops_the_body",
                "the_lease_stops_what_runs",
                "nothing_succeeds_after_the_lease",
            ],
            Flaw::NewInstanceAtABreak => &["a_gap_in_numbers_ends_the_stream"],
            Flaw::RunsTokensTwice => &["an_outcome_never_changes"],
            Flaw::None
            | Flaw::ForgetsOutcomesAtABreak
            | Flaw::WrongHash
            | Flaw::ChangesOutcomes
            | Flaw::IgnoresCancels
            | Flaw::IgnoresTheLease
            | Flaw::ForgetsANumber => &[],
        }
    }
}

/// An attempt that the worker was not released from.
struct Attempt {
    body: Option<AbortHandle>,
    outcome: Option<AttemptOutcome>,
}

struct FlawedWorker {
    flaw: Flaw,
    instance_id: Bytes,
    attempts: BTreeMap<Bytes, Attempt>,
    ended_tx: mpsc::Sender<AttemptOutcome>,
    ended: mpsc::Receiver<AttemptOutcome>,
}

/// A stream.
struct Stream {
    tx: mpsc::Sender<SessionRequest>,
    seq: u64,
    flaw: Flaw,
}

/// Works until it is killed.
pub(crate) fn run(flaw: Flaw) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(async {
        let (ended_tx, ended) = mpsc::channel(1024);
        let (instance_id, attempts) = (fresh_instance(), BTreeMap::new());
        let mut worker = FlawedWorker {
            flaw,
            instance_id,
            attempts,
            ended_tx,
            ended,
        };
        let mut pause = tokio::time::interval(Duration::from_millis(100));
        loop {
            pause.tick().await;
            let _ = worker.session().await;
            match flaw {
                Flaw::ForgetsOutcomesAtABreak => {
                    worker.attempts.retain(|_, attempt| attempt.outcome.is_none())
                }
                Flaw::NewInstanceAtABreak => worker.instance_id = fresh_instance(),
                _ => {}
            }
        }
    });
}

fn fresh_instance() -> Bytes {
    Bytes::from(escapement_tests::fresh_id().into_bytes()[..16].to_vec())
}

impl Stream {
    async fn send(&mut self, message: ToOrchestrator) -> Option<()> {
        self.seq += if self.flaw == Flaw::ForgetsANumber && self.seq == 3 {
            2
        } else {
            1
        };
        let message = SessionRequest {
            seq: self.seq,
            message: Some(message),
        };
        self.tx.send(message).await.ok()
    }
}

impl FlawedWorker {
    /// `None` if the stream is over.
    async fn session(&mut self) -> Option<()> {
        let url = std::env::var("ESCAPEMENT_ORCHESTRATOR").expect("the kit says where it is");
        let (tx, requests) = mpsc::channel(1024);
        let mut stream = Stream {
            tx,
            seq: 0,
            flaw: self.flaw,
        };
        stream.send(ToOrchestrator::Hello(self.hello())).await?;
        let channel = Endpoint::from_shared(url).ok()?.connect().await.ok()?;
        let mut client = WorkerServiceClient::new(channel);
        let mut inbound = client
            .session(ReceiverStream::new(requests))
            .await
            .ok()?
            .into_inner();
        let first = inbound.message().await.ok()??;
        let Some(FromOrchestrator::Welcome(welcome)) = first.message else {
            return None;
        };
        self.take_verdicts(&welcome);
        self.report_all(&mut stream).await?;
        let mut beat = tokio::time::interval(Duration::from_millis(
            welcome.heartbeat_interval_ms.unsigned_abs(),
        ));
        let lease = Duration::from_millis(welcome.lease_ms.unsigned_abs());
        let (mut sent, mut expires, mut last_seq) = (Vec::new(), Instant::now() + lease, first.seq);
        loop {
            // Biased: what must not be late comes first.
            tokio::select! {
                biased;
                now = beat.tick() => {
                    if now >= expires && self.flaw != Flaw::IgnoresTheLease {
                        self.drop_all();
                        return None;
                    }
                    sent.push(now);
                    stream.send(self.heartbeat(sent.len() as u64)).await?;
                }
                Some(outcome) = self.ended.recv() => self.end(&mut stream, outcome).await?,
                message = inbound.message() => {
                    let message = message.ok()??;
                    last_seq += 1;
                    if message.seq != last_seq {
                        return None;
                    }
                    match message.message? {
                        FromOrchestrator::HeartbeatAck(ack) => expires = sent[ack.n as usize - 1] + lease,
                        message => self.take(&mut stream, message).await?,
                    }
                }
            }
        }
    }

    fn hello(&self) -> Hello {
        let actions = ["echo", "fail", "delay"].map(|name| ActionSpec {
            name: name.to_owned(),
            ..ActionSpec::default()
        });
        let in_flight = self.attempts.iter().map(|(token, attempt)| InFlight {
            attempt_token: token.clone(),
            phase: if attempt.outcome.is_some() {
                Phase::Finished
            } else {
                Phase::Running
            }
            .into(),
        });
        Hello {
            protocol_min: 1,
            protocol_max: 1,
            worker_id: "flawed".to_owned(),
            instance_id: self.instance_id.clone(),
            actions: actions.into(),
            max_in_flight: MAX_IN_FLIGHT,
            in_flight: in_flight.collect(),
            ..Hello::default()
        }
    }

    fn heartbeat(&self, n: u64) -> ToOrchestrator {
        let mut hash = [0; 16];
        for token in self.attempts.keys() {
            hash.iter_mut()
                .zip(token)
                .for_each(|(byte, other)| *byte ^= other);
        }
        if self.flaw == Flaw::WrongHash {
            hash[7] ^= 1;
        }
        let in_flight = self.attempts.len() as u32;
        let in_flight_hash = Bytes::copy_from_slice(&hash);
        ToOrchestrator::Heartbeat(Heartbeat {
            n,
            in_flight,
            in_flight_hash,
        })
    }

    fn take_verdicts(&mut self, welcome: &Welcome) {
        for item in welcome
            .verdicts
            .iter()
            .filter(|item| item.verdict() == Verdict::Stop)
        {
            self.forget(&item.attempt_token);
        }
    }

    fn forget(&mut self, token: &Bytes) {
        if let Some(body) = self.attempts.remove(token).and_then(|attempt| attempt.body) {
            body.abort();
        }
    }

    fn drop_all(&mut self) {
        for attempt in std::mem::take(&mut self.attempts).into_values() {
            attempt.body.inspect(AbortHandle::abort);
        }
    }

    async fn report_all(&mut self, stream: &mut Stream) -> Option<()> {
        let mut outcomes: Vec<_> = self
            .attempts
            .values_mut()
            .filter_map(|attempt| attempt.outcome.as_mut())
            .collect();
        if self.flaw == Flaw::ChangesOutcomes {
            outcomes.iter_mut().for_each(|outcome| outcome.run_time_ms += 1);
        }
        let items: Vec<_> = outcomes.into_iter().map(|outcome| outcome.clone()).collect();
        if items.is_empty() {
            return Some(());
        }
        stream.send(ToOrchestrator::Outcomes(Outcomes { items })).await
    }

    async fn end(&mut self, stream: &mut Stream, outcome: AttemptOutcome) -> Option<()> {
        let Some(attempt) = self.attempts.get_mut(&outcome.attempt_token) else {
            return Some(());
        };
        attempt.outcome = Some(outcome.clone());
        stream
            .send(ToOrchestrator::Outcomes(Outcomes { items: vec![outcome] }))
            .await
    }

    async fn take(&mut self, stream: &mut Stream, message: FromOrchestrator) -> Option<()> {
        let mut acks = AttemptAcks::default();
        match message {
            FromOrchestrator::Assignments(assignments) => {
                for item in assignments.items {
                    self.assign(item, &mut acks);
                }
            }
            FromOrchestrator::Cancels(cancels) if self.flaw != Flaw::IgnoresCancels => {
                for item in cancels.items {
                    self.forget(&item.attempt_token);
                    acks.stopped.push(item.attempt_token);
                }
            }
            FromOrchestrator::OutcomeAcks(acks) => {
                for item in acks.items {
                    self.forget(&item.attempt_token);
                }
            }
            FromOrchestrator::SessionError(_) => return None,
            _ => {}
        }
        if self.flaw == Flaw::NeverAnswers {
            acks.started.clear();
        }
        if acks == AttemptAcks::default() {
            return Some(());
        }
        stream.send(ToOrchestrator::AttemptAcks(acks)).await
    }

    fn assign(&mut self, item: Assignment, acks: &mut AttemptAcks) {
        let token = item.attempt_token.clone();
        let known = self.attempts.contains_key(&token);
        if known && self.flaw != Flaw::RunsTokensTwice {
            return;
        }
        let reason = match &*item.action {
            "echo" | "fail" | "delay" if known || self.attempts.len() < MAX_IN_FLIGHT as usize => {
                let body = tokio::spawn(body(item, self.ended_tx.clone())).abort_handle();
                self.attempts.insert(
                    token.clone(),
                    Attempt {
                        body: Some(body),
                        outcome: None,
                    },
                );
                return acks.started.push(token);
            }
            "echo" | "fail" | "delay" => Reason::NoCapacity,
            _ => Reason::UnknownAction,
        };
        acks.rejected.push(RejectedAttempt {
            attempt_token: token,
            reason: reason.into(),
        });
    }
}

async fn body(item: Assignment, ended: mpsc::Sender<AttemptOutcome>) {
    let payload = item.payload.unwrap_or_default();
    let fields = Value::Object(from_opaque(&payload).unwrap_or_default());
    let text = |key: &str| fields[key].as_str().unwrap_or_default().to_owned();
    let outcome = match &*item.action {
        "fail" => Outcome::Failure(Failure {
            code: text("code"),
            message: text("message"),
            severity: match &*text("severity") {
                "warn" => Severity::Warn,
                "fatal" => Severity::Fatal,
                _ => Severity::Error,
            }
            .into(),
            ..Failure::default()
        }),
        "delay" => {
            let ms = fields["ms"].as_f64().unwrap_or_default();
            // The first tick comes at once.
            let mut clock =
                tokio::time::interval(Duration::from_millis(ms as u64).max(Duration::from_millis(1)));
            clock.tick().await;
            clock.tick().await;
            success(to_opaque(&Map::from_iter([("elapsed_ms".to_owned(), json!(ms))])))
        }
        _ => success(payload),
    };
    let item = AttemptOutcome {
        attempt_token: item.attempt_token,
        run_time_ms: 0,
        outcome: Some(outcome),
    };
    // Nobody listens where the worker ends.
    let _ = ended.send(item).await;
}

fn success(output: Opaque) -> Outcome {
    Outcome::Success(Success {
        output: Some(output),
        warnings: Vec::new(),
    })
}

/// Names the flaw in the environment of the kit, and so of the worker that it starts.
pub(crate) const FLAW: &str = "CONFORMANCE_TEST_FLAW";
const MAX_IN_FLIGHT: u32 = 8;
