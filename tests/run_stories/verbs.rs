//! What callers and operators do to a run, and the words for how it stands.

use crate::children::saved;
use crate::plan_words::{call, document, question, text, with};
use crate::world::World;
use serde_json::{Value, json};
use tonic::Code;

const NOBODY: &str = "0b9e7a34-51c2-4d8e-8f60-1a2b3c4d5e01";

#[tokio::test]
async fn s8_a_discard_releases_who_waits_and_each_mistake_has_its_error() {
    let world = World::start().await;
    let run_id = world
        .run(json!([question("q"), call("a", "script.pure", json!({}))]))
        .await;
    world.open_request(&run_id).await;
    let running = world
        .run(json!([call("a", "script.pure", json!({ "hang": true }))]))
        .await;
    world.called_times(&running, "a", 1).await;
    let over = world.run(json!([])).await;
    world.ended(&over).await;
    let live = world.all_runs(json!({ "live": true })).await;
    let mut live: Vec<_> = live.iter().map(|run| (&run["run_id"], &run["state"])).collect();
    live.sort_by_key(|(_, state)| state.as_str());
    let expected = [
        (json!(running), json!("running")),
        (json!(run_id), json!("waiting")),
    ];
    assert_eq!(live, expected.each_ref().map(|(run_id, state)| (run_id, state)));
    world
        .call("RunService/CancelRun", json!({ "run_id": running }))
        .await;
    let waiting = tokio::spawn(waiting_for(world.orchestrator.channel(), run_id.clone()));
    let unknown = world
        .refusal(
            "RunService/RewindRun",
            json!({ "run_id": run_id, "step_key": "nobody" }),
        )
        .await;
    assert_eq!(unknown.is(), (Code::InvalidArgument, "UNKNOWN_STEP"));
    assert!(
        unknown.message.contains("must be one of q, a"),
        "lists the keys: {unknown:?}"
    );
    world
        .call("RunService/DiscardRun", json!({ "run_id": run_id }))
        .await;
    let run = waiting.await.unwrap();
    assert_eq!(
        (&run["state"], &run["reason"]),
        (&json!("cancelled"), &json!("discarded"))
    );
    let ended = world
        .refusal(
            "RunService/RewindRun",
            json!({ "run_id": run_id, "step_key": "q" }),
        )
        .await;
    assert_eq!(ended.is(), (Code::FailedPrecondition, "RUN_ENDED"));
    let nobody = world
        .refusal(
            "RunService/RewindRun",
            json!({ "run_id": NOBODY, "step_key": "q" }),
        )
        .await;
    assert_eq!(nobody.is(), (Code::NotFound, "RUN_NOT_FOUND"));
    let wrong = world
        .refusal("RunService/DiscardRun", json!({ "run_id": "no id" }))
        .await;
    assert_eq!(wrong.code, Code::InvalidArgument);
    assert_eq!(wrong.paths()[0].0, "run_id");
    assert!(world.all_runs(json!({ "live": true })).await.is_empty());
    world.close().await;
}

async fn waiting_for(channel: tonic::transport::Channel, run_id: String) -> Value {
    let request = json!({ "run_id": run_id, "timeout_ms": 20_000 });
    crate::api::call(channel, "RunService/WaitRun", &request)
        .await
        .unwrap()["run"]
        .take()
}

#[tokio::test]
async fn s60_a_checkpoint_keeps_its_data_and_has_a_limit() {
    let world = World::start().await;
    let steps = json!([
        call("a", "script.pure", json!({})),
        question("q"),
        call("b", "script.pure", json!({}))
    ]);
    let run_id = world.run(steps).await;
    world.open_request(&run_id).await;
    let none = world
        .refusal(
            "RunService/RollbackRun",
            json!({ "run_id": run_id, "mode": "restore" }),
        )
        .await;
    assert_eq!(none.is(), (Code::FailedPrecondition, "NO_CHECKPOINT"));
    let data = json!({ "note": "before the question", "n": [1, 2] });
    let made = world
        .call(
            "RunService/CreateCheckpoint",
            json!({ "run_id": run_id, "data": data }),
        )
        .await;
    let checkpoint = &made["checkpoint"];
    assert_eq!(
        (&checkpoint["number"], &checkpoint["completed_steps"]),
        (&json!(1), &json!(["a"]))
    );
    assert_eq!(
        checkpoint["data"],
        json!({ "note": "before the question", "n": [1.0, 2.0] })
    );
    let run = world.get(&run_id).await;
    assert!(checkpoint["at"].as_i64().unwrap() >= run["created_at"].as_i64().unwrap());
    let listed = world
        .call("RunService/ListCheckpoints", json!({ "run_id": run_id }))
        .await;
    assert_eq!(listed["checkpoints"], json!([checkpoint]));
    assert!(
        world
            .event_names(&run_id)
            .await
            .contains(&"checkpoint_created".to_owned())
    );

    let large = json!({ "run_id": run_id, "data": { "t": "x".repeat(512_000) } });
    let refusal = world.refusal("RunService/CreateCheckpoint", large).await;
    assert_eq!(refusal.is(), (Code::InvalidArgument, "DATA_TOO_LARGE"));
    let fits = json!({ "run_id": run_id, "data": { "t": "x".repeat(511_900) } });
    world.call("RunService/CreateCheckpoint", fits).await;

    // Back to it: what had completed stays.
    let back = json!({ "run_id": run_id, "mode": "restore", "checkpoint": 1 });
    let back = world.call("RunService/RollbackRun", back).await;
    assert_eq!(back["checkpoint"]["data"], checkpoint["data"]);
    let events = world.events(&run_id).await;
    let event = events
        .iter()
        .find(|event| event["event_type"] == "run_rolled_back")
        .unwrap();
    assert_eq!(event["data"]["data"], checkpoint["data"]);
    assert_eq!(back["run"]["state"], "paused");
    assert_eq!(world.steps(&run_id).await["a"]["state"], "completed");
    // And to the beginning.
    world
        .call(
            "RunService/RollbackRun",
            json!({ "run_id": run_id, "mode": "reset" }),
        )
        .await;
    assert_eq!(world.steps(&run_id).await["a"]["state"], "pending");
    world
        .call("RunService/ResumeRun", json!({ "run_id": run_id }))
        .await;
    let request = world.open_request(&run_id).await;
    world.respond(&request, json!({ "text": "on" })).await.unwrap();
    assert_eq!(world.ended(&run_id).await["state"], "completed");
    assert_eq!(world.called(&run_id), ["a", "a", "b"]);
    world.close().await;
}

