#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::grpc::services::plans::Plans;
use crate::grpc::testing::{Stage, plan_that_fails_at_once};
use escapement_access::{Grant, NamespaceScope, Role, Roles};
use escapement_store::Removal;
use escapement_wire::v1::plan_execution_service_server::PlanExecutionService;
use tonic::{Code, Request, Status};
use tonic_types::StatusExt;

fn name(text: &str) -> Namespace {
    Namespace::parse(text).unwrap()
}

/// Who may hand in and read in these namespaces alone.
fn submitter_of(names: &[&str]) -> Arc<Principal> {
    let roles: Roles = [Role::Submitter].into_iter().collect();
    let scope = NamespaceScope::Named(names.iter().map(|text| name(text)).collect());
    let mut principal = Principal::anonymous(vec![Grant::new(roles, scope)]);
    (principal.name, principal.kind) = ("billing-planner".into(), PrincipalKind::Token);
    Arc::new(principal)
}

fn by<T>(principal: &Arc<Principal>, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.extensions_mut().insert(Arc::clone(principal));
    request
}

fn reason(status: &Status) -> String {
    status.get_details_error_info().unwrap().reason
}

fn submission(n: u8, namespace: &str) -> v1::SubmitPlanRequest {
    v1::SubmitPlanRequest {
        plan: Some(plan_that_fails_at_once(n)),
        execution_id: Some(crate::grpc::fresh_execution_id(n.into()).to_string()),
        namespace: namespace.to_owned(),
        ..v1::SubmitPlanRequest::default()
    }
}

#[test]
fn a_caller_with_one_namespace_need_not_name_it_and_no_other_is_its() {
    let caller = Caller {
        principal: submitter_of(&["billing"]),
        row: None,
        attempt: None,
        scopes: None,
        tenant: None,
    };
    assert_eq!(caller.namespace("").unwrap(), name("billing"));
    assert_eq!(caller.listed("").unwrap(), Some(vec![name("billing")]));
    assert!(matches!(caller.namespace("agents"), Err(Rejection::Denied(_))));
    assert!(matches!(
        caller.namespace("Billing!"),
        Err(Rejection::InvalidField {
            field: "namespace",
            ..
        })
    ));
    assert_eq!(Caller::of(&Extensions::new()).listed("").unwrap(), None);
}

#[tokio::test]
async fn what_lies_in_another_namespace_is_not_found_and_not_named() {
    let stage = Stage::start(Removal::default());
    let plans = Plans::new(stage.edge.clone());
    let (billing, agents) = (submitter_of(&["billing"]), submitter_of(&["agents"]));
    let request = submission(1, "");
    let accepted = plans.submit_plan(by(&billing, request.clone())).await.unwrap();
    let execution = accepted.into_inner().execution.unwrap();
    assert_eq!(execution.namespace, "billing");
    assert_eq!(execution.accepted_by.unwrap().name, "billing-planner");

    let id = execution.execution_id;
    let question = || v1::GetExecutionRequest {
        execution_id: id.clone(),
    };
    let seen = plans.get_execution(by(&billing, question())).await.unwrap();
    let seen = seen.into_inner().execution.unwrap();
    assert_eq!(seen.namespace, "billing");
    assert_eq!(seen.accepted_by.unwrap().kind(), v1::accepted_by::Kind::Token);
    let unseen = plans.get_execution(by(&agents, question())).await.unwrap_err();
    assert_eq!(
        (unseen.code(), reason(&unseen)),
        (Code::NotFound, "EXECUTION_NOT_FOUND".to_owned())
    );

    // The same request of another namespace does not attach, and learns nothing.
    let other = plans.submit_plan(by(&agents, request.clone())).await.unwrap_err();
    assert_eq!(
        (other.code(), reason(&other)),
        (Code::AlreadyExists, "EXECUTION_ID_IN_USE".to_owned())
    );
    assert!(
        !other
            .get_details_error_info()
            .unwrap()
            .metadata
            .contains_key("differs")
    );
    let same_plan = v1::SubmitPlanRequest {
        execution_id: None,
        ..request.clone()
    };
    let used = plans
        .submit_plan(by(&agents, same_plan.clone()))
        .await
        .unwrap_err();
    assert_eq!(reason(&used), "PLAN_ID_USED");
    assert!(used.get_details_error_info().unwrap().metadata.is_empty());
    let used = plans.submit_plan(by(&billing, same_plan)).await.unwrap_err();
    assert_eq!(
        used.get_details_error_info().unwrap().metadata["execution_id"],
        id
    );
}

#[tokio::test]
async fn what_a_step_asks_for_belongs_to_the_namespace_of_its_parent() {
    let stage = Stage::start(Removal::default());
    let plans = Plans::new(stage.edge.clone());
    let parent = plans.submit_plan(Request::new(submission(1, "billing"))).await;
    let parent = parent.unwrap().into_inner().execution.unwrap().execution_id;
    let child = |n, namespace| v1::SubmitPlanRequest {
        parent_execution_id: Some(parent.clone()),
        ..submission(n, namespace)
    };
    let same = plans.submit_plan(Request::new(child(2, ""))).await.unwrap();
    assert_eq!(same.into_inner().execution.unwrap().namespace, "billing");
    let other = plans
        .submit_plan(Request::new(child(3, "agents")))
        .await
        .unwrap_err();
    assert_eq!(other.code(), Code::InvalidArgument);
    assert!(other.message().starts_with("parent_execution_id"), "{other}");
}

#[tokio::test]
async fn a_list_shows_the_namespaces_that_its_caller_sees() {
    let stage = Stage::start(Removal::default());
    let plans = Plans::new(stage.edge.clone());
    for (n, namespace) in [(1, ""), (2, "billing"), (3, "agents"), (4, "billing")] {
        plans
            .submit_plan(Request::new(submission(n, namespace)))
            .await
            .unwrap();
    }
    let list = |principal: Option<Arc<Principal>>, namespace: &str| {
        let mut request = Request::new(v1::ListExecutionsRequest {
            namespace: namespace.to_owned(),
            ..v1::ListExecutionsRequest::default()
        });
        if let Some(principal) = principal {
            request.extensions_mut().insert(principal);
        }
        let listed = plans.list_executions(request);
        async move {
            let executions = listed.await.unwrap().into_inner().executions;
            executions
                .into_iter()
                .map(|execution| execution.namespace)
                .collect::<Vec<_>>()
        }
    };
    assert_eq!(list(None, "").await, ["billing", "agents", "billing", "default"]);
    assert_eq!(list(None, "billing").await, ["billing", "billing"]);
    assert_eq!(list(None, "default").await, ["default"]);
    assert_eq!(list(None, "absent").await, [""; 0]);
    let both = submitter_of(&["agents", "default"]);
    assert_eq!(list(Some(both), "").await, ["agents", "default"]);
}
