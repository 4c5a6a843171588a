//! Simulations that are as dear as they can be: long ones, wide ones, large ones.

use crate::den::{Den, environment, scale};
use escapement_model::Opaque;
use escapement_tests::{fresh_id, let_pass};
use escapement_wire::v1::attempt_stub::Outcome;
use escapement_wire::v1::execution_error::Severity;
use escapement_wire::v1::plan_execution_service_client::PlanExecutionServiceClient;
use escapement_wire::v1::{
    AttemptStub, FailureStub, Plan, PlanStep, RetryPolicy, SimulatePlanRequest, StepStub,
};
use std::time::Duration;
use tokio::task::JoinSet;
use tonic::Code;
use tonic_types::StatusExt;

/// A plan of `retry` steps whose attempts all fail like this, so many attempts each.
fn failing(n_steps: usize, max_attempts: i32, message: &str, context: Opaque) -> SimulatePlanRequest {
    let step = || PlanStep {
        id: fresh_id(),
        action: "nothing".to_owned(),
        payload: Some(Opaque::default()),
        on_failure: 2,
        ..PlanStep::default()
    };
    let failure = FailureStub {
        error_code: "AGAIN".to_owned(),
        message: message.to_owned(),
        severity: Severity::Error as i32,
        context: Some(context),
    };
    let attempt = AttemptStub {
        outcome: Some(Outcome::Failure(failure)),
        ..AttemptStub::default()
    };
    SimulatePlanRequest {
        plan: Some(Plan {
            id: fresh_id(),
            version: 1,
            created_at: 1,
            name: "dear".to_owned(),
            context_requirements: vec!["region".to_owned()],
            retry_policy: Some(RetryPolicy {
                max_attempts: Some(max_attempts),
                retryable_error_codes: vec!["*".to_owned()],
                ..RetryPolicy::default()
            }),
            steps: (0..n_steps).map(|_| step()).collect(),
            ..Plan::default()
        }),
        environment: Some(environment()),
        stubs: vec![StepStub {
            attempts: vec![attempt],
            ..StepStub::default()
        }],
        ..SimulatePlanRequest::default()
    }
}

/// An object of so many bytes with as many entries as fit.
fn crumbs(bytes: usize) -> Opaque {
    Opaque::from_encoded([10, 0].repeat(bytes / 2).into())
}

fn in_one_piece(bytes: usize) -> Opaque {
    let fill = serde_json::json!({ "fill": "x".repeat(bytes) });
    escapement_wire::json::to_opaque(fill.as_object().unwrap())
}

fn attacks() -> Vec<SimulatePlanRequest> {
    // Four bytes each.
    let message = "\u{1f552}".repeat(1_000);
    let mut bomb = failing(1, 1, "", Opaque::default());
    bomb.stubs = vec![
        StepStub {
            attempts: vec![AttemptStub::default(); 900],
            ..StepStub::default()
        };
        36
    ];
    let megabytes = "x".repeat(5 << 20);
    vec![
        failing(1, i32::MAX, &megabytes, in_one_piece(16_300)),
        // The dearest to look through.
        failing(1, scale(300, i32::MAX), "", crumbs(16_300)),
        // As many errors as are kept, each with a message of its own.
        failing(1, 17_000, &message, Opaque::default()),
        failing(1_024, 16, &message, Opaque::default()),
        failing(1_024, 1, &message, crumbs(16_300)),
        // An answer of nearly all bytes that one may have. In one piece, since the caller reads it here as well.
        failing(400, 1, "", in_one_piece(16_300)),
        bomb,
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dear_simulations_leave_room_for_others() {
    let den = Den::start().await;
    let mut callers = JoinSet::new();
    for n in 0..scale(7, 56) {
        let mut plans =
            PlanExecutionServiceClient::new(den.channel().await).max_decoding_message_size(32 << 20);
        let mut attacks = attacks();
        let attack = attacks.swap_remove(n % attacks.len());
        callers.spawn(async move {
            loop {
                match plans.simulate_plan(attack.clone()).await {
                    Ok(_) => return "answered".to_owned(),
                    Err(refused) => {
                        let details = refused.get_error_details();
                        assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
                        let info = details.error_info().unwrap();
                        if info.reason != "OVERLOADED" {
                            return info.reason.clone();
                        }
                    }
                }
                let_pass(AGAIN).await;
            }
        });
    }
    let ended = callers.join_all().await;
    for end in ["answered", "SIMULATION_TOO_LONG", "SIMULATION_TOO_LARGE"] {
        assert!(ended.iter().any(|ended| ended == end), "none is {end}: {ended:?}");
    }
    den.finish("dear simulations", 512).await;
}

/// Before a caller that was not let in asks again.
const AGAIN: Duration = Duration::from_millis(500);
