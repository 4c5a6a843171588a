//! Runs that a planner makes the plans of: how often it is asked, for how long, and what a person says to a plan.

use crate::plan_words::{call, document, text, with};
use crate::world::World;
use serde_json::{Value, json};

/// A run of a goal whose planner gives these answers, one for each generation.
fn goal(plans: Value, more: Value) -> Value {
    let planner = json!({ "action": "script.planner", "parameters": { "plans": plans } });
    with(json!({ "goal": "Weigh the bears", "planner": planner }), more)
}

/// The answer of a planner with a plan of these steps.
fn plan(steps: Value) -> Value {
    json!({ "answer": { "plan": document(steps) } })
}

/// The payloads that the planner of a run was asked with, in order.
fn asked(world: &World, run_id: &str) -> Vec<Value> {
    let calls = world.calls_of(run_id).into_iter();
    let calls = calls.filter(|call| call["action"] == "script.planner");
    calls.map(|mut call| call["payload"].take()).collect()
}

/// The times of the events of this name.
fn times(events: &[Value], name: &str) -> Vec<i64> {
    let events = events.iter().filter(|event| event["event_type"] == name);
    events.map(|event| event["at"].as_i64().unwrap()).collect()
}

#[tokio::test]
async fn s84_a_plan_that_works_costs_one_question_and_a_given_one_costs_none() {
    let world = World::start().await;
    let steps = json!([call("a", "script.pure", json!({ "answer": { "kg": 3 } }))]);
    let plans = json!([with(plan(steps.clone()), json!({ "gate": "plan" }))]);
    let run_id = world.create(goal(plans, json!({}))).await;
    world.until_calls(&run_id, 1).await;
    assert_eq!(world.get(&run_id).await["state"], "planning");
    world.shared.open("plan");
    let run = world.ended(&run_id).await;
    assert_eq!(
        (&run["state"], &run["output"]),
        (&json!("completed"), &json!({ "kg": 3.0 }))
    );
    assert_eq!(asked(&world, &run_id).len(), 1);

    let given = world.ended_run(steps).await;
    assert_eq!(given["state"], "completed");
    let given = text(&given["run_id"]);
    assert_eq!(world.called(&given), ["a"]);
    let names = world.event_names(&given).await;
    assert!(!names.contains(&"generation_started".to_owned()), "{names:?}");
    world.close().await;
}

#[tokio::test]
async fn s29_a_planner_that_hangs_costs_five_seconds_whatever_the_request_says() {
    let world = World::start().await;
    let hangs = goal(
        json!([{ "hang": true }]),
        json!({ "preset": "execution", "limits": { "max_generations": 2, "attempt_ms": 60_000 } }),
    );
    let mut longer = hangs.clone();
    longer["planner"]["limit_ms"] = json!(60_000);
    for request in [hangs, longer] {
        let Ok(created) = world.try_call("RunService/CreateRun", request).await else {
            continue;
        };
        let run_id = text(&created["run"]["run_id"]);
        let run = world.ended(&run_id).await;
        assert_eq!(run["state"], "failed", "{run:#}");
        assert_eq!(
            (&run["output"]["success"], &run["output"]["fallback"]),
            (&json!(false), &json!(true))
        );
        let narrative = text(&run["output"]["narrative"]);
        assert!(!narrative.contains("{input}"), "{narrative}");
        let events = world.events(&run_id).await;
        let (began, ended) = (
            times(&events, "generation_started"),
            times(&events, "generation_ended"),
        );
        assert_eq!((began.len(), ended.len()), (2, 2));
        for (began, ended) in began.into_iter().zip(ended) {
            assert!((4_500..=5_500).contains(&(ended - began)), "{} ms", ended - began);
        }
    }
    world.close().await;
}

