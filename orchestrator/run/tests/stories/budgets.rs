//! Budgets: what is reserved, what is settled, who is warned and asked, and what happens then.

use escapement_run::Input;
use escapement_run::budget::{Budget, BudgetKind, Exhausted, ModelPrice};
use escapement_run::journal::Decision::{Extend, Fail};
use escapement_run::journal::{Event, OutcomeClass, RequestKind, Verdict};
use escapement_run::presets::Preset;
use escapement_run::spec::Spec;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::planning::{of_goal, offer, planned, planner, told_planner, verdicts};
use crate::world::{World, call, completed, failed, opaque, spec};

fn limits() -> Budget {
    Budget {
        warn_percent: 80,
        answer_tokens: 100,
        ..Budget::default()
    }
}

fn with(budget: Budget) -> Spec {
    Spec {
        budget: Some(budget),
        ..spec(Preset::Standard)
    }
}

fn model(key: &str) -> Value {
    json!({"key": key, "type": "llm_decision", "config": {"prompt": "?", "context": "none"}})
}

fn models(n: usize) -> Value {
    (0..n).map(|n| model(&format!("m{n}"))).collect()
}

fn answer(prompt: u64, completion: u64) -> Value {
    let usage = json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion});
    json!({"content": "yes", "usage": usage})
}

fn warnings(world: &World) -> Vec<(BudgetKind, u64, u64)> {
    let events = world.journal.iter().filter_map(|entry| entry.event.as_ref());
    let warnings = events.filter_map(|event| match event {
        Event::BudgetWarning(warning) => Some((warning.kind(), warning.used, warning.limit)),
        _ => None,
    });
    warnings.collect()
}

// RUN-13.7, RUN-13.9, RUN-13.10
#[test]
fn a_budget_of_tools_warns_once_then_asks_and_goes_on_if_it_is_extended() {
    let budget = Budget {
        max_tool_calls: Some(2),
        ..limits()
    };
    let steps = json!([call("a"), call("b"), call("c"), call("d")]);
    let mut world = World::with(steps, with(budget));
    world.complete("a", json!({})).complete("b", json!({}));
    assert_eq!(warnings(&world), [(BudgetKind::ToolCalls, 2, 2)]);
    assert_eq!(
        world.shows(),
        "waiting: a completed, b completed, c running, d pending"
    );
    let asked = world.asked();
    assert_eq!(asked.kind(), RequestKind::BudgetExtension);
    assert_eq!(
        asked.question,
        "The run has used up its budget of tool_calls (2 of 2). May it have as much again?"
    );
    world.answer(Extend, Value::Null);
    world.complete("c", json!({})).complete("d", json!({}));
    assert_eq!(world.run.state().used().tool_calls, 4);
    assert_eq!(world.run.state().budget_limit(BudgetKind::ToolCalls), Some(4));
    assert_eq!(warnings(&world).len(), 1);
}

// RUN-13.9
#[test]
fn a_budget_that_is_not_extended_fails_what_needs_it() {
    let budget = || Budget {
        max_llm_calls: Some(1),
        ..limits()
    };
    let mut world = World::with(models(2), with(budget()));
    world.complete("m0", answer(1, 1)).answer(Fail, Value::Null);
    assert_eq!(world.shows(), "failed: m0 completed, m1 failed BUDGET_EXHAUSTED");

    let mut late = World::with(models(2), with(budget()));
    late.complete("m0", answer(1, 1)).pass(86_400_000);
    assert_eq!(late.shows(), "failed: m0 completed, m1 failed BUDGET_EXHAUSTED");

    let fails = Budget {
        exhausted: Exhausted::Fail.into(),
        ..budget()
    };
    let mut world = World::with(models(2), with(fails));
    world.complete("m0", answer(1, 1));
    assert_eq!(world.shows(), "failed: m0 completed, m1 failed BUDGET_EXHAUSTED");
}

// RUN-13.8
#[test]
fn a_call_of_a_model_reserves_what_it_may_use_and_is_settled_with_what_it_used() {
    let budget = Budget {
        max_tokens: Some(100_000),
        max_cost_micros: Some(1_000_000),
        prices: [("", 10_000_000, 20_000_000), ("small", 1_000_000, 2_000_000)]
            .map(|(model, prompt_micros, completion_micros)| ModelPrice {
                model: model.to_owned(),
                prompt_micros,
                completion_micros,
            })
            .into(),
        ..limits()
    };
    let mut world = World::with(models(1), with(budget));
    assert_eq!(world.payload("m0")["max_tokens"], json!(100));
    let reserved = world.run.state().used();
    assert!(
        reserved.prompt_tokens > 10 && reserved.completion_tokens == 100,
        "{reserved:?}"
    );
    assert_eq!(reserved.cost_micros, reserved.prompt_tokens + 200);
    world.complete("m0", answer(7, 3));
    let used = world.run.state().used();
    assert_eq!((used.llm_calls, used.tool_calls), (1, 0));
    assert_eq!(
        (used.prompt_tokens, used.completion_tokens, used.total_tokens),
        (7, 3, 10)
    );
    assert_eq!(used.cost_micros, 7 + 2 * 3);
}

