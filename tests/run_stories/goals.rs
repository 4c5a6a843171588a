//! Goals: their states, their hierarchy, how far they are.

use crate::plan_words::{call, document, text};
use crate::triggers::{created, firings};
use crate::world::{LIMIT, World};
use escapement_tests::wait_for;
use serde_json::{Value, json};

async fn goal(world: &World, goal: Value) -> String {
    let made = world
        .call("GoalService/CreateGoal", json!({ "goal": goal }))
        .await;
    text(&made["goal"]["goal_id"])
}

async fn get(world: &World, goal_id: &str) -> Value {
    let mut found = world
        .call("GoalService/GetGoal", json!({ "goal_id": goal_id }))
        .await;
    found["goal"].take()
}

#[tokio::test]
async fn s71_goals_have_states_a_hierarchy_and_progress_and_leave_plans_and_runs() {
    let mut world = World::start().await;
    let root = goal(&world, json!({ "title": "Ship" })).await;
    let child = goal(&world, json!({ "title": "Test", "parent_id": root })).await;
    assert_eq!(get(&world, &root).await["state"], "active");
    let update =
        |goal_id: &str, fields: Value| crate::plan_words::with(json!({ "goal_id": goal_id }), fields);
    for (field, reason) in [
        (json!({ "parent_id": child }), "CYCLIC_DEPENDENCY"),
        (
            json!({ "parent_id": "6f1d3c52-8a4e-4b7f-9c21-5e0d7a9b4c10" }),
            "GOAL_NOT_FOUND",
        ),
        (json!({ "etag": "99" }), "ETAG_MISMATCH"),
    ] {
        let refusal = world
            .refusal("GoalService/UpdateGoal", update(&root, field))
            .await;
        assert_eq!(refusal.reason, reason);
    }
    let steps = document(json!([call("a", "script.pure", json!({}))]));
    let mut plans = Vec::new();
    for name in ["one", "two"] {
        let plan = json!({ "plan": { "name": name, "goal": "g", "goal_id": root }, "document": steps });
        let made = world.call("PlanService/CreatePlan", plan).await;
        plans.push(text(&made["plan"]["plan_id"]));
    }
    assert_eq!(get(&world, &root).await["progress"], json!(0.0));
    let run_id = world
        .create(json!({ "plan_id": plans[0], "goal_id": root }))
        .await;
    world.ended(&run_id).await;
    let half = get(&world, &root).await;
    assert_eq!((&half["progress"], &half["n_plans"]), (&json!(50.0), &json!(2)));

    // Reaching a goal is an event, once for each time.
    let run = json!({ "document": steps, "autonomy_level": 4 });
    let event = json!({ "type": "goal_completed", "equals": { "goal_id": root } });
    let trigger = created(&world, json!({ "name": "reached", "run": run, "event": event })).await;
    for (state, is_taken) in [
        ("paused", true),
        ("completed", true),
        ("paused", false),
        ("abandoned", false),
        ("active", true),
        ("abandoned", true),
    ] {
        let request = update(&root, json!({ "state": state }));
        match is_taken {
            true => assert_eq!(
                world.call("GoalService/UpdateGoal", request).await["goal"]["state"],
                state
            ),
            false => assert_eq!(
                world.refusal("GoalService/UpdateGoal", request).await.reason,
                "GOAL_STATE"
            ),
        }
    }
    let fired = async || Some(firings(&world, &trigger).await).filter(|firings| !firings.is_empty());
    assert_eq!(wait_for("the event", LIMIT, fired).await.unwrap().len(), 1);
    world.crash().await;
    let listed = world
        .call("GoalService/ListGoals", json!({ "state": "abandoned" }))
        .await;
    assert_eq!(listed["goals"].as_array().unwrap().len(), 1);
    let listed = world
        .call("GoalService/ListGoals", json!({ "parent_id": root }))
        .await;
    assert_eq!(listed["goals"][0]["goal_id"], json!(child));

    world
        .call("GoalService/DeleteGoal", json!({ "goal_id": root }))
        .await;
    assert_eq!(
        world
            .refusal("GoalService/GetGoal", json!({ "goal_id": root }))
            .await
            .reason,
        "GOAL_NOT_FOUND"
    );
    assert_eq!(get(&world, &child).await["parent_id"], "");
    let plan = world
        .call("PlanService/GetPlan", json!({ "plan_id": plans[0] }))
        .await;
    assert_eq!(
        (&plan["plan"]["goal_id"], &plan["plan"]["total_steps"]),
        (&json!(""), &json!(1))
    );
    assert_eq!(world.get(&run_id).await["state"], "completed");
    world.close().await;
}
