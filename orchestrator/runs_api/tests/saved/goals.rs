//! Goals, and the saved plans that name them.

use escapement_runs_api::Goals;
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::goal_service_server::GoalService;
use tonic::Request;

use crate::calls::{create, get, named};
use crate::world::World;

async fn goal(goals: &Goals) -> String {
    let request = v1::CreateGoalRequest {
        goal: Some(v1::Goal {
            title: "A goal".to_owned(),
            ..v1::Goal::default()
        }),
        ..v1::CreateGoalRequest::default()
    };
    let made = goals.create_goal(Request::new(request)).await.unwrap();
    made.into_inner().goal.unwrap().goal_id
}

async fn plan(world: &World, goal_id: &str, namespace: &str) -> v1::Plan {
    let mut request = named("Serves");
    request.plan.as_mut().unwrap().goal_id = goal_id.to_owned();
    request.namespace = namespace.to_owned();
    create(world, request).await.unwrap()
}

#[tokio::test]
async fn a_goal_that_is_deleted_changes_plans_of_its_own_namespace_alone() {
    let world = World::new();
    let goals = Goals::new(world.runs.clone());
    let goal_id = goal(&goals).await;
    let own = plan(&world, &goal_id, "").await;
    let other = plan(&world, &goal_id, "other").await;
    let request = v1::DeleteGoalRequest {
        goal_id: goal_id.clone(),
        ..v1::DeleteGoalRequest::default()
    };
    goals.delete_goal(Request::new(request)).await.unwrap();
    assert_eq!(get(&world, &own.plan_id, "").await.unwrap().goal_id, "");
    assert_eq!(get(&world, &other.plan_id, "").await.unwrap(), other);
}
