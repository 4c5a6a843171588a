//! Requests of which little is said and much would be made.

use crate::den::{Den, scale};
use crate::frames::{SUBMIT, VALIDATE};
use crate::wire::{nested, status_of};
use escapement_tests::raw_session::framed;
use escapement_wire::v1::plan_execution_service_client::PlanExecutionServiceClient;
use escapement_wire::v1::{Plan, PlanStep, ValidatePlanRequest};
use tokio::task::JoinSet;

/// Six megabytes of nothing: steps, tags, context requirements, dependencies that are empty.
fn bombs() -> Vec<Vec<u8>> {
    let entries = |tag: u8| [tag << 3 | 2, 0].repeat((6 << 20) / 2 - 64);
    let plans = [entries(4), entries(11), entries(6), nested(4, &entries(4))];
    plans.map(|plan| framed(&nested(1, &plan)).to_vec()).into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn empty_entries_are_counted_before_anything_is_made_of_them() {
    let den = Den::start().await;
    for bomb in bombs() {
        let mut calls = JoinSet::new();
        for n in 0..scale(6, 32) {
            let (address, bomb) = (den.address(), bomb.clone());
            calls.spawn(async move { status_of(address, [SUBMIT, VALIDATE][n % 2], &[], bomb).await });
        }
        for (code, text) in calls.join_all().await {
            assert_eq!(code, 3, "{text}");
            assert!(text.contains("entries"), "{text}");
        }
    }
    // The bytes themselves, some of them twice; without counting, one request alone takes more.
    den.finish("empty entries", scale(128, 512)).await;
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
