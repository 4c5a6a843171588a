//! Kills of the real process: nothing that completed is done again, and what was under way goes on or is asked about.

use crate::children::{child_of, saved};
use crate::commands::ran;
use crate::plan_words::{call, document, question, text, unattended, with};
use crate::world::{LIMIT, UNDER_WAY_FLAG, World};
use escapement_tests::plans::{self, plan};
use escapement_wire::v1::SubmitPlanRequest;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tonic::Code;

fn retries(step: Value, retry: Value) -> Value {
    with(step, json!({ "retry": retry }))
}

#[tokio::test]
async fn s4_no_iteration_is_called_again_once_snapshots_were_made() {
    let mut world = World::start().await;
    let repeated = |key: &str, args: Value| {
        let config = json!({ "tool_name": "script.pure", "tool_args": args, "max_iterations": ITERATIONS });
        json!({ "key": key, "type": "loop", "config": config })
    };
    let gate_at = ITERATIONS - 40;
    let steps = json!([
        repeated("first", json!({})),
        repeated("second", json!({ "gate": "go on", "gate_at": gate_at }))
    ]);
    let run_id = world.run(steps).await;
    world.until_calls(&run_id, ITERATIONS + gate_at + 1).await;
    world.kill();
    let file = rusqlite::Connection::open(world.directory.join("store").join("store.db")).unwrap();
    let snapshot = file.query_row("SELECT seq FROM snapshot", [], |row| row.get::<_, i64>(0));
    assert!(
        snapshot.unwrap() > 256,
        "the one of the run, behind the first ones"
    );
    drop(file);
    world.starts().await;
    world.shared.open("go on");
    assert_eq!(world.ended(&run_id).await["state"], "completed");
    let mut calls: BTreeMap<(String, i64), usize> = BTreeMap::new();
    for call in world.calls_of(&run_id) {
        let iteration = call["payload"]["iteration"].as_f64().unwrap() as i64;
        *calls.entry((text(&call["step"]), iteration)).or_default() += 1;
    }
    assert_eq!(calls.len(), 2 * ITERATIONS);
    let in_flight = ("second".to_owned(), gate_at as i64);
    let twice: Vec<_> = calls.into_iter().filter(|(_, count)| *count > 1).collect();
    assert!(
        twice.iter().all(|(called, _)| *called == in_flight),
        "only what was in flight: {twice:?}"
    );
    let events = world.events(&run_id).await;
    let sequences: Vec<i64> = events
        .iter()
        .map(|event| event["sequence"].as_i64().unwrap())
        .collect();
    assert_eq!(sequences, (1..=sequences.len() as i64).collect::<Vec<_>>());
    world.close().await;
}

/// Of each loop. Together they are worth more than a snapshot.
const ITERATIONS: usize = 100;

/// What the start after a kill has counted in a run.
async fn recovered(world: &World, run_id: &str) -> [i64; 5] {
    let events = world.events(run_id).await;
    let recovered = events
        .iter()
        .filter(|event| event["event_type"] == "run_recovered");
    let [recovered] = &recovered.collect::<Vec<_>>()[..] else {
        panic!("one start: {events:#?}");
    };
    let classes = [
        "pending",
        "completed",
        "failed",
        "interrupted_with_child",
        "resubmitted",
    ];
    classes.map(|class| recovered["data"][class].as_f64().unwrap() as i64)
}

