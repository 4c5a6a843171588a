//! Callers that would pass the queue by what they say of themselves.

use crate::den::{Den, LIMIT, scale, submission};
use escapement_tests::{ScriptedWorker, fresh_id};
use escapement_wire::v1::SubmitPlanRequest;
use escapement_wire::v1::plan_execution_service_client::PlanExecutionServiceClient;
use serde_json::json;
use tonic::Code;
use tonic::transport::Channel;

//
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parent_that_is_only_named_opens_no_way_past_the_queue() {
    let den = Den::start_with(|settings| settings.flag("--max-running-executions", 2)).await;
    let mut plans = PlanExecutionServiceClient::new(den.channel().await);
    let mut worker = ScriptedWorker::connect(&den.orchestrator, &["work"], 4_096).await;
    worker.keep_alive(LIMIT / 20);
    let running = submit(&mut plans, None).await.unwrap();
    let first = worker.started().await;
    // Of the two places one may be the canary's.
    submit(&mut plans, None).await.unwrap();
    let queued = submit(&mut plans, None).await.unwrap();
    let n_there = worker.n_assignments_sent().await;
    let n_claims = scale(60, 5_000);
    for n in 0..n_claims {
        // One that waits itself, and one that there never was: neither has a step that could ask for this.
        let parent = if n % 2 == 0 { queued.clone() } else { fresh_id() };
        submit(&mut plans, Some(parent)).await.unwrap();
    }
    assert_eq!(
        worker.n_assignments_sent().await,
        n_there,
        "{n_claims} claims passed the queue"
    );
    // The one that runs has one step with a worker: it may have one child.
    let mut n_children = 0;
    for _ in 0..20 {
        match submit(&mut plans, Some(running.clone())).await {
            Ok(_) => n_children += 1,
            Err(refused) => assert_eq!(refused, Code::ResourceExhausted),
        }
    }
    assert_eq!((n_children, worker.n_assignments_sent().await), (1, n_there + 1));
    // What still ran would hold up the end.
    worker.succeed(&first, json!({})).await;
    for _ in 0..2 + n_claims + n_children {
        worker.complete_next(json!({})).await;
    }
    worker.goodbye().await;
    drop(plans);
    den.finish("claims to be a child", 96).await;
}

async fn submit(
    plans: &mut PlanExecutionServiceClient<Channel>,
    parent: Option<String>,
) -> Result<String, Code> {
    let is_child = parent.is_some();
    let mut request = SubmitPlanRequest {
        parent_execution_id: parent,
        ..submission("work")
    };
    let plan = request.plan.as_mut().expect("a submission has a plan");
    // The last of all where priority counts.
    plan.priority = Some(if is_child { -1_000 } else { 1 });
    let answer = plans
        .submit_plan(request)
        .await
        .map_err(|refused| refused.code())?;
    Ok(answer.into_inner().execution.unwrap().execution_id)
}
