//! Measures what the server does for one `ValidatePlan` of a chain of 1024 steps, part by part. Judges nothing, sends nothing.
#![allow(clippy::print_stdout, reason = "a measurement on a terminal")]

use escapement_codec::certificate;
use escapement_codec::request;
use escapement_contract::validate_plan;
use escapement_model::opaque::StructBuilder;
use escapement_model::{PlanId, StepId};
use escapement_wire::counted::{Counted, LIST_ENTRIES_MAX, has_more_entries};
use escapement_wire::v1;
use prost::Message;
use std::hint::black_box;
use std::time::{Duration, Instant};

const STEPS: usize = 1024;
const ROUNDS: u32 = 500;
const PARTS: [&str; 8] = [
    "count",
    "decode",
    "convert",
    "validate",
    "certify",
    "convert the certificate",
    "measure the answer",
    "encode",
];

fn step_id(n: usize) -> String {
    let mut bytes = [0x5a; 16];
    let n = u32::try_from(n).unwrap_or_default().wrapping_mul(0x9e37_79b9);
    bytes[12..].copy_from_slice(&n.to_be_bytes());
    StepId::from_random(bytes).to_string()
}

fn encoded() -> Vec<u8> {
    let payload = StructBuilder::new()
        .text("file", "report.pdf")
        .number("page", 12.0)
        .build();
    let step = |n: usize| v1::PlanStep {
        id: step_id(n),
        action: "render".into(),
        payload: Some(payload.clone()),
        depends_on: n.checked_sub(1).map(step_id).into_iter().collect(),
        ..v1::PlanStep::default()
    };
    let plan = v1::Plan {
        id: PlanId::from_random([1; 16]).to_string(),
        version: 1,
        created_at: 1,
        steps: (0..STEPS).map(step).collect(),
        name: "cost".into(),
        context_requirements: vec!["region".into()],
        ..v1::Plan::default()
    };
    let request = v1::ValidatePlanRequest {
        plan: Some(plan),
        ..v1::ValidatePlanRequest::default()
    };
    request.encode_to_vec()
}

fn main() {
    let message = encoded();
    let mut best = [Duration::MAX; PARTS.len()];
    let mut n_answer = 0;
    for _ in 0..ROUNDS {
        let mut begun = Instant::now();
        let mut took = [Duration::ZERO; PARTS.len()];
        let mut part = 0;
        let mut end_of_part = || {
            took[part] = begun.elapsed();
            part += 1;
            begun = Instant::now();
        };
        let lists = v1::ValidatePlanRequest::LISTS;
        assert!(!has_more_entries(black_box(&message), lists, LIST_ENTRIES_MAX));
        end_of_part();
        let decoded = v1::ValidatePlanRequest::decode(&message[..]).expect("it was encoded");
        end_of_part();
        let draft = request::plan_draft(decoded.plan.expect("it has one"));
        end_of_part();
        let plan = validate_plan(draft).expect("the plan is valid");
        end_of_part();
        let certified = plan.certificate(1);
        end_of_part();
        let certificate = certificate::certificate(&plan, &certified);
        let answer = v1::ValidatePlanResponse {
            valid: true,
            canonical_order: certificate.canonical_order.clone(),
            certificate: Some(certificate),
            ..v1::ValidatePlanResponse::default()
        };
        end_of_part();
        n_answer = black_box(answer.encoded_len());
        end_of_part();
        black_box(answer.encode_to_vec());
        end_of_part();
        for (best, took) in best.iter_mut().zip(took) {
            *best = took.min(*best);
        }
    }
    for (part, best) in PARTS.iter().zip(best) {
        println!("{part}: {best:?}");
    }
    let sum: Duration = best.iter().sum();
    println!(
        "together: {sum:?}, {} bytes in, {n_answer} bytes out",
        message.len()
    );
}