#[tokio::test]
async fn s29_a_fallback_that_is_an_action_is_called_once_no_generation_is_left() {
    let world = World::start().await;
    let fallback = json!({ "action": { "action": "script.effect", "payload": { "answer": { "told": "${input:/who}" } } } });
    let more = json!({
        "input": { "who": "Ada" }, "fallback": fallback, "autonomy_level": 2, "limits": { "max_generations": 2 },
    });
    let run_id = world
        .create(goal(json!([{ "answer": { "content": "no plan" } }]), more))
        .await;
    // It is asked about as any step that may do something.
    let open = world.open_request(&run_id).await;
    assert_eq!(world.called(&run_id).len(), 2, "two generations");
    world
        .respond(&open, json!({ "approval": { "approve": {} } }))
        .await
        .unwrap();
    let run = world.ended(&run_id).await;
    assert_eq!(
        (&run["state"], &run["outcome"], &run["output"]),
        (&json!("failed"), &json!("fallback"), &json!({ "told": "Ada" })),
        "{run:#}"
    );
    let names = world.event_names(&run_id).await;
    assert_eq!(
        names.iter().filter(|name| *name == "fallback_used").count(),
        1,
        "{names:?}"
    );
    world.close().await;
}

#[tokio::test]
async fn s55_a_person_who_wants_another_plan_is_heard_by_the_planner() {
    let world = World::start().await;
    let one = |key: &str| plan(json!([call(key, "script.pure", json!({}))]));
    let request = goal(json!([one("a"), one("b")]), json!({ "autonomy_level": 1 }));
    let run_id = world.create(request).await;
    let first = world.open_request(&run_id).await;
    let revise = json!({ "approval": { "revise": {} }, "comment": "with a scale" });
    world.respond(&first, revise).await.unwrap();
    let second = world
        .until(&run_id, "the approval of the second plan", |run| {
            let open = &run["open_requests"][0]["input_request_id"];
            open.is_string() && *open != first["input_request_id"]
        })
        .await["open_requests"][0]
        .take();
    let asked = asked(&world, &run_id);
    assert_eq!(asked.len(), 2);
    assert!(
        asked[1]["previous"].to_string().contains("with a scale"),
        "{:#}",
        asked[1]
    );
    assert_ne!(first["subject_digest"], second["subject_digest"]);
    world
        .respond(&second, json!({ "approval": { "approve": {} } }))
        .await
        .unwrap();
    assert_eq!(world.ended(&run_id).await["state"], "completed");
    assert_eq!(world.called(&run_id).last().unwrap(), "b");
    assert!(!world.called(&run_id).contains(&"a".to_owned()));
    world.close().await;
}

#[tokio::test]
async fn s26_an_alternative_that_makes_the_same_takes_the_place_of_what_failed() {
    let world = World::start().await;
    let profile = |action: &str, produces: &str, alternatives: Value| {
        let fields = json!({ "produces": [produces], "alternatives": alternatives });
        with(
            json!({ "action": action, "effect": "pure", "risk": "safe" }),
            fields,
        )
    };
    // The first alternative makes a text, the second one failed before, the third one works.
    let alternatives = json!(["script.world", "script.safe", "script.plain"]);
    world.profile(profile("script.pure", "image", alternatives)).await;
    world.profile(profile("script.world", "text", json!([]))).await;
    world.profile(profile("script.safe", "image", json!([]))).await;
    world.profile(profile("script.plain", "image", json!([]))).await;
    let fails = json!({ "each": [{ "fail": "BROKEN", "fatal": true }] });
    let png =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let image = json!({ "type": "image", "mime_type": "image/png", "data": png, "name": "bear.png" });
    world
        .shared
        .action_says("script.plain", json!({ "$artifacts": [image] }));
    let request = json!({
        "document": document(json!([call("draw", "script.pure", fails)])),
        "preset": "protocol", "intent": "image_generate",
    });
    let run_id = world.create(request).await;
    let run = world.ended(&run_id).await;
    assert_eq!(run["state"], "completed", "{run:#}");
    let called: Vec<String> = world
        .calls_of(&run_id)
        .iter()
        .map(|call| text(&call["action"]))
        .collect();
    assert_eq!(called, ["script.pure", "script.safe", "script.plain"]);
    let names = world.event_names(&run_id).await;
    let count = |name: &str| names.iter().filter(|one| *one == name).count();
    assert_eq!(
        (count("replan_triggered"), count("step_started")),
        (2, 3),
        "{names:?}"
    );
    assert_eq!(count("generation_started"), 0, "nobody is asked for a plan");
    assert_eq!(count("artifact_created"), 1);
    world.close().await;
}

