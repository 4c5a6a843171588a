//! Calls of the service of saved plans.

use escapement_wire::runs::v1;
use escapement_wire::runs::v1::add_plan_step_request::Form;
use escapement_wire::runs::v1::plan_service_server::PlanService;
use serde_json::{Value, json};
use tonic::{Request, Status};

use crate::world::{World, object};

pub(crate) async fn create(world: &World, request: v1::CreatePlanRequest) -> Result<v1::Plan, Status> {
    let answer = world.plans.create_plan(Request::new(request)).await?;
    Ok(answer.into_inner().plan.unwrap())
}

pub(crate) fn named(name: &str) -> v1::CreatePlanRequest {
    v1::CreatePlanRequest {
        plan: Some(v1::Plan {
            name: name.to_owned(),
            goal: "a goal".to_owned(),
            user_id: "ada".to_owned(),
            ..v1::Plan::default()
        }),
        ..v1::CreatePlanRequest::default()
    }
}

pub(crate) async fn get(world: &World, plan_id: &str, user_id: &str) -> Result<v1::Plan, Status> {
    let request = v1::GetPlanRequest {
        plan_id: plan_id.to_owned(),
        user_id: user_id.to_owned(),
    };
    let answer = world.plans.get_plan(Request::new(request)).await?;
    Ok(answer.into_inner().plan.unwrap())
}

pub(crate) async fn put(world: &World, plan_id: &str, document: &Value) -> Result<v1::Plan, Status> {
    let request = v1::PutPlanDocumentRequest {
        plan_id: plan_id.to_owned(),
        document: Some(object(document)),
        ..v1::PutPlanDocumentRequest::default()
    };
    let answer = world.plans.put_plan_document(Request::new(request)).await?;
    Ok(answer.into_inner().plan.unwrap())
}

pub(crate) async fn add(world: &World, plan_id: &str, form: Form) -> Result<v1::AddPlanStepResponse, Status> {
    let request = v1::AddPlanStepRequest {
        plan_id: plan_id.to_owned(),
        form: Some(form),
        ..v1::AddPlanStepRequest::default()
    };
    let answer = world.plans.add_plan_step(Request::new(request)).await?;
    Ok(answer.into_inner())
}

pub(crate) async fn list(world: &World, request: v1::ListPlansRequest) -> v1::ListPlansResponse {
    let answer = world.plans.list_plans(Request::new(request)).await;
    answer.unwrap().into_inner()
}

pub(crate) fn flat(kind: &str, change: impl FnOnce(&mut v1::FlatStep)) -> Form {
    let mut flat = v1::FlatStep {
        order: Some(1),
        r#type: kind.to_owned(),
        name: kind.to_owned(),
        ..v1::FlatStep::default()
    };
    change(&mut flat);
    Form::Flat(flat)
}

pub(crate) fn document(steps: &Value) -> Value {
    json!({"schema": "escapement.plan/1", "name": "Document", "goal": "its goal", "steps": steps})
}
