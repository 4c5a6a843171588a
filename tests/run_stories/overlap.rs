//! What runs at the same time, in which order, and how far a run is.

use crate::children::child_of;
use crate::plan_words::{call, document, question, text, with};
use crate::world::World;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A parallel step over these items.
fn parallel(items: Value, config: Value) -> Value {
    json!({ "key": "all", "type": "parallel", "config": with(json!({ "steps": items }), config) })
}

fn item(payload: Value) -> Value {
    json!({ "tool_name": "script.pure", "tool_args": payload })
}

/// The most calls of a run that overlapped, and whether this step ever overlapped with another.
fn overlaps(lines: &[Value], alone: &str) -> (usize, bool) {
    let (mut running, mut most, mut shared) = (BTreeSet::new(), 0, false);
    for line in lines {
        let unit = (text(&line["step"]), line["index"].to_string());
        if line["event"] == "begin" {
            running.insert(unit);
        } else {
            running.remove(&unit);
        }
        most = most.max(running.len());
        shared |= running.len() > 1 && running.iter().any(|(step, _)| step == alone);
    }
    (most, shared)
}

#[tokio::test]
async fn s44_a_batch_begins_once_the_one_before_has_ended() {
    let world = World::start().await;
    let mut items: Vec<Value> = (0..7)
        .map(|n| item(json!({ "gate": "batch", "answer": { "n": n } })))
        .collect();
    items[3] = item(json!({ "gate": "last", "answer": { "n": 3 } }));
    let run_id = world
        .run(json!([parallel(json!(items), json!({ "batch_size": 5 }))]))
        .await;
    world.called_times(&run_id, "all", 5).await;
    world.shared.open("batch");
    world.until_ends(&run_id, 4).await;
    assert_eq!(
        world.calls_of(&run_id).len(),
        5,
        "items 6 and 7 wait for all of 1 to 5"
    );
    world.shared.open("last");
    let run = world.ended(&run_id).await;
    let expected: Vec<Value> = (0..7).map(|n| json!({ "n": f64::from(n) })).collect();
    assert_eq!(run["output"], json!(expected), "in the order of the items");
    let mut indices: Vec<i64> = world
        .calls_of(&run_id)
        .iter()
        .map(|call| call["index"].as_f64().unwrap() as i64)
        .collect();
    indices[..5].sort_unstable();
    indices[5..].sort_unstable();
    assert_eq!(indices, [0, 1, 2, 3, 4, 5, 6]);
    world.close().await;
}

#[tokio::test]
async fn s44_an_item_that_fails_is_retried_alone_and_stops_nobody() {
    let world = World::start().await;
    let items = json!([
        item(json!({ "answer": { "n": 0 } })),
        item(json!({ "fail": "BROKEN" })),
        item(json!({ "answer": { "n": 2 } })),
        "script.pure",
    ]);
    let step = with(
        parallel(items, json!({})),
        json!({ "retry": { "max_retries": 2, "backoff_ms": 1 } }),
    );
    let run_id = world.run(json!([step])).await;
    let run = world.ended(&run_id).await;
    assert_eq!(run["error"]["code"], "PARALLEL_FAILED");
    assert_eq!(run["error"]["message"], "Some parallel steps failed");
    let mut calls = [0; 4];
    for call in world.calls_of(&run_id) {
        calls[call["index"].as_f64().unwrap() as usize] += 1;
    }
    assert_eq!(calls, [1, 3, 1, 1]);

    let items = json!([
        item(json!({ "hang": true })),
        item(json!({ "answer": { "first": true } }))
    ]);
    let run_id = world
        .run(json!([parallel(items, json!({ "wait_all": false }))]))
        .await;
    assert_eq!(world.ended(&run_id).await["state"], "completed");
    world.close().await;
}

#[tokio::test]
async fn s79_async_steps_overlap_up_to_the_limit_and_others_run_alone() {
    let world = World::start().await;
    let mut steps = Vec::new();
    for n in 0..5 {
        let step = call(
            &format!("async{n}"),
            "script.pure",
            json!({ "gate": format!("g{n}") }),
        );
        steps.push(with(step, json!({ "async": true })));
    }
    steps.push(call("sync", "script.pure", json!({})));
    let plan = with(document(json!(steps)), json!({ "parallel": true }));
    let run_id = world
        .create(json!({ "document": plan, "limits": { "max_concurrency": 3 } }))
        .await;
    for n in 0..5 {
        // Three at a time, and the next begins as soon as any ends.
        let expected = (n + 3).min(5);
        world.until_calls(&run_id, expected).await;
        assert_eq!(world.calls_of(&run_id).len(), expected);
        world.shared.open(&format!("g{n}"));
    }
    assert_eq!(world.ended(&run_id).await["state"], "completed");
    assert_eq!(overlaps(&world.ledger_of(&run_id), "sync"), (3, false));

    // Without `parallel` nothing overlaps.
    let plan = document(json!([
        with(call("a", "script.pure", json!({})), json!({ "async": true })),
        with(call("b", "script.pure", json!({})), json!({ "async": true })),
    ]));
    let run_id = world
        .create(json!({ "document": plan, "limits": { "max_concurrency": 3 } }))
        .await;
    world.ended(&run_id).await;
    assert_eq!(overlaps(&world.ledger_of(&run_id), "").0, 1);
    world.close().await;
}

