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