/// What came of a revision of a run; null while the run goes on with it.
async fn result_of(world: &World, run_id: &str, number: i32) -> Value {
    let name = json!({ "revision": { "run_id": run_id, "number": number } });
    world.call("RunService/GetRevision", name).await["result"].take()
}

/// A plan that fails: one step completes, one is too slow and not required, one fails for good, and one depends on that.
fn plan_that_fails() -> Value {
    let png =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let look = json!({
        "$log": "saw two bears",
        "$state_patch": { "bears": { "seen": 2, "last": "brown" } },
        "$artifacts": [{ "type": "image", "mime_type": "image/png", "data": png, "name": "bear.png" }],
    });
    let no_retries = json!({ "retry": { "max_retries": 0 }, "timeout_ms": 200, "required": false });
    let one_retry = json!({ "retry": { "max_retries": 1, "backoff_ms": 1 } });
    let broken = json!({ "fail": "BROKEN", "answer": { "$state_patch": { "bears": null } } });
    plan(json!([
        call("look", "script.pure", json!({ "answer": look })),
        with(
            call("slow", "script.idempotent", json!({ "hang": true })),
            no_retries
        ),
        with(call("weigh", "script.world", broken), one_retry),
        with(
            call("tell", "script.pure", json!({})),
            json!({ "depends_on": ["weigh"] })
        ),
    ]))
}

#[tokio::test]
async fn s87_a_revision_says_what_came_of_it_once_another_one_took_its_place_or_the_run_ended() {
    let mut world = World::start().await;
    let guess =
        json!({ "$log": { "guessed": true }, "$state_patch": { "bears": { "last": null, "kg": 300 } } });
    let guess = json!({ "gate": "guess", "answer": guess });
    let works = plan(json!([call("guess", "script.safe", guess)]));
    let plans = json!([{ "answer": { "content": "no plan" } }, plan_that_fails(), works]);
    let run_id = world
        .create(goal(plans, json!({ "limits": { "max_generations": 3 } })))
        .await;
    world.step_in(&run_id, "guess", "running").await;
    assert_eq!(
        result_of(&world, &run_id, 2).await,
        Value::Null,
        "it is not finished"
    );

    let first = result_of(&world, &run_id, 1).await;
    let of = |result: &Value, field: &str| {
        let tools = result["tool_results"].as_array().unwrap();
        Value::from_iter(tools.iter().map(|tool| tool[field].clone()))
    };
    assert_eq!(
        (&first["success"], &first["can_replan"]),
        (&json!(false), &json!(true)),
        "{first:#}"
    );
    assert_eq!(first["failed_tools"], json!(["slow", "weigh"]));
    assert_eq!(
        first["disabled_skills"],
        json!(["script.idempotent", "script.world"])
    );
    assert_eq!(first["attempt_number"], 2, "the generation before made no plan");
    // What failed patches nothing.
    assert_eq!(
        first["aggregated_state"],
        json!({ "bears": { "seen": 2.0, "last": "brown" } })
    );
    assert_eq!(first["assets"][0]["name"], "bear.png");
    assert_eq!(of(&first, "step_key"), json!(["look", "slow", "weigh", "tell"]));
    assert_eq!(
        of(&first, "state"),
        json!(["success", "timeout", "failed", "skipped"])
    );
    assert_eq!(of(&first, "retry_count"), json!([0, 0, 1, 0]));
    assert_eq!(of(&first, "log"), json!([["saw two bears"], [], [], []]));
    assert_eq!(first["error"]["code"], "BROKEN");
    assert_eq!(first["tool_results"][2]["error"]["code"], "BROKEN");
    let ms = |value: &Value| value.as_i64().unwrap();
    let slow_ms = ms(&first["tool_results"][1]["execution_time_ms"]);
    assert!(
        slow_ms >= 200 && ms(&first["execution_time_ms"]) >= slow_ms,
        "{first:#}"
    );
    let events = world.events(&run_id).await;
    let last = events
        .iter()
        .find(|event| event["sequence"] == first["last_sequence"]);
    assert_eq!(last.unwrap()["event_type"], "replan_triggered");

    world.shared.open("guess");
    assert_eq!(world.ended(&run_id).await["state"], "completed");
    let second = result_of(&world, &run_id, 2).await;
    assert_eq!(
        (&second["success"], &second["can_replan"]),
        (&json!(true), &json!(false)),
        "{second:#}"
    );
    assert_eq!(
        (&second["failed_tools"], &second["error"]),
        (&json!([]), &Value::Null)
    );
    assert_eq!(second["disabled_skills"], first["disabled_skills"]);
    assert_eq!(second["attempt_number"], 3);
    assert_eq!(
        second["aggregated_state"],
        json!({ "bears": { "seen": 2.0, "kg": 300.0 } })
    );
    assert_eq!(
        (of(&second, "state"), of(&second, "log")),
        (json!(["success"]), json!([[{ "guessed": true }]]))
    );

    let used_up = goal(
        json!([plan_that_fails()]),
        json!({ "limits": { "max_generations": 1 } }),
    );
    let other = world.create(used_up).await;
    assert_eq!(world.ended(&other).await["state"], "failed");
    let only = result_of(&world, &other, 1).await;
    assert_eq!(
        (&only["success"], &only["can_replan"]),
        (&json!(false), &json!(false)),
        "{only:#}"
    );
    assert_eq!(
        (&only["failed_tools"], &only["attempt_number"]),
        (&json!(["slow", "weigh"]), &json!(1))
    );

    world.crash().await;
    assert_eq!(result_of(&world, &run_id, 1).await, first);
    assert_eq!(result_of(&world, &run_id, 2).await, second);
    world.close().await;
}

