#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use escapement_contract::{PlanDraft, Request, RequestDraft, StepDraft, validate_request};
use escapement_engine::{Assignment, DurableAccept, Welcome, WriteOutcome};
use escapement_model::opaque::StructBuilder;
use escapement_model::{AttemptToken, BootId, ExecutionId, SessionId, limits};
use escapement_wire::worker::v1::session_error::Code;
use escapement_wire::worker::v1::session_response::Message;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio_stream::StreamExt;

/// A stream, and the ends that its session holds.
struct Fixture {
    stream: SessionStream,
    outbound: mpsc::Sender<Outbound>,
    end: oneshot::Sender<Status>,
    room: Arc<Semaphore>,
}

impl Fixture {
    fn new() -> Self {
        let (outbound, queue) = mpsc::channel(16);
        let (end, end_rx) = oneshot::channel();
        let greeting = WelcomeDefaults {
            boot_id: BootId::new([1; 16]),
            heartbeat_interval_ms: 3_000,
            lease_ms: 10_000,
            peers: ["http://b:1".to_owned(), "https://c:2".to_owned()].into(),
            traces: None,
        };
        Self {
            stream: SessionStream::new(queue, greeting, Arc::default(), end_rx, oneshot::channel().0),
            outbound,
            end,
            room: Arc::new(Semaphore::new(16)),
        }
    }

    fn send(&self, seq: u64, message: ToWorker) {
        let room = Arc::clone(&self.room).try_acquire_owned().unwrap();
        let outbound = Outbound::Engine {
            seq,
            message,
            _room: room,
        };
        self.outbound.try_send(outbound).unwrap();
    }

    fn violate(&self) {
        let last = session_out::error(SessionErrorCode::ProtocolViolation, "why".to_owned());
        self.outbound.try_send(Outbound::Last(last)).unwrap();
    }

    /// Everything that is sent before the end, and how it ends.
    async fn rest(self) -> (Vec<v1::SessionResponse>, Option<Status>) {
        let Self {
            mut stream, outbound, ..
        } = self;
        drop(outbound);
        let (mut responses, mut status) = (Vec::new(), None);
        while let Some(item) = stream.next().await {
            match item {
                Ok(response) => responses.push(response),
                Err(error) => status = Some(error),
            }
        }
        (responses, status)
    }
}

/// Assignments of one step with a payload of about this size.
fn assignments(payload_bytes: usize, n: u8) -> ToWorker {
    let payload = StructBuilder::new()
        .text("text", &"x".repeat(payload_bytes))
        .build();
    let step = StepDraft {
        id: "00000000-0000-4000-8000-000000000001".to_owned(),
        action: "copy".to_owned(),
        payload: Some(payload),
        ..StepDraft::default()
    };
    let plan = PlanDraft {
        id: "00000000-0000-4000-8000-000000000000".to_owned(),
        version: 1,
        created_at: 1,
        steps: vec![step],
        name: "plan".to_owned(),
        context_requirements: vec!["key".to_owned()],
        ..PlanDraft::default()
    };
    let draft = RequestDraft {
        plan: Some(plan),
        ..RequestDraft::default()
    };
    let request: Arc<Request> = Arc::new(validate_request(draft, 1).unwrap());
    let assignment = |number| Assignment {
        accept: DurableAccept::of(WriteOutcome::Durable).unwrap(),
        token: AttemptToken::new([number; 16]),
        execution_id: ExecutionId::from_random([9; 16]),
        request: Arc::clone(&request),
        step: request.plan().canonical_order()[0],
        attempt: 1,
        timeout_ms: 1_000,
    };
    ToWorker::Assignments((0..n).map(assignment).collect())
}

