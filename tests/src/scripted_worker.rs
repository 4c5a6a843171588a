//! A worker that speaks the session protocol and does what the test says, when it says it. Runs no handler.

mod line;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use escapement_model::Opaque;
use escapement_wire::v1::execution_error::Severity;
use escapement_wire::worker::v1::attempt_outcome::Outcome;
use escapement_wire::worker::v1::in_flight::Phase;
use escapement_wire::worker::v1::outcome_ack::Verdict;
use escapement_wire::worker::v1::rejected_attempt::Reason;
use escapement_wire::worker::v1::session_request::Message as ToOrchestrator;
use escapement_wire::worker::v1::session_response::Message as FromOrchestrator;
use escapement_wire::worker::v1::{
    ActionSpec, Assignment, AttemptAcks, AttemptOutcome, AttemptVerdict, Cancel, Drain, Failure, Goodbye,
    Hello, InFlight, Outcomes, Reconnect, RejectedAttempt, SessionError, SessionRequest, SessionResponse,
    Snapshot, Success, Welcome,
};
use serde_json::Value;
use tonic::transport::{Channel, Endpoint};

use crate::{Fault, Orchestrator, fresh_id};
use line::Line;

/// A session that the test drives. It sends no heartbeats unless told: its lease of 10 s outlasts most tests.
///
/// It answers snapshot requests truly, unless told otherwise.
#[derive(Debug)]
pub struct ScriptedWorker {
    hello: Hello,
    line: Line,
    n_heartbeats_acknowledged: u64,
    assignments: VecDeque<Assignment>,
    verdicts: BTreeMap<Bytes, Verdict>,
    cancels: BTreeMap<Bytes, Cancel>,
    reconnect: Option<Reconnect>,
    snapshot_request: Option<u64>,
    drain_started: Option<u64>,
    session_error: Option<SessionError>,
}

impl ScriptedWorker {
    /// Opens a session for these actions over a connection of its own.
    pub async fn connect(orchestrator: &Orchestrator, actions: &[&str], max_in_flight: u32) -> Self {
        Self::connect_with(orchestrator, Self::specs(actions), max_in_flight).await
    }

    /// Opens a session for actions that say more about themselves.
    pub async fn connect_with(
        orchestrator: &Orchestrator,
        actions: Vec<ActionSpec>,
        max_in_flight: u32,
    ) -> Self {
        Self::open(&orchestrator.url(), Self::hello_for(actions, max_in_flight))
            .await
            .0
    }

    /// Actions by their names alone.
    pub fn specs(actions: &[&str]) -> Vec<ActionSpec> {
        let spec = |name: &&str| ActionSpec {
            name: (*name).to_owned(),
            ..ActionSpec::default()
        };
        actions.iter().map(spec).collect()
    }

    /// Returns the first `Hello` of a new instance.
    pub fn hello_for(actions: Vec<ActionSpec>, max_in_flight: u32) -> Hello {
        Hello {
            protocol_min: 1,
            protocol_max: 1,
            worker_id: "scripted".to_owned(),
            instance_id: Bytes::from(fresh_id().replace('-', "").into_bytes()[..16].to_vec()),
            actions,
            max_in_flight,
            labels: [("kind".to_owned(), "scripted".to_owned())].into(),
            build: "scripted/1".to_owned(),
            hello_number: 1,
            ..Hello::default()
        }
    }

    /// Opens a session with any `Hello`, at an orchestrator or at a proxy before it.
    ///
    /// # Panics
    /// It is not welcomed.
    pub async fn open(url: &str, hello: Hello) -> (Self, Welcome) {
        Self::try_open(url, hello).await.expect("the worker is welcomed")
    }

    /// The same where it may not be welcomed.
    ///
    /// # Errors
    /// There is no connection, the call fails, or the first answer is no `Welcome`.
    pub async fn try_open(url: &str, hello: Hello) -> Result<(Self, Welcome), Fault> {
        Self::try_showing(url, hello, None).await
    }