#[tokio::test]
async fn s21_what_is_independent_of_a_failure_ends_before_the_run_is_planned_anew() {
    let world = World::start().await;
    let broken = json!({ "fail": "BROKEN", "fatal": true });
    let after = |key: &str, on: &str| {
        let step = call(key, "script.pure", json!({}));
        with(step, json!({ "depends_on": [on] }))
    };
    let fails = plan(json!([
        call("a", "script.world", broken),
        after("b", "a"),
        after("c", "b"),
        call("d", "script.pure", json!({ "gate": "slow" })),
    ]));
    let works = plan(json!([call("e", "script.pure", json!({}))]));
    let request = goal(json!([fails, works]), json!({ "preset": "execution" }));
    let run_id = world.create(request).await;
    world.step_in(&run_id, "d", "running").await;
    let steps = world.steps(&run_id).await;
    assert_eq!(steps["a"]["error"]["code"], "BROKEN");
    for skipped in ["b", "c"] {
        assert_eq!(
            (&steps[skipped]["state"], &steps[skipped]["reason"]),
            (&json!("skipped"), &json!("dependency_failed")),
            "{steps:#?}"
        );
    }
    assert_eq!(asked(&world, &run_id).len(), 1, "what is in flight ends first");

    world.shared.open("slow");
    assert_eq!(world.ended(&run_id).await["state"], "completed");
    let called = world.called(&run_id);
    assert_eq!(
        called
            .iter()
            .filter(|key| !key.starts_with('$'))
            .collect::<Vec<_>>(),
        ["a", "d", "e"]
    );
    let first = result_of(&world, &run_id, 1).await;
    assert_eq!(
        (&first["success"], &first["can_replan"], &first["failed_tools"]),
        (&json!(false), &json!(true), &json!(["a"])),
        "{first:#}"
    );
    let states = first["tool_results"].as_array().unwrap();
    let states: Vec<_> = states.iter().map(|tool| &tool["state"]).collect();
    assert_eq!(states, ["failed", "skipped", "skipped", "success"]);
    let again = &asked(&world, &run_id)[1];
    assert_eq!(again["disabled_actions"], json!(["script.world"]));
    world.close().await;
}

