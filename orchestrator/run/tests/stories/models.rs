//! Models that ask for tools: what is called, what is refused, what they are told.

use escapement_model::opaque::ValueView;
use escapement_run::journal::Decision::{Approve, Deny, Happened};
use escapement_run::journal::{Event, OutcomeClass};
use escapement_run::presets::Preset;

use escapement_run::session::{Health, set_health};
use escapement_run::spec::{ActionProfile, Spec};
use escapement_run::{Input, SessionNews, preview};
use serde_json::{Value, json};

use crate::world::{World, and, call, json_of, spec};

fn asks(tools: &[&str], more: Value) -> Value {
    let config = json!({"prompt": "How much is it?", "tools": tools});
    json!([{"key": "d", "type": "llm_decision", "name": "Count", "config": and(config, more)}])
}

fn wants(calls: Value) -> Value {
    json!({"content": "", "tool_calls": calls, "finish_reason": "tool_calls"})
}

fn sum(of: Value) -> Value {
    json!({"id": "x", "name": "pure.sum", "arguments": {"of": of}})
}

fn count(world: &World, is: impl Fn(&Event) -> bool) -> usize {
    let events = world.journal.iter().filter_map(|entry| entry.event.as_ref());
    events.filter(|event| is(event)).count()
}

fn n_calls(world: &World) -> usize {
    count(world, |event| matches!(event, Event::ToolCalled(_)))
}

/// What the model was told of its calls, in the conversation that is in flight.
fn told(world: &World) -> Vec<Value> {
    let messages = world.payload("d")["messages"].as_array().unwrap().clone();
    let tools = messages.into_iter().filter(|message| message["role"] == "tool");
    tools
        .map(|message| serde_json::from_str(message["content"].as_str().unwrap()).unwrap())
        .collect()
}

// RUN-13.1, RUN-13.2, RUN-13.6
#[test]
fn a_model_calls_its_tools_one_after_another_and_is_told_what_they_said() {
    let mut world = World::of(asks(&["pure.sum"], json!({})));
    assert_eq!(world.payload("d")["tool_choice"], json!("auto"));
    world.complete("d", wants(json!([sum(json!([1, 2])), sum(json!([3]))])));
    assert_eq!(world.payload("d"), json!({"of": [1, 2]}));
    assert_eq!(world.live_unit("d", Some(2_000_000)), Some(world.live("d")));
    assert_eq!(
        world.environment("d")["escapement_run"]["index"],
        json!(2_000_000)
    );
    world.complete("d", json!({"sum": 3}));
    assert_eq!(world.payload("d"), json!({"of": [3]}));
    world.complete("d", json!({"sum": 3}));
    assert_eq!(told(&world), [json!({"sum": 3}), json!({"sum": 3})]);
    world.complete("d", json!({"content": "Six."}));
    let made = json!({"name": "pure.sum", "status": "completed"});
    assert_eq!(
        world.output(),
        json!({"decision": "Six.", "tool_calls": [made, made]})
    );
}

// RUN-14.3
#[test]
fn tools_patch_the_session_once_the_model_is_done_and_the_model_does_not() {
    let mut world = World::of(asks(&["pure.sum"], json!({})));
    let patches = |patch: Value| json!({ "$state_patch": patch });
    let calls = wants(json!([sum(json!([1])), sum(json!([2]))]));
    world.complete("d", and(calls, patches(json!({"by": "model"}))));
    world.complete("d", patches(json!({"a": 1, "b": 1})));
    world.complete("d", patches(json!({"b": 2})));
    assert_eq!(world.run.state().session, None, "the step has not completed");
    world.complete(
        "d",
        and(json!({"content": "Done."}), patches(json!({"by": "model"}))),
    );
    let session = world.run.state().session.clone().unwrap();
    assert_eq!(
        json_of(ValueView::Struct(&session.state.inline)),
        json!({"a": 1, "b": 2})
    );
}

// RUN-13.6
#[test]
fn the_conversation_is_this_one() {
    let mut world = World::of(asks(
        &["pure.sum", "mail.send"],
        json!({"choices": ["many", "few"]}),
    ));
    let asked = json!({"content": "Let me see.", "tool_calls": [sum(json!([1])), {"name": "../../etc", "arguments": "{"}]});
    world.complete("d", asked);
    world.complete("d", json!({"sum": 1}));
    crate::prompts::is_golden("conversation", &world.payload("d"));
}

