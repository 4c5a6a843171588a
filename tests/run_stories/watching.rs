//! Who follows a run sees each of its events once and in order, whenever they come and whatever breaks.

use crate::api::Answers;
use crate::plan_words::{call, document, question, text, with};
use crate::world::{LIMIT, World};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::timeout;
use tonic::Code;

/// The sequence numbers up to the end of a stream, or up to a sequence number.
async fn sequences(answers: &mut Answers, last: i64) -> Vec<i64> {
    let mut seen = Vec::new();
    while seen.last() != Some(&last) {
        let answer = timeout(LIMIT, answers.next())
            .await
            .expect("an event comes in time");
        match answer {
            Ok(Some(answer)) if answer["event"].is_object() => {
                seen.push(answer["event"]["sequence"].as_i64().unwrap())
            }
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => break,
        }
    }
    seen
}

#[tokio::test]
async fn s13_a_late_watcher_gets_everything() {
    let world = World::start().await;
    let run = world
        .ended_run(json!([
            call("a", "script.pure", json!({})),
            call("b", "script.pure", json!({}))
        ]))
        .await;
    let last = run["last_sequence"].as_i64().unwrap();
    let mut answers = world
        .stream("RunService/WatchRun", json!({ "run_id": run["run_id"] }))
        .await;
    let mut events = Vec::new();
    while let Some(mut answer) = timeout(LIMIT, answers.next())
        .await
        .expect("the stream ends")
        .unwrap()
    {
        events.push(answer["event"].take());
    }
    let seen: Vec<i64> = events
        .iter()
        .map(|event| event["sequence"].as_i64().unwrap())
        .collect();
    assert_eq!(seen, (1..=last).collect::<Vec<i64>>());
    assert_eq!(events.last().unwrap()["event_type"], "run_completed");
    assert_eq!(
        events,
        world.events(&text(&run["run_id"])).await,
        "the list shows the same"
    );
    world.close().await;
}

#[tokio::test]
async fn s14_watchers_see_the_same_gapless_sequence_over_two_kills() {
    let mut world = World::start().await;
    let steps = json!([
        call("a", "script.pure", json!({ "gate": "a" })),
        call("b", "script.pure", json!({ "gate": "b" })),
        call("c", "script.pure", json!({ "gate": "c" })),
    ]);
    let run_id = world.run(steps).await;
    let mut seen: Vec<Vec<i64>> = vec![Vec::new(); 3];
    for step in ["a", "b"] {
        world.step_in(&run_id, step, "running").await;
        let last = world.get(&run_id).await["last_sequence"].as_i64().unwrap();
        // Each of them begins where it stopped, at places of its own.
        for (n, seen) in (0..).zip(&mut seen) {
            let up_to = (last - n).max(1);
            let from = seen.last().copied().unwrap_or(0) + 1;
            if up_to >= from {
                let request = json!({ "run_id": run_id, "from_sequence": from });
                let mut answers = world.stream("RunService/WatchRun", request).await;
                seen.extend(sequences(&mut answers, up_to).await);
            }
        }
        world.crash().await;
        world.shared.open(step);
    }
    world.shared.open("c");
    let run = world.ended(&run_id).await;
    let last = run["last_sequence"].as_i64().unwrap();
    for seen in &mut seen {
        let request = json!({ "run_id": run_id, "from_sequence": seen.last().unwrap() + 1 });
        let mut answers = world.stream("RunService/WatchRun", request).await;
        seen.extend(sequences(&mut answers, last).await);
        assert_eq!(*seen, (1..=last).collect::<Vec<i64>>());
    }
    assert_eq!(
        world
            .event_names(&run_id)
            .await
            .iter()
            .filter(|name| *name == "run_recovered")
            .count(),
        2
    );
    world.close().await;
}

#[tokio::test]
async fn s14_an_idle_stream_gets_a_heartbeat_with_the_last_sequence() {
    let world = World::start().await;
    let run_id = world.run(json!([question("q")])).await;
    world.open_request(&run_id).await;
    let last = world.get(&run_id).await["last_sequence"].clone();
    let behind = json!({ "run_id": run_id, "from_sequence": last.as_i64().unwrap() + 1 });
    let mut answers = world.stream("RunService/WatchRun", behind).await;
    let answer = timeout(Duration::from_secs(17), answers.next())
        .await
        .expect("within 15 s")
        .unwrap()
        .unwrap();
    assert_eq!(answer["heartbeat"]["last_sequence"], last, "{answer}");
    drop(answers);
    world
        .call("RunService/CancelRun", json!({ "run_id": run_id }))
        .await;
    world.close().await;
}

