//! Saved plans that run one another. Runs none.

use escapement_model::Opaque;
use escapement_tests::dearest::sub_plans;
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::plan_service_client::PlanServiceClient;
use tonic::transport::Channel;

/// Saves plans that do nothing, and gives their ids. The first one runs all others.
pub(crate) async fn one_that_runs_others(
    plans: &mut PlanServiceClient<Channel>,
    n_plans: usize,
) -> Vec<String> {
    let mut saved = Vec::new();
    for n in 0..n_plans {
        let request = v1::CreatePlanRequest {
            plan: Some(v1::Plan {
                name: format!("small {n}"),
                goal: "to be run".to_owned(),
                ..v1::Plan::default()
            }),
            ..v1::CreatePlanRequest::default()
        };
        let plan = plans.create_plan(request).await.unwrap().into_inner().plan;
        saved.push(plan.unwrap().plan_id);
    }
    let request = putting(&saved[0], sub_plans(&saved[1..]));
    plans.put_plan_document(request).await.unwrap();
    saved
}

/// Returns a request that gives a saved plan another document.
pub(crate) fn putting(plan_id: &str, document: Opaque) -> v1::PutPlanDocumentRequest {
    v1::PutPlanDocumentRequest {
        plan_id: plan_id.to_owned(),
        document: Some(document),
        ..v1::PutPlanDocumentRequest::default()
    }
}
