//! What goes from one step to another, byte for byte, and what cannot.

use crate::plan_words::{call, document, question, text, with};
use crate::script::text_of;
use crate::world::World;
use serde_json::{Value, json};
use tonic::Code;

/// A condition over an expression.
fn condition(key: &str, expression: &str) -> Value {
    let config = json!({ "condition": expression, "true_step": "yes", "false_step": "no" });
    json!({ "key": key, "type": "condition", "config": config })
}

#[tokio::test]
async fn s34_large_results_are_read_back_equal_whatever_happens() {
    let mut world = World::start().await;
    let sizes = [32_000, 32_768, 32_769, 40_000, 1_000_000];
    let mut steps: Vec<Value> = (0..)
        .zip(sizes)
        .map(|(n, bytes)| {
            call(
                &format!("s{n}"),
                "script.pure",
                json!({ "bytes": bytes, "unit": "ä" }),
            )
        })
        .collect();
    // Shrinks and grows when it is repeated.
    let each = json!({ "each": [{ "bytes": 50_000 }, { "bytes": 10 }, { "bytes": 60_000 }] });
    steps.push(call("again", "script.pure", each));
    steps.push(question("q"));
    let run_id = world.run(json!(steps)).await;
    world.open_request(&run_id).await;
    let equal = async |world: &World, run_id: &str, again: usize| {
        for (n, bytes) in (0..).zip(sizes) {
            let result = world.result(run_id, &format!("s{n}")).await;
            assert!(result["text"] == text_of(bytes, "ä"), "{bytes} bytes");
        }
        assert!(
            world.result(run_id, "again").await["text"] == text_of(again, "x"),
            "{again} bytes"
        );
    };
    equal(&world, &run_id, 50_000).await;
    world.crash().await;
    equal(&world, &run_id, 50_000).await;
    for again in [10, 60_000] {
        let rewind = json!({ "run_id": run_id, "step_key": "again" });
        world.call("RunService/RewindRun", rewind).await;
        world.open_request(&run_id).await;
        equal(&world, &run_id, again).await;
    }
    let fork = world
        .call(
            "RunService/ForkRun",
            json!({ "run_id": run_id, "from_step": "q" }),
        )
        .await;
    equal(&world, &text(&fork["run"]["run_id"]), 60_000).await;
    // The same bytes in ranges.
    let whole = world
        .call(
            "RunService/GetStepResult",
            json!({ "run_id": run_id, "step_key": "s4" }),
        )
        .await;
    let (mut pieces, size) = (0, whole["size_bytes"].as_i64().unwrap());
    for offset in [0, 400_000, 800_000] {
        let range = json!({"run_id": run_id, "step_key": "s4", "offset": offset, "length": 400_000});
        let piece = world.call("RunService/GetStepResult", range).await;
        assert_eq!(piece["sha256"], whole["sha256"]);
        pieces += decoded_length(&text(&piece["data"]));
    }
    assert_eq!(pieces, size);
    world.close().await;
}

/// Bytes behind a base64 text.
fn decoded_length(base64: &str) -> i64 {
    let padding = base64.bytes().rev().take_while(|byte| *byte == b'=').count();
    i64::try_from(base64.len() / 4 * 3 - padding).unwrap()
}

#[tokio::test]
async fn s49_references_keep_type_and_value() {
    let world = World::start().await;
    let answer = json!({ "n": 1.5, "t": "text", "o": { "k": [1, null, true] }, "a/b": "slash" });
    let args = json!({ "answer": {
        "number": "${a:/n}", "text": "${a:/t}", "object": "${a:/o}", "item": "${a:/o/k/0}", "slash": "${a:/a~1b}",
        "inside": "n=${a:/n}, o=${a:/o}", "escaped": "$${a:/n}", "input": "${input:/city}",
        "default": { "$from": "a", "path": "/nowhere", "default": 7 },
    } });
    let steps = json!([
        call("a", "script.pure", json!({ "answer": answer })),
        call("b", "script.pure", args)
    ]);
    let run_id = world
        .create(json!({ "document": document(steps), "input": { "city": "Bern" } }))
        .await;
    let run = world.ended(&run_id).await;
    assert_eq!(
        run["output"],
        json!({
            "number": 1.5, "text": "text", "object": { "k": [1.0, null, true] }, "item": 1.0, "slash": "slash",
            "inside": "n=1.5, o={\"k\":[1,null,true]}", "escaped": "${a:/n}", "input": "Bern", "default": 7.0,
        })
    );

    let missing = json!([
        call("a", "script.pure", json!({})),
        call("b", "script.pure", json!({ "x": "${a:/nowhere}" }))
    ]);
    let run_id = world.run(missing).await;
    assert_eq!(world.ended(&run_id).await["error"]["code"], "INPUT_UNRESOLVED");
    assert_eq!(world.called(&run_id), ["a"], "and it is not retried");

    let later = json!([
        call("a", "script.pure", json!({ "x": "${b:/y}" })),
        with(
            call("b", "script.pure", json!({})),
            json!({ "depends_on": ["a"] })
        )
    ]);
    let refusal = world
        .refusal("RunService/CreateRun", json!({ "document": document(later) }))
        .await;
    assert_eq!(
        refusal.is(),
        (Code::InvalidArgument, "PLAN_INVALID"),
        "{refusal:?}"
    );

    let large = call("a", "script.pure", json!({ "bytes": 900_000 }));
    let twice = call(
        "b",
        "script.pure",
        json!({ "x": "${a:/text}", "y": "${a:/text}", "z": "${a:/text}" }),
    );
    let run_id = world.run(json!([large, twice])).await;
    assert_eq!(world.ended(&run_id).await["error"]["code"], "INPUT_TOO_LARGE");
    assert_eq!(world.called(&run_id), ["a"]);
    world.close().await;
}