// RUN-13.8
#[test]
fn what_an_attempt_used_follows_from_how_it_ended() {
    let budget = || Budget {
        max_tokens: Some(100_000),
        ..limits()
    };
    for (class, calls, keeps) in [
        (OutcomeClass::NeverRan, 0, false),
        (OutcomeClass::Failed, 1, false),
        (OutcomeClass::TimedOut, 1, true),
        (OutcomeClass::Unknown, 1, true),
    ] {
        let mut world = World::with(models(1), with(budget()));
        let reserved = world.run.state().used().total_tokens;
        world.fail("m0", class);
        let used = world.run.state().used();
        assert_eq!(used.llm_calls, calls, "{class:?}");
        assert_eq!(used.total_tokens, if keeps { reserved } else { 0 }, "{class:?}");
    }
    let mut silent = World::with(models(1), with(budget()));
    let reserved = silent.run.state().used();
    silent.complete("m0", json!({"content": "yes"}));
    assert_eq!(
        silent.run.state().used(),
        reserved,
        "an answer without usage costs what was reserved"
    );
}

// RUN-13.8
#[test]
fn hostile_usage_is_bounded() {
    for (usage, total) in [
        (json!({"total_tokens": 1e300}), 1_000_000_000_000_u64),
        (json!({"total_tokens": -5, "prompt_tokens": 2}), 2),
        (
            json!({"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 1}),
            7,
        ),
    ] {
        let mut world = World::with(models(1), spec(Preset::Standard));
        world.complete("m0", json!({"content": "yes", "usage": usage}));
        assert_eq!(world.run.state().used().total_tokens, total, "{usage}");
    }
}

// RUN-13.7
#[test]
fn an_attempt_waits_for_what_others_reserved() {
    let budget = Budget {
        max_tokens: Some(250),
        ..limits()
    };
    let beside = |key: &str| {
        let mut step = model(key);
        step["async"] = json!(true);
        step
    };
    let document = json!({"schema": "escapement.plan/1", "name": "Story", "parallel": true, "steps": [beside("a"), beside("b")]});
    let mut spec = with(budget);
    spec.limits.max_concurrency = 2;
    let mut world = World::document(document, spec);
    assert_eq!(
        world.live_unit("b", None),
        None,
        "there is enough for one of them"
    );
    let awaited = world
        .journal
        .iter()
        .filter(|entry| matches!(entry.event, Some(Event::BudgetAwaited(_))));
    assert_eq!(awaited.count(), 1);
    world.input(Input::Recovered);
    world.complete("a", answer(1, 1));
    assert!(
        world.live_unit("b", None).is_some(),
        "what was reserved is given back"
    );
    world.complete("b", answer(1, 1));
    assert_eq!(world.run.state().used().total_tokens, 4);
}

// RUN-13.7, RUN-13.4
#[test]
fn a_model_whose_tools_are_used_up_is_told() {
    let budget = Budget {
        max_tool_calls: Some(1),
        exhausted: Exhausted::Fail.into(),
        ..limits()
    };
    let config = json!({"prompt": "?", "tools": ["pure.work"]});
    let steps = json!([{"key": "d", "type": "llm_decision", "config": config}]);
    let mut world = World::with(steps, with(budget));
    let tool = json!({"name": "pure.work", "arguments": {}});
    world.complete("d", json!({"content": "", "tool_calls": [tool, tool]}));
    world.complete("d", json!({}));
    let messages = world.payload("d")["messages"].to_string();
    assert!(messages.contains("BUDGET_EXHAUSTED"), "{messages}");
    world.complete("d", json!({"content": "done"}));
    assert_eq!(world.output()["decision"], json!("done"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // RUN-13.7, RI15
    #[test]
    fn spend_is_at_most_the_limit_and_what_attempts_used_beyond_their_reservation(
        max_tokens in 0_u64..2_000,
        used in prop::collection::vec((0_u64..400, 0_u64..400), 8),
        ends in prop::collection::vec(0_usize..4, 8),
    ) {
        let budget = Budget { max_tokens: Some(max_tokens), exhausted: Exhausted::Fail.into(), ..limits() };
        let mut world = World::with(models(8), with(budget));
        let mut beyond = 0;
        let mut at = 0;
        while let Some((step, _)) = world.first_live() {
            let before = world.run.state().used().total_tokens;
            prop_assert!(before <= max_tokens + beyond, "{before} of {max_tokens}, {beyond} beyond");
            let live = world.run.state().steps[world.at(&step)].units[0].live.clone().unwrap();
            let (prompt, completion) = used[at % used.len()];
            match ends[at % ends.len()] {
                0 => {
                    world.fail(&step, OutcomeClass::TimedOut);
                }
                _ => {
                    beyond += (prompt + completion).saturating_sub(live.reserved.unwrap().total_tokens);
                    world.complete(&step, answer(prompt, completion));
                }
            }
            world.pass(60_000);
            at += 1;
        }
        let spent = world.run.state().used().total_tokens;
        prop_assert!(spent <= max_tokens + beyond, "{spent} of {max_tokens}, {beyond} beyond");
        prop_assert!(world.run.state().stage().is_end());
    }
}

/// A goal, with a planner that names a model.
fn goal(budget: Budget) -> World {
    let mut spec = Spec {
        budget: Some(budget),
        ..planned(Preset::Execution)
    };
    if let Some(planner) = &mut spec.planner {
        planner.parameters = opaque(&json!({"max_tokens": 9_999, "temperature": 0}));
    }
    of_goal(spec)
}

// RUN-13.8
#[test]
fn a_generation_is_a_call_of_a_model_that_is_reserved_and_settled() {
    let mut world = goal(Budget {
        max_tokens: Some(100_000),
        ..limits()
    });
    offer(&mut world, &[]);
    assert_eq!(told_planner(&world)["max_tokens"], json!(100));
    let reserved = world.run.state().used();
    assert_eq!((reserved.llm_calls, reserved.completion_tokens), (1, 100));
    assert!(reserved.prompt_tokens > 100);
    planner(
        &mut world,
        completed(json!({"content": "no", "usage": {"prompt_tokens": 7, "completion_tokens": 5}})),
    );
    offer(&mut world, &[]);
    planner(&mut world, failed(OutcomeClass::Failed));
    let used = world.run.state().used();
    assert_eq!(
        (used.llm_calls, used.total_tokens),
        (2, 12),
        "what failed is a call alone"
    );

    let mut world = of_goal(planned(Preset::Execution));
    offer(&mut world, &[]);
    let used = world.run.state().used();
    assert_eq!(
        (used.llm_calls, used.total_tokens),
        (1, 0),
        "calls are counted without a budget"
    );
    assert_eq!(told_planner(&world)["max_tokens"], Value::Null);
}

// RUN-13.9, RUN-7.2
#[test]
fn a_generation_without_budget_waits_for_a_person_and_takes_no_time() {
    let once = || Budget {
        max_llm_calls: Some(1),
        ..limits()
    };
    let refused = || {
        let mut world = goal(once());
        offer(&mut world, &[]);
        planner(&mut world, completed(json!({"content": "no"})));
        offer(&mut world, &[]);
        assert_eq!(world.shows(), "waiting: ");
        let asked = world.asked();
        assert_eq!((asked.kind(), asked.unit), (RequestKind::BudgetExtension, None));
        world
    };
    let mut world = refused();
    // RUN-8.5, RUN-8.6: an operator can change steps only once a plan has them.
    let back = crate::world::rollback(escapement_run::Rollback::Reset);
    assert_eq!(world.refusal(back), escapement_run::RefusedReason::NotPaused);
    world.pass(60_000).input(Input::Recovered);
    assert_eq!(world.submitted(), 1);
    world.input(Input::Pause {
        reason: "look".to_owned(),
    });
    assert_eq!(world.shows(), "paused: ");
    world.answer(Extend, Value::Null);
    assert_eq!((world.shows().as_str(), world.submitted()), ("paused: ", 1));
    world.input(Input::Resume {
        reason: "go".to_owned(),
    });
    assert_eq!(world.last_events(), ["RunResumed", "ToolCalled"]);
    let plan = json!({"schema": "escapement.plan/1", "name": "Made", "narrative": "done", "steps": []});
    planner(&mut world, completed(json!({"plan": plan})));
    assert_eq!(
        (world.shows().as_str(), world.output()),
        ("completed: ", json!("done"))
    );

    let ends = |mut world: World, why: &str| {
        assert_eq!(
            verdicts(&world),
            [Verdict::Refused, Verdict::OutOfBudget],
            "{why}"
        );
        assert_eq!(world.shows(), "failed: ", "{why}");
        let (code, message) = world.error();
        assert_eq!(code, "PLANNING_ERROR");
        assert!(
            message.contains("BUDGET_EXHAUSTED: 1 of 1 llm_calls are used"),
            "{why}: {message}"
        );
        world.pass(1);
    };
    let mut world = refused();
    world.answer(Fail, Value::Null);
    ends(world, "nobody may give more");
    let mut world = refused();
    world.pass(86_400_000);
    ends(world, "nobody answered in time");
    let mut world = goal(Budget {
        exhausted: Exhausted::Fail.into(),
        ..once()
    });
    offer(&mut world, &[]);
    planner(&mut world, completed(json!({"content": "no"})));
    offer(&mut world, &[]);
    ends(world, "the budget asks nobody");
}
