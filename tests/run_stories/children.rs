//! Runs that other runs wait for.

use crate::plan_words::{call, document, text, with};
use crate::world::World;
use serde_json::{Value, json};
use tonic::Code;

/// Saves a plan of these steps and gives its id.
pub(crate) async fn saved(world: &World, steps: Value) -> String {
    let request = json!({ "plan": { "name": "Saved", "goal": "Be run" }, "document": document(steps) });
    text(&world.call("PlanService/CreatePlan", request).await["plan"]["plan_id"])
}

fn sub_plan(key: &str, plan_id: &str) -> Value {
    json!({ "key": key, "type": "sub_plan", "config": { "plan_id": plan_id, "input": { "from": "parent" } } })
}

/// The only child of a run, once it is there.
pub(crate) async fn child_of(world: &World, run_id: &str) -> Value {
    let filter = json!({ "parent_run_id": run_id });
    let found = async || world.all_runs(filter.clone()).await.into_iter().next();
    escapement_tests::wait_for("the child", crate::world::LIMIT, found)
        .await
        .unwrap()
}

#[tokio::test]
async fn s46_the_step_follows_its_child() {
    let world = World::start().await;
    let good = saved(
        &world,
        json!([call(
            "a",
            "script.pure",
            json!({ "answer": { "got": "${input:/from}" } })
        )]),
    )
    .await;
    let run_id = world.run(json!([sub_plan("sub", &good)])).await;
    let run = world.ended(&run_id).await;
    assert_eq!(
        (&run["state"], &run["output"]),
        (&json!("completed"), &json!({ "got": "parent" }))
    );
    let child = child_of(&world, &run_id).await;
    assert_eq!(
        (&child["parent_run_id"], &child["depth"]),
        (&json!(run_id), &json!(1))
    );
    assert_eq!(
        world.step(&run_id, "sub").await["child_run_id"],
        child["run_id"],
        "also after its end"
    );
    let names = world.event_names(&text(&child["run_id"])).await;
    assert!(
        names.contains(&"tool_called".to_owned()),
        "the child has events of its own: {names:?}"
    );
    let names = world.event_names(&run_id).await;
    assert!(names.contains(&"child_run_started".to_owned()) && names.contains(&"child_run_ended".to_owned()));
    assert!(!names.contains(&"tool_called".to_owned()));

    let bad = saved(
        &world,
        json!([call(
            "a",
            "script.pure",
            json!({ "fail": "BROKEN", "fatal": true })
        )]),
    )
    .await;
    let step = with(sub_plan("sub", &bad), json!({ "retry": { "max_retries": 0 } }));
    let run = world.ended_run(json!([step])).await;
    assert_eq!(
        (&run["state"], &run["error"]["code"]),
        (&json!("failed"), &json!("CHILD_FAILED"))
    );

    let slow = saved(&world, json!([call("a", "script.pure", json!({ "hang": true }))])).await;
    let run_id = world.run(json!([sub_plan("sub", &slow)])).await;
    let child = text(&child_of(&world, &run_id).await["run_id"]);
    world.called_times(&child, "a", 1).await;
    assert_eq!(world.step(&run_id, "sub").await["child_run_id"], child.as_str());
    world
        .call("RunService/CancelRun", json!({ "run_id": run_id }))
        .await;
    let child = world.ended(&child).await;
    assert_eq!(
        (&child["state"], &child["reason"]),
        (&json!("cancelled"), &json!("parent"))
    );
    world.close().await;
}

