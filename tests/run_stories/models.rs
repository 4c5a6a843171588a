//! Models that call tools, on real processes: what they may call, and what a kill repeats.

use crate::plan_words::{call, document, with};
use crate::world::World;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A run whose only step asks a model that may call these tools.
async fn asks(world: &World, tools: &[&str]) -> String {
    let config = json!({ "prompt": "How much?", "tools": tools });
    let steps = json!([{ "key": "think", "type": "llm_decision", "config": config }]);
    world.create(json!({ "document": document(steps) })).await
}

fn wants(name: &str, arguments: Value) -> Value {
    json!({ "content": "", "tool_calls": [{ "id": "1", "name": name, "arguments": arguments }] })
}

async fn world() -> World {
    let world = World::start().await;
    let profile = json!({ "action": "llm.chat", "effect": "llm", "risk": "safe" });
    world.profile(profile).await;
    world
}

#[tokio::test]
async fn s37_a_model_gets_its_tools_and_no_others() {
    let world = world().await;
    world.shared.model_answers([
        wants("script.effect", json!({})),
        wants("script.pure", json!("{\"answer\": {\"sum\": 3}}")),
        wants("script.pure", json!({})),
        wants("script.pure", json!({})),
        json!({ "content": "Three.", "tool_calls": [{ "name": "script.pure", "arguments": {} }] }),
    ]);
    let run_id = asks(&world, &["script.pure"]).await;
    let run = world.ended(&run_id).await;
    assert_eq!(run["state"], "completed", "{run}");
    assert_eq!(run["output"]["decision"], "Three.");
    let calls = world.calls_of(&run_id);
    let of = |action: &str| {
        calls
            .iter()
            .filter(|call| call["action"] == action)
            .collect::<Vec<_>>()
    };
    assert_eq!(of("llm.chat").len(), 5, "the fifth turn is the last");
    assert_eq!(of("script.pure").len(), 3);
    assert!(
        of("script.effect").is_empty(),
        "what is no tool of the step is not called"
    );
    let turns = of("llm.chat");
    let told = turns[1]["payload"]["messages"].to_string();
    assert!(told.contains("TOOL_NOT_ALLOWED"), "{told}");
    assert!(turns[2]["payload"]["messages"].to_string().contains("sum"));
    assert_eq!(turns[0]["payload"]["tools"][0]["name"], "script.pure");
    assert_eq!(turns[3]["payload"]["tool_choice"], "auto");
    assert_eq!(turns[4]["payload"]["tool_choice"], "none");
    let replayed = world
        .call("RunService/ReplayRun", json!({ "run_id": run_id }))
        .await;
    assert_eq!(replayed["identical"], true, "{replayed}");
    world.close().await;
}

#[tokio::test]
async fn s37_no_turn_that_was_answered_is_asked_again() {
    let mut world = world().await;
    world.shared.model_answers([
        wants("script.pure", json!({ "gate": "tool", "answer": { "sum": 3 } })),
        json!({ "gate": "turn", "content": "lost" }),
        json!({ "content": "Three." }),
    ]);
    let run_id = asks(&world, &["script.pure"]).await;
    world.until_calls(&run_id, 2).await;
    world.crash().await;
    world.shared.open("tool");
    world.until_calls(&run_id, 4).await;
    world.crash().await;
    world.shared.open("turn");
    let run = world.ended(&run_id).await;
    assert_eq!(run["output"]["decision"], "Three.", "{run}");
    let mut calls: BTreeMap<(String, i64), usize> = BTreeMap::new();
    for call in world.calls_of(&run_id) {
        let action = call["action"].as_str().unwrap().to_owned();
        *calls
            .entry((action, call["index"].as_f64().unwrap() as i64))
            .or_default() += 1;
    }
    let expected = [
        (("llm.chat", 0), 1),
        (("llm.chat", 1), 2),
        (("script.pure", 2_000_000), 2),
    ];
    let expected = expected.map(|((action, index), count)| ((action.to_owned(), index), count));
    assert_eq!(
        calls,
        expected.into(),
        "what was in flight is repeated, what was answered is not"
    );
    let replayed = world
        .call("RunService/ReplayRun", json!({ "run_id": run_id }))
        .await;
    assert_eq!(replayed["identical"], true, "{replayed}");
    world.close().await;
}

