//! What a run hands to the contract, and what is kept of it.

use crate::commands::ran;
use crate::plan_words::{call, document, question, text, with};
use crate::world::World;
use serde_json::{Value, json};
use std::collections::BTreeSet;

#[tokio::test]
async fn s74_every_execution_of_a_run_has_one_step_one_attempt_and_an_id_of_its_own() {
    let world = World::start().await;
    let steps = json!([
        with(
            call("flaky", "script.pure", json!({ "each": [{ "fail": "SHAKY" }, { "answer": { "secret": 1, "shown": 2 } }] })),
            json!({ "retry": { "max_retries": 1, "backoff_ms": 1 } }),
        ),
        call("uses", "script.pure", json!({ "answer": { "shown": "${flaky:/shown}" } })),
        { "key": "loop", "type": "loop", "config": { "tool_name": "script.pure", "max_iterations": 3 } },
    ]);
    let run_id = world
        .create(json!({ "document": document(steps), "environment": { "region": "eu" } }))
        .await;
    world.ended(&run_id).await;
    let submitted = world.executions_of(&run_id).await;
    assert_eq!(submitted.len(), 6);
    let mut ids = BTreeSet::new();
    for request in &submitted {
        let plan = &request["plan"];
        assert_eq!(plan["steps"].as_array().unwrap().len(), 1);
        assert_eq!(plan["steps"][0]["on_failure"], "halt");
        assert!(plan["retry_policy"].is_null(), "one attempt: {plan}");
        for id in [&request["execution_id"], &plan["id"], &plan["steps"][0]["id"]] {
            assert!(ids.insert(text(id)), "{id} comes twice");
        }
        let environment = request["environment"].as_object().unwrap();
        let keys: Vec<&str> = environment.keys().map(String::as_str).collect();
        assert_eq!(
            keys,
            ["escapement_run", "region"],
            "the caller's and one key more"
        );
    }
    let payloads: Vec<&Value> = submitted
        .iter()
        .map(|request| &request["plan"]["steps"][0]["payload"])
        .collect();
    assert_eq!(
        payloads[2],
        &json!({ "answer": { "shown": 2.0 } }),
        "what the document names and nothing else"
    );
    assert_eq!(
        payloads[3..],
        [
            &json!({ "iteration": 0.0 }),
            &json!({ "iteration": 1.0 }),
            &json!({ "iteration": 2.0 })
        ]
    );

    // The contract replays each of them, and the run's evidence names them all.
    let mut plans = world.orchestrator.plans();
    for request in &submitted {
        let execution_id = text(&request["execution_id"]);
        let request = escapement_wire::v1::ReplayExecutionRequest { execution_id };
        assert!(
            plans
                .replay_execution(request)
                .await
                .unwrap()
                .into_inner()
                .identical
        );
    }
    let evidence = world
        .call(
            "RunService/ListEvidence",
            json!({ "run_id": run_id, "page_size": 100 }),
        )
        .await;
    let evidence = evidence["evidence"].as_array().unwrap();
    let named: Vec<&Value> = evidence.iter().map(|one| &one["execution_id"]).collect();
    let expected: Vec<&Value> = submitted.iter().map(|request| &request["execution_id"]).collect();
    assert_eq!(named, expected);
    let calls = world.calls_of(&run_id);
    for ((one, call), payload) in evidence.iter().zip(&calls).zip(&payloads) {
        assert_eq!((&one["input"], &one["tool_name"]), (*payload, &call["action"]));
        assert_eq!(one["execution_id"], call["execution"]);
    }
    let status: Vec<&str> = evidence
        .iter()
        .map(|one| one["status"].as_str().unwrap())
        .collect();
    assert_eq!(
        status,
        [
            "failed",
            "completed",
            "completed",
            "completed",
            "completed",
            "completed"
        ]
    );
    assert_eq!(
        (&evidence[1]["retry_count"], &evidence[1]["effect"]),
        (&json!(1), &json!("pure"))
    );
    world.close().await;
}

#[tokio::test]
async fn s75_the_journal_tells_what_the_run_says_of_itself() {
    let mut world = World::start().await;
    let steps = json!([
        with(
            call("bad", "script.pure", json!({ "fail": "BROKEN", "fatal": true })),
            json!({ "on_failure": "skip" })
        ),
        with(
            call("left", "script.pure", json!({})),
            json!({ "depends_on": ["bad"], "on_dependency_failure": "skip" })
        ),
        question("q"),
        call("good", "script.pure", json!({ "answer": { "n": 1 } })),
        question("r"),
    ]);
    let run_id = world.run(steps).await;
    world.open_request(&run_id).await;
    world.follows_from_its_events(&run_id).await;
    world
        .call("RunService/PauseRun", json!({ "run_id": run_id }))
        .await;
    world.follows_from_its_events(&run_id).await;
    world
        .call("RunService/ResumeRun", json!({ "run_id": run_id }))
        .await;
    let request = world.open_request(&run_id).await;
    world.respond(&request, json!({ "text": "on" })).await.unwrap();
    world.step_in(&run_id, "r", "waiting").await;
    world.follows_from_its_events(&run_id).await;
    let rewind = json!({ "run_id": run_id, "step_key": "good" });
    world.call("RunService/RewindRun", rewind).await;
    world.step_in(&run_id, "r", "waiting").await;
    world.follows_from_its_events(&run_id).await;
    world.crash().await;
    world.follows_from_its_events(&run_id).await;
    let request = world.open_request(&run_id).await;
    world.respond(&request, json!({ "text": "on" })).await.unwrap();
    let run = world.ended(&run_id).await;
    assert_eq!(
        (
            &run["completed_steps"],
            &run["failed_steps"],
            &run["skipped_steps"]
        ),
        (&json!(3), &json!(1), &json!(1))
    );
    // Each world replays every run of its own when it is closed, and folds those that have ended.
    world.close().await;
}

