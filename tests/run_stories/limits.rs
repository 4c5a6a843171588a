//! How long things may take, and who says so.

use crate::plan_words::{call, document, question, with};
use crate::world::World;
use serde_json::{Value, json};

#[tokio::test]
async fn s17_the_run_limit_ends_a_run_that_is_too_slow_and_no_other() {
    let world = World::start().await;
    let slow = json!([call("slow", "script.pure", json!({ "hang": true }))]);
    let request = json!({ "document": document(slow), "limits": { "run_ms": 200 } });
    let run = world.ended(&world.create(request).await).await;
    assert_eq!(
        (&run["state"], &run["error_type"]),
        (&json!("timeout"), &json!("TIMEOUT_ERROR"))
    );

    let three = json!([
        call("a", "script.pure", json!({})),
        call("b", "script.pure", json!({})),
        call("c", "script.pure", json!({})),
    ]);
    let request = json!({ "document": document(three), "limits": { "run_ms": 10_000 } });
    let run = world.ended(&world.create(request).await).await;
    assert_eq!(
        (&run["state"], &run["completed_steps"]),
        (&json!("completed"), &json!(3))
    );
    world.close().await;
}

#[tokio::test]
async fn s18_an_attempt_gets_no_more_time_than_the_run_has_left() {
    let world = World::start().await;
    let steps = json!([call("a", "script.pure", json!({ "answer": {} }))]);
    let limits = json!({ "attempt_ms": 30_000, "run_ms": 2_000, "worker_wait_ms": 30_000 });
    let run_id = world
        .create(json!({ "document": document(steps), "limits": limits }))
        .await;
    world.ended(&run_id).await;
    let submitted = world.executions_of(&run_id).await;
    let step_ms = submitted[0]["plan"]["steps"][0]["timeout_ms"].as_i64().unwrap();
    assert!((50..=2_000).contains(&step_ms), "{step_ms}");
    let plan_ms = submitted[0]["plan"]["timeout_ms"].as_i64().unwrap();
    assert!((50..=2_000).contains(&plan_ms), "{plan_ms}");

    // With less than 50 ms nothing is dispatched at all.
    let steps = json!([call("a", "script.pure", json!({}))]);
    let request = json!({ "document": document(steps), "limits": { "run_ms": 40 } });
    let run_id = world.create(request).await;
    assert_eq!(world.ended(&run_id).await["state"], "timeout");
    assert_eq!(world.called(&run_id), Vec::<String>::new());
    world.close().await;
}

#[tokio::test]
async fn s19_a_question_costs_life_and_neither_watchdog_nor_run_limit() {
    let world = World::start().await;
    let steps = json!([question("colour"), call("paint", "script.pure", json!({}))]);
    let limits = json!({ "watchdog_ms": 300, "run_ms": 1_500, "lifetime_ms": 60_000 });
    let run_id = world
        .create(json!({ "document": document(steps.clone()), "limits": limits }))
        .await;
    let request = world.open_request(&run_id).await;
    // Longer than watchdog and run limit together.
    escapement_tests::let_pass(std::time::Duration::from_millis(2_000)).await;
    world.respond(&request, json!({ "text": "red" })).await.unwrap();
    assert_eq!(world.ended(&run_id).await["state"], "completed");

    let limits = json!({ "lifetime_ms": 500 });
    let run_id = world
        .create(json!({ "document": document(steps), "limits": limits }))
        .await;
    let run = world.ended(&run_id).await;
    assert_eq!(
        (&run["state"], &run["completed_steps"]),
        (&json!("timeout"), &json!(0))
    );
    world.close().await;
}