#[tokio::test]
async fn s78_a_budget_warns_stops_and_is_extended() {
    let world = world().await;
    let said = || json!({ "content": "yes", "usage": { "prompt_tokens": 30, "completion_tokens": 10, "total_tokens": 40 } });
    world.shared.model_answers([said(), said(), said()]);
    let think = |key: &str| json!({ "key": key, "type": "llm_decision", "config": { "prompt": "?" } });
    let request =
        |budget: Value| json!({ "document": document(json!([think("a"), think("b")])), "budget": budget });
    let run_id = world
        .create(request(json!({ "max_llm_calls": 1, "max_tokens": 100_000 })))
        .await;
    let asked = world.open_request(&run_id).await;
    assert_eq!(asked["kind"], "budget_extension", "{asked}");
    assert_eq!(
        world.calls_of(&run_id).len(),
        1,
        "nothing is sent without a budget"
    );
    assert_eq!(
        world.calls_of(&run_id)[0]["payload"]["max_tokens"].as_f64(),
        Some(4096.0)
    );
    let events = world.event_names(&run_id).await;
    assert_eq!(
        events.iter().filter(|name| *name == "budget_warning").count(),
        1,
        "{events:?}"
    );
    world.respond(&asked, json!({ "extend": true })).await.unwrap();
    let run = world.ended(&run_id).await;
    assert_eq!(run["state"], "completed", "{run}");
    assert_eq!(run["usage"]["total_tokens"], 80, "{run}");
    assert_eq!(run["budget"]["max_llm_calls"], 2, "{run}");
    let replayed = world
        .call("RunService/ReplayRun", json!({ "run_id": run_id }))
        .await;
    assert_eq!(replayed["identical"], true, "{replayed}");

    let hard = world
        .create(request(json!({ "max_llm_calls": 1, "exhausted": "fail" })))
        .await;
    let run = world.ended(&hard).await;
    assert_eq!(run["error"]["code"], "BUDGET_EXHAUSTED", "{run}");
    assert_eq!(world.calls_of(&hard).len(), 1);
    let wrong = json!({ "max_cost_micros": 5, "warn_ratio": 2, "exhausted": "no" });
    let refusal = world.refusal("RunService/CreateRun", request(wrong)).await;
    let text = format!("{refusal:?}");
    for field in ["budget.prices", "budget.warn_ratio", "budget.exhausted"] {
        assert!(text.contains(field), "{text}");
    }
    world.close().await;
}

#[tokio::test]
async fn s78_what_is_in_flight_is_reserved_so_that_no_more_is_spent_than_the_budget_has() {
    let world = world().await;
    let usage = json!({ "prompt_tokens": 40, "completion_tokens": 190, "total_tokens": 230 });
    let said = json!({ "gate": "model", "content": "yes", "usage": usage });
    world.shared.model_answers(std::iter::repeat_n(said, 4));
    let think =
        |key: &str| json!({ "key": key, "type": "llm_decision", "async": true, "config": { "prompt": "?" } });
    let steps = json!([think("a"), think("b"), think("c"), think("d")]);
    let request = json!({
        "document": with(document(steps), json!({ "parallel": true })),
        "limits": { "max_concurrency": 4 },
        "budget": { "max_tokens": 650, "answer_tokens": 200 },
    });
    let run_id = world.create(request).await;
    let spent = |run: &Value| {
        let (used, limit) = (&run["usage"]["total_tokens"], &run["budget"]["max_tokens"]);
        let (used, limit) = (used.as_i64().unwrap(), limit.as_i64().unwrap());
        assert!(used <= limit, "{used} of {limit} tokens: {run:#}");
        (used, limit)
    };
    // There is room for two answers of 200 tokens with their prompts; two more wait until it is known what those used.
    world.until_calls(&run_id, 2).await;
    let awaited = |names: &[String]| names.iter().filter(|name| *name == "budget_awaited").count();
    assert_eq!(awaited(&world.event_names(&run_id).await), 2);
    let (reserved, _) = spent(&world.get(&run_id).await);
    assert!(reserved > 2 * 200, "{reserved} tokens are reserved");
    world.shared.open("model");
    // Another one might use more than what is left.
    let asked = world.open_request(&run_id).await;
    assert_eq!(asked["kind"], "budget_extension", "{asked}");
    assert_eq!(world.calls_of(&run_id).len(), 2);
    assert_eq!(spent(&world.get(&run_id).await), (2 * 230, 650));
    world.respond(&asked, json!({ "extend": true })).await.unwrap();
    let run = world.ended(&run_id).await;
    assert_eq!(run["state"], "completed", "{run:#}");
    assert_eq!(spent(&run), (4 * 230, 2 * 650));
    world.close().await;
}