#[tokio::test]
async fn s91_each_event_says_where_it_belongs_and_all_are_in_the_promised_order() {
    let world = World::start().await;
    let steps = json!([
        with(
            call("flaky", "script.pure", json!({ "each": [{ "fail": "SHAKY" }, { "answer": { "n": 1 } }] })),
            json!({ "retry": { "max_retries": 1, "backoff_ms": 1 } }),
        ),
        question("colour"),
        { "key": "fork", "type": "condition", "config": { "condition": "true", "true_step": "good", "false_step": "bad" } },
        call("bad", "script.pure", json!({})),
        call("good", "script.pure", json!({})),
        with(
            call("optional", "script.pure", json!({ "fail": "BROKEN", "fatal": true })),
            json!({ "on_failure": "skip" }),
        ),
        call("guarded", "script.danger", json!({})),
    ]);
    let run_id = world
        .create(json!({ "document": document(steps), "autonomy_level": 3 }))
        .await;
    let asked = world.open_request(&run_id).await;
    world
        .call(
            "RunService/CreateCheckpoint",
            json!({ "run_id": run_id, "data": { "mark": 1 } }),
        )
        .await;
    world
        .call("RunService/PauseRun", json!({ "run_id": run_id }))
        .await;
    world
        .call("RunService/ResumeRun", json!({ "run_id": run_id }))
        .await;
    world.respond(&asked, json!({ "text": "red" })).await.unwrap();
    let approval = world
        .until(&run_id, "the approval", |run| {
            run["open_requests"][0]["kind"] == "approval"
        })
        .await;
    world
        .respond(
            &approval["open_requests"][0],
            json!({ "approval": { "approve": {} } }),
        )
        .await
        .unwrap();
    let run = world.ended(&run_id).await;
    assert_eq!(run["outcome"], "partial");

    let events = world.events(&run_id).await;
    let names: Vec<&str> = events
        .iter()
        .map(|event| event["event_type"].as_str().unwrap())
        .collect();
    for name in [
        "run_created",
        "plan_created",
        "run_started",
        "step_started",
        "tool_called",
        "tool_output",
        "step_retrying",
        "step_completed",
        "step_failed",
        "step_skipped",
        "input_requested",
        "input_received",
        "approval_requested",
        "approval_resolved",
        "run_paused",
        "run_resumed",
        "checkpoint_created",
        "run_completed",
    ] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    for (n, event) in (1_i64..).zip(&events) {
        assert_eq!(event["sequence"], n);
        assert_eq!(event["run_id"], run_id.as_str());
        assert_eq!(event["event_id"], format!("{run_id}/{n}"));
        assert!(event["at"].as_i64().unwrap() >= run["created_at"].as_i64().unwrap());
        let name = text(&event["event_type"]);
        if name.starts_with("step_") || name.starts_with("tool_") {
            assert!(
                event["step_index"].is_i64() && !text(&event["step_key"]).is_empty(),
                "{event}"
            );
        }
        if name == "tool_called" {
            assert!(text(&event["tool_name"]).starts_with("script."), "{event}");
        }
    }
    let aliases = |name: &str| {
        let event = events.iter().find(|event| event["event_type"] == name).unwrap();
        event["alias"].clone()
    };
    assert_eq!(
        aliases("run_started"),
        json!(["plan:started", "started", "plan_started"])
    );
    assert_eq!(
        aliases("step_completed"),
        json!(["step:completed", "plan_step_completed"])
    );
    assert_eq!(aliases("approval_requested"), json!(["approval:required"]));
    assert_eq!(
        aliases("run_completed"),
        json!(["plan:completed", "completed", "plan_completed"])
    );

    // Filters take names and aliases.
    let request = json!({"run_id": run_id, "ascending": true, "event_types": ["plan_step_completed"], "page_size": 1000});
    let filtered = world.call("RunService/ListRunEvents", request).await;
    let filtered = filtered["events"].as_array().unwrap();
    assert!(
        filtered.len() > 3
            && filtered
                .iter()
                .all(|event| event["event_type"] == "step_completed")
    );

    assert_eq!(names[..3], ["run_created", "plan_created", "run_started"]);
    let of = |step: &str| -> Vec<&str> {
        let mine = events.iter().filter(|event| event["step_key"] == step);
        mine.map(|event| event["event_type"].as_str().unwrap()).collect()
    };
    let calls = |names: Vec<&'static str>| names;
    let flaky = of("flaky");
    let order = calls(vec![
        "step_started",
        "tool_called",
        "tool_output",
        "step_retrying",
        "tool_called",
        "tool_output",
        "step_completed",
    ]);
    let mut rest = flaky.iter();
    assert!(order.iter().all(|name| rest.any(|one| one == name)), "{flaky:?}");
    let ends = ["run_completed", "run_failed", "run_cancelled"];
    let at: Vec<usize> = (0..names.len()).filter(|n| ends.contains(&names[*n])).collect();
    assert_eq!(at, [names.len() - 1], "one end, and it is the last");
    world.close().await;
}