#[tokio::test]
async fn s40_documents_of_other_formats_become_plans_and_run() {
    let world = World::start().await;
    let id = "0b9e7a34-51c2-4d8e-8f60-1a2b3c4d5e01";
    let cases = [
        (
            "narrative/1",
            json!({"requestId": id, "tools": [
                {"toolId": "one", "toolPath": "script.pure", "input": {"answer": {"n": 1}}},
                {"toolId": "two", "toolPath": "script.pure", "input": {}, "dependencies": ["one"]},
            ]}),
            2,
        ),
        (
            "decomposition/1",
            json!({"goal": "Compare", "steps": [
                {"id": "one", "description": "Read one"}, {"id": "two", "description": "Join", "depends_on": ["one"]},
            ]}),
            2,
        ),
        (
            "autonomous/1",
            json!({"name": "Morning", "goal": "Brief", "steps": [
                {"id": "s1", "orderNum": 1, "type": "tool_call", "name": "One", "config": {"toolName": "script.pure", "toolArgs": {}}},
            ]}),
            1,
        ),
        (
            "core/1",
            json!({"goal": "Do it", "steps": [
                {"id": 1, "description": "First", "toolName": "script.pure", "toolArgs": {}, "dependsOn": []},
            ]}),
            1,
        ),
        (
            "protocol/1",
            json!({"objective": "Make it", "steps": [
                {"stepIndex": 0, "toolName": "script.pure", "description": "First", "input": {}},
            ]}),
            1,
        ),
    ];
    for (format, source, steps) in cases {
        let request = json!({ "format": format, "source_document": source });
        let imported = world.call("PlanService/ImportPlan", request).await;
        assert_eq!(imported["document"]["schema"], "escapement.plan/1", "{format}");
        let run = json!({ "document": imported["document"], "preset": imported["preset"] });
        let run = world.ended(&world.create(run).await).await;
        assert_eq!(
            (&run["state"], &run["total_steps"]),
            (&json!("completed"), &json!(steps)),
            "{format}: {run:#}"
        );
        assert_eq!(run["revision_digest"], imported["revision_digest"], "{format}");
    }
    let nobody = json!({"format": "narrative/1", "source_document": {"tools": [{"toolPath": "x"}]}});
    let refusal = world.refusal("PlanService/ImportPlan", nobody).await;
    assert_eq!(refusal.is(), (Code::InvalidArgument, "PLAN_INVALID"));
    let paths: Vec<&str> = refusal.paths().iter().map(|(path, _)| *path).collect();
    assert!(
        paths.contains(&"source_document.requestId") && paths.iter().any(|path| path.ends_with("toolId")),
        "{refusal:?}"
    );
    world.close().await;
}

#[tokio::test]
async fn s41_conditions_take_the_side_of_their_value() {
    let world = World::start().await;
    let a = call(
        "a",
        "script.pure",
        json!({ "answer": { "n": 3, "t": "red", "list": [1, 2] } }),
    );
    for (expression, expected) in [
        ("true", "yes"),
        ("false", "no"),
        ("result:a", "yes"),
        ("results.a.n > 2", "yes"),
        ("results.a.n == 4", "no"),
        ("results.a.t == \"red\"", "yes"),
        ("results.a.t != 'red'", "no"),
        ("size(results.a.list) == 2 && input.on", "yes"),
    ] {
        let steps = json!([
            a.clone(),
            condition("ask", expression),
            call("yes", "script.pure", json!({})),
            with(call("no", "script.pure", json!({})), json!({})),
        ]);
        let run_id = world
            .create(json!({ "document": document(steps), "input": { "on": true } }))
            .await;
        let run = world.ended(&run_id).await;
        assert_eq!(run["state"], "completed", "{expression}: {run:#}");
        assert_eq!(world.called(&run_id), ["a", expected], "{expression}");
    }
    for broken in ["results.a.n > 'x'", "results.nobody.x == 1", "1 +"] {
        let steps = json!([
            a.clone(),
            condition("ask", broken),
            call("yes", "script.pure", json!({})),
            call("no", "script.pure", json!({}))
        ]);
        match world
            .try_call(
                "RunService/CreateRun",
                crate::plan_words::unattended(json!({ "document": document(steps) })),
            )
            .await
        {
            Ok(created) => {
                let run = world.ended(&text(&created["run"]["run_id"])).await;
                assert_eq!(run["error"]["code"], "EXPRESSION_FAILED", "{broken}: {run:#}");
            }
            Err(refusal) => assert_eq!(refusal.is(), (Code::InvalidArgument, "PLAN_INVALID"), "{broken}"),
        }
    }
    world.close().await;
}

#[tokio::test]
async fn s41_a_model_chooses_one_of_the_choices_or_the_step_fails() {
    let world = World::start().await;
    let decide = json!({ "key": "decide", "type": "llm_decision", "config": { "prompt": "Which?", "choices": ["Red", "Blue"] } });
    for (said, expected) in [
        (vec![" blue\n"], Some("Blue")),
        (vec!["green", "Red"], Some("Red")),
        (vec!["green", "pink"], None),
    ] {
        world.shared.model_says(&said);
        let run_id = world.run(json!([decide.clone()])).await;
        let run = world.ended(&run_id).await;
        assert_eq!(world.calls_of(&run_id).len(), said.len(), "{said:?}");
        match expected {
            Some(choice) => assert_eq!(run["output"]["decision"], choice),
            None => assert_eq!(run["error"]["code"], "DECISION_INVALID"),
        }
    }
    world.close().await;
}