// RUN-13.3
#[test]
fn what_is_none_of_the_tools_or_not_what_they_take_is_refused_to_the_model() {
    let mut world = World::of(asks(&["pure.sum"], json!({})));
    let arguments = |arguments: Value| json!({"name": "pure.sum", "arguments": arguments});
    let deep = format!("{{\"of\":{}{}}}", "[".repeat(1000), "]".repeat(1000));
    world.complete(
        "d",
        wants(json!([
            {"name": "pure.work", "arguments": {}},
            {"name": "x".repeat(5000), "id": "../../etc/passwd"},
            "pure.sum",
            arguments(json!("{")),
            arguments(json!([1])),
            arguments(json!("[1]")),
            arguments(json!({"of": ["a"]})),
            arguments(json!({"of": [1, 2, 3, 4]})),
            arguments(json!({"of": [1.5]})),
            arguments(json!({"of": [], "more": 1})),
            arguments(json!({})),
            arguments(json!(deep)),
            arguments(json!(format!("{{\"of\":[],\"x\":\"{}\"}}", "x".repeat(200_000)))),
        ])),
    );
    assert_eq!(n_calls(&world), 2, "nothing but the two turns was dispatched");
    let refusals: Vec<String> = told(&world)
        .iter()
        .map(|told| {
            let text = |name: &str| told["error"][name].as_str().unwrap().to_owned();
            format!("{} {}", text("code"), text("message"))
        })
        .collect();
    let expected = [
        "TOOL_NOT_ALLOWED the step has no tool \"pure.work\"",
        &format!("TOOL_NOT_ALLOWED the step has no tool {:?}", "x".repeat(100)),
        "TOOL_NOT_ALLOWED the step has no tool \"\"",
        "INVALID_PAYLOAD arguments: are no JSON, a key is expected at byte 1",
        "INVALID_PAYLOAD arguments: are no object",
        "INVALID_PAYLOAD arguments: are no object",
        "INVALID_PAYLOAD arguments/of/0: must be of type integer",
        "INVALID_PAYLOAD arguments/of: must have at most 3 items",
        "INVALID_PAYLOAD arguments/of/0: must be of type integer",
        "INVALID_PAYLOAD arguments/more: is not a known field",
        "INVALID_PAYLOAD arguments/of: is required",
        "INVALID_PAYLOAD arguments: are no JSON, more than 40 levels are nested at byte 45",
        "INVALID_PAYLOAD arguments: have more than 131072 bytes",
    ];
    assert_eq!(refusals, expected);
}

// RUN-7.7
#[test]
fn the_bounds_of_calls_by_models_count_every_substitution() {
    let world = World::of(asks(&["pure.sum"], json!({"max_iterations": 3})));
    let spec = &world.run.state().spec;
    let bounds = |alternatives: &[&str]| {
        let profile = ActionProfile {
            action: "pure.sum".to_owned(),
            alternatives: alternatives.iter().map(|&action| action.to_owned()).collect(),
            ..ActionProfile::default()
        };
        let bounds = preview(world.run.plan(), spec, &[profile]);
        (bounds.tool_calls_max, bounds.model_calls_max)
    };
    let (tool_calls, model_calls) = bounds(&[]);
    assert_eq!(tool_calls, model_calls / 3 * 2 * 16);
    let times = u64::from(spec.limits.max_substitutions) + 1;
    assert_eq!(bounds(&["pure.work"]), (times * tool_calls, times * model_calls));
}

// RUN-13.3
#[test]
fn of_a_hundred_calls_sixteen_are_looked_at() {
    let mut world = World::of(asks(&["pure.sum"], json!({})));
    let calls: Vec<Value> = (0..100).map(|n| sum(json!([n]))).collect();
    world.complete("d", wants(json!(calls)));
    for n in 0..16 {
        assert_eq!(world.payload("d"), json!({"of": [n]}));
        world.complete("d", json!({}));
    }
    let payload = world.payload("d");
    let messages = payload["messages"].as_array().unwrap();
    assert_eq!(
        messages.last().unwrap()["content"],
        json!("You asked for 100 tools at once. Only the first 16 were looked at.")
    );
    assert_eq!(messages.len(), 2 + 1 + 16 + 1);
}