#[tokio::test]
async fn s47_a_plan_that_contains_itself_does_not_run() {
    let world = World::start().await;
    let own = saved(&world, json!([call("a", "script.pure", json!({}))])).await;
    let put = async |plan_id: &str, steps: Value| {
        let request = json!({ "plan_id": plan_id, "document": document(steps) });
        world.try_call("PlanService/PutPlanDocument", request).await
    };
    let never = async |plan_id: &str| match world
        .try_call(
            "RunService/CreateRun",
            json!({ "plan_id": plan_id, "autonomy_level": 4 }),
        )
        .await
    {
        Err(refusal) => assert_eq!(refusal.code, Code::InvalidArgument, "{refusal:?}"),
        Ok(created) => {
            let run = world.ended(&text(&created["run"]["run_id"])).await;
            assert_eq!(run["error"]["code"], "CHILD_FAILED", "{run:#}");
        }
    };
    // Directly: refused when it is saved, or when it is run.
    let step = with(sub_plan("sub", &own), json!({ "retry": { "max_retries": 0 } }));
    if put(&own, json!([step])).await.is_ok() {
        never(&own).await;
    }
    // Over two.
    let one = saved(&world, json!([])).await;
    let two = saved(
        &world,
        json!([with(
            sub_plan("sub", &one),
            json!({ "retry": { "max_retries": 0 } })
        )]),
    )
    .await;
    if put(
        &one,
        json!([with(
            sub_plan("sub", &two),
            json!({ "retry": { "max_retries": 0 } })
        )]),
    )
    .await
    .is_ok()
    {
        never(&one).await;
    }
    world.close().await;
}

#[tokio::test]
async fn s47_the_ninth_level_is_refused_and_the_eighth_runs() {
    let world = World::start().await;
    let mut plan = saved(
        &world,
        json!([call("leaf", "script.pure", json!({ "answer": { "leaf": true } }))]),
    )
    .await;
    let mut plans = vec![plan.clone()];
    for _ in 0..9 {
        let step = with(sub_plan("sub", &plan), json!({ "retry": { "max_retries": 0 } }));
        plan = saved(&world, json!([step])).await;
        plans.push(plan.clone());
    }
    let ended = async |plan_id: &str| {
        world
            .ended(&world.create(json!({ "plan_id": plan_id })).await)
            .await
    };
    let run = ended(&plans[7]).await;
    assert_eq!(
        (&run["state"], &run["output"]),
        (&json!("completed"), &json!({ "leaf": true })),
        "{run:#}"
    );
    let run = ended(&plans[9]).await;
    assert_eq!(run["state"], "failed", "{run:#}");
    world.close().await;
}

#[tokio::test]
async fn s47_many_parents_wait_for_children_with_one_slot() {
    let world = World::start_with(|settings| settings.flag("--max-running-executions", 1)).await;
    let child = saved(&world, json!([call("a", "script.pure", json!({}))])).await;
    let mut parents = Vec::new();
    for _ in 0..PARENTS {
        parents.push(world.run(json!([sub_plan("sub", &child)])).await);
    }
    for parent in &parents {
        assert_eq!(world.ended(parent).await["state"], "completed");
    }
    assert_eq!(world.calls().len(), PARENTS);
    world.close().await;
}

#[tokio::test]
async fn s48_a_kill_makes_no_second_child() {
    let mut world = World::start().await;
    let steps = json!([
        call("a", "script.idempotent", json!({ "gate": "child" })),
        call("b", "script.pure", json!({}))
    ]);
    let plan = saved(&world, steps).await;
    let run_id = world.run(json!([sub_plan("sub", &plan)])).await;
    let child = text(&child_of(&world, &run_id).await["run_id"]);
    world.called_times(&child, "a", 1).await;
    world.crash().await;
    world.shared.open("child");
    assert_eq!(world.ended(&run_id).await["state"], "completed");
    let children = world.all_runs(json!({ "parent_run_id": run_id })).await;
    assert_eq!(children.len(), 1);
    assert_eq!(children[0]["run_id"], child.as_str());
    let calls = world.calls_of(&child);
    assert!(
        calls.iter().filter(|call| call["step"] == "b").count() == 1,
        "{calls:?}"
    );
    world.close().await;
}

/// Enough to fill every slot many times.
const PARENTS: usize = 200;