    /// Opens a session that shows this token.
    ///
    /// # Panics
    /// It is not welcomed.
    pub async fn open_showing(url: &str, hello: Hello, token: &str) -> (Self, Welcome) {
        let opened = Self::try_showing(url, hello, Some(token)).await;
        opened.expect("the worker is welcomed")
    }

    /// The same where it may not be welcomed.
    ///
    /// # Errors
    /// As [`ScriptedWorker::try_open`].
    pub async fn try_open_showing(url: &str, hello: Hello, token: &str) -> Result<(Self, Welcome), Fault> {
        Self::try_showing(url, hello, Some(token)).await
    }

    /// The same over a connection that there is.
    ///
    /// # Panics
    /// It is not welcomed.
    pub async fn open_over(channel: Channel, hello: Hello, token: &str) -> (Self, Welcome) {
        let opened = Self::try_over(channel, hello, Some(token)).await;
        opened.expect("the worker is welcomed")
    }

    async fn try_showing(url: &str, hello: Hello, token: Option<&str>) -> Result<(Self, Welcome), Fault> {
        let channel = Endpoint::from_shared(url.to_owned())?.connect().await?;
        Self::try_over(channel, hello, token).await
    }

    async fn try_over(channel: Channel, hello: Hello, token: Option<&str>) -> Result<(Self, Welcome), Fault> {
        let mut line = Line::open(channel, hello.clone(), token).await?;
        let first = line.next().await.ok_or("the session is over at once")??;
        let Some(FromOrchestrator::Welcome(welcome)) = first.message else {
            return Err(format!("the first answer is no welcome: {first:?}").into());
        };
        let hello = Hello {
            previous_session_id: welcome.session_id.clone(),
            boot_id_seen: welcome.boot_id.clone(),
            hello_number: hello.hello_number + 1,
            ..hello
        };
        let worker = Self {
            hello,
            line,
            n_heartbeats_acknowledged: 0,
            assignments: VecDeque::new(),
            verdicts: BTreeMap::new(),
            cancels: BTreeMap::new(),
            reconnect: None,
            snapshot_request: None,
            drain_started: None,
            session_error: None,
        };
        Ok((worker, welcome))
    }

    /// Loses the connection without a word, and comes back as the same process with this attempt in hand.
    pub async fn reconnect_with(
        self,
        orchestrator: &Orchestrator,
        assignment: &Assignment,
        phase: Phase,
    ) -> (Self, Vec<AttemptVerdict>) {
        let in_flight = InFlight {
            attempt_token: assignment.attempt_token.clone(),
            phase: phase.into(),
        };
        let (worker, welcome) = self.reconnect_listing(&orchestrator.url(), vec![in_flight]).await;
        (worker, welcome.verdicts)
    }

    /// Loses the connection without a word, and comes back as the same process, saying that it has these attempts.
    pub async fn reconnect_listing(self, url: &str, in_flight: Vec<InFlight>) -> (Self, Welcome) {
        let hello = Hello {
            in_flight,
            ..self.next_hello()
        };
        drop(self);
        Self::open(url, hello).await
    }

    /// Returns the `Hello` with which this process would come back, with nothing in hand.
    pub fn next_hello(&self) -> Hello {
        self.hello.clone()
    }

    /// What it has, as its own books say.
    pub fn in_flight(&self) -> Vec<InFlight> {
        self.line.in_flight()
    }

    /// Sends heartbeats by itself from now on, each with the hash of what it has.
    pub fn keep_alive(&mut self, interval: Duration) {
        self.line.keep_alive(interval);
    }

    /// Sends no heartbeats by itself any more.
    pub fn fall_silent(&mut self) {
        self.line.fall_silent();
    }

    /// Leaves snapshot requests to the test: see [`Self::snapshot_request`].
    pub fn leave_snapshots(&self) {
        self.line.leave_snapshots();
    }

    /// Waits until a snapshot is asked for and gives its number.
    pub async fn snapshot_request(&mut self) -> u64 {
        loop {
            if let Some(n) = self.snapshot_request.take() {
                return n;
            }
            self.read().await;
        }
    }

