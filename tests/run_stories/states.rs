//! The words for how a run and its steps stand.

use crate::plan_words::{call, document, question, with};
use crate::world::{UNDER_WAY_FLAG, World};
use serde_json::{Value, json};
use tonic::Code;

#[tokio::test]
async fn s90_each_state_of_a_step_is_seen() {
    let world = World::start().await;
    let overlapping = |step: Value| with(step, json!({ "async": true }));
    let steps = json!([
        with(
            overlapping(call(
                "failed",
                "script.pure",
                json!({ "fail": "BROKEN", "fatal": true })
            )),
            json!({ "on_failure": "skip", "metadata": { "note": "mine" } })
        ),
        with(
            overlapping(call("skipped", "script.pure", json!({}))),
            json!({ "depends_on": ["failed"], "on_dependency_failure": "skip" })
        ),
        with(
            overlapping(call("blocked", "script.pure", json!({}))),
            json!({ "depends_on": ["failed"], "on_dependency_failure": "block" })
        ),
        with(
            overlapping(call(
                "completed",
                "script.pure",
                json!({ "each": [{ "fail": "SHAKY" }, { "answer": { "n": 1 } }] })
            )),
            json!({ "retry": { "max_retries": 2, "backoff_ms": 1 } })
        ),
        overlapping(call("running", "script.pure", json!({ "gate": "run" }))),
        overlapping(question("waiting")),
        with(
            overlapping(call("pending", "script.pure", json!({}))),
            json!({ "depends_on": ["waiting"] })
        ),
    ]);
    let plan = with(document(steps), json!({ "parallel": true }));
    let run_id = world
        .create(json!({ "document": plan, "limits": { "max_concurrency": 8 } }))
        .await;
    world.step_in(&run_id, "completed", "completed").await;
    world.step_in(&run_id, "running", "running").await;
    let asked = world.open_request(&run_id).await;
    let steps = world.steps(&run_id).await;
    for key in ["failed", "skipped", "completed", "running", "waiting", "pending"] {
        assert_eq!(steps[key]["state"], key, "{:#}", steps[key]);
    }
    assert_eq!(steps["skipped"]["reason"], "dependency_failed");
    assert_eq!(steps["failed"]["error"]["code"], "BROKEN");
    assert_eq!(steps["failed"]["spec"]["metadata"], json!({ "note": "mine" }));
    let completed = world.step(&run_id, "completed").await;
    assert_eq!(
        (&completed["retry_count"], &completed["max_retries"]),
        (&json!(1), &json!(2))
    );
    assert_eq!(completed["attempts"].as_array().unwrap().len(), 2);
    let (started, ended) = (
        completed["started_at"].as_i64().unwrap(),
        completed["completed_at"].as_i64().unwrap(),
    );
    assert!(started <= ended && completed["duration_ms"] == ended - started);
    assert_eq!(
        completed["result_view"],
        json!({ "type": "tool_call", "tool_name": "script.pure", "result": { "n": 1.0 } })
    );
    // Nothing else goes on any more: what can never run is blocked, and that is the end.
    world.shared.open("run");
    world.respond(&asked, json!({ "text": "on" })).await.unwrap();
    let run = world.ended(&run_id).await;
    assert_eq!(
        (&run["state"], &run["error"]["code"]),
        (&json!("failed"), &json!("DEADLOCK"))
    );
    assert_eq!(
        run["error"]["message"],
        "Dependency deadlock: all pending steps have unmet dependencies"
    );
    assert_eq!(world.steps(&run_id).await["blocked"]["state"], "blocked");
    world.close().await;
}