#[tokio::test]
async fn s5_each_run_is_where_it_was_and_goes_on_from_there() {
    let mut world = World::start_with(|settings| settings.flag(UNDER_WAY_FLAG, 3)).await;
    let waiting = world
        .run(json!([question("q"), call("then", "script.pure", json!({}))]))
        .await;
    world.in_state(&waiting, "waiting").await;
    let paused = world
        .run(json!([
            call("a", "script.pure", json!({ "answer": { "$pause": true } })),
            call("then", "script.pure", json!({}))
        ]))
        .await;
    world.in_state(&paused, "paused").await;
    let flaky = json!({ "each": [{ "fail": "SHAKY" }, {}] });
    let backing_off = world
        .run(json!([retries(
            call("a", "script.pure", flaky),
            json!({ "max_retries": 1, "backoff_ms": 5_000 })
        )]))
        .await;
    world.until_ends(&backing_off, 1).await;
    let running = world
        .run(json!([
            call("done", "script.effect", json!({})),
            call("a", "script.pure", json!({ "gate": "a" }))
        ]))
        .await;
    world.called_times(&running, "a", 1).await;
    let asks = saved(&world, json!([question("q")])).await;
    let parent = world
        .run(json!([
            { "key": "sub", "type": "sub_plan", "config": { "plan_id": asks } },
            call("then", "script.pure", json!({}))
        ]))
        .await;
    let child = text(&child_of(&world, &parent).await["run_id"]);
    let of_child = world.open_request(&child).await;
    let plan = document(json!([call("a", "script.pure", json!({}))]));
    let plans = json!([{ "gate": "plan", "answer": { "plan": plan } }]);
    let planner = json!({ "action": "script.planner", "parameters": { "plans": plans } });
    let planning = world
        .create(json!({ "goal": "Weigh the bears", "planner": planner }))
        .await;
    world.until_calls(&planning, 1).await;
    let queued = world.run(json!([call("a", "script.pure", json!({}))])).await;
    assert_eq!(world.get(&queued).await["state"], "queued");

    let due = world.step(&backing_off, "a").await["retry_at"].clone();
    assert!(due.is_i64());
    world.crash().await;
    assert_eq!(world.get(&waiting).await["state"], "waiting");
    assert_eq!(world.get(&paused).await["state"], "paused");
    assert_eq!(world.get(&running).await["state"], "running");
    assert_eq!(world.get(&queued).await["state"], "queued");
    assert_eq!(
        world.step(&backing_off, "a").await["retry_at"],
        due,
        "timers keep their due times"
    );
    assert_eq!(world.get(&planning).await["state"], "planning");

    world.shared.open("a");
    world.shared.open("plan");
    let request = world.open_request(&waiting).await;
    for request in [request, of_child] {
        world.respond(&request, json!({ "text": "on" })).await.unwrap();
    }
    world
        .call("RunService/ResumeRun", json!({ "run_id": paused }))
        .await;
    for run_id in [
        &waiting,
        &paused,
        &backing_off,
        &running,
        &parent,
        &planning,
        &queued,
    ] {
        assert_eq!(world.ended(run_id).await["state"], "completed");
    }
    assert_eq!(
        world
            .called(&running)
            .iter()
            .filter(|step| *step == "done")
            .count(),
        1
    );
    assert_eq!(world.called(&paused), ["a", "then"]);
    let retried = world.events(&backing_off).await;
    let called: Vec<&Value> = retried
        .iter()
        .filter(|event| event["event_type"] == "tool_called")
        .collect();
    assert!(called[1]["at"].as_i64() >= due.as_i64(), "not before it was due");
    // Pending, completed, failed, and of those that run: with a child, and submitted again.
    for (run_id, classes) in [
        (&waiting, [1, 0, 0, 0, 0]),
        (&paused, [1, 1, 0, 0, 0]),
        (&backing_off, [0, 0, 0, 0, 0]),
        (&running, [0, 1, 0, 0, 1]),
        (&parent, [1, 0, 0, 1, 0]),
        (&planning, [0, 0, 0, 0, 0]),
        (&queued, [1, 0, 0, 0, 0]),
    ] {
        assert_eq!(recovered(&world, run_id).await, classes, "{run_id}");
    }
    world.close().await;
}

