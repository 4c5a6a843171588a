//! Starts of the real process, and the knowledge of earlier ones: traits of actions, and which stops were in order.

use crate::children::{child_of, saved};
use crate::plan_words::{call, document, question, text};
use crate::world::World;
use escapement_tests::WorkerSettings;
use serde_json::{Value, json};

/// A run at a level that asks about each unusual action.
async fn careful(world: &World) -> String {
    let document = document(json!([call("a", "echo", json!({ "n": 1 }))]));
    world
        .create(json!({ "document": document, "autonomy_level": 2 }))
        .await
}

async fn completes_unasked(world: &World, run_id: &str) {
    assert_eq!(world.ended(run_id).await["state"], "completed");
    let names = world.event_names(run_id).await;
    assert!(!names.contains(&"approval_requested".to_owned()), "{names:?}");
}

#[tokio::test]
async fn s5_a_run_of_the_first_second_after_a_start_has_the_gates_of_any_other() {
    let grace =
        |settings: escapement_tests::OrchestratorSettings| settings.flag("--registration-grace-ms", 60_000);
    let mut world = World::without_worker(grace).await;
    let first = careful(&world).await;
    world.in_state(&first, "queued").await;
    let directory = world.directory.path().to_owned();
    let settings = WorkerSettings::new(&world.orchestrator.url(), "stock", &directory, &directory);
    let worker = settings.connect().await.unwrap();
    completes_unasked(&world, &first).await;
    let names = world.event_names(&first).await;
    assert!(names.contains(&"actions_known".to_owned()), "{names:?}");
    world.crash().await;
    let second = careful(&world).await;
    completes_unasked(&world, &second).await;
    worker.stop().await.unwrap();
    world.close().await;
}

#[tokio::test]
async fn s5_only_ends_that_nobody_asked_for_count_and_none_of_a_run_that_waits_for_its_child() {
    let quick = |settings: escapement_tests::OrchestratorSettings| settings.flag("--drain-grace-ms", 100);
    let mut world = World::start_with(quick).await;
    let gated = json!([call("a", "script.pure", json!({ "gate": "go on" }))]);
    let busy = world.run(gated).await;
    world.until_calls(&busy, 1).await;
    let plan_id = saved(&world, json!([question("q")])).await;
    let sub = json!({ "key": "sub", "type": "sub_plan", "config": { "plan_id": plan_id } });
    let parent = world.run(json!([sub])).await;
    let child = text(&child_of(&world, &parent).await["run_id"]);
    world.in_state(&child, "waiting").await;
    for (in_order, counted) in [(true, 0), (true, 0), (false, 1), (false, 2)] {
        let n_calls = world.calls_of(&busy).len();
        if in_order {
            world.stops().await;
            world.starts().await;
        } else {
            world.crash().await;
        }
        // Each start leads to another call, which is in flight at the next stop.
        world.until_calls(&busy, n_calls + 1).await;
        assert_eq!(world.get(&busy).await["recoveries"], counted);
        assert_eq!(
            world.get(&parent).await["recoveries"],
            0,
            "its child waits for a person"
        );
    }
    world.shared.open("go on");
    assert_eq!(world.ended(&busy).await["state"], "completed");
    let cancel: Value = json!({ "run_id": parent });
    world.call("RunService/CancelRun", cancel).await;
    world.close().await;
}
