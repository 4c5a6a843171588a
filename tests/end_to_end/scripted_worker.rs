//! A worker that speaks the session protocol and does what the test says, when it says it. Runs no handler.

use crate::plans::object;
use crate::world::LIMIT;
use bytes::Bytes;
use escapement_model::Opaque;
use escapement_tests::{Orchestrator, fresh_id};
use escapement_wire::v1::execution_error::Severity;
use escapement_wire::worker::v1::attempt_outcome::Outcome;
use escapement_wire::worker::v1::in_flight::Phase;
use escapement_wire::worker::v1::outcome_ack::Verdict;
use escapement_wire::worker::v1::rejected_attempt::Reason;
use escapement_wire::worker::v1::session_request::Message as ToOrchestrator;
use escapement_wire::worker::v1::session_response::Message as FromOrchestrator;
use escapement_wire::worker::v1::worker_service_client::WorkerServiceClient;
use escapement_wire::worker::v1::{
    ActionSpec, Assignment, AttemptAcks, AttemptOutcome, AttemptVerdict, Cancel, Failure, Goodbye, Heartbeat,
    Hello, InFlight, Outcomes, Reconnect, RejectedAttempt, SessionRequest, SessionResponse, Success,
};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Endpoint;

/// A session that the test drives. It sends no heartbeats by itself: its lease of 10 s outlasts the test.
pub(crate) struct ScriptedWorker {
    hello: Hello,
    outbound: mpsc::Sender<SessionRequest>,
    inbound: Streaming<SessionResponse>,
    last_seq: u64,
    n_heartbeats: u64,
    n_heartbeats_acknowledged: u64,
    assignments: VecDeque<Assignment>,
    verdicts: BTreeMap<Bytes, Verdict>,
    cancels: BTreeMap<Bytes, Cancel>,
    reconnect: Option<Reconnect>,
}

impl ScriptedWorker {
    /// Opens a session for these actions over a connection of its own.
    pub(crate) async fn connect(orchestrator: &Orchestrator, actions: &[&str], max_in_flight: u32) -> Self {
        let specs = actions.iter().map(|name| ActionSpec {
            name: (*name).to_owned(),
            ..ActionSpec::default()
        });
        Self::connect_with(orchestrator, specs.collect(), max_in_flight).await
    }

    /// Opens a session for actions that say more about themselves.
    pub(crate) async fn connect_with(
        orchestrator: &Orchestrator,
        actions: Vec<ActionSpec>,
        max_in_flight: u32,
    ) -> Self {
        let hello = Hello {
            protocol_min: 1,
            protocol_max: 1,
            worker_id: "scripted".to_owned(),
            instance_id: Bytes::from(fresh_id().into_bytes()[..16].to_vec()),
            actions,
            max_in_flight,
            labels: [("kind".to_owned(), "scripted".to_owned())].into(),
            build: "scripted/1".to_owned(),
            ..Hello::default()
        };
        Self::open(orchestrator, hello).await.0
    }

    /// Loses the connection without a word, and comes back as the same process with this attempt in hand.
    pub(crate) async fn reconnect_with(
        self,
        orchestrator: &Orchestrator,
        assignment: &Assignment,
        phase: Phase,
    ) -> (Self, Vec<AttemptVerdict>) {
        let mut hello = self.hello.clone();
        drop(self);
        hello.in_flight = vec![InFlight {
            attempt_token: assignment.attempt_token.clone(),
            phase: phase.into(),
        }];
        Self::open(orchestrator, hello).await
    }

    async fn open(orchestrator: &Orchestrator, hello: Hello) -> (Self, Vec<AttemptVerdict>) {
        let (outbound, requests) = mpsc::channel(MESSAGES_MAX);
        let first = SessionRequest {
            seq: 1,
            message: Some(ToOrchestrator::Hello(hello.clone())),
        };
        outbound.send(first).await.unwrap();
        let channel = Endpoint::from_shared(orchestrator.url())
            .unwrap()
            .connect()
            .await
            .unwrap();
        let mut client = WorkerServiceClient::new(channel);
        let mut inbound = client
            .session(ReceiverStream::new(requests))
            .await
            .unwrap()
            .into_inner();
        let first = inbound.message().await.unwrap().unwrap();
        let Some(FromOrchestrator::Welcome(welcome)) = first.message else {
            panic!("the first answer is no welcome: {first:?}");
        };
        let worker = Self {
            hello: Hello {
                previous_session_id: welcome.session_id.clone(),
                boot_id_seen: welcome.boot_id.clone(),
                ..hello
            },
            outbound,
            inbound,
            last_seq: 1,
            n_heartbeats: 0,
            n_heartbeats_acknowledged: 0,
            assignments: VecDeque::new(),
            verdicts: BTreeMap::new(),
            cancels: BTreeMap::new(),
            reconnect: None,
        };
        (worker, welcome.verdicts)
    }

    /// Ends the session for good, whatever it has in its hands.
    pub(crate) async fn goodbye(mut self) {
        self.send(ToOrchestrator::Goodbye(Goodbye {
            reason: "as told".to_owned(),
        }))
        .await;
        // The orchestrator closes the stream.
        while let Ok(Some(_)) = tokio::time::timeout(LIMIT, self.inbound.message()).await.unwrap() {}
    }

    /// The next assignment, which nobody has started yet.
    pub(crate) async fn assignment(&mut self) -> Assignment {
        loop {
            if let Some(assignment) = self.assignments.pop_front() {
                return assignment;
            }
            self.read().await;
        }
    }