#[tokio::test]
async fn s6_a_run_that_is_not_to_be_resumed_is_discarded_with_its_child() {
    let mut world = World::start().await;
    let child = saved(&world, json!([call("a", "script.pure", json!({ "gate": "a" }))])).await;
    let steps = json!([{ "key": "sub", "type": "sub_plan", "config": { "plan_id": child } }, call("b", "script.pure", json!({}))]);
    let mut runs = Vec::new();
    for resume in ["discard", "retry_pending"] {
        let run_id = world
            .create(json!({ "document": document(steps.clone()), "policy": { "resume": resume } }))
            .await;
        let children = async || world.all_runs(json!({ "parent_run_id": run_id })).await.pop();
        let child = escapement_tests::wait_for("the child", LIMIT, children)
            .await
            .unwrap();
        let child = text(&child["run_id"]);
        world.called_times(&child, "a", 1).await;
        runs.push((run_id, child));
    }
    world.kill();
    world.shared.open("a");
    world.starts().await;
    let (discarded, child) = &runs[0];
    let run = world.ended(discarded).await;
    assert_eq!(
        (&run["state"], &run["reason"]),
        (&json!("cancelled"), &json!("discarded"))
    );
    assert_eq!(world.ended(child).await["state"], "cancelled");
    assert!(world.called(discarded).is_empty());
    let (resumed, _) = &runs[1];
    assert_eq!(world.ended(resumed).await["state"], "completed");
    assert_eq!(world.called(resumed), ["b"]);
    world.close().await;
}

#[tokio::test]
async fn s10_what_is_idempotent_is_repeated_with_its_key_and_an_effect_in_doubt_is_asked_about() {
    let mut world = World::start().await;
    let step = |action: &str| {
        json!([call(
            "act",
            action,
            json!({ "gate": "act", "answer": { "done": true } })
        )])
    };
    let repeated = world.run(step("script.idempotent")).await;
    let asked = world.run(step("script.effect")).await;
    let failed = world
        .create(json!({ "document": document(step("script.external")), "policy": { "ambiguity": "fail" } }))
        .await;
    for run_id in [&repeated, &asked, &failed] {
        world.called_times(run_id, "act", 1).await;
    }
    world.kill();
    world.worker_goes();
    world.shared.open("act");
    world.starts().await;
    world.worker_comes().await;
    assert_eq!(world.ended(&repeated).await["state"], "completed");
    let calls = world.calls_of(&repeated);
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[0]["key"], calls[1]["key"]);
    assert_ne!(calls[0]["execution"], calls[1]["execution"]);
    assert_eq!(world.ended(&failed).await["error"]["code"], "AMBIGUOUS_EFFECT");

    let request = world.open_request(&asked).await;
    assert_eq!(request["kind"], "ambiguous_effect");
    let called = &world.calls_of(&asked)[0];
    assert_eq!(
        (&request["action"], &request["execution_id"], &request["attempt"]),
        (&called["action"], &called["execution"], &json!(1)),
        "{request:#}"
    );
    assert!(request["subject"].is_object(), "{request:#}");
    let blind = json!({
        "input_request_id": request["input_request_id"],
        "effect": { "did_not": {} },
        "responder": { "id": "bob" }
    });
    let refused = world.refusal("InboxService/RespondToInput", blind).await;
    assert_eq!(refused.is(), (Code::FailedPrecondition, "DIGEST_MISMATCH"));
    let happened = json!({ "effect": { "happened": { "output": { "done": "it did" } } } });
    world.respond(&request, happened).await.unwrap();
    assert_eq!(world.ended(&asked).await["output"], json!({ "done": "it did" }));
    for run_id in [&asked, &failed] {
        assert_eq!(world.calls_of(run_id).len(), 1, "nothing is repeated in silence");
    }
    world.close().await;
}