#[tokio::test]
async fn s91_a_timeout_is_told_before_the_failure_that_it_is() {
    let world = World::start().await;
    let steps = json!([call("slow", "script.pure", json!({ "hang": true }))]);
    let run_id = world
        .create(json!({ "document": document(steps), "limits": { "run_ms": 200 } }))
        .await;
    world.ended(&run_id).await;
    let names = world.event_names(&run_id).await;
    assert_eq!(names[names.len() - 2..], ["timeout_error", "run_failed"]);
    let events: Vec<Value> = world.events(&run_id).await;
    assert!(
        events
            .iter()
            .all(|event| !event["hash"].as_str().unwrap_or_default().is_empty()),
        "each has a hash"
    );
    world.close().await;
}

/// The next answer of an inbox: what happened, and of which run.
async fn change(answers: &mut Answers) -> (String, String, Value) {
    let answer = timeout(LIMIT, answers.next()).await.expect("it comes in time");
    let answer = answer.unwrap().expect("the stream goes on");
    // A heartbeat is about none.
    let of_run = answer["input_request"]["run_id"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    (text(&answer["change"]), of_run, answer)
}

#[tokio::test]
async fn s14_a_watcher_of_the_inbox_is_told_each_opening_and_end_once_over_two_kills() {
    let mut world = World::start().await;
    let inbox = async |world: &World, after: &Value| {
        let request = json!({ "after_cursor": after });
        world.stream("InboxService/WatchInbox", request).await
    };
    let mut answers = inbox(&world, &json!(0)).await;
    let (_, _, beginning) = change(&mut answers).await;
    assert!(beginning["heartbeat"].is_object(), "{beginning}");
    let first = world.run(json!([question("q")])).await;
    let (what, of_run, opened) = change(&mut answers).await;
    assert_eq!((what.as_str(), &of_run), ("opened", &first));

    // Nobody watches while the first one ends, and another one comes and goes for good.
    world.crash().await;
    let asked = world.open_request(&first).await;
    world.respond(&asked, json!({ "text": "blue" })).await.unwrap();
    world.ended(&first).await;
    let second = world.run(json!([question("q")])).await;
    let asked = world.open_request(&second).await;
    world.respond(&asked, json!({ "text": "red" })).await.unwrap();
    world.ended(&second).await;
    let delete = json!({ "run_id": second });
    world.call("RunService/DeleteRun", delete).await;
    world.crash().await;

    let mut answers = inbox(&world, &opened["cursor"]).await;
    let mut seen = Vec::new();
    for expected in [("ended", &first), ("opened", &second), ("ended", &second)] {
        let (what, of_run, answer) = change(&mut answers).await;
        assert_eq!((what.as_str(), &of_run), expected);
        seen.push(answer);
    }
    let of_removed = &seen[2]["input_request"];
    assert_eq!(of_removed["input_request_id"], asked["input_request_id"]);
    assert_eq!(of_removed["state"], "answered");
    assert_eq!(of_removed["kind"], "question");
    let third = world.run(json!([question("q")])).await;
    let (what, of_run, last) = change(&mut answers).await;
    assert_eq!((what.as_str(), &of_run), ("opened", &third));
    seen.push(last);
    // A caller that goes on from an earlier place is told the same.
    let mut again = inbox(&world, &beginning["cursor"]).await;
    assert_eq!(change(&mut again).await.2["cursor"], opened["cursor"]);
    for expected in &seen {
        assert_eq!(change(&mut again).await.2, *expected);
    }
    let mut anew = inbox(&world, &json!(0)).await;
    let (what, of_run, _) = change(&mut anew).await;
    assert_eq!((what.as_str(), &of_run), ("is_open", &third));
    let gone = json!({ "after_cursor": 1_000_000 });
    let refused = crate::api::stream(world.orchestrator.channel(), "InboxService/WatchInbox", &gone).await;
    assert_eq!(
        refused.err().unwrap().is(),
        (Code::FailedPrecondition, "CURSOR_GONE")
    );
    world.close().await;
}