fn error_of(response: &v1::SessionResponse) -> &v1::SessionError {
    match &response.message {
        Some(Message::SessionError(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_numbers_of_the_engine_go_out_as_they_are_one_message_each() {
    let fixture = Fixture::new();
    fixture.send(1, ToWorker::HeartbeatAck { n: 7 });
    fixture.send(2, assignments(limits::PAYLOAD_BYTES_MAX - 1_024, 3));
    let last_assignment_seq = 2;
    fixture.send(3, ToWorker::DrainStarted { last_assignment_seq });
    let (responses, status) = fixture.rest().await;
    let seqs: Vec<u64> = responses.iter().map(|response| response.seq).collect();
    assert_eq!(seqs, [1, 2, 3]);
    let Some(Message::Assignments(sent)) = &responses[1].message else {
        panic!("{:?}", responses[1])
    };
    assert_eq!(sent.items.len(), 3);
    let drain_started = v1::DrainStarted { last_assignment_seq };
    assert_eq!(responses[2].message, Some(Message::DrainStarted(drain_started)));
    assert!(status.is_none());
}

#[tokio::test]
async fn an_error_of_the_shell_has_the_next_number_and_nothing_follows() {
    let fixture = Fixture::new();
    fixture.send(1, ToWorker::HeartbeatAck { n: 1 });
    fixture.violate();
    // Was on its way when the shell found the violation.
    fixture.send(2, ToWorker::HeartbeatAck { n: 2 });
    let (responses, status) = fixture.rest().await;
    assert_eq!(responses.len(), 2);
    assert_eq!(responses[1].seq, 2);
    assert_eq!(error_of(&responses[1]).code(), Code::ProtocolViolation);
    assert!(status.is_none());

    let silent = Fixture::new();
    silent.violate();
    assert_eq!(silent.rest().await.0[0].seq, 1);
}

#[tokio::test]
async fn a_message_above_the_limit_ends_the_session_in_words_and_not_with_a_broken_stream() {
    let fixture = Fixture::new();
    fixture.send(1, ToWorker::HeartbeatAck { n: 1 });
    fixture.send(2, assignments(limits::PAYLOAD_BYTES_MAX - 1_024, 5));
    fixture.send(3, ToWorker::HeartbeatAck { n: 2 });
    let (responses, status) = fixture.rest().await;
    assert_eq!(responses.len(), 2);
    assert_eq!(responses[1].seq, 2);
    let error = error_of(&responses[1]);
    assert_eq!(error.code(), Code::LimitExceeded);
    assert!(error.retry_after_ms > 0);
    assert!(status.is_none());
}

#[tokio::test]
async fn what_was_sent_gives_its_room_back() {
    let mut fixture = Fixture::new();
    fixture.send(1, ToWorker::HeartbeatAck { n: 1 });
    assert_eq!(fixture.room.available_permits(), 15);
    fixture.stream.next().await.unwrap().unwrap();
    assert_eq!(fixture.room.available_permits(), 16);
}

#[tokio::test]
async fn a_stream_that_broke_says_so_once_after_what_was_sent() {
    let mut fixture = Fixture::new();
    fixture.send(1, ToWorker::HeartbeatAck { n: 1 });
    let (end, _) = oneshot::channel();
    std::mem::replace(&mut fixture.end, end)
        .send(Status::invalid_argument("broken"))
        .unwrap();
    let (responses, status) = fixture.rest().await;
    assert_eq!(responses.len(), 1);
    assert_eq!(status.unwrap().message(), "broken");
}

#[tokio::test]
async fn a_welcome_names_the_peers() {
    let fixture = Fixture::new();
    let welcome = Welcome {
        session_id: SessionId::new([2; 16]),
        refused_actions: Vec::new(),
        verdicts: Vec::new(),
    };
    fixture.send(1, ToWorker::Welcome(welcome));
    let (responses, _) = fixture.rest().await;
    let Some(Message::Welcome(welcome)) = &responses[0].message else {
        panic!("{:?}", responses[0])
    };
    assert_eq!(welcome.peers, ["http://b:1", "https://c:2"]);
}