#[tokio::test]
async fn s10_an_effect_in_doubt_of_a_child_is_in_doubt_in_the_next_child_and_in_a_fork() {
    let mut world = World::start().await;
    let acts = json!([call(
        "act",
        "script.effect",
        json!({ "gate": "act", "answer": { "done": true } })
    )]);
    let plan_id = saved(&world, acts).await;
    let sub = json!({ "key": "sub", "type": "sub_plan", "config": { "plan_id": plan_id } });
    let steps = json!([retries(sub, json!({ "max_retries": 1, "backoff_ms": 1 }))]);
    let failing = json!({ "document": document(steps.clone()), "policy": { "ambiguity": "fail" } });
    let failed = world.create(failing).await;
    let left = world.run(steps).await;
    for run_id in [&failed, &left] {
        let child = text(&child_of(&world, run_id).await["run_id"]);
        world.called_times(&child, "act", 1).await;
    }
    world
        .call("RunService/CancelRun", json!({ "run_id": left }))
        .await;
    world.kill();
    world.worker_goes();
    world.shared.open("act");
    world.starts().await;
    world.worker_comes().await;
    assert_eq!(world.ended(&failed).await["error"]["code"], "CHILD_FAILED");
    let children = world.all_runs(json!({ "parent_run_id": failed })).await;
    let codes: Vec<&Value> = children.iter().map(|child| &child["error"]["code"]).collect();
    assert_eq!(
        codes,
        ["AMBIGUOUS_EFFECT", "AMBIGUOUS_EFFECT"],
        "it was tried again"
    );

    let fork = async |request| text(&world.call("RunService/ForkRun", request).await["run"]["run_id"]);
    let forked = fork(json!({ "run_id": left })).await;
    let child = text(&child_of(&world, &forked).await["run_id"]);
    let request = world.open_request(&child).await;
    assert_eq!(request["kind"], "ambiguous_effect");
    let happened = json!({ "effect": { "happened": { "output": { "done": "it did" } } } });
    world.respond(&request, happened).await.unwrap();
    assert_eq!(world.ended(&forked).await["output"], json!({ "done": "it did" }));
    let acted = |world: &World| {
        let calls = world.calls().into_iter();
        calls.filter(|call| call["action"] == "script.effect").count()
    };
    assert_eq!(acted(&world), 2, "nothing is repeated in silence");
    let allowed = fork(json!({ "run_id": failed, "allow_repeat_effects": true })).await;
    assert_eq!(world.ended(&allowed).await["state"], "completed");
    assert_eq!(acted(&world), 3);
    world.close().await;
}

#[tokio::test]
async fn s77_without_workers_a_run_waits_and_counts_nothing() {
    let flags = |settings: escapement_tests::OrchestratorSettings| {
        settings
            .flag("--registration-grace-ms", 100)
            .flag("--registration-memory-ms", 200)
    };
    let mut world = World::start_with(flags).await;
    let steps = json!([
        call("before", "script.pure", json!({})),
        { "key": "asked", "type": "user_input", "config": { "question": "Go on?" } },
        retries(call("a", "script.pure", json!({})), json!({ "max_retries": 0 }))
    ]);
    let run_id = world.run(steps).await;
    // While a person is asked, no attempt is at the worker that goes.
    let request = world.open_request(&run_id).await;
    world.worker_goes();
    let answer = json!({ "text": "yes" });
    world.respond(&request, answer).await.unwrap();
    // Until an attempt of it never ran, at least once.
    let never_ran = async || {
        let step = world.step(&run_id, "a").await;
        let attempts = step["attempts"].as_array().unwrap();
        attempts
            .iter()
            .any(|attempt| attempt["category"] == "never_ran")
            .then_some(())
    };
    escapement_tests::wait_for("an attempt that never ran", LIMIT, never_ran)
        .await
        .unwrap();
    assert_eq!(world.get(&run_id).await["state"], "running");
    world.worker_comes().await;
    let run = world.ended(&run_id).await;
    assert_eq!(run["state"], "completed", "{run:#}");
    assert_eq!(world.step(&run_id, "a").await["retry_count"], 0);
    world.close().await;
}