// RUN-13.4
#[test]
fn a_tool_that_fails_fails_no_step() {
    let retries = json!({"retry": {"max_retries": 1, "backoff_ms": 10}});
    let mut steps = asks(&["mail.send"], json!({}));
    steps[0] = and(steps[0].clone(), retries);
    let mut world = World::of(steps);
    world.complete(
        "d",
        wants(json!([{"name": "mail.send", "arguments": {"to": "bob"}}])),
    );
    world.fail("d", OutcomeClass::Failed).pass(10);
    assert_eq!(world.payload("d"), json!({"to": "bob"}), "it is tried again");
    world.fail("d", OutcomeClass::Failed);
    assert_eq!(told(&world)[0]["error"]["message"], json!("it broke"));
    world.complete("d", json!({"content": "no mail"}));
    assert_eq!(world.output()["decision"], json!("no mail"));
}

// RUN-13.3, RUN-14.6
#[test]
fn a_tool_whose_skill_is_out_is_neither_offered_nor_called() {
    let document = json!({"schema": "escapement.plan/1", "name": "Story", "steps": asks(&["pure.sum", "pure.more"], json!({}))});
    let shared = Spec {
        session_id: "s".to_owned(),
        ..spec(Preset::Standard)
    };
    let mut world = World::queued(document, shared);
    let mut skills = Vec::new();
    set_health(&mut skills, "pure.sum", Health::PermanentFailure, 3);
    world.input(Input::Session(SessionNews {
        state: None,
        health: Some((1, skills)),
    }));
    world.input(Input::Admit);
    let tools = world.payload("d")["tools"].clone();
    let names: Vec<_> = tools
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| &tool["name"])
        .collect();
    assert_eq!(names, ["pure.more"]);
    world.complete("d", wants(json!([sum(json!([1]))])));
    assert_eq!(told(&world)[0]["error"]["code"], json!("TOOL_NOT_ALLOWED"));
    assert_eq!(n_calls(&world), 2, "the two turns");
}

// RUN-13.2, RUN-13.4
#[test]
fn a_gated_tool_waits_for_its_approval_and_a_denial_is_told() {
    let careful = || Spec {
        autonomy_level: 2,
        ..spec(Preset::Standard)
    };
    let send = wants(json!([{"name": "mail.send", "arguments": {"to": "bob"}}]));
    let mut world = World::with(asks(&["mail.send"], json!({})), careful());
    world.complete("d", send.clone());
    assert_eq!(world.shows(), "waiting: d running");
    assert_eq!(n_calls(&world), 1);
    world.answer(Approve, Value::Null);
    assert_eq!(world.payload("d"), json!({"to": "bob"}));

    let mut denied = World::with(asks(&["mail.send"], json!({})), careful());
    denied.complete("d", send).answer(Deny, Value::Null);
    assert_eq!(told(&denied)[0]["error"]["code"], json!("APPROVAL_DENIED"));
}

// RUN-13.2
#[test]
fn a_destructive_tool_is_put_to_the_safety_check() {
    let checked = Spec {
        autonomy_level: 3,
        safety_action: "pure.check".to_owned(),
        ..spec(Preset::Standard)
    };
    let mut world = World::with(asks(&["danger.wipe"], json!({})), checked);
    world.complete(
        "d",
        wants(json!([{"name": "danger.wipe", "arguments": {"disk": 1}}])),
    );
    assert_eq!(world.payload("d")["action"], json!("danger.wipe"));
    assert_eq!(
        world.environment("d")["escapement_run"]["index"],
        json!(4_000_000)
    );
    world.complete("d", json!({"safe": true}));
    assert_eq!(world.payload("d"), json!({"disk": 1}));
}

// RUN-13.2, RUN-5.2
#[test]
fn an_effect_in_doubt_of_a_tool_is_asked_about() {
    let mut world = World::of(asks(&["mail.send"], json!({})));
    world.complete("d", wants(json!([{"name": "mail.send"}])));
    world.fail("d", OutcomeClass::Unknown);
    assert_eq!(world.shows(), "waiting: d running");
    world.answer(Happened, json!({"id": 7}));
    assert_eq!(told(&world), [json!({"id": 7})]);
}