    /// The next assignment, reported as started.
    pub(crate) async fn started(&mut self) -> Assignment {
        let assignment = self.assignment().await;
        let started = vec![assignment.attempt_token.clone()];
        self.send(ToOrchestrator::AttemptAcks(AttemptAcks {
            started,
            ..AttemptAcks::default()
        }))
        .await;
        assignment
    }

    /// Hands an attempt back and takes no more of this worker's work: it has no such handler any more.
    pub(crate) async fn reject(&mut self, assignment: &Assignment) {
        let attempt_token = assignment.attempt_token.clone();
        let rejected = vec![RejectedAttempt {
            attempt_token,
            reason: Reason::UnknownAction.into(),
        }];
        self.send(ToOrchestrator::AttemptAcks(AttemptAcks {
            rejected,
            ..AttemptAcks::default()
        }))
        .await;
    }

    /// Reports a success and waits for the verdict on it.
    pub(crate) async fn succeed(&mut self, assignment: &Assignment, output: Value) -> Verdict {
        self.succeed_encoded(assignment, object(output)).await
    }

    /// The same with an output that is encoded already.
    pub(crate) async fn succeed_encoded(&mut self, assignment: &Assignment, output: Opaque) -> Verdict {
        let success = Success {
            output: Some(output),
            warnings: Vec::new(),
        };
        self.report(assignment, Outcome::Success(success)).await
    }

    /// Reports a failure and waits for the verdict on it.
    pub(crate) async fn fail(&mut self, assignment: &Assignment, code: &str, severity: Severity) -> Verdict {
        let failure = Failure {
            code: code.to_owned(),
            message: format!("{code} as told."),
            severity: severity.into(),
            context: None,
        };
        self.report(assignment, Outcome::Failure(failure)).await
    }

    /// Reports any outcome and waits for the verdict on it.
    pub(crate) async fn report(&mut self, assignment: &Assignment, outcome: Outcome) -> Verdict {
        let token = assignment.attempt_token.clone();
        self.verdicts.remove(&token);
        let item = AttemptOutcome {
            attempt_token: token.clone(),
            run_time_ms: 1,
            outcome: Some(outcome),
        };
        self.send(ToOrchestrator::Outcomes(Outcomes { items: vec![item] }))
            .await;
        loop {
            if let Some(verdict) = self.verdicts.remove(&token) {
                return verdict;
            }
            self.read().await;
        }
    }

    /// Starts the next assignment and completes it at once.
    pub(crate) async fn complete_next(&mut self, output: Value) -> Assignment {
        let assignment = self.started().await;
        assert_eq!(self.succeed(&assignment, output).await, Verdict::Accepted);
        assignment
    }

    /// Waits until the orchestrator wants an attempt to stop.
    pub(crate) async fn cancel_of(&mut self, assignment: &Assignment) -> Cancel {
        loop {
            if let Some(cancel) = self.cancels.remove(&assignment.attempt_token) {
                return cancel;
            }
            self.read().await;
        }
    }

    /// Waits until the orchestrator says that it is about to stop.
    pub(crate) async fn reconnect(&mut self) -> Reconnect {
        loop {
            if let Some(reconnect) = self.reconnect.take() {
                return reconnect;
            }
            self.read().await;
        }
    }

    /// How many assignments were sent and not taken yet.
    ///
    /// It asks with a heartbeat, whose answer follows everything that was sent before.
    pub(crate) async fn n_assignments_sent(&mut self) -> usize {
        self.n_heartbeats += 1;
        let n = self.n_heartbeats;
        self.send(ToOrchestrator::Heartbeat(Heartbeat {
            n,
            ..Heartbeat::default()
        }))
        .await;
        while self.n_heartbeats_acknowledged < n {
            self.read().await;
        }
        self.assignments.len()
    }

    async fn send(&mut self, message: ToOrchestrator) {
        self.last_seq += 1;
        let request = SessionRequest {
            seq: self.last_seq,
            message: Some(message),
        };
        self.outbound.send(request).await.unwrap();
    }

    async fn read(&mut self) {
        let next = tokio::time::timeout(LIMIT, self.inbound.message()).await;
        let response = next
            .expect("the orchestrator says nothing")
            .unwrap()
            .expect("the session is over");
        match response.message.unwrap() {
            FromOrchestrator::Assignments(assignments) => self.assignments.extend(assignments.items),
            FromOrchestrator::OutcomeAcks(acks) => {
                let verdicts = acks.items.into_iter();
                self.verdicts
                    .extend(verdicts.map(|ack| (ack.attempt_token.clone(), ack.verdict())));
            }
            FromOrchestrator::Cancels(cancels) => {
                let cancels = cancels.items.into_iter();
                self.cancels
                    .extend(cancels.map(|cancel| (cancel.attempt_token.clone(), cancel)));
            }
            FromOrchestrator::HeartbeatAck(ack) => self.n_heartbeats_acknowledged = ack.n,
            FromOrchestrator::Reconnect(reconnect) => self.reconnect = Some(reconnect),
            FromOrchestrator::SessionError(error) => panic!("the session was ended: {error:?}"),
            FromOrchestrator::Welcome(_)
            | FromOrchestrator::SnapshotRequest(_)
            | FromOrchestrator::DrainStarted(_) => {}
        }
    }
}

/// Messages that wait to be sent.
const MESSAGES_MAX: usize = 64;