    /// Sends a snapshot that says whatever the test wants.
    pub async fn snapshot(&mut self, n: u64, last_assignment_seq: u64, in_flight: Vec<InFlight>) {
        self.send(ToOrchestrator::Snapshot(Snapshot {
            n,
            last_assignment_seq,
            in_flight,
        }))
        .await;
    }

    /// `seq` of the last assignments that came.
    pub fn last_assignment_seq(&self) -> u64 {
        self.line.last_assignment_seq()
    }

    /// Begins to drain and waits for `DrainStarted`; gives its `last_assignment_seq`.
    pub async fn drain(&mut self, deadline_ms: i64) -> u64 {
        let reason = "as told".to_owned();
        self.send(ToOrchestrator::Drain(Drain { deadline_ms, reason }))
            .await;
        self.drain_started().await
    }

    /// Waits for `DrainStarted`, whoever asked for it; gives its `last_assignment_seq`.
    pub async fn drain_started(&mut self) -> u64 {
        loop {
            if let Some(last_assignment_seq) = self.drain_started.take() {
                return last_assignment_seq;
            }
            self.read().await;
        }
    }

    /// Waits until the orchestrator ends the session and says why.
    pub async fn session_error(&mut self) -> SessionError {
        while self.session_error.is_none() {
            let response = self.next().await.expect("the session is over without a word");
            self.note(response.expect("the stream fails without a word"));
        }
        self.session_error.take().expect("the loop ended")
    }

    /// Says that a cancelled attempt has ended.
    pub async fn stop(&mut self, assignment: &Assignment) {
        let stopped = vec![assignment.attempt_token.clone()];
        self.line.forget(&assignment.attempt_token);
        self.send(ToOrchestrator::AttemptAcks(AttemptAcks {
            stopped,
            ..AttemptAcks::default()
        }))
        .await;
    }

    /// Sends any message under the next number.
    pub async fn send(&mut self, message: ToOrchestrator) {
        self.line.send(message).await;
    }

    /// Sends a message under its own number; the next one is not changed by that.
    pub async fn send_raw(&mut self, request: SessionRequest) {
        self.line.send_raw(request).await;
    }

    /// Returns the next message that nobody has read; `None` at the end of the stream. What it says is not noted.
    pub async fn next(&mut self) -> Option<Result<SessionResponse, tonic::Status>> {
        let next = tokio::time::timeout(LIMIT, self.line.next()).await;
        next.expect("the orchestrator says nothing")
    }

    /// Ends the session for good, whatever it has in its hands.
    pub async fn goodbye(mut self) {
        self.send(ToOrchestrator::Goodbye(Goodbye {
            reason: "as told".to_owned(),
        }))
        .await;
        // The orchestrator closes the stream.
        while let Some(Ok(_)) = self.next().await {}
    }

    /// Returns the next assignment, which nobody has started yet.
    pub async fn assignment(&mut self) -> Assignment {
        loop {
            if let Some(assignment) = self.assignments.pop_front() {
                return assignment;
            }
            self.read().await;
        }
    }

    /// Returns the next assignment, reported as started.
    pub async fn started(&mut self) -> Assignment {
        let assignment = self.assignment().await;
        self.start(&assignment).await;
        assignment
    }

    /// Says that the handler of an attempt runs.
    pub async fn start(&mut self, assignment: &Assignment) {
        self.line.note(&assignment.attempt_token, Phase::Running);
        let started = vec![assignment.attempt_token.clone()];
        self.send(ToOrchestrator::AttemptAcks(AttemptAcks {
            started,
            ..AttemptAcks::default()
        }))
        .await;
    }

    /// Hands an attempt back and takes no more of this worker's work: it has no such handler any more.
    pub async fn reject(&mut self, assignment: &Assignment) {
        self.reject_because(assignment, Reason::UnknownAction).await;
    }

