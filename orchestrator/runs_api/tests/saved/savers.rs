//! Several who save the same at once, and what saving costs the thread of runs.

use std::collections::BTreeSet;

use escapement_runs_api::Goals;
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::action_service_server::ActionService;
use escapement_wire::runs::v1::goal_service_server::GoalService;
use escapement_wire::runs::v1::plan_service_server::PlanService;
use serde_json::json;
use tonic::Request;

use crate::calls::{add, create, document, flat, get, named, put};
use crate::world::{World, told};

// RUN-9.15
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_savers_of_one_plan_get_two_versions() {
    let world = World::new();
    let plan_id = create(&world, named("One")).await.unwrap().plan_id;
    let mut etags = BTreeSet::new();
    for n in 0..25 {
        let step = |name: String| {
            add(
                &world,
                &plan_id,
                flat("tool_call", |step| {
                    step.name = name;
                    step.tool_name = "x".to_owned();
                }),
            )
        };
        let (one, other) = tokio::join!(step(format!("one {n}")), step(format!("other {n}")));
        for added in [one, other] {
            let added = added.unwrap();
            assert!(etags.insert(added.plan.unwrap().etag), "two have one version");
        }
    }
    let versions: BTreeSet<String> = (2..=51).map(|version: u32| version.to_string()).collect();
    assert_eq!(etags, versions);
    let world = world.killed();
    let plan = get(&world, &plan_id, "").await.unwrap();
    assert_eq!((plan.etag.as_str(), plan.total_steps), ("51", 50));
}

// RUN-9.15
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_sent_twice_at_once_saves_one_plan_once() {
    let world = World::new();
    for n in 0..20 {
        let request = v1::CreatePlanRequest {
            request_id: format!("r{n}"),
            ..named("One")
        };
        let (one, other) = tokio::join!(create(&world, request.clone()), create(&world, request.clone()));
        let (one, other) = (one.unwrap(), other.unwrap());
        assert_eq!(one, other);
        assert_eq!(one.etag, "1");
        let another = v1::CreatePlanRequest {
            priority: Some(9),
            ..request
        };
        let refused = create(&world, another).await.unwrap_err();
        assert_eq!(told(&refused).1, "REQUEST_ID_REUSED");
    }
}

// RUN-9.15
#[tokio::test]
async fn the_thread_of_runs_reads_nothing_for_a_save() {
    let world = World::new();
    let goals = Goals::new(world.runs.clone());
    let before = world.disk.n_reads_by("runs");

    let plan = create(&world, named("One")).await.unwrap();
    let steps = json!([{"key": "a", "type": "tool_call", "config": {"tool_name": "x"}}]);
    put(&world, &plan.plan_id, &document(&steps)).await.unwrap();
    let delete = v1::DeletePlanRequest {
        plan_id: plan.plan_id,
        ..v1::DeletePlanRequest::default()
    };
    world.plans.delete_plan(Request::new(delete)).await.unwrap();

    let profile = v1::ActionProfile {
        action: "x".to_owned(),
        ..v1::ActionProfile::default()
    };
    let request = v1::PutActionProfileRequest {
        profile: Some(profile),
    };
    world
        .actions
        .put_action_profile(Request::new(request))
        .await
        .unwrap();
    let request = v1::DeleteActionProfileRequest {
        action: "x".to_owned(),
    };
    world
        .actions
        .delete_action_profile(Request::new(request))
        .await
        .unwrap();

    let goal = |parent_id: String| v1::CreateGoalRequest {
        goal: Some(v1::Goal {
            title: "A goal".to_owned(),
            parent_id,
            ..v1::Goal::default()
        }),
        ..v1::CreateGoalRequest::default()
    };
    let above = goals
        .create_goal(Request::new(goal(String::new())))
        .await
        .unwrap();
    let goal_id = above.into_inner().goal.unwrap().goal_id;
    goals
        .create_goal(Request::new(goal(goal_id.clone())))
        .await
        .unwrap();
    let update = v1::UpdateGoalRequest {
        goal_id: goal_id.clone(),
        state: v1::goal::State::Completed.into(),
        ..v1::UpdateGoalRequest::default()
    };
    goals.update_goal(Request::new(update)).await.unwrap();
    let delete = v1::DeleteGoalRequest {
        goal_id,
        ..v1::DeleteGoalRequest::default()
    };
    goals.delete_goal(Request::new(delete)).await.unwrap();

    assert_eq!(world.disk.n_reads_by("runs"), before);
}
