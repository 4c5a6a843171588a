//! Attempts: intended before they are sent, sent byte for byte, judged once.

use escapement_model::Opaque;
use escapement_run::ids::{AttemptName, IdSeed, RunId};
use escapement_run::journal::OutcomeClass;
use escapement_run::journal::OutcomeClass::{Failed, FailedForGood, NeverRan, TimedOut, Unknown};
use escapement_run::outcome::{ContractEnd, ContractError, classify};
use escapement_run::presets::Preset;
use escapement_run::{Effect, Input};
use prost::Message;
use serde_json::json;

use crate::world::{World, and, call, completed, spec};

// RUN-4.3
#[test]
fn ids_follow_from_the_seed_and_without_one_they_are_those_of_earlier_versions() {
    let of = |seed| AttemptName {
        run_id: RunId::from_random([1; 16]),
        seed,
        step: "a",
        index: 0,
        epoch: 0,
        attempt: 1,
    };
    let seeds = [[1; 16], [2; 16]].map(|bytes| IdSeed::from_slice(&bytes));
    let [none, one, other] = [None, seeds[0], seeds[1]].map(|seed| of(seed).execution_id());
    assert_eq!(none.to_string(), "b0304296-3645-41b1-a289-4958d322925b");
    assert!(none != one && one != other);
    assert_eq!(of(seeds[0]).execution_id(), one, "a repetition has the same");
    assert_eq!(IdSeed::from_slice(&[1; 15]), None);
}

// RUN-4.2, RUN-4.3, RUN-9.3
#[test]
fn what_is_sent_stands_in_the_journal_with_ids_that_follow_from_the_attempt() {
    let world = World::of(json!([call("a")]));
    assert_eq!(
        world.last_events(),
        ["RunStarted", "StepStarted", "ToolCalled"],
        "the intent is in the same commit as what leads to it"
    );
    let [
        Effect::Submit {
            execution_id,
            request,
            attempt_ms,
            ..
        },
    ] = &world.effects[..]
    else {
        panic!("{:?}", world.effects);
    };
    assert_eq!(world.live("a"), *execution_id);
    assert_eq!(*attempt_ms, 30_000);
    let called = world.run.state().steps[0].units[0].live.clone().unwrap();
    assert_eq!(called.request.inline, *request);
    let again = World::of(json!([call("a")]));
    assert_eq!(again.effects, world.effects, "the same run sends the same bytes");
}

// RUN-4.5
#[test]
fn an_attempt_carries_what_its_template_names_and_one_key_more_in_its_environment() {
    let mut with_environment = spec(Preset::Standard);
    with_environment.environment = crate::world::opaque(&json!({"region": "eu"}));
    let tool_args = json!({"to": "${input:/city}", "n": "${input:/n}", "price": "$${n}"});
    let config = json!({"tool_name": "safe.work", "tool_args": tool_args});
    let steps = json!([{"key": "a", "type": "tool_call", "config": config}]);
    let world = World::with(steps, with_environment);
    assert_eq!(world.payload("a"), json!({"to": "Bern", "n": 3, "price": "${n}"}));
    let run_id = world.environment("a")["escapement_run"]["run_id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(
        world.environment("a"),
        json!({"region": "eu", "escapement_run": {"run_id": run_id, "step": "a", "index": 0, "attempt": 1,
            "idempotency_key": format!("{run_id}/a"), "user_id": "ada"}})
    );
}

