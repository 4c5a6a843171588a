//! Child runs of runs with budgets: what they may spend, what comes back of it, and what the parent goes on with.

use std::sync::Arc;

use escapement_model::RunId;
use escapement_run::budget::{Budget, BudgetKind, Exhausted};
use escapement_run::journal::Decision::{Extend, Fail};
use escapement_run::journal::{Entry, Event, Usage};
use escapement_run::presets::Preset;
use escapement_run::spec::Spec;
use escapement_run::state::RunState;
use escapement_run::{Effect, Input, RewindScope, Run};
use prost::Message;
use serde_json::{Value, json};

use crate::world::{World, and, call, encoded, spec};

const CHILD: &str = "0b9e7a34-51c2-4d8e-8f60-1a2b3c4d5e01";

fn sub_plan(key: &str) -> Value {
    json!({"key": key, "type": "sub_plan", "config": {"plan_id": CHILD}})
}

/// Five calls of tools and a thousand tokens.
fn budget() -> Budget {
    Budget {
        max_tool_calls: Some(5),
        max_tokens: Some(1_000),
        warn_percent: 80,
        answer_tokens: 100,
        exhausted: Exhausted::Fail.into(),
        ..Budget::default()
    }
}

fn with(steps: Value, budget: Budget) -> World {
    World::with(steps, of(budget))
}

fn of(budget: Budget) -> Spec {
    Spec {
        budget: Some(budget),
        ..spec(Preset::Standard)
    }
}

/// The child that was started last, and its budget.
fn child(world: &World) -> (RunId, Budget) {
    let mut effects = world.effects.iter().rev();
    let started = effects.find_map(|effect| match effect {
        Effect::StartChild { run_id, budget, .. } => Some((*run_id, budget.clone())),
        _ => None,
    });
    let (run_id, budget) = started.expect("a child was started");
    (run_id, budget.expect("it has a budget"))
}

fn ends(world: &mut World, used: Option<Usage>) {
    let (run_id, _) = child(world);
    let result = Ok(encoded(&json!("done")));
    world.input(Input::ChildEnded {
        run_id,
        result,
        used,
        doubts: None,
    });
}

fn calls(tool_calls: u64) -> Option<Usage> {
    Some(Usage {
        tool_calls,
        ..Usage::default()
    })
}

fn n_children(world: &World) -> usize {
    let is_start = |effect: &&Effect| matches!(effect, Effect::StartChild { .. });
    world.effects.iter().filter(is_start).count()
}

// RUN-13.11
#[test]
fn a_child_may_spend_what_is_left_and_what_it_used_takes_the_place_of_that() {
    let steps = json!([call("a"), sub_plan("sub"), call("b")]);
    let mut world = with(steps, budget());
    world.complete("a", json!({}));
    let (_, given) = child(&world);
    assert_eq!((given.max_tool_calls, given.max_tokens), (Some(4), Some(1_000)));
    assert_eq!((given.max_llm_calls, given.max_cost_micros), (None, None));
    assert_eq!((given.exhausted(), given.answer_tokens), (Exhausted::Fail, 100));
    let used = world.run.state().used();
    assert_eq!(
        (used.tool_calls, used.total_tokens),
        (5, 1_000),
        "all of it is taken"
    );
    let used = Usage {
        tool_calls: 2,
        llm_calls: 1,
        prompt_tokens: 5,
        completion_tokens: 6,
        total_tokens: 11,
        cost_micros: 7,
    };
    ends(&mut world, Some(used));
    let call = calls(1).unwrap();
    assert_eq!(
        world.run.state().used(),
        used.plus(&call).plus(&call),
        "and b is in flight"
    );
    world.complete("b", json!({}));
    assert_eq!(world.run.state().used().tool_calls, 4);
}

// RUN-13.11
#[test]
fn a_child_of_which_nothing_can_be_read_has_used_all_that_it_might_and_one_that_was_never_made_nothing() {
    let steps = || {
        json!([
            and(
                sub_plan("sub"),
                json!({"retry": {"max_retries": 0}, "required": false})
            ),
            call("b")
        ])
    };
    let mut unread = with(steps(), budget());
    ends(&mut unread, None);
    assert_eq!(unread.shows(), "failed: sub completed, b failed BUDGET_EXHAUSTED");
    let mut unmade = with(steps(), budget());
    let (run_id, _) = child(&unmade);
    unmade.input(Input::ChildEnded {
        run_id,
        result: Err("there is no such plan".to_owned()),
        used: Some(Usage::default()),
        doubts: None,
    });
    assert_eq!(unmade.shows(), "running: sub failed CHILD_FAILED, b running");
    assert_eq!(unmade.run.state().used().tool_calls, 1);
}

// RUN-13.7, RUN-13.11
#[test]
fn beside_a_child_everything_that_is_limited_waits() {
    let aside = |step: Value| and(step, json!({"async": true}));
    let document = json!({"schema": "escapement.plan/1", "name": "Story", "parallel": true,
        "steps": [aside(sub_plan("one")), aside(sub_plan("two")), aside(call("a"))]});
    let mut spec = of(budget());
    spec.limits.max_concurrency = 3;
    let mut world = World::document(document, spec);
    assert_eq!((n_children(&world), world.submitted()), (1, 0));
    ends(&mut world, calls(1));
    assert_eq!((n_children(&world), world.submitted()), (2, 0));
    let (_, given) = child(&world);
    assert_eq!(given.max_tool_calls, Some(4));
    ends(&mut world, calls(3));
    assert_eq!((n_children(&world), world.submitted()), (2, 1));
    world.complete("a", json!({}));
    assert_eq!(world.run.state().used().tool_calls, 5);
}