#[tokio::test]
async fn s28_a_planner_that_answers_no_plan_is_told_each_path_and_nothing_runs() {
    let world = World::start().await;
    let on = |key: &str, more: Value| with(call(key, "script.pure", json!({})), more);
    let cases = [
        (
            json!([on("a", json!({ "depends_on": ["a"] }))]),
            "CYCLIC_DEPENDENCY",
        ),
        (
            json!([
                on("a", json!({ "depends_on": ["b"] })),
                on("b", json!({ "depends_on": ["a"] }))
            ]),
            "CYCLIC_DEPENDENCY",
        ),
        (
            json!([
                on("a", json!({ "depends_on": ["c"] })),
                on("b", json!({ "depends_on": ["a"] })),
                on("c", json!({ "depends_on": ["b"] }))
            ]),
            "CYCLIC_DEPENDENCY",
        ),
        (
            json!([on("a", json!({ "depends_on": ["nobody"] }))]),
            "UNKNOWN_REFERENCE",
        ),
        (
            json!([on("a", json!({})), on("b", json!({ "on_success": "a" }))]),
            "BACKWARD_JUMP",
        ),
        (json!([on("a", json!({})), on("a", json!({}))]), "DUPLICATE_KEY"),
    ];
    for (steps, code) in cases {
        let none = plan(steps);
        let plans = json!([none, { "answer": { "content": "no plan" } }]);
        let request = goal(plans, json!({ "limits": { "max_generations": 2 } }));
        let run_id = world.create(request).await;
        let run = world.ended(&run_id).await;
        assert_eq!(
            (&run["state"], &run["error_type"]),
            (&json!("failed"), &json!("PLANNING_ERROR")),
            "{run:#}"
        );
        let called = world.called(&run_id);
        assert!(called.iter().all(|key| key == "$planner"), "{called:?}");
        let asked = asked(&world, &run_id);
        assert_eq!(asked.len(), 2);
        let told = asked[1]["previous"][0]["violations"].as_array().unwrap();
        let is_told = told
            .iter()
            .any(|part| part["code"] == code && part["path"].as_str().unwrap().starts_with("steps["));
        assert!(is_told, "{code}: {told:#?}");
    }
    world.close().await;
}

#[tokio::test]
async fn s92_one_plan_is_found_in_whatever_a_planner_writes_around_it() {
    let world = World::start().await;
    let works = document(json!([call("a", "script.pure", json!({}))])).to_string();
    let unknown = with(document(json!([])), json!({ "autonomy_level": 4 })).to_string();
    let fenced = format!("Here it is:\n```json\n{works}\n```\nGood luck.");
    let twice = format!("{works} or {works}");
    let cases = [
        (works.as_str(), None),
        (fenced.as_str(), None),
        (twice.as_str(), Some("TWO_OBJECTS")),
        (unknown.as_str(), Some("UNKNOWN_FIELD")),
        ("{\"schema\": \"escapement.plan/1\", ", Some("BROKEN_JSON")),
        ("I cannot.", Some("NO_OBJECT")),
    ];
    for (content, refused) in cases {
        let plans = json!([{ "answer": { "content": content } }, { "answer": { "content": works } }]);
        let run_id = world.create(goal(plans, json!({}))).await;
        let run = world.ended(&run_id).await;
        assert_eq!(run["state"], "completed", "{content}: {run:#}");
        let asked = asked(&world, &run_id);
        assert_eq!(asked[0]["goal"], "Weigh the bears");
        assert_eq!(asked.len(), 1 + usize::from(refused.is_some()), "{content}");
        if let Some(code) = refused {
            let told = &asked[1]["previous"][0]["violations"][0];
            assert_eq!(told["code"], code, "{content}: {told}");
        }
    }
    world.close().await;
}
