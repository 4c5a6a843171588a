//! What goes wrong, and what follows from it.

use crate::plan_words::{call, document, text, unattended, with};
use crate::world::World;
use serde_json::{Value, json};
use tonic::Code;

#[tokio::test]
async fn s22_an_optional_failure_feeds_null_and_the_run_is_partial() {
    let world = World::start().await;
    let optional = with(
        call("a", "script.pure", json!({ "fail": "BROKEN", "fatal": true })),
        json!({ "required": false }),
    );
    let b = with(
        call("b", "script.pure", json!({ "answer": { "got": "${a:/x}" } })),
        json!({ "on_dependency_failure": "null_input" }),
    );
    let run_id = world.run(json!([optional, b])).await;
    let run = world.ended(&run_id).await;
    assert_eq!(
        (&run["state"], &run["outcome"]),
        (&json!("completed"), &json!("partial"))
    );
    assert_eq!(
        world.calls_of(&run_id)[1]["payload"],
        json!({ "answer": { "got": null } })
    );
    assert_eq!(run["output"], json!({ "got": null }));
    let failures = run["step_failures"].as_array().unwrap();
    assert_eq!(failures.len(), 1);
    assert_eq!(
        (&failures[0]["step_key"], &failures[0]["code"]),
        (&json!("a"), &json!("BROKEN"))
    );
    world.close().await;
}

#[tokio::test]
async fn s25_an_unknown_tool_is_warned_of_and_fails_after_one_attempt() {
    let world = World::start_with(|settings| settings.flag("--registration-grace-ms", 0)).await;
    let steps = json!([call("a", "script.pur", json!({}))]);
    let request = unattended(json!({ "document": document(steps) }));
    let preview = world
        .call("RunService/PreviewRun", json!({ "run": request.clone() }))
        .await;
    assert_eq!(preview["unknown_actions"], json!(["script.pur"]));
    assert_eq!(preview["valid"], true);
    let run_id = world.create(request).await;
    let run = world.ended(&run_id).await;
    assert_eq!(
        (&run["state"], &run["error_type"]),
        (&json!("failed"), &json!("EXECUTION_ERROR"))
    );
    let step = world.step(&run_id, "a").await;
    assert_eq!(step["error"]["code"], "ACTION_NOT_FOUND");
    assert_eq!(step["attempts"].as_array().unwrap().len(), 1);
    world.close().await;
}

#[tokio::test]
async fn s28_a_plan_that_is_none_is_refused_with_every_path_and_nothing_runs() {
    let world = World::start().await;
    let on = |key: &str, depends_on: Value| {
        with(
            call(key, "script.pure", json!({})),
            json!({ "depends_on": depends_on }),
        )
    };
    let jump = |key: &str, to: &str| with(call(key, "script.pure", json!({})), json!({ "on_success": to }));
    let cases: [(&str, Value, &str); 8] = [
        ("self-edge", json!([on("a", json!(["a"]))]), "CYCLIC_DEPENDENCY"),
        (
            "2-cycle",
            json!([on("a", json!(["b"])), on("b", json!(["a"]))]),
            "CYCLIC_DEPENDENCY",
        ),
        (
            "3-cycle",
            json!([
                on("a", json!(["c"])),
                on("b", json!(["a"])),
                on("c", json!(["b"]))
            ]),
            "CYCLIC_DEPENDENCY",
        ),
        (
            "unknown reference",
            json!([on("a", json!(["nobody"]))]),
            "UNKNOWN_REFERENCE",
        ),
        (
            "backward jump",
            json!([on("a", json!([])), jump("b", "a")]),
            "BACKWARD_JUMP",
        ),
        (
            "duplicate key",
            json!([on("a", json!([])), on("a", json!([]))]),
            "DUPLICATE_KEY",
        ),
        (
            "unknown type",
            json!([{ "key": "a", "type": "teleport" }]),
            "UNKNOWN_STEP_TYPE",
        ),
        (
            "template",
            json!([call("a", "script.pure", json!({ "x": "${nobody:/y}" }))]),
            "REFERENCE_UNRESOLVED",
        ),
    ];
    for (name, steps, code) in cases {
        let refusal = world
            .refusal(
                "RunService/CreateRun",
                unattended(json!({ "document": document(steps.clone()) })),
            )
            .await;
        assert_eq!(
            refusal.is(),
            (Code::InvalidArgument, "PLAN_INVALID"),
            "{name}: {refusal:?}"
        );
        let found = refusal
            .paths()
            .iter()
            .any(|(path, of)| *of == code && path.contains("steps["));
        assert!(found, "{name}: {refusal:?}");
        // The preview says the same without refusing.
        let preview = world
            .call(
                "RunService/PreviewRun",
                json!({ "run": unattended(json!({ "document": document(steps) })) }),
            )
            .await;
        let codes: Vec<_> = preview["violations"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| &one["code"])
            .collect();
        assert!(codes.contains(&&json!(code)), "{name}: {preview}");
    }
    let runs = world.call("RunService/ListRuns", json!({})).await;
    assert_eq!(runs["runs"], json!([]));
    assert!(world.calls().is_empty());
    world.close().await;
}

