//! How long things may take, and who says so.

use crate::plan_words::{call, document, question, text, with};
use crate::triggers::created;
use crate::world::World;
use escapement_tests::OrchestratorSettings;
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

/// What each preset says of limits, policies and autonomy; 0 for the number of cores.
fn presets() -> [(&'static str, Value); 5] {
    let differs = |limits: Value, policy: Value, level: i32| {
        let limits = with(
            json!({
                "attempt_ms": 30_000, "queue_wait_ms": 30_000, "worker_wait_ms": 30_000,
                "watchdog_ms": 0, "revision_ms": 0, "run_ms": 3_600_000, "lifetime_ms": 604_800_000,
                "pause_ms": 604_800_000, "question_ms": 86_400_000, "approval_ms": 86_400_000,
                "max_retries": 3, "backoff_ms": 1_000, "multiplier": 2.0, "max_backoff_ms": 30_000,
                "max_concurrency": 1, "batch_size": 5, "max_turns": 5,
                "max_generations": 5, "max_substitutions": 3,
            }),
            limits,
        );
        let policy = with(
            json!({
                "resume": "retry_pending", "ambiguity": "fail", "ambiguous_timeout": "retry",
                "on_failure": "abort", "on_dependency_failure": "skip", "escalate": false, "quorum": 1,
                "async_by_default": false,
            }),
            policy,
        );
        json!({ "limits": limits, "policy": policy, "autonomy_level": level })
    };
    let asks = json!({ "ambiguity": "ask", "ambiguous_timeout": "ask", "async_by_default": true });
    let eight = json!({ "max_concurrency": 8 });
    let execution = json!({
        "backoff_ms": 100, "max_backoff_ms": 86_400_000, "revision_ms": 60_000, "run_ms": 325_000,
        "max_concurrency": 0, "max_substitutions": 0,
    });
    let drains = json!({ "on_failure": "drain", "on_dependency_failure": "null_if_optional" });
    let plan_mode =
        json!({ "backoff_ms": 0, "multiplier": 1.0, "max_generations": 1, "max_substitutions": 0 });
    let goes_on = json!({ "on_failure": "skip", "on_dependency_failure": "synthetic", "escalate": true });
    let autonomous = json!({ "attempt_ms": 60_000, "max_generations": 1, "max_substitutions": 0 });
    let blocks = json!({ "ambiguity": "ask", "on_dependency_failure": "block" });
    let protocol = json!({
        "attempt_ms": 60_000, "max_retries": 0, "watchdog_ms": 30_000, "max_generations": 1,
    });
    [
        ("standard", differs(eight, asks, 3)),
        ("execution", differs(execution, drains, 4)),
        ("plan_mode", differs(plan_mode, goes_on, 4)),
        ("autonomous", differs(autonomous, blocks, 1)),
        ("protocol", differs(protocol, json!({}), 4)),
    ]
}

#[tokio::test]
async fn s85_limits_are_resolved_by_preset_and_explicit_fields_win() {
    let world = World::start().await;
    for (preset, mut expected) in presets() {
        let steps = json!([question("q"), question("r")]);
        let request = json!({ "document": document(steps), "preset": preset });
        let created = world.call("RunService/CreateRun", request).await;
        let concurrency = &mut expected["limits"]["max_concurrency"];
        if *concurrency == 0 {
            *concurrency = json!(std::thread::available_parallelism().unwrap().get());
        }
        let run = &created["run"];
        assert_eq!(run["autonomy_level"], expected["autonomy_level"], "{preset}");
        for message in ["limits", "policy"] {
            for (field, value) in expected[message].as_object().unwrap() {
                assert_eq!(run[message][field], *value, "{field} of {preset}");
            }
        }
        // What a run has for an output if its plans failed is for runs with a planner. A plan that is not there yet has too few
        // steps for one of the presets.
        assert!(run["resolved_fallback"].is_null(), "{preset}");
        if preset == "plan_mode" {
            continue;
        }
        let planned =
            json!({ "goal": "Weigh the bears", "planner": { "action": "script.nobody" }, "preset": preset });
        let planned = world.call("RunService/CreateRun", planned).await["run"].take();
        assert_eq!(
            !planned["resolved_fallback"].is_null(),
            preset == "execution",
            "{planned:#}"
        );
    }
    let request = json!({
        "document": document(json!([question("q")])), "preset": "protocol", "autonomy_level": 2,
        "limits": { "attempt_ms": 7_000, "max_retries": 9, "watchdog_ms": 1_234 },
        "policy": { "ambiguity": "ask" },
    });
    let run = world.call("RunService/CreateRun", request).await["run"].take();
    assert_eq!(run["autonomy_level"], 2);
    assert_eq!(run["limits"]["attempt_ms"], 7_000);
    assert_eq!(run["limits"]["max_retries"], 9);
    assert_eq!(run["limits"]["watchdog_ms"], 1_234);
    assert_eq!(run["policy"]["ambiguity"], "ask");
    assert_eq!(
        (&run["limits"]["run_ms"], &run["policy"]["ambiguous_timeout"]),
        (&json!(3_600_000), &json!("retry")),
        "what is not named is the preset's"
    );
    world.close().await;
}

/// Defaults of the operator, as flags, and the fields of a run that show them.
const DEFAULTS: [(&str, &str, &str); 7] = [
    ("--default-resume", "discard", "/policy/resume"),
    ("--default-autonomy-level", "4", "/autonomy_level"),
    ("--default-attempt-ms", "45000", "/limits/attempt_ms"),
    ("--default-max-retries", "7", "/limits/max_retries"),
    ("--default-max-turns", "8", "/limits/max_turns"),
    ("--default-max-concurrency", "9", "/limits/max_concurrency"),
    ("--default-batch-size", "10", "/limits/batch_size"),
];

/// Asserts that a run has the defaults of the operator, except in these fields.
#[track_caller]
fn has_defaults(run: &Value, but: &[&str]) {
    for (flag, value, field) in DEFAULTS {
        let found = run.pointer(field).unwrap();
        let found = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
        assert_eq!(found == value, !but.contains(&field), "{flag}: {found}");
    }
}

#[tokio::test]
async fn s85_defaults_of_the_operator_replace_those_of_presets() {
    let flags = |settings: OrchestratorSettings| {
        DEFAULTS
            .into_iter()
            .fold(settings, |settings, (flag, value, _)| settings.flag(flag, value))
    };
    let mut world = World::start_with(flags).await;
    let steps = document(json!([call("a", "script.pure", json!({ "gate": "a" }))]));
    let previewed = async |run: Value| {
        let run = with(run, json!({ "validate_only": true }));
        world.call("RunService/CreateRun", run).await["run"].take()
    };
    for preset in ["standard", "plan_mode", "autonomous", "protocol", "execution"] {
        let two = document(json!([question("q"), question("r")]));
        let run = json!({ "document": two, "preset": preset });
        has_defaults(&previewed(run).await, &[]);
    }
    has_defaults(&previewed(json!({ "goal": "Weigh the bears" })).await, &[]);
    let request = json!({
        "document": steps, "preset": "protocol", "autonomy_level": 3,
        "limits": { "max_retries": 0 }, "policy": { "resume": "retry_pending" },
    });
    let own = world.call("RunService/CreateRun", request).await["run"].take();
    has_defaults(
        &own,
        &["/autonomy_level", "/limits/max_retries", "/policy/resume"],
    );
    let own = text(&own["run_id"]);

    // A saved plan has a level of its own. A run of a trigger has what any other has.
    let plan = json!({ "plan": { "name": "p", "goal": "g" }, "document": steps });
    let plan = world.call("PlanService/CreatePlan", plan).await;
    let of_plan = json!({ "plan_id": plan["plan"]["plan_id"] });
    has_defaults(&previewed(of_plan).await, &["/autonomy_level"]);
    let trigger = json!({ "name": "t", "run": { "document": steps }, "event": { "type": "mail" } });
    created(&world, trigger).await;
    let event = json!({ "type": "mail", "id": "1" });
    let fired = world.call("TriggerService/PublishEvent", event).await;
    let fired = text(&fired["firings"][0]["run_id"]);
    has_defaults(&world.get(&fired).await, &[]);

    // The default of the policy is what a restart does.
    for run_id in [&own, &fired] {
        world.called_times(run_id, "a", 1).await;
    }
    world.kill();
    world.shared.open("a");
    world.starts().await;
    assert_eq!(world.ended(&own).await["state"], "completed");
    let discarded = world.ended(&fired).await;
    assert_eq!(
        (&discarded["state"], &discarded["reason"]),
        (&json!("cancelled"), &json!("discarded"))
    );
    world.close().await;
}

#[tokio::test]
async fn s85_the_step_goes_before_the_profile_and_that_before_the_preset() {
    let mut world = World::start().await;
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

    // Another profile is for the runs that come, whatever process the one at hand goes on in.
    let steps = json!([question("q"), call("profile", "script.pure", json!({}))]);
    let before = world.run(steps.clone()).await;
    let request = world.open_request(&before).await;
    let profile = json!({"action": "script.pure", "effect": "pure", "risk": "safe", "attempt_ms": 6_000});
    world.profile(profile).await;
    world.crash().await;
    let after = world.run(steps).await;
    let asked = world.open_request(&after).await;
    for (run_id, request, attempt_ms) in [(before, request, 4_000), (after, asked, 6_000)] {
        world.respond(&request, json!({ "text": "on" })).await.unwrap();
        world.ended(&run_id).await;
        let submitted = world.executions_of(&run_id).await;
        assert_eq!(submitted[0]["plan"]["steps"][0]["timeout_ms"], attempt_ms);
    }
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

    world.close().await;
}

#[tokio::test]
async fn s86_a_revision_that_is_too_slow_is_replanned_or_ends_the_run() {
    let world = World::start().await;
    let slow = json!([call("slow", "script.pure", json!({ "hang": true }))]);
    let request = json!({ "document": document(slow.clone()), "limits": { "revision_ms": 1_000 } });
    let once =
        json!({ "document": document(slow.clone()), "limits": { "revision_ms": 1_000, "max_retries": 0 } });
    for request in [request, once] {
        let run = world.ended(&world.create(request).await).await;
        assert_eq!(
            (&run["state"], &run["reason"]),
            (&json!("timeout"), &json!("revision"))
        );
    }

    let plan = |steps: Value| json!({ "answer": { "plan": document(steps) } });
    let works = json!([call("works", "script.pure", json!({ "answer": { "n": 1 } }))]);
    for (max_generations, state, replans) in [(2, "completed", 1), (1, "timeout", 0)] {
        let plans = json!([plan(slow.clone()), plan(works.clone())]);
        let planner = json!({ "action": "script.planner", "parameters": { "plans": plans } });
        let limits = json!({ "revision_ms": 1_000, "max_generations": max_generations });
        let request = json!({ "goal": "Weigh the bears", "planner": planner, "limits": limits });
        let run = world.ended(&world.create(request).await).await;
        assert_eq!(
            (&run["state"], &run["replans_count"]),
            (&json!(state), &json!(replans)),
            "{run:#}"
        );
    }
    world.close().await;
}
