//! Requests of which little is said and much would be made.

use crate::den::{Den, scale};
use escapement_wire::v1::plan_execution_service_client::PlanExecutionServiceClient;
use escapement_wire::v1::{Plan, PlanStep, SubmitPlanRequest, ValidatePlanRequest};
use tokio::task::JoinSet;
use tonic::Code;

/// Six megabytes of nothing: steps, tags, dependencies that are empty.
fn bombs() -> Vec<Plan> {
    let n_entries = (6 << 20) / 2 - 64;
    let texts = || vec![String::new(); n_entries];
    vec![
        Plan {
            steps: vec![PlanStep::default(); n_entries],
            ..Plan::default()
        },
        Plan {
            tags: texts(),
            ..Plan::default()
        },
        Plan {
            context_requirements: texts(),
            ..Plan::default()
        },
        Plan {
            steps: vec![PlanStep {
                depends_on: texts(),
                ..PlanStep::default()
            }],
            ..Plan::default()
        },
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn empty_entries_are_counted_before_anything_is_made_of_them() {
    let den = Den::start().await;
    for plan in bombs() {
        let mut calls = JoinSet::new();
        for n in 0..scale(6, 32) {
            let channel = den.channel().await;
            let mut plans = PlanExecutionServiceClient::new(channel).max_encoding_message_size(8 << 20);
            let plan = Some(plan.clone());
            calls.spawn(async move {
                if n % 2 == 0 {
                    let request = ValidatePlanRequest {
                        plan,
                        ..ValidatePlanRequest::default()
                    };
                    plans.validate_plan(request).await.map(drop)
                } else {
                    let request = SubmitPlanRequest {
                        plan,
                        ..SubmitPlanRequest::default()
                    };
                    plans.submit_plan(request).await.map(drop)
                }
            });
        }
        for refused in calls.join_all().await {
            let refused = refused.unwrap_err();
            assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
            assert!(refused.message().contains("entries"), "{refused:?}");
        }
    }
    // The bytes themselves, some of them twice; without counting, one request alone takes more.
    den.finish("empty entries", scale(192, 512)).await;
}

/// A plan with more steps than there may be, but not absurdly many, is told what is wrong with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_that_is_only_too_long_is_told_so() {
    let den = Den::start().await;
    let mut plans = PlanExecutionServiceClient::new(den.channel().await);
    let request = ValidatePlanRequest {
        plan: Some(Plan {
            steps: vec![PlanStep::default(); 2_000],
            ..Plan::default()
        }),
        ..ValidatePlanRequest::default()
    };
    let answer = plans.validate_plan(request).await.unwrap().into_inner();
    assert!(
        !answer.valid
            && answer
                .violations
                .iter()
                .any(|violation| violation.field == "plan.steps")
    );
    den.finish("a long plan", 64).await;
}
