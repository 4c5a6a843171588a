//! Whatever planners, models and handlers answer: it is read within bounds, and leads to what the law knows.

use escapement_run::journal::Event;
use escapement_run::presets::Preset;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::planning::{of_goal, offer, planned, planner};
use crate::world::{World, call, completed};

/// What a text is made of that a reader might trip over.
const PIECES: [&str; 24] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    ":",
    ",",
    "{\"",
    "\"}",
    "{}",
    "null",
    "true",
    "1e999",
    "-0",
    "\\u",
    "\\ud800",
    "\u{0}",
    "é\u{202e}",
    "```json",
    "\"steps\"",
    "\"plan\"",
    "${a:/b",
    "$from",
];

fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(&PIECES[..]), 0..40).prop_map(|pieces| pieces.concat())
}

/// Names that readers look for, and others.
fn name() -> impl Strategy<Value = String> {
    let known = [
        "plan",
        "content",
        "tool_calls",
        "name",
        "arguments",
        "steps",
        "key",
        "type",
        "config",
        "schema",
        "mime_type",
        "path",
        "data",
        "$artifacts",
        "tool_name",
        "tool_args",
        "depends_on",
    ];
    prop_oneof![
        prop::sample::select(known.to_vec()).prop_map(str::to_owned),
        text()
    ]
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(|flag| json!(flag)),
        prop::sample::select(vec![0.0, -1.0, 0.5, 1e308, 9_007_199_254_740_993.0])
            .prop_map(|number| json!(number)),
        text().prop_map(|text| json!(text)),
        prop::sample::select(vec![
            "pure.work",
            "tool_call",
            "escapement.plan/1",
            "image",
            "image/png",
            "${later}"
        ])
        .prop_map(|text| json!(text)),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(|items| json!(items)),
            prop::collection::btree_map(name(), inner, 0..6).prop_map(|entries| json!(entries)),
        ]
    })
}

/// The planner answers this: a plan, or a mistake that it is told of, in bounds.
fn answers(output: &Value) {
    let mut world = of_goal(planned(Preset::Standard));
    offer(&mut world, &["pure.work"]);
    planner(&mut world, completed(output.clone()));
    let planning = world.run.state().planning.clone().unwrap();
    let Some(previous) = planning.previous.first() else {
        assert!(
            world.last_events().contains(&"PlanCreated".to_owned()),
            "{output}"
        );
        return;
    };
    let parts = &previous.violations;
    assert!((1..=20).contains(&parts.len()), "{output}: {parts:?}");
    for part in parts {
        assert!(
            part.path.chars().count() <= 300 && part.message.chars().count() <= 300,
            "{part:?}"
        );
    }
    assert_eq!(
        world.last_events().last().unwrap(),
        "GenerationStarted",
        "{output}"
    );
}

/// The model answers this: its step ends, or the tools that it asks for are called or refused, 16 of them at most.
fn asks(output: &Value) {
    let config = json!({"prompt": "?", "tools": ["pure.work"]});
    let mut world = World::of(json!([{"key": "d", "type": "llm_decision", "config": config}]));
    world.complete("d", output.clone());
    let asked = world.journal.iter().filter_map(|entry| match &entry.event {
        Some(Event::ToolsAsked(asked)) => Some(asked.calls.len()),
        _ => None,
    });
    assert!(asked.clone().all(|n_calls| n_calls <= 16), "{output}");
    assert!(world.submitted() <= 2, "one after another: {output}");
    assert!(
        world.run.state().stage().is_end() || world.run.state().is_in_flight(),
        "{output}"
    );
}

/// The handler declares this: its step completes with 16 artifacts at most, or fails for good.
fn declares(artifacts: &Value) {
    let mut world = World::of(json!([call("a")]));
    world.complete("a", json!({"$artifacts": artifacts}));
    let state = world.run.state();
    assert!(state.artifacts.len() <= 16, "{artifacts}");
    let code = state.steps[0].error.as_ref().map(|error| error.code.as_str());
    assert!(
        matches!(code, None | Some("OUTPUT_INVALID")),
        "{artifacts}: {code:?}"
    );
    assert!(state.stage().is_end(), "{artifacts}");
}

fn declared() -> impl Strategy<Value = Value> {
    let field = || prop_oneof![text().prop_map(|text| json!(text)), json()];
    let one = (field(), field(), field()).prop_map(
        |(kind, path, data)| json!({"type": kind, "mime_type": "image/png", "path": path, "data": data}),
    );
    prop_oneof![
        json(),
        prop::collection::vec(one, 0..20).prop_map(|all| json!(all))
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    // RUN-11.5, RUN-11.6
    #[test]
    fn any_answer_of_a_planner_is_a_plan_or_a_mistake(plan in json(), content in text(), whole in json()) {
        answers(&json!({"plan": plan}));
        answers(&json!({"plan": content}));
        answers(&json!({"content": content}));
        answers(&json!({"content": format!("{content}{whole}{content}")}));
        if whole.is_object() {
            answers(&whole);
        }
    }

    // RUN-13.3
    #[test]
    fn any_call_of_a_tool_is_called_or_refused(calls in json(), arguments in json(), text in text(), n in 0_usize..40) {
        asks(&json!({"content": text, "tool_calls": calls}));
        let call = json!({"name": "pure.work", "arguments": arguments});
        asks(&json!({"content": "", "tool_calls": vec![call; n]}));
        asks(&json!({"tool_calls": [{"name": "pure.work", "arguments": text}]}));
    }

    // RUN-12.7
    #[test]
    fn any_declaration_of_artifacts_is_kept_or_refused(artifacts in declared()) {
        declares(&artifacts);
    }
}

// RUN-11.5, RUN-13.3, RUN-12.7
#[test]
fn large_answers_are_read_once() {
    let large = |piece: &str| piece.repeat((900 << 10) / piece.len());
    for piece in [
        "{",
        "{\"",
        "{ ",
        "[",
        "\\",
        "{\"a\":",
        "{\"a\":1} ",
        "}{",
        "\"",
        "é",
    ] {
        let text = large(piece);
        answers(&json!({"content": text}));
        answers(&json!({"plan": text}));
        asks(&json!({"content": "", "tool_calls": [{"name": "pure.work", "arguments": text}]}));
        asks(&json!({"content": "", "tool_calls": [{"name": text, "arguments": {}}]}));
        declares(&json!([{"type": text, "mime_type": text, "path": text}]));
        declares(&json!([{"type": "image", "mime_type": "image/png", "data": text}]));
    }
    asks(&json!({"content": "", "tool_calls": vec![json!({}); 20_000]}));
    declares(&json!(vec![json!({}); 20_000]));
}