#[tokio::test]
async fn s95_abort_lets_what_is_in_flight_end_and_starts_nothing_more() {
    let world = World::start().await;
    for concurrency in [1, 4] {
        let gate = format!("abort-{concurrency}");
        let overlapping = |step: Value| with(step, json!({ "async": true, "retry": { "max_retries": 0 } }));
        let steps = json!([
            overlapping(call("bad", "script.pure", json!({ "fail": "BROKEN" }))),
            overlapping(call("slow", "script.pure", json!({ "gate": gate }))),
            with(
                overlapping(call("later", "script.pure", json!({}))),
                json!({ "depends_on": ["slow"] })
            ),
        ]);
        let plan = with(document(steps), json!({ "parallel": true }));
        let request = json!({ "document": plan, "limits": { "max_concurrency": concurrency } });
        let run_id = world.create(request).await;
        if concurrency > 1 {
            world.step_in(&run_id, "bad", "failed").await;
            let run = world.get(&run_id).await;
            assert_eq!(run["state"], "running", "what is in flight ends first");
            world.shared.open(&gate);
        }
        let run = world.ended(&run_id).await;
        assert_eq!(
            (&run["state"], &run["error"]["code"]),
            (&json!("failed"), &json!("BROKEN"))
        );
        assert_eq!(run["error"]["step_key"], "bad");
        let steps = world.steps(&run_id).await;
        assert_eq!(steps["later"]["state"], "skipped");
        assert_eq!(
            steps["slow"]["state"],
            if concurrency > 1 { "completed" } else { "skipped" }
        );
        let mut called = world.called(&run_id);
        called.sort();
        let expected: &[&str] = if concurrency > 1 {
            &["bad", "slow"]
        } else {
            &["bad"]
        };
        assert_eq!(called, expected);
    }
    world.close().await;
}

#[tokio::test]
async fn s95_skip_goes_on() {
    let world = World::start().await;
    for concurrency in [1, 4] {
        let failing = with(
            call("bad", "script.pure", json!({ "fail": "BROKEN" })),
            json!({ "on_failure": "skip", "retry": { "max_retries": 0 } }),
        );
        let plan = with(
            document(json!([failing, call("next", "script.pure", json!({}))])),
            json!({ "parallel": true }),
        );
        let run_id = world
            .create(json!({ "document": plan, "limits": { "max_concurrency": concurrency } }))
            .await;
        let run = world.ended(&run_id).await;
        assert_eq!(
            (&run["state"], &run["outcome"]),
            (&json!("completed"), &json!("partial"))
        );
        let mut called = world.called(&run_id);
        // Both run at once: either may be called first.
        if concurrency > 1 {
            called.sort_unstable();
        }
        assert_eq!(called, ["bad", "next"]);
    }
    world.close().await;
}

#[tokio::test]
async fn s99_the_kind_of_the_error_follows_from_its_cause() {
    let world = World::start().await;
    let failing = with(
        call(
            "bad",
            "script.pure",
            json!({ "fail": "BROKEN", "message": "the lever is stuck" }),
        ),
        json!({ "retry": { "max_retries": 0 } }),
    );
    let run = world.ended_run(json!([failing])).await;
    assert_eq!(run["error_type"], "EXECUTION_ERROR");
    assert!(
        text(&run["error"]["message"]).contains("the lever is stuck"),
        "{run}"
    );

    let hanging = json!([call("slow", "script.pure", json!({ "hang": true }))]);
    let request = json!({ "document": document(hanging.clone()), "limits": { "watchdog_ms": 200 } });
    let run = world.ended(&world.create(request).await).await;
    assert_eq!(
        (&run["state"], &run["error_type"]),
        (&json!("timeout"), &json!("TIMEOUT_ERROR"))
    );
    assert!(!text(&run["error"]["message"]).is_empty());

    let run_id = world.run(hanging).await;
    let run = world.in_state(&run_id, "running").await;
    assert_eq!(run["error_type"], "no_error", "a run that has not ended has none");
    world
        .call(
            "RunService/CancelRun",
            json!({ "run_id": run_id, "reason": "enough" }),
        )
        .await;
    let run = world.ended(&run_id).await;
    assert_eq!(
        (&run["state"], &run["error_type"]),
        (&json!("cancelled"), &json!("CANCELLED"))
    );

    let run = world
        .ended_run(json!([call("good", "script.pure", json!({}))]))
        .await;
    assert_eq!(
        (&run["error_type"], &run["error"], &run["replans_count"]),
        (&json!("no_error"), &Value::Null, &json!(0))
    );

    // No plan; one that fails; and one that fails before one that does not.
    let unknown = json!([call("a", "script.unknown", json!({}))]);
    let fails = json!([call(
        "a",
        "script.pure",
        json!({ "fail": "BROKEN", "fatal": true })
    )]);
    let works = json!([call("a", "script.safe", json!({}))]);
    for (plans, error_type, replans) in [
        ([&unknown, &unknown], "PLANNING_ERROR", 0),
        ([&fails, &unknown], "EXECUTION_ERROR", 0),
        ([&fails, &works], "no_error", 1),
    ] {
        let plans = plans.map(|steps| json!({ "answer": { "plan": document(steps.clone()) } }));
        let planner = json!({ "action": "script.planner", "parameters": { "plans": plans } });
        let limits = json!({ "max_generations": 2, "max_substitutions": 0 });
        let request = json!({ "goal": "Weigh the bears", "planner": planner, "limits": limits });
        let run = world.ended(&world.create(request).await).await;
        assert_eq!(
            (&run["error_type"], &run["replans_count"]),
            (&json!(error_type), &json!(replans)),
            "{run:#}"
        );
        let has_text = run["error"]["message"]
            .as_str()
            .is_some_and(|message| !message.is_empty());
        assert_eq!(has_text, error_type != "no_error", "{run:#}");
    }
    world.close().await;
}