#[tokio::test]
async fn s93_each_state_has_its_word_and_times_are_set_once() {
    let world = World::start().await;
    let expect = |run: &Value, state: &str, word: &str| {
        assert_eq!(
            (&run["state"], &run["plan_status"]),
            (&json!(state), &json!(word)),
            "{run:#}"
        );
        let has_ended = crate::world::ENDS.contains(&state);
        assert_eq!(run["completed_at"].is_i64(), has_ended, "{run:#}");
    };
    let run_id = world
        .run(json!([
            call(
                "a",
                "script.pure",
                json!({ "gate": "a", "answer": { "$pause": true } })
            ),
            question("q")
        ]))
        .await;
    world.called_times(&run_id, "a", 1).await;
    let run = world.get(&run_id).await;
    expect(&run, "running", "running");
    let started_at = run["started_at"].clone();
    world
        .call("RunService/PauseRun", json!({ "run_id": run_id }))
        .await;
    expect(&world.get(&run_id).await, "pausing", "paused");
    let refusal = world
        .refusal("RunService/PauseRun", json!({ "run_id": run_id }))
        .await;
    assert_eq!(refusal.is(), (Code::FailedPrecondition, "ALREADY_PAUSED"));
    world
        .call("RunService/ResumeRun", json!({ "run_id": run_id }))
        .await;
    world.shared.open("a");
    // The handler's own `$pause`.
    expect(&world.in_state(&run_id, "paused").await, "paused", "paused");
    world
        .call("RunService/ResumeRun", json!({ "run_id": run_id }))
        .await;
    expect(&world.in_state(&run_id, "waiting").await, "waiting", "paused");
    let refusal = world
        .refusal("RunService/ResumeRun", json!({ "run_id": run_id }))
        .await;
    assert_eq!(refusal.is(), (Code::FailedPrecondition, "NOT_PAUSED"));
    let request = world.open_request(&run_id).await;
    world.respond(&request, json!({ "text": "on" })).await.unwrap();
    let run = world.ended(&run_id).await;
    expect(&run, "completed", "completed");
    assert_eq!(run["started_at"], started_at);

    let failing = with(
        call("a", "script.pure", json!({ "fail": "BROKEN", "fatal": true })),
        json!({}),
    );
    expect(&world.ended_run(json!([failing])).await, "failed", "failed");
    let hanging = json!([call("a", "script.pure", json!({ "hang": true }))]);
    let request = json!({ "document": document(hanging.clone()), "limits": { "run_ms": 150 } });
    expect(
        &world.ended(&world.create(request).await).await,
        "timeout",
        "failed",
    );
    let run_id = world.run(hanging).await;
    world.called_times(&run_id, "a", 1).await;
    let cancelled = world
        .call(
            "RunService/CancelRun",
            json!({ "run_id": run_id, "reason": "enough" }),
        )
        .await;
    expect(&cancelled["run"], "cancelled", "cancelled");
    assert_eq!(
        cancelled["run"]["orphans"].as_array().unwrap().len(),
        1,
        "what is in flight is named"
    );
    let again = world
        .call("RunService/CancelRun", json!({ "run_id": run_id }))
        .await;
    assert_eq!(again["run"]["completed_at"], cancelled["run"]["completed_at"]);
    world.close().await;
}

#[tokio::test]
async fn s93_a_queued_run_is_pending_and_can_be_cancelled() {
    let world = World::start_with(|settings| settings.flag(UNDER_WAY_FLAG, 1)).await;
    let hanging = json!([call("a", "script.pure", json!({ "hang": true }))]);
    let first = world.run(hanging.clone()).await;
    world.called_times(&first, "a", 1).await;
    let second = world.run(hanging).await;
    let run = world.get(&second).await;
    assert_eq!(
        (&run["state"], &run["plan_status"], &run["started_at"]),
        (&json!("queued"), &json!("pending"), &Value::Null)
    );
    world
        .call("RunService/CancelRun", json!({ "run_id": second }))
        .await;
    let run = world.get(&second).await;
    assert_eq!(
        (&run["state"], &run["started_at"]),
        (&json!("cancelled"), &Value::Null)
    );
    assert!(world.called(&second).is_empty());
    world
        .call("RunService/CancelRun", json!({ "run_id": first }))
        .await;
    world.close().await;
}