#[tokio::test]
async fn s85_limits_are_resolved_by_preset_and_explicit_fields_win() {
    let world = World::start().await;
    // Attempt, retries, watchdog, revision, run, concurrency or 0 for the cores, autonomy.
    let table = [
        ("standard", 30_000, 3, 0, 0, 3_600_000, 1, 1),
        ("execution", 30_000, 3, 0, 60_000, 325_000, 0, 4),
        ("plan_mode", 30_000, 3, 0, 0, 3_600_000, 1, 4),
        ("autonomous", 60_000, 3, 0, 0, 3_600_000, 1, 1),
        ("protocol", 60_000, 0, 30_000, 0, 3_600_000, 1, 4),
    ];
    for (preset, attempt_ms, retries, watchdog_ms, revision_ms, run_ms, concurrency, level) in table {
        let steps = json!([question("q"), question("r")]);
        let request = json!({ "document": document(steps), "preset": preset });
        let created = world.call("RunService/CreateRun", request).await;
        let (run, limits) = (&created["run"], &created["run"]["limits"]);
        let shown = |name: &str| limits[name].as_i64().unwrap();
        assert_eq!(run["autonomy_level"], level, "{preset}");
        assert_eq!(shown("attempt_ms"), attempt_ms, "{preset}");
        assert_eq!(shown("max_retries"), retries, "{preset}");
        assert_eq!(shown("watchdog_ms"), watchdog_ms, "{preset}");
        assert_eq!(shown("revision_ms"), revision_ms, "{preset}");
        assert_eq!(shown("run_ms"), run_ms, "{preset}");
        let cores = i64::try_from(std::thread::available_parallelism().unwrap().get()).unwrap();
        assert_eq!(
            shown("max_concurrency"),
            if concurrency == 0 { cores } else { concurrency },
            "{preset}"
        );
        assert_eq!(shown("question_ms"), 86_400_000, "{preset}");
        assert_eq!(shown("lifetime_ms"), 604_800_000, "{preset}");
    }
    let request = json!({
        "document": document(json!([question("q")])), "preset": "protocol", "autonomy_level": 2,
        "limits": { "attempt_ms": 7_000, "max_retries": 9, "watchdog_ms": 1_234 },
    });
    let run = world.call("RunService/CreateRun", request).await["run"].take();
    assert_eq!(run["autonomy_level"], 2);
    assert_eq!(run["limits"]["attempt_ms"], 7_000);
    assert_eq!(run["limits"]["max_retries"], 9);
    assert_eq!(run["limits"]["watchdog_ms"], 1_234);
    assert_eq!(
        run["limits"]["run_ms"], 3_600_000,
        "what is not named is the preset's"
    );
    world.close().await;
}

#[tokio::test]
async fn s85_the_step_goes_before_the_profile_and_that_before_the_preset() {
    let world = World::start().await;
    let profile = json!({"action": "script.pure", "effect": "pure", "risk": "safe", "attempt_ms": 4_000});
    world.profile(profile).await;
    let steps = json!([
        with(
            call("step", "script.pure", json!({})),
            json!({ "timeout_ms": 3_000 })
        ),
        call("profile", "script.pure", json!({})),
        call("preset", "script.world", json!({})),
    ]);
    let run_id = world
        .create(json!({ "document": document(steps), "limits": { "attempt_ms": 5_000 } }))
        .await;
    world.ended(&run_id).await;
    let submitted = world.executions_of(&run_id).await;
    let limits: Vec<&Value> = submitted
        .iter()
        .map(|one| &one["plan"]["steps"][0]["timeout_ms"])
        .collect();
    assert_eq!(limits, [&json!(3_000), &json!(4_000), &json!(5_000)]);
    world.close().await;
}

#[tokio::test]
async fn s86_a_step_that_is_too_slow_says_so_with_its_limit() {
    let world = World::start().await;
    let slow = with(
        call("slow", "script.pure", json!({ "hang": true })),
        json!({ "timeout_ms": 200, "retry": { "max_retries": 0 } }),
    );
    let run_id = world.run(json!([slow])).await;
    let run = world.ended(&run_id).await;
    assert_eq!(run["state"], "failed");
    let step = world.steps(&run_id).await.remove("slow").unwrap();
    assert_eq!(step["error"]["code"], "TOOL_TIMEOUT");
    assert_eq!(step["error"]["message"], "Step timed out after 200ms");
    let attempt = world.step(&run_id, "slow").await["attempts"][0].take();
    assert_eq!(attempt["category"], "timed_out");

    let steps = json!([call("slow", "script.pure", json!({ "hang": true }))]);
    let request = json!({ "document": document(steps), "limits": { "revision_ms": 300 } });
    assert_eq!(
        world.ended(&world.create(request).await).await["state"],
        "timeout"
    );
    world.close().await;
}
