//! Measures what the record of an acceptance costs, and the certificate's part of it. Judges nothing.
#![allow(clippy::print_stdout, reason = "a measurement on a terminal")]

use escapement_codec::request::request_to_wire;
use escapement_codec::stored;
use escapement_contract::{PlanDraft, Request, RequestDraft, StepDraft, validate_request};
use escapement_model::opaque::StructBuilder;
use escapement_model::{ExecutionId, PlanId, StepId};
use prost::Message;
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: u32 = 2_000;

fn step_id(n: usize) -> String {
    let mut bytes = [0x5a; 16];
    bytes[..8].copy_from_slice(&n.to_be_bytes());
    StepId::from_random(bytes).to_string()
}

/// Each step after the one before.
fn request(n_steps: usize) -> Request {
    let payload = StructBuilder::new().text("file", "report.pdf").build();
    let step = |n: usize| StepDraft {
        id: step_id(n),
        action: "render".into(),
        payload: Some(payload.clone()),
        depends_on: n.checked_sub(1).map(step_id).into_iter().collect(),
        timeout_ms: Some(1_000),
        ..StepDraft::default()
    };
    let plan = PlanDraft {
        id: PlanId::from_random([1; 16]).to_string(),
        version: 1,
        created_at: 1,
        steps: (0..n_steps).map(step).collect(),
        name: "cost".into(),
        context_requirements: vec!["region".into()],
        ..PlanDraft::default()
    };
    let draft = RequestDraft {
        plan: Some(plan),
        ..RequestDraft::default()
    };
    validate_request(draft, 1_024).expect("the example's own request is valid")
}

fn main() {
    let id = ExecutionId::from_random([2; 16]);
    for n_steps in [1, 10, 100, 1_024] {
        let request = request(n_steps);
        let begun = Instant::now();
        let mut n_bytes = 0;
        for _ in 0..ROUNDS {
            n_bytes = request_to_wire(black_box(&request), id).encode_to_vec().len();
        }
        let without = begun.elapsed() / ROUNDS;
        let begun = Instant::now();
        let mut n_bytes_with = 0;
        for _ in 0..ROUNDS {
            n_bytes_with = stored::encode_accepted(black_box(&request), id).len();
        }
        let with = begun.elapsed() / ROUNDS;
        println!(
            "{n_steps} steps: {with:?} and {n_bytes_with} bytes with the certificate, {without:?} and {n_bytes} bytes without"
        );
    }
}