#[tokio::test]
async fn s79_in_a_parallel_plan_that_marks_no_step_eight_run_at_once() {
    let world = World::start().await;
    let gated = |n: usize| {
        call(
            &format!("s{n}"),
            "script.pure",
            json!({ "gate": format!("g{n}") }),
        )
    };
    let mut steps: Vec<Value> = (0..9).map(gated).collect();
    let last = with(
        call("last", "script.pure", json!({})),
        json!({ "depends_on": ["s0", "s8"] }),
    );
    steps.push(last);
    let plan = with(document(json!(steps)), json!({ "parallel": true }));
    let run_id = world.create(json!({ "document": plan })).await;
    world.until_calls(&run_id, 8).await;
    assert_eq!(world.calls_of(&run_id).len(), 8, "the ninth waits for room");
    world.shared.open("g0");
    world.until_calls(&run_id, 9).await;
    assert_eq!(world.called(&run_id)[8], "s8");
    (1..9).for_each(|n| world.shared.open(&format!("g{n}")));
    assert_eq!(world.ended(&run_id).await["state"], "completed");
    assert_eq!(overlaps(&world.ledger_of(&run_id), "last"), (8, false));

    // A plan that marks a step means its marks.
    let marked = with(call("a", "script.pure", json!({})), json!({ "async": true }));
    let steps = json!([
        marked,
        call("b", "script.pure", json!({})),
        call("c", "script.pure", json!({}))
    ]);
    let plan = with(document(steps), json!({ "parallel": true }));
    let run_id = world.create(json!({ "document": plan })).await;
    world.ended(&run_id).await;
    assert_eq!(overlaps(&world.ledger_of(&run_id), "").0, 1);
    world.close().await;
}

#[tokio::test]
async fn s79_children_forks_and_requests_say_whether_steps_overlap() {
    let world = World::start().await;
    let gated = |key: &str| call(key, "script.pure", json!({ "gate": "open" }));
    let two = with(
        document(json!([gated("a"), gated("b")])),
        json!({ "parallel": true }),
    );
    let of = |document: &Value, policy: Value| {
        let limits = json!({ "max_concurrency": 2 });
        json!({ "document": document, "preset": "autonomous", "policy": policy, "limits": limits })
    };
    // Only the preset `standard` does without marks, and a preview warns; a request may say otherwise.
    let preview = json!({ "run": of(&two, json!({})) });
    let preview = world.call("RunService/PreviewRun", preview).await;
    assert_eq!(preview["warnings"][0]["code"], "STEPS_RUN_ALONE");
    let by_default = || json!({ "async_by_default": true });
    let run_id = world.create(of(&two, by_default())).await;
    world.until_calls(&run_id, 2).await;

    let saved = json!({ "plan": { "name": "Saved", "goal": "Be run" }, "document": two });
    let plan_id = text(&world.call("PlanService/CreatePlan", saved).await["plan"]["plan_id"]);
    let sub = json!([{ "key": "sub", "type": "sub_plan", "config": { "plan_id": plan_id } }]);
    let parent = world.create(of(&document(sub), by_default())).await;
    let child = text(&child_of(&world, &parent).await["run_id"]);
    world.until_calls(&child, 2).await;
    world.shared.open("open");
    for run_id in [&run_id, &parent, &child] {
        assert_eq!(world.ended(run_id).await["state"], "completed");
    }

    let fork = json!({ "run_id": run_id, "from_step": "a", "allow_repeat_effects": true });
    let fork = world.call("RunService/ForkRun", fork).await["run"].take();
    assert_eq!(fork["policy"]["async_by_default"], true);
    assert_eq!(fork["limits"]["max_concurrency"], 2);
    world.close().await;
}

#[tokio::test]
async fn s94_order_numbers_decide_and_progress_counts_what_completed() {
    let world = World::start().await;
    let order = |key: &str, order: i64| with(call(key, "script.pure", json!({})), json!({ "order": order }));
    let run_id = world
        .run(json!([order("third", 3), order("first", 1), order("second", 2)]))
        .await;
    world.ended(&run_id).await;
    assert_eq!(world.called(&run_id), ["first", "second", "third"]);

    // A later step runs while an earlier one cannot.
    let steps = json!([
        with(
            call("needs", "script.pure", json!({})),
            json!({ "order": 1, "depends_on": ["base"] })
        ),
        order("base", 5),
        order("free", 2),
    ]);
    let run_id = world.run(steps).await;
    world.ended(&run_id).await;
    assert_eq!(world.called(&run_id), ["free", "base", "needs"]);

    // 2 of 4 and 2 of 3.
    for (rest, progress) in [(2, 50.0), (1, 66.7)] {
        let mut steps = vec![order("a", 1), order("b", 2)];
        steps.extend((0..rest).map(|n| with(question(&format!("q{n}")), json!({ "order": 10 + n }))));
        let run_id = world.run(json!(steps)).await;
        world.open_request(&run_id).await;
        let run = world.get(&run_id).await;
        assert_eq!(run["progress"], progress);
        assert_eq!(
            (&run["current_step_index"], &run["completed_steps"]),
            (&json!(2), &json!(2))
        );
        assert_eq!(run["total_steps"], 2 + rest);
        world
            .call("RunService/CancelRun", json!({ "run_id": run_id }))
            .await;
        let run = world.get(&run_id).await;
        assert_eq!(run["progress"], progress, "what is skipped does not count");
        assert_eq!(
            (&run["settled_percent"], &run["skipped_steps"]),
            (&json!(100.0), &json!(rest))
        );
    }

    let plan = with(document(json!([])), json!({ "narrative": "Nothing to do." }));
    let run = world
        .ended(&world.create(json!({ "document": plan })).await)
        .await;
    assert_eq!(
        (&run["state"], &run["progress"]),
        (&json!("completed"), &json!(0.0))
    );
    assert_eq!(run["output"], "Nothing to do.");
    world.close().await;
}