    /// Hands an attempt back for any reason.
    pub async fn reject_because(&mut self, assignment: &Assignment, reason: Reason) {
        let attempt_token = assignment.attempt_token.clone();
        self.line.forget(&attempt_token);
        let rejected = vec![RejectedAttempt {
            attempt_token,
            reason: reason.into(),
        }];
        self.send(ToOrchestrator::AttemptAcks(AttemptAcks {
            rejected,
            ..AttemptAcks::default()
        }))
        .await;
    }

    /// Reports a success and waits for the verdict on it.
    pub async fn succeed(&mut self, assignment: &Assignment, output: Value) -> Verdict {
        let output = output.as_object().expect("an output is an object");
        self.succeed_encoded(assignment, escapement_wire::json::to_opaque(output))
            .await
    }

    /// The same with an output that is encoded already.
    pub async fn succeed_encoded(&mut self, assignment: &Assignment, output: Opaque) -> Verdict {
        let success = Success {
            output: Some(output),
            warnings: Vec::new(),
        };
        self.report(assignment, Outcome::Success(success)).await
    }

    /// Reports a failure and waits for the verdict on it.
    pub async fn fail(&mut self, assignment: &Assignment, code: &str, severity: Severity) -> Verdict {
        let failure = Failure {
            code: code.to_owned(),
            message: format!("{code} as told."),
            severity: severity.into(),
            ..Failure::default()
        };
        self.report(assignment, Outcome::Failure(failure)).await
    }

    /// Reports any outcome and waits for the verdict on it.
    pub async fn report(&mut self, assignment: &Assignment, outcome: Outcome) -> Verdict {
        let token = assignment.attempt_token.clone();
        self.verdicts.remove(&token);
        self.line.note(&token, Phase::Finished);
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
    pub async fn complete_next(&mut self, output: Value) -> Assignment {
        let assignment = self.started().await;
        assert_eq!(self.succeed(&assignment, output).await, Verdict::Accepted);
        assignment
    }

    /// Waits until the orchestrator wants an attempt to stop.
    pub async fn cancel_of(&mut self, assignment: &Assignment) -> Cancel {
        loop {
            if let Some(cancel) = self.cancels.remove(&assignment.attempt_token) {
                return cancel;
            }
            self.read().await;
        }
    }

    /// Waits until the orchestrator says that it is about to stop.
    pub async fn reconnect(&mut self) -> Reconnect {
        loop {
            if let Some(reconnect) = self.reconnect.take() {
                return reconnect;
            }
            self.read().await;
        }
    }

    /// Returns the number of assignments that were sent and not taken yet.
    ///
    /// It asks with a heartbeat, whose answer follows everything that was sent before.
    pub async fn n_assignments_sent(&mut self) -> usize {
        self.is_heard().await;
        self.assignments.len()
    }

    /// Waits until the orchestrator has read everything that was sent before: it answers a heartbeat.
    pub async fn is_heard(&mut self) {
        let n = self.line.heartbeat().await;
        while self.n_heartbeats_acknowledged < n {
            self.read().await;
        }
    }

    async fn read(&mut self) {
        let response = self.next().await.expect("the session is over");
        self.note(response.expect("the stream goes on"));
        if let Some(error) = &self.session_error {
            panic!("the session was ended: {error:?}");
        }
    }

    fn note(&mut self, response: SessionResponse) {
        match response.message.expect("an orchestrator sends what it knows") {
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
            FromOrchestrator::HeartbeatAck(ack) => {
                self.n_heartbeats_acknowledged = self.n_heartbeats_acknowledged.max(ack.n);
            }
            FromOrchestrator::Reconnect(reconnect) => self.reconnect = Some(reconnect),
            FromOrchestrator::SnapshotRequest(request) => self.snapshot_request = Some(request.n),
            FromOrchestrator::DrainStarted(drain) => self.drain_started = Some(drain.last_assignment_seq),
            FromOrchestrator::SessionError(error) => self.session_error = Some(error),
            FromOrchestrator::Welcome(_) => {}
        }
    }
}

/// How long it waits for what must happen.
const LIMIT: Duration = Duration::from_secs(20);