#[tokio::test]
async fn s77_a_full_queue_of_the_contract_delays_and_counts_nothing() {
    let flags = |settings: escapement_tests::OrchestratorSettings| {
        settings
            .flag("--max-running-executions", 1)
            .flag("--max-queued-executions", 1)
    };
    let world = World::start_with(flags).await;
    let step = |gate: &str| {
        json!([retries(
            call("a", "script.pure", json!({ "gate": gate })),
            json!({ "max_retries": 0 })
        )])
    };
    let mut runs = vec![world.run(step("first")).await];
    world.called_times(&runs[0], "a", 1).await;
    for _ in 0..4 {
        runs.push(world.run(step("first")).await);
    }
    for run_id in &runs[1..] {
        let run = world.in_state(run_id, "running").await;
        assert_eq!(
            run["limits"]["watchdog_ms"], 0,
            "its limit follows from what is in flight"
        );
    }
    // One of the four fills the queue, and nobody else gets in.
    let is_full = async || {
        let plan = Some(plan([plans::step(0, "script.pure")]));
        let request = SubmitPlanRequest {
            plan,
            ..SubmitPlanRequest::default()
        };
        let refused = world.orchestrator.plans().submit_plan(request).await.err()?;
        (refused.code() == Code::ResourceExhausted).then_some(())
    };
    escapement_tests::wait_for("a full queue", LIMIT, is_full)
        .await
        .unwrap();
    assert_eq!(world.calls().len(), 1);
    world.shared.open("first");
    for run_id in &runs {
        assert_eq!(world.ended(run_id).await["state"], "completed");
        assert_eq!(world.step(run_id, "a").await["retry_count"], 0);
        assert_eq!(world.calls_of(run_id).len(), 1);
        let names = world.event_names(run_id).await;
        assert!(!names.contains(&"step_retrying".to_owned()), "{names:?}");
    }
    world.close().await;
}

#[tokio::test]
async fn s96_a_stop_in_order_resumes_and_a_cancelled_run_does_not() {
    let mut world = World::start_with(|settings| settings.flag("--drain-grace-ms", 300)).await;
    let steps = |gate: &str| {
        json!([
            call("a", "script.effect", json!({})),
            call("b", "script.pure", json!({ "gate": gate })),
            call("c", "script.pure", json!({}))
        ])
    };
    let resumed = world.run(steps("b")).await;
    let cancelled = world.run(steps("never")).await;
    world.called_times(&resumed, "b", 1).await;
    world.called_times(&cancelled, "b", 1).await;
    world
        .call("RunService/CancelRun", json!({ "run_id": cancelled }))
        .await;
    assert_eq!(
        world.stops().await,
        Some(75),
        "what was in flight is left to the next start"
    );
    world.shared.open("b");
    world.starts().await;
    assert_eq!(world.ended(&resumed).await["state"], "completed");
    let called = world.called(&resumed);
    assert_eq!(called.iter().filter(|step| *step == "a").count(), 1, "{called:?}");
    assert_eq!(world.get(&cancelled).await["state"], "cancelled");
    assert_eq!(world.called(&cancelled), ["a", "b"]);
    world.close().await;
}

#[tokio::test]
async fn s96_what_cannot_become_better_is_called_once() {
    let world = World::start().await;
    for code in ["A_NOT_ALLOWED", "MODEL_OFF", "X_NOT_CONFIGURED", "JQ_ERROR"] {
        let steps = json!([retries(
            call("a", "script.pure", json!({ "fail": code })),
            json!({ "max_retries": 3, "backoff_ms": 1 })
        )]);
        let run_id = world
            .create(unattended(json!({ "document": document(steps) })))
            .await;
        assert_eq!(world.ended(&run_id).await["error"]["code"], code);
        assert_eq!(world.calls_of(&run_id).len(), 1, "{code}");
    }
    world.close().await;
}