// RUN-5.3, RUN-13.7, RUN-13.11
#[test]
fn a_child_that_is_due_again_waits_for_what_another_child_may_spend() {
    let aside = |key| and(sub_plan(key), json!({"async": true, "retry": {"max_retries": 3}}));
    let document = json!({"schema": "escapement.plan/1", "name": "Story", "parallel": true,
        "steps": [aside("one"), aside("two")]});
    let mut spec = of(budget());
    spec.limits.max_concurrency = 2;
    let mut world = World::document(document, spec);
    // They take turns: while one is under way, the other one is due and has to wait, more than once.
    for turn in 1..=6 {
        assert_eq!(n_children(&world), turn, "{}", world.shows());
        let (run_id, _) = child(&world);
        world.input(Input::ChildEnded {
            run_id,
            result: Err("it failed".to_owned()),
            used: calls(0),
            doubts: None,
        });
        world.pass(10_000);
    }
    assert!(world.run.due_at().is_none_or(|due| due > world.now));
}

// RUN-13.9, RUN-13.11
#[test]
fn without_one_of_each_part_a_person_is_asked_before_a_child_starts() {
    let asks = || Budget {
        max_tool_calls: Some(1),
        max_tokens: None,
        exhausted: Exhausted::Ask.into(),
        ..budget()
    };
    let steps = || json!([call("a"), sub_plan("sub")]);
    let mut world = with(steps(), asks());
    world.complete("a", json!({}));
    assert_eq!(
        (world.shows().as_str(), n_children(&world)),
        ("waiting: a completed, sub running", 0)
    );
    world.answer(Extend, Value::Null);
    let (_, given) = child(&world);
    assert_eq!(given.max_tool_calls, Some(1));
    let mut denied = with(steps(), asks());
    denied.complete("a", json!({})).answer(Fail, Value::Null);
    assert_eq!(denied.shows(), "failed: a completed, sub failed BUDGET_EXHAUSTED");
    // What may not be had at all is not needed.
    let none = Budget {
        max_llm_calls: Some(0),
        ..budget()
    };
    let (_, given) = child(&with(json!([sub_plan("sub")]), none));
    assert_eq!((given.max_llm_calls, given.max_tool_calls), (Some(0), Some(5)));
}

// RUN-13.10, RUN-13.11
#[test]
fn what_a_child_may_spend_is_not_warned_of_and_what_it_used_is() {
    let warnings = |world: &World| {
        let events = world.journal.iter().filter_map(|entry| entry.event.as_ref());
        let warnings = events.filter_map(|event| match event {
            Event::BudgetWarning(warning) => Some((warning.kind(), warning.used)),
            _ => None,
        });
        warnings.collect::<Vec<_>>()
    };
    let mut world = with(json!([sub_plan("sub")]), budget());
    assert_eq!(warnings(&world), []);
    ends(&mut world, calls(4));
    assert_eq!(warnings(&world), [(BudgetKind::ToolCalls, 4)]);
}

// RUN-13.8, RUN-13.11
#[test]
fn a_child_that_is_let_go_of_keeps_what_it_was_given() {
    let mut world = with(json!([sub_plan("sub")]), budget());
    let (first, _) = child(&world);
    world.input(Input::Rewind {
        step_key: "sub".to_owned(),
        scope: RewindScope::Later,
        allow_repeat_effects: true,
    });
    assert!(world.effects.contains(&Effect::CancelChild { run_id: first }));
    assert_eq!(world.shows(), "failed: sub failed BUDGET_EXHAUSTED");
}

// RUN-9.2, RUN-9.4, RUN-13.11
#[test]
fn after_a_restart_a_child_is_started_with_the_budget_that_it_had() {
    let mut world = with(json!([call("a"), sub_plan("sub")]), budget());
    world.complete("a", json!({}));
    let given = child(&world);
    let snapshot = RunState::decode(world.run.state().encode_to_vec().as_slice()).unwrap();
    assert_eq!(snapshot, world.folded());
    world.run = Run::from_snapshot(snapshot, Arc::clone(world.run.plan()));
    world.input(Input::Recovered);
    assert_eq!((n_children(&world), child(&world)), (2, given));
}

// RUN-13.11
#[test]
fn the_last_entry_of_a_child_with_a_budget_says_what_it_used_and_no_other_entry_does() {
    let spent = |world: &World| {
        let said = world.journal.iter().filter_map(|entry: &Entry| entry.spent);
        said.collect::<Vec<_>>()
    };
    let of_parent = |budget| Spec {
        parent_run_id: vec![9; 16].into(),
        budget,
        ..spec(Preset::Standard)
    };
    let steps = || json!([call("a"), call("b")]);
    let mut world = World::with(steps(), of_parent(Some(budget())));
    world.complete("a", json!({}));
    assert_eq!(spent(&world), []);
    // What is in flight keeps its reservation.
    world.input(Input::Cancel {
        reason: "parent".to_owned(),
    });
    assert_eq!(spent(&world), [calls(2).unwrap()]);
    assert!(world.journal.last().unwrap().spent.is_some());
    for spec in [of_parent(None), of(budget())] {
        let mut other = World::with(steps(), spec);
        other.complete("a", json!({})).complete("b", json!({}));
        assert_eq!(spent(&other), []);
    }
}
