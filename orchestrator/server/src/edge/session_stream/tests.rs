#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use escapement_contract::{PlanDraft, Request, RequestDraft, StepDraft, validate_request};
use escapement_model::opaque::StructBuilder;
use escapement_model::{AttemptToken, BootId, ExecutionId, limits};
use std::sync::Arc;

fn numbering() -> Numbering {
    Numbering::new(Greeting {
        boot_id: BootId::new([1; 16]),
        heartbeat_interval_ms: 3_000,
        lease_ms: 10_000,
    })
}

/// A request whose one step has a payload of about this size.
fn request(payload_bytes: usize) -> Arc<Request> {
    let step = StepDraft {
        id: "00000000-0000-4000-8000-000000000001".to_owned(),
        action: "copy".to_owned(),
        payload: Some(
            StructBuilder::new()
                .text("text", &"x".repeat(payload_bytes))
                .build(),
        ),
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
    Arc::new(validate_request(draft, 1).unwrap())
}

fn assignments(request: &Arc<Request>, n: u8) -> Vec<Assignment> {
    let assignment = |number| Assignment {
        token: AttemptToken::new([number; 16]),
        execution_id: ExecutionId::from_random([9; 16]),
        request: Arc::clone(request),
        step: request.plan().canonical_order()[0],
        attempt: 1,
        timeout_ms: 1_000,
    };
    (0..n).map(assignment).collect()
}

#[test]
fn large_assignments_become_several_messages_below_the_limit_and_lose_nothing() {
    let request = request(limits::PAYLOAD_BYTES_MAX - 1_024);
    let mut numbering = numbering();
    numbering.push(Outbound::Engine(ToWorker::Assignments(assignments(&request, 10))));
    let mut tokens = Vec::new();
    for (index, response) in numbering.ready.iter().enumerate() {
        assert_eq!(response.seq, index as u64 + 1);
        assert!(
            response.encoded_len() <= SESSION_MESSAGE_BYTES_MAX,
            "{} bytes",
            response.encoded_len()
        );
        let Some(Message::Assignments(message)) = &response.message else {
            panic!("only assignments")
        };
        tokens.extend(message.items.iter().map(|item| item.attempt_token[0]));
    }
    assert_eq!(tokens, (0..10).collect::<Vec<u8>>());
    assert_eq!(numbering.ready.len(), 3);
}

#[test]
fn small_assignments_stay_together() {
    let mut numbering = numbering();
    numbering.push(Outbound::Engine(ToWorker::Assignments(assignments(
        &request(10),
        100,
    ))));
    assert_eq!(numbering.ready.len(), 1);
}

#[test]
fn a_drain_names_the_last_assignment_as_numbered_here() {
    let request = request(limits::PAYLOAD_BYTES_MAX - 1_024);
    let mut numbering = numbering();
    numbering.push(Outbound::Engine(ToWorker::HeartbeatAck { n: 1 }));
    numbering.push(Outbound::Engine(ToWorker::Assignments(assignments(&request, 5))));
    numbering.push(Outbound::Engine(ToWorker::UnknownOutcomes(vec![
        bytes::Bytes::from_static(b"short"),
    ])));
    numbering.push(Outbound::Engine(ToWorker::DrainStarted {
        last_assignment_seq: 2,
    }));
    let last = numbering.ready.back().unwrap();
    assert_eq!(last.seq, 5);
    assert_eq!(
        last.message,
        Some(Message::DrainStarted(v1::DrainStarted {
            last_assignment_seq: 3
        }))
    );
}