/// The file of a run.
async fn exported(world: &World, run_id: &str) -> Vec<u8> {
    let mut answers = world
        .stream("RunService/ExportRun", json!({ "run_id": run_id }))
        .await;
    let mut file = Vec::new();
    while let Some(piece) = answers.next().await.unwrap() {
        file.extend(bytes_of(piece["data"].as_str().unwrap()));
    }
    file
}

/// Reads base64.
fn bytes_of(text: &str) -> Vec<u8> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => u32::from(byte - b'A'),
        b'a'..=b'z' => u32::from(byte - b'a') + 26,
        b'0'..=b'9' => u32::from(byte - b'0') + 52,
        b'+' => 62,
        _ => 63,
    };
    let mut bytes = Vec::new();
    for four in text.as_bytes().chunks(4) {
        let padding = four.iter().filter(|byte| **byte == b'=').count();
        let number = four.iter().fold(0, |sum, byte| {
            sum << 6 | if *byte == b'=' { 0 } else { value(*byte) }
        });
        bytes.extend(&number.to_be_bytes()[1..4 - padding]);
    }
    bytes
}

#[tokio::test]
async fn s70_a_changed_byte_of_an_exported_run_is_found() {
    let world = World::start().await;
    let steps = json!([
        call(
            "a",
            "script.pure",
            json!({ "answer": { "word": "unmistakable" } })
        ),
        call("b", "script.pure", json!({ "bytes": 40_000 }))
    ]);
    let run_id = text(&world.ended_run(steps).await["run_id"]);
    let file = exported(&world, &run_id).await;
    let verified = async |name: &str, bytes: &[u8]| {
        let path = world.directory.join(name);
        std::fs::write(&path, bytes).unwrap();
        ran(&["verify", path.to_str().unwrap()]).await
    };
    let (whole, said) = verified("whole", &file).await;
    assert!(whole, "{said}");
    let word = file
        .windows(12)
        .position(|window| window == b"unmistakable")
        .unwrap();
    for at in [word, file.len() / 2, file.len() - 40] {
        let mut bent = file.clone();
        bent[at] ^= 1;
        let (whole, said) = verified("bent", &bent).await;
        assert!(
            !whole && !said.is_empty(),
            "the byte at {at} of {}: {said}",
            file.len()
        );
    }
    world.close().await;
}

#[tokio::test]
async fn render_draws_attempts_retries_and_people_of_a_run() {
    let world = World::start().await;
    let steps = json!([
        with(
            call(
                "flaky",
                "script.pure",
                json!({ "each": [{ "fail": "SHAKY" }, { "answer": {} }] })
            ),
            json!({ "retry": { "max_retries": 1, "backoff_ms": 300 } }),
        ),
        question("q"),
        call("last", "script.pure", json!({ "fail": "BROKEN" })),
        call("never", "script.pure", json!({})),
    ]);
    let run_id = world.run(steps).await;
    let request = world.open_request(&run_id).await;
    world.respond(&request, json!({ "text": "on" })).await.unwrap();
    world.ended(&run_id).await;
    let path = world.directory.join("drawn");
    std::fs::write(&path, exported(&world, &run_id).await).unwrap();
    let (is_drawn, whole) = ran(&["render", path.to_str().unwrap()]).await;
    assert!(is_drawn && whole.contains("? waits for a person"), "{whole}");
    let line = |key: &str| {
        let lines = whole.lines().filter(|line| line.contains(&format!(" {key} ")));
        lines.collect::<Vec<_>>().join("\n")
    };
    assert!(whole.contains("failed (BROKEN) after "), "{whole}");
    assert!(whole.contains("2 of 4 steps completed"), "{whole}");
    assert!(
        line("flaky").contains("2 attempts") && line("flaky").contains('\u{2713}'),
        "{whole}"
    );
    assert!(
        line("last").contains("BROKEN") && line("never").contains("skipped"),
        "{whole}"
    );
    assert!(
        whole.contains("\u{2591} backs off") && whole.contains("an attempt failed"),
        "{whole}"
    );
    world.close().await;
}