#[tokio::test]
async fn s60_a_run_that_has_ended_is_rolled_back_by_another_one_that_waits() {
    let world = World::start().await;
    let steps = json!([
        call("a", "script.effect", json!({})),
        question("q"),
        call("b", "script.effect", json!({}))
    ]);
    let run_id = world.run(steps).await;
    let request = world.open_request(&run_id).await;
    let checkpoint = json!({ "run_id": run_id, "data": { "at": "q" } });
    world.call("RunService/CreateCheckpoint", checkpoint).await;
    world.respond(&request, json!({ "text": "on" })).await.unwrap();
    world.ended(&run_id).await;
    let ended = world.get(&run_id).await;
    let unasked = json!({ "run_id": run_id, "mode": "restore", "request_id": "once" });
    let refusal = world.refusal("RunService/RollbackRun", unasked.clone()).await;
    assert_eq!(refusal.is(), (Code::FailedPrecondition, "EFFECTS_WOULD_REPEAT"));
    let back = with(unasked, json!({ "allow_repeat_effects": true }));
    let answer = world.call("RunService/RollbackRun", back.clone()).await;
    assert_eq!(answer["checkpoint"]["data"], json!({ "at": "q" }));
    let fork = text(&answer["run"]["run_id"]);
    let again = world.call("RunService/RollbackRun", back).await;
    assert_eq!(again["run"]["run_id"], json!(fork), "the same request makes one");
    let waits = world.get(&fork).await;
    assert_eq!(
        (
            &waits["forked_from"],
            &waits["plan_status"],
            &waits["completed_steps"]
        ),
        (&json!(run_id), &json!("pending"), &json!(1))
    );
    assert_eq!(world.get(&run_id).await, ended, "the other one stays as it is");
    world
        .call("RunService/ResumeRun", json!({ "run_id": fork }))
        .await;
    let request = world.open_request(&fork).await;
    world.respond(&request, json!({ "text": "again" })).await.unwrap();
    assert_eq!(world.ended(&fork).await["state"], "completed");
    assert_eq!(world.called(&fork), ["b"]);

    let reset = json!({ "run_id": run_id, "mode": "reset", "allow_repeat_effects": true });
    let answer = world.call("RunService/RollbackRun", reset).await;
    assert_eq!(answer["run"]["completed_steps"], 0);
    let stale = json!({ "run_id": run_id, "mode": "reset", "etag": "1" });
    let refusal = world.refusal("RunService/RollbackRun", stale).await;
    assert_eq!(refusal.is(), (Code::Aborted, "ETAG_MISMATCH"));
    let other = world.ended_run(json!([])).await;
    let none = json!({ "run_id": other["run_id"], "mode": "reset" });
    let refusal = world.refusal("RunService/RollbackRun", none).await;
    assert_eq!(refusal.is(), (Code::FailedPrecondition, "NO_CHECKPOINT"));
    world.close().await;
}