// RUN-4.5
#[test]
fn what_is_sent_is_a_request_of_the_protos_and_every_field_of_it_is_theirs() {
    let mut full = spec(Preset::Standard);
    full.request_id = "req-1".to_owned();
    full.parent_execution_id = "0b9e7a34-51c2-4d8e-8f60-1a2b3c4d5e01".to_owned();
    full.priority = 9;
    full.limits.run_ms = 50_000;
    let world = World::with(json!([call("a")]), full);
    let [
        Effect::Submit {
            execution_id,
            request,
            ..
        },
    ] = &world.effects[..]
    else {
        panic!("{:?}", world.effects);
    };
    let decoded = escapement_wire::v1::SubmitPlanRequest::decode(request.clone()).unwrap();
    assert_eq!(
        decoded.encode_to_vec(),
        request[..],
        "nothing is lost that the protos do not know"
    );
    let plan = decoded.plan.unwrap();
    assert_eq!(decoded.execution_id, Some(execution_id.to_string()));
    // Queue, worker and attempt would take 90 seconds; the run has 50.
    assert_eq!(
        (plan.timeout_ms, decoded.deadline_ms),
        (Some(40_000), Some(crate::world::START + 50_000))
    );
    assert_eq!(
        (plan.version, plan.priority, plan.name.as_str()),
        (1, Some(4), "Story · a · 1")
    );
    assert_eq!(plan.context_requirements, ["escapement_run"]);
    assert_eq!(
        (decoded.user_id.as_deref(), decoded.request_id.as_deref()),
        (Some("ada"), Some("req-1"))
    );
    assert!(
        decoded.parent_execution_id.is_some() && plan.retry_policy.is_none() && decoded.options.is_none()
    );
    let [step] = &plan.steps[..] else {
        panic!("{:?}", plan.steps);
    };
    assert_eq!(
        (step.action.as_str(), step.timeout_ms, step.on_failure),
        ("pure.work", Some(30_000), 0)
    );
    assert!(step.depends_on.is_empty());
}

// RUN-1.6
#[test]
fn a_reference_that_leads_nowhere_fails_the_step_without_a_retry() {
    let config = json!({"tool_name": "pure.work", "tool_args": {"x": "${a:/nowhere}"}});
    let steps = json!([call("a"), {"key": "b", "type": "tool_call", "config": config}]);
    let mut world = World::of(steps);
    world.complete("a", json!({"x": 1}));
    assert_eq!(world.shows(), "failed: a completed, b failed INPUT_UNRESOLVED");
    assert_eq!(world.submitted(), 1);
}

// RUN-4.4, RUN-2.3
#[test]
fn an_outcome_counts_once() {
    let mut world = World::of(json!([call("a"), call("b")]));
    let first = world.live("a");
    world.settle(first, completed(json!({"n": 1})));
    let entries = world.journal.len();
    world.settle(first, completed(json!({"n": 2})));
    world.settle(first, crate::world::failed(Failed));
    assert_eq!(world.journal.len(), entries);
    world.complete("b", json!({}));
    world.settle(first, completed(json!({"n": 2})));
    assert_eq!(world.shows(), "completed: a completed, b completed");
}

// RUN-5.1
#[test]
fn the_end_of_an_execution_is_judged_by_the_table() {
    let end = |code: &str, fatal, executed, assigned, reason: Option<&str>| ContractEnd {
        output: None,
        error: Some(ContractError {
            retry_after_ms: 0,
            code: code.to_owned(),
            message: "why".to_owned(),
            fatal,
            reason: reason.map(str::to_owned),
        }),
        steps_executed: executed,
        assigned,
    };
    let table = [
        (end("DEADLINE_EXCEEDED", true, 0, false, None), NeverRan),
        (end("DEADLINE_EXCEEDED", true, 1, true, None), TimedOut),
        (end("PLAN_TIMEOUT", true, 1, false, None), NeverRan),
        (end("PLAN_TIMEOUT", true, 1, true, None), TimedOut),
        (end("STEP_TIMEOUT", true, 1, true, None), TimedOut),
        (end("ACTION_NOT_FOUND", true, 1, false, None), NeverRan),
        (end("INVALID_PAYLOAD", true, 0, false, None), FailedForGood),
        (end("CONTEXT_MISSING", true, 0, false, None), FailedForGood),
        (
            end("APPROVAL_REQUIRED", false, 1, true, None),
            OutcomeClass::ApprovalRequired,
        ),
        (end("WORKER_LOST", false, 1, true, None), Unknown),
        (end("EXECUTION_REMOVED", true, 1, true, None), Unknown),
        (
            end("UNKNOWN_ERROR", true, 1, true, Some("orchestrator_restarted")),
            Unknown,
        ),
        (
            end("UNKNOWN_ERROR", true, 1, true, Some("restored_from_backup")),
            Unknown,
        ),
        (end("UNKNOWN_ERROR", true, 1, true, None), FailedForGood),
        (end("HOST_NOT_ALLOWED", false, 1, true, None), FailedForGood),
        (end("SHELL_OFF", false, 1, true, None), FailedForGood),
        (end("LLM_NOT_CONFIGURED", false, 1, true, None), FailedForGood),
        (end("LLM_REFUSED", false, 1, true, None), FailedForGood),
        (end("LLM_REJECTED", false, 1, true, None), FailedForGood),
        (end("LLM_UNAVAILABLE", false, 1, true, None), Failed),
        (end("JQ_ERROR", false, 1, true, None), FailedForGood),
        (end("JQ_TIMEOUT", false, 1, true, None), Failed),
        (end("TEMPLATE_ERROR", false, 1, true, None), FailedForGood),
        (end("COFFEE_EMPTY", false, 1, true, None), Failed),
        (end("COFFEE_EMPTY", true, 1, true, None), FailedForGood),
    ];
    for (end, class) in &table {
        let outcome = classify(end, 200, true);
        assert_eq!(outcome.class, *class, "{end:?}");
    }
    let timeout = classify(&table[4].0, 200, true);
    assert_eq!(
        (timeout.code.as_str(), timeout.message.as_str()),
        ("TOOL_TIMEOUT", "Step timed out after 200ms")
    );
    let never_seen = classify(&table[5].0, 200, false);
    assert_eq!(never_seen.class, FailedForGood);
    let output = Some(Opaque::default());
    let good = classify(
        &ContractEnd {
            output,
            error: None,
            steps_executed: 1,
            assigned: true,
        },
        200,
        true,
    );
    assert_eq!(good.class, OutcomeClass::Completed);
}