// RUN-13.5
#[test]
fn the_last_turn_ends_in_an_answer_or_fails() {
    let mut world = World::of(asks(&["pure.sum"], json!({"max_iterations": 5})));
    for _ in 0..4 {
        assert_eq!(world.payload("d")["tool_choice"], json!("auto"));
        world.complete("d", wants(json!([sum(json!([1]))])));
        world.complete("d", json!({}));
    }
    assert_eq!(world.payload("d")["tool_choice"], json!("none"));
    world.complete("d", wants(json!([sum(json!([1]))])));
    assert_eq!(world.shows(), "failed: d failed ITERATIONS_EXCEEDED");

    let mut world = World::of(asks(&["pure.sum"], json!({"max_iterations": 1})));
    let both = json!({"content": "Three.", "tool_calls": [sum(json!([1]))]});
    world.complete("d", both);
    assert_eq!(world.output(), json!({"decision": "Three.", "tool_calls": []}));
    assert_eq!(n_calls(&world), 1);
}

// RUN-13.6
#[test]
fn what_tools_say_is_cut_and_the_newest_has_room_first() {
    let mut world = World::of(asks(&["pure.sum"], json!({"max_iterations": 100})));
    for _ in 0..20 {
        world.complete("d", wants(json!([sum(json!([1]))])));
        world.complete("d", json!({"text": "é".repeat(100_000)}));
    }
    let messages = world.payload("d")["messages"].as_array().unwrap().clone();
    let results: Vec<&str> = messages
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    assert_eq!(results[0], "… (cut)");
    assert!(results[19].len() < (32 << 10) + 20 && results[19].ends_with(" … (cut)"));
    let n_bytes: usize = results.iter().map(|result| result.len()).sum();
    assert!(n_bytes < 513 << 10, "{n_bytes}");
}

// RUN-13.1, RUN-9.4
#[test]
fn a_restart_in_the_middle_of_a_turn_or_a_tool_sends_the_same_again_and_nothing_else() {
    let mut world = World::of(asks(&["pure.sum"], json!({})));
    for output in [
        wants(json!([sum(json!([1]))])),
        json!({"sum": 1}),
        json!({"content": "One."}),
    ] {
        let (before, n_effects) = (world.effects.last().cloned(), world.effects.len());
        world.input(Input::Recovered);
        assert_eq!(world.effects.len(), n_effects + 1);
        assert_eq!(world.effects.last().cloned(), before);
        world.complete("d", output);
    }
    assert_eq!(n_calls(&world), 3);
    assert_eq!(world.output()["decision"], json!("One."));
}

// RUN-13.1, RUN-8.1
#[test]
fn a_tool_waits_while_the_run_is_paused() {
    let mut world = World::of(asks(&["pure.sum"], json!({})));
    world.input(Input::Pause {
        reason: String::new(),
    });
    world.complete("d", wants(json!([sum(json!([1]))])));
    assert_eq!(world.shows(), "paused: d running");
    world.input(Input::Resume {
        reason: String::new(),
    });
    assert_eq!(world.payload("d"), json!({"of": [1]}));
}

// RUN-13.3
#[test]
fn a_step_without_tools_looks_at_no_calls() {
    let steps = json!([call("a"), {"key": "d", "type": "llm_decision", "depends_on": ["a"], "config": {"prompt": "?"}}]);
    let mut world = World::of(steps);
    world.complete("a", json!({}));
    assert!(world.payload("d").get("tools").is_none());
    world.complete("d", json!({"content": "Yes.", "tool_calls": [sum(json!([1]))]}));
    assert_eq!(world.output(), json!({"decision": "Yes.", "tool_calls": []}));
}

// RUN-13.6
#[test]
fn a_conversation_that_is_too_large_reads_no_further_results() {
    let calls = (0..100).map(|n| call(&format!("c{n}")));
    let asks = json!({"key": "d", "type": "llm_decision", "config": {"prompt": "Well?", "context": "all"}});
    let mut world = World::of(calls.chain([asks]).collect());
    for n in 0..99 {
        world.complete(&format!("c{n}"), json!({"text": "x".repeat(64 << 10)}));
    }
    world.disk.n_bytes_read();
    world.complete("c99", json!({"text": "x".repeat(64 << 10)}));
    assert_eq!(world.error().0, "INPUT_TOO_LARGE");
    let n_bytes = world.disk.n_bytes_read();
    assert!(n_bytes < 40 * (64 << 10), "{n_bytes} of {}", 100 * (64 << 10));
}