#[tokio::test]
async fn s92_results_have_their_words_and_a_model_is_told_all_that_came_before() {
    let world = world().await;
    world.shared.model_says(&["blue"]);
    let config = json!({ "prompt": "Which colour?", "choices": ["Red", "Blue"] });
    let steps = json!([
        call("a", "script.pure", json!({ "answer": { "seen": "a blue bear" } })),
        { "key": "decide", "type": "llm_decision", "config": config },
    ]);
    let request = json!({ "document": document(steps), "user_id": "ada", "llm_model": "small" });
    let run_id = world.create(request).await;
    assert_eq!(world.ended(&run_id).await["state"], "completed");
    assert_eq!(
        world.step(&run_id, "a").await["result_view"],
        json!({ "type": "tool_call", "tool_name": "script.pure", "result": { "seen": "a blue bear" } })
    );
    assert_eq!(
        world.step(&run_id, "decide").await["result_view"],
        json!({ "type": "llm_decision", "decision": "Blue", "tool_calls": [] })
    );
    let calls = world.calls_of(&run_id);
    assert!(calls.iter().all(|call| call["user_id"] == "ada"), "{calls:#?}");
    let messages = calls[1]["payload"]["messages"].to_string();
    for told in ["Which colour?", "Red", "Blue", "a blue bear"] {
        assert!(messages.contains(told), "{told}: {messages}");
    }
    assert_eq!(calls[1]["payload"]["model"], "small");
    let evidence = json!({ "run_id": run_id, "step_key": "decide" });
    let evidence = world.call("RunService/ListEvidence", evidence).await;
    assert_eq!(evidence["evidence"][0]["model"], "small", "{evidence:#}");
    world.close().await;
}

#[tokio::test]
async fn s98_a_request_in_plain_words_has_one_of_eight_intents() {
    let world = World::start().await;
    for (query, intent, mime_type, generates) in [
        ("crea una imagen de un gato", "image_generate", "image/png", true),
        (
            "crea un pdf de https://example.com",
            "pdf_generate",
            "application/pdf",
            true,
        ),
        (
            "busca información sobre X",
            "web_search",
            "application/json",
            false,
        ),
        ("https://example.com", "browse_url", "text/html", false),
        ("hola", "generic", "", false),
    ] {
        let said = world
            .call("RunService/ClassifyIntent", json!({ "query": query }))
            .await;
        let found = (&said["intent"], &said["generates"]);
        assert_eq!(found, (&json!(intent), &json!(generates)), "{query}");
        assert!(
            intent == "generic" || said["mime_type"] == mime_type,
            "{query}: {said}"
        );
    }
    let own = json!({ "query": "crea un pdf", "intent": "web_search" });
    let said = world.call("RunService/ClassifyIntent", own).await;
    assert_eq!(said["intent"], "web_search", "the caller's own intent wins");
    world.close().await;
}