// RUN-4.6
#[test]
fn an_output_that_is_too_large_is_refused() {
    let mut world = World::of(json!([call("a")]));
    world.complete("a", json!({"x": "y".repeat(1 << 20)}));
    assert_eq!(world.shows(), "failed: a failed OUTPUT_INVALID");
}

// RUN-9.6
#[test]
fn more_than_32_kib_are_kept_by_their_hash_and_read_back_equal() {
    let config = json!({"tool_name": "pure.work", "tool_args": {"x": "${a:/x}"}});
    let steps = json!([call("a"), {"key": "b", "type": "tool_call", "config": config}]);
    for length in [100, 32_768, 40_000] {
        let mut world = World::of(steps.clone());
        let text = "é".repeat(length / 2);
        world.complete("a", json!({"x": text.clone()}));
        assert_eq!(world.payload("b"), json!({"x": text}));
        let stored = world.run.state().steps[0].units[0].output.clone().unwrap();
        assert_eq!(stored.digest.is_empty(), length < 32_000, "{length}");
    }
}

// RUN-4.7
#[test]
fn an_output_can_pause_the_run() {
    let mut world = World::of(json!([call("a"), call("b")]));
    world.complete("a", json!({"$pause": true}));
    assert_eq!(world.shows(), "paused: a completed, b pending");
    world.input(Input::Resume {
        reason: String::new(),
    });
    assert_eq!(world.shows(), "running: a completed, b running");
}

// RUN-4.11
#[test]
fn a_model_that_answers_outside_of_the_choices_is_asked_once_more() {
    let step = json!({"key": "d", "type": "llm_decision", "config": {"prompt": "Which?", "choices": ["Red", "Blue"]}});
    let steps = json!([and(call("a"), json!({})), and(step, json!({"depends_on": ["a"]}))]);
    let mut world = World::of(steps);
    world.complete("a", json!({"seen": "sky"}));
    let asked = world.payload("d");
    assert_eq!(asked["model"], json!("small"));
    let question = asked["messages"][1]["content"].as_str().unwrap();
    for part in ["Which?", "Red, Blue", "Result of a", r#"{"seen":"sky"}"#] {
        assert!(question.contains(part), "{part} is missing in {question}");
    }
    world.complete("d", json!({"content": "green"}));
    let again = world.payload("d");
    assert_eq!(again["messages"].as_array().unwrap().len(), 4);
    assert_eq!(
        again["messages"][2],
        json!({"role": "assistant", "content": "green"})
    );
    world.complete("d", json!({"content": "  bLUE \n"}));
    assert_eq!(world.output(), json!({"decision": "Blue", "tool_calls": []}));
}

// RUN-4.11
#[test]
fn a_model_that_never_chooses_fails_the_step() {
    let mut world = World::of(
        json!([{"key": "d", "type": "llm_decision", "config": {"prompt": "Which?", "choices": ["a", "b"]}}]),
    );
    world
        .complete("d", json!({"content": "c"}))
        .complete("d", json!({"content": "neither"}));
    assert_eq!(world.shows(), "failed: d failed DECISION_INVALID");
}
