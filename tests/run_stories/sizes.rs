//! Requests and runs as large as callers can make them: the process lives, other runs complete, and each caller gets a reason.

use crate::plan_words::{call, document, text, unattended, with};
use crate::world::World;
use serde_json::{Map, Value, json};
use tonic::Code;

fn wide(n_chars: usize) -> String {
    "\u{10348}".repeat(n_chars)
}

fn one_call() -> Value {
    document(json!([call("a", "script.pure", json!({}))]))
}

#[tokio::test]
async fn a_run_with_every_text_at_its_limit_is_refused_and_the_others_go_on() {
    let world = World::start().await;
    let names = |n: usize, chars: usize| -> Vec<String> {
        (0..n).map(|n| format!("{n:03}{}", wide(chars - 3))).collect()
    };
    let labels: Map<String, Value> = (0..64)
        .map(|n| (format!("{n:02}{}", wide(253)), json!(wide(1_024))))
        .collect();
    let request = json!({
        "document": one_call(),
        "labels": labels,
        "fallback": { "templates": { "texts": vec![wide(5_000); 64] } },
        "constraints": { "forbidden_actions": names(256, 100) },
        "planner": { "catalogue": names(256, 100), "instructions": wide(20_000) },
        "policy": { "approvers": names(64, 255) },
    });
    let other = world.create(json!({ "document": one_call() })).await;
    for method in ["RunService/CreateRun", "RunService/CreateRun"] {
        let refusal = world.refusal(method, request.clone()).await;
        assert_eq!(refusal.is(), (Code::InvalidArgument, "REQUEST_TOO_LARGE"));
    }
    let preview = json!({ "run": request });
    let refusal = world.refusal("RunService/PreviewRun", preview).await;
    assert_eq!(refusal.is(), (Code::InvalidArgument, "REQUEST_TOO_LARGE"));
    assert_eq!(world.ended(&other).await["state"], "completed");
    world.close().await;
}

#[tokio::test]
async fn a_user_with_the_longest_name_is_told_of_runs_and_harms_nobody() {
    let world = World::start().await;
    let request = json!({
        "document": one_call(), "namespace": "n".repeat(63), "user_id": wide(255), "notices": "all",
    });
    let run_id = world.create(request).await;
    let other = world.create(json!({ "document": one_call() })).await;
    for run_id in [&run_id, &other] {
        assert_eq!(world.ended(run_id).await["state"], "completed");
    }
    world.close().await;
}

#[tokio::test]
async fn a_large_run_that_falls_back_carries_what_a_revision_may_and_goes_on() {
    let world = World::start().await;
    let mut steps: Vec<Value> = (0..5)
        .map(|step| {
            let item =
                |n: usize| json!({ "tool_name": "script.pure", "tool_args": { "n": n, "step": step } });
            let items: Vec<Value> = (0..256).map(item).collect();
            json!({ "key": format!("all{step}"), "type": "parallel",
                "config": { "steps": items, "batch_size": 256 } })
        })
        .collect();
    steps.push(with(
        call("broken", "script.pure", json!({ "fail": "BROKEN" })),
        json!({ "retry": { "max_retries": 0 } }),
    ));
    let fallback = json!({ "action": { "action": "script.safe", "payload": {} } });
    let request = unattended(json!({ "document": document(json!(steps)), "fallback": fallback }));
    let run_id = text(&world.call("RunService/CreateRun", request).await["run"]["run_id"]);
    let run = world.ended(&run_id).await;
    assert_eq!(
        (&run["state"], &run["error"]["code"]),
        (&json!("failed"), &json!("BROKEN"))
    );
    assert_eq!(
        (&run["replans_count"], &run["outcome"]),
        (&json!(1), &json!("fallback")),
        "{run:#}"
    );
    world.close().await;
}