#[tokio::test]
async fn s62_forks_and_retries_keep_completed_work() {
    let world = World::start().await;
    let failing = with(
        call("bad", "script.pure", json!({ "fail": "BROKEN", "fatal": true })),
        json!({ "depends_on": ["good"] }),
    );
    let steps = json!([
        call("good", "script.effect", json!({ "answer": { "n": 1 } })),
        failing
    ]);
    let first = world
        .create(json!({ "document": document(steps), "limits": { "max_retries": 3 } }))
        .await;
    world.ended(&first).await;
    let refusal = world
        .refusal(
            "RunService/ForkRun",
            json!({ "run_id": first, "from_step": "nobody" }),
        )
        .await;
    assert_eq!(refusal.is(), (Code::InvalidArgument, "UNKNOWN_STEP"));
    let fork = world
        .call(
            "RunService/ForkRun",
            json!({ "run_id": first, "from_step": "bad" }),
        )
        .await;
    let fork = text(&fork["run"]["run_id"]);
    let run = world.ended(&fork).await;
    assert_eq!(
        (&run["forked_from"], &run["state"]),
        (&json!(first), &json!("failed"))
    );
    assert_eq!(
        world.called(&fork),
        ["bad"],
        "what had completed is not called again"
    );
    assert_eq!(world.result(&fork, "good").await, json!({ "n": 1.0 }));
    let names = world.event_names(&fork).await;
    assert!(names.contains(&"step_memoized".to_owned()), "{names:?}");

    let mut last = first.clone();
    for n in 1..=3 {
        let retried = world.call("RunService/RetryRun", json!({ "run_id": last })).await["run"].take();
        assert_eq!(
            (&retried["forked_from"], &retried["retry_count"]),
            (&json!(last), &json!(n))
        );
        assert_eq!(retried["chain_id"], world.get(&first).await["chain_id"]);
        last = text(&retried["run_id"]);
        world.ended(&last).await;
        assert_eq!(world.called(&last), ["bad"]);
    }
    let refusal = world
        .refusal("RunService/RetryRun", json!({ "run_id": last }))
        .await;
    assert_eq!(refusal.is(), (Code::FailedPrecondition, "RETRIES_USED_UP"));
    let failing = call("bad", "script.pure", json!({ "fail": "BROKEN", "fatal": true }));
    let plan = saved(&world, json!([failing])).await;
    let first_of_plan = world.create(json!({ "plan_id": plan })).await;
    world.ended(&first_of_plan).await;
    world
        .call("RunService/RetryRun", json!({ "run_id": first_of_plan }))
        .await;
    let listed = world.call("PlanService/ListPlans", json!({})).await["plans"][0].take();
    assert_eq!(
        (&listed["plan_id"], &listed["retry_count"]),
        (&json!(plan), &json!(1))
    );
    let done = text(
        &world
            .ended_run(json!([call("a", "script.pure", json!({}))]))
            .await["run_id"],
    );
    let refusal = world
        .refusal("RunService/RetryRun", json!({ "run_id": done }))
        .await;
    assert_eq!(refusal.is(), (Code::FailedPrecondition, "NOT_FAILED"));
    assert_eq!(
        world.get(&first).await["state"],
        "failed",
        "the origin stays as it is"
    );
    world.close().await;
}

#[tokio::test]
async fn s90_an_operator_puts_a_word_in_the_place_of_a_result() {
    let world = World::start().await;
    let steps = json!([
        question("q"),
        call("a", "script.pure", json!({})),
        with(
            call("b", "script.pure", json!({})),
            json!({ "on_failure": "skip" })
        ),
        call("c", "script.pure", json!({ "answer": { "was": "${a:/said}" } })),
    ]);
    let run_id = world.run(steps).await;
    let request = world.open_request(&run_id).await;
    world
        .call("RunService/PauseRun", json!({ "run_id": run_id }))
        .await;
    let word = |key: &str, word: Value| {
        with(
            word,
            json!({ "run_id": run_id, "step_key": key, "reason": "by hand" }),
        )
    };
    world
        .call(
            "RunService/OverrideStep",
            word("a", json!({ "complete": { "output": { "said": "operator" } } })),
        )
        .await;
    world
        .call(
            "RunService/OverrideStep",
            word("b", json!({ "fail": { "code": "BY_HAND", "message": "no" } })),
        )
        .await;
    let settled = world
        .refusal("RunService/OverrideStep", word("a", json!({ "skip": {} })))
        .await;
    assert_eq!(settled.is(), (Code::FailedPrecondition, "STEP_SETTLED"));
    world.respond(&request, json!({ "text": "on" })).await.unwrap();
    world
        .call("RunService/ResumeRun", json!({ "run_id": run_id }))
        .await;
    let run = world.ended(&run_id).await;
    assert_eq!(
        (&run["outcome"], &run["output"]),
        (&json!("partial"), &json!({ "was": "operator" }))
    );
    assert_eq!(world.called(&run_id), ["c"]);
    let events = world.events(&run_id).await;
    let audited = events
        .iter()
        .any(|event| event["step_key"] == "a" && event["data"].to_string().contains("by hand"));
    assert!(audited, "the reason is in the journal: {events:#?}");

    let hanging = world
        .run(json!([call("slow", "script.pure", json!({ "hang": true }))]))
        .await;
    world.called_times(&hanging, "slow", 1).await;
    let running = json!({ "run_id": hanging, "step_key": "slow", "reason": "by hand", "skip": {} });
    let refusal = world.refusal("RunService/OverrideStep", running).await;
    assert_eq!(refusal.is(), (Code::FailedPrecondition, "NOT_PAUSED"));
    world
        .call("RunService/CancelRun", json!({ "run_id": hanging }))
        .await;
    world.close().await;
}