/// Changes one byte of the stored document that has this text in it.
pub(crate) fn flip_document(store: &std::path::Path, marker: &str) {
    let file = rusqlite::Connection::open(store.join("store.db")).unwrap();
    let mut documents = file
        .prepare("SELECT place, bytes FROM content WHERE revision IS NOT NULL")
        .unwrap();
    let rows = documents
        .query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?)))
        .unwrap();
    for (place, mut bytes) in rows.map(Result::unwrap) {
        let found = bytes
            .windows(marker.len())
            .position(|window| window == marker.as_bytes());
        if let Some(at) = found {
            bytes[at] ^= 1;
            file.execute("UPDATE content SET bytes = ?1 WHERE place = ?2", (bytes, place))
                .unwrap();
            return;
        }
    }
    panic!("no document has {marker}");
}

/// A step that makes a document too large for the journal: it is kept apart, and read when the run is taken up.
pub(crate) fn padding() -> Value {
    call("never", "script.pure", json!({ "text": "x".repeat(40_000) }))
}

#[tokio::test]
async fn s7_a_run_whose_plan_cannot_be_read_harms_no_other() {
    let mut world = World::start().await;
    let damaged = with(question("q"), json!({ "description": "a text to be damaged" }));
    let damaged = world.run(json!([damaged, padding()])).await;
    let whole = world
        .run(json!([question("q"), call("then", "script.pure", json!({}))]))
        .await;
    world.open_request(&damaged).await;
    world.open_request(&whole).await;
    world.kill();
    let store = world.directory.join("store");
    flip_document(&store, "a text to be damaged");
    let (is_whole, said) = ran(&["check", "--store-path", store.to_str().unwrap()]).await;
    assert!(!is_whole && said.contains("content_damaged"), "{said}");
    world.starts().await;
    let request = world.open_request(&whole).await;
    world.respond(&request, json!({ "text": "on" })).await.unwrap();
    assert_eq!(world.ended(&whole).await["state"], "completed");
    let refusal = world
        .refusal("RunService/GetRun", json!({ "run_id": damaged }))
        .await;
    assert_eq!(refusal.is(), (Code::DataLoss, "RUN_DAMAGED"));
    let live = world.all_runs(json!({ "live": true })).await;
    let live: Vec<&Value> = live.iter().map(|run| &run["run_id"]).collect();
    assert_eq!(
        live,
        [&json!(damaged)],
        "it has not ended, and somebody has to look at it"
    );
    world.orchestrator.stop().await.unwrap();
}

#[tokio::test]
async fn s7_a_damaged_row_of_a_run_stops_nothing_but_that_run() {
    let mut world = World::start().await;
    let once = unattended(json!({ "document": document(json!([question("q")])), "request_id": "once" }));
    let damaged = world.create(once.clone()).await;
    let whole = world.run(json!([question("q")])).await;
    world.open_request(&damaged).await;
    world.kill();
    let file = rusqlite::Connection::open(world.directory.join("store").join("store.db")).unwrap();
    let changed = file.execute("UPDATE run SET priority = priority + 1 WHERE number = 1", ());
    assert_eq!(changed.unwrap(), 1);
    drop(file);
    world.starts().await;
    for (method, request) in [
        ("GetRun", json!({ "run_id": damaged })),
        ("CancelRun", json!({ "run_id": damaged, "request_id": "verb" })),
        ("ForkRun", json!({ "run_id": damaged })),
        ("CreateRun", once),
    ] {
        let refusal = world.refusal(&format!("RunService/{method}"), request).await;
        assert_eq!(refusal.is(), (Code::DataLoss, "RUN_DAMAGED"), "{method}");
    }
    let request = world.open_request(&whole).await;
    world.respond(&request, json!({ "text": "on" })).await.unwrap();
    assert_eq!(world.ended(&whole).await["state"], "completed");
    world.orchestrator.stop().await.unwrap();
}
