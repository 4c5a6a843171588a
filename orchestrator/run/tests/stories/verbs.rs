//! Pause, resume, cancel, rewind, roll back, override, checkpoint.

use escapement_model::opaque::ValueView;
use escapement_run::journal::Decision::Answer;
use escapement_run::journal::Event;
use escapement_run::journal::OutcomeClass::Failed;
use escapement_run::presets::Preset;
use escapement_run::{Input, OverrideWord, RefusedReason, RewindScope, Rollback};
use serde_json::json;

use crate::world::{World, and, call, call_after, completed, encoded, json_of, opaque, rollback, spec, tool};

fn pause() -> Input {
    Input::Pause {
        reason: "lunch".to_owned(),
    }
}

fn resume() -> Input {
    Input::Resume {
        reason: String::new(),
    }
}

fn rewind(step: &str, scope: RewindScope) -> Input {
    Input::Rewind {
        step_key: step.to_owned(),
        scope,
        allow_repeat_effects: false,
    }
}

// RUN-8.1, RUN-8.2, RUN-2.2
#[test]
fn a_pause_lets_what_is_in_flight_end_and_starts_nothing() {
    let mut world = World::of(json!([call("a"), call("b")]));
    assert_eq!(world.refusal(resume()), RefusedReason::NotPaused);
    world.input(pause());
    assert_eq!(world.shows(), "pausing: a running, b pending");
    assert_eq!(world.refusal(pause()), RefusedReason::AlreadyPaused);
    world.complete("a", json!({}));
    assert_eq!(world.shows(), "paused: a completed, b pending");
    world.pass(10_000).input(resume());
    assert_eq!(world.shows(), "running: a completed, b running");
    world.complete("b", json!({}));
    assert_eq!(world.run.state().active_ms, 0);
}

// RUN-8.1
#[test]
fn a_queued_run_can_be_held() {
    let document = json!({"schema": "escapement.plan/1", "name": "Story", "steps": [call("a")]});
    let mut world = World::queued(document, spec(Preset::Standard));
    world.input(pause());
    assert_eq!(world.refusal(Input::Admit), RefusedReason::NotQueued);
    world.input(resume()).input(Input::Admit);
    assert_eq!(world.shows(), "running: a running");
}

// RUN-8.2, RUN-5.3
#[test]
fn a_retry_that_was_due_during_a_pause_is_due_at_once() {
    let mut world = World::of(json!([call("a")]));
    world.fail("a", Failed).input(pause());
    assert_eq!(world.shows(), "paused: a running");
    world.pass(60_000);
    assert_eq!(world.submitted(), 1);
    world.input(resume());
    assert_eq!(world.submitted(), 2);
}

// RUN-8.2
#[test]
fn a_waiting_run_is_not_resumed_but_answered() {
    let question = json!({"key": "q", "type": "user_input", "config": {"question": "?"}});
    let mut world = World::of(json!([question]));
    let refused = world.try_input(resume()).unwrap_err();
    assert_eq!(refused.reason, RefusedReason::NotPaused);
    assert!(refused.message.contains('1'), "{}", refused.message);
    world.answer(Answer, json!("x"));
}

// RUN-8.3, RUN-2.3
#[test]
fn a_cancelled_run_ends_at_once_and_what_comes_later_changes_nothing() {
    let mut world = World::of(json!([call("a"), call("b")]));
    let live = world.live("a");
    world.input(Input::Cancel {
        reason: "user".to_owned(),
    });
    assert_eq!(world.shows(), "cancelled: a skipped runended, b skipped runended");
    let entries = world.journal.len();
    world.settle(live, completed(json!({})));
    world.input(Input::Time);
    assert_eq!(world.journal.len(), entries);
    for input in [
        pause(),
        resume(),
        Input::Cancel {
            reason: String::new(),
        },
        Input::Admit,
    ] {
        assert_eq!(world.refusal(input), RefusedReason::RunEnded);
    }
}

// RUN-8.4, RUN-4.4
#[test]
fn a_rewind_runs_the_step_and_all_later_ones_again_and_fences_what_was_in_flight() {
    let mut world = World::of(json!([call("a"), call("b"), call("c")]));
    world.complete("a", json!({"n": 1})).complete("b", json!({}));
    let stale = world.live("c");
    world.input(rewind("b", RewindScope::Later));
    assert_eq!(world.shows(), "running: a completed, b running, c pending");
    world.settle(stale, completed(json!({})));
    assert_eq!(world.shows(), "running: a completed, b running, c pending");
    assert_ne!(world.live("b"), stale);
    world
        .complete("b", json!({}))
        .complete("c", json!({"again": true}));
    assert_eq!(world.output(), json!({"again": true}));
    assert_eq!(
        world.refusal(rewind("b", RewindScope::Later)),
        RefusedReason::RunEnded
    );
}

// RUN-8.4
#[test]
fn a_rewind_of_dependents_leaves_the_others() {
    let steps = json!([
        call("a"),
        call_after("b", &["a"]),
        call("c"),
        call_after("d", &["b"]),
        call("e")
    ]);
    let mut world = World::of(steps);
    for step in ["a", "b", "c", "d"] {
        world.complete(step, json!({}));
    }
    world.input(rewind("b", RewindScope::Dependents));
    assert_eq!(
        world.shows(),
        "running: a completed, b pending, c completed, d pending, e running"
    );
    assert_eq!(
        world.refusal(rewind("x", RewindScope::Later)),
        RefusedReason::UnknownStep
    );
}

// RUN-8.4
#[test]
fn a_rewind_that_would_repeat_an_effect_says_which() {
    let mut world = World::of(json!([tool("mail", "mail.send", &[]), call("b")]));
    world.complete("mail", json!({}));
    let refused = world.try_input(rewind("mail", RewindScope::Later)).unwrap_err();
    assert_eq!(refused.reason, RefusedReason::EffectsWouldRepeat);
    assert!(refused.message.ends_with(": mail"), "{}", refused.message);
    world.input(Input::Rewind {
        step_key: "mail".to_owned(),
        scope: RewindScope::Later,
        allow_repeat_effects: true,
    });
    assert_eq!(world.shows(), "running: mail running, b pending");
}

// RUN-8.4, RUN-5.6
#[test]
fn a_rewind_of_the_failed_step_takes_the_failure_back() {
    let steps = json!([
        and(
            call("a"),
            json!({"on_failure": "drain", "retry": {"max_retries": 0}})
        ),
        call("b")
    ]);
    let mut world = World::of(steps);
    world.fail("a", Failed);
    world.input(rewind("a", RewindScope::Later));
    assert_eq!(world.shows(), "running: a running, b pending");
    world.complete("a", json!({})).complete("b", json!({}));
    assert_eq!(world.run.shown().as_str(), "completed");
}

// RUN-8.5, RUN-8.7
#[test]
fn a_rollback_needs_a_checkpoint_and_a_run_that_rests() {
    let checkpoint = || Input::Checkpoint {
        data: opaque(&json!({"at": "noon"})),
    };
    let mut world = World::of(json!([call("a"), call("b")]));
    assert_eq!(world.refusal(rollback(Rollback::Reset)), RefusedReason::NotPaused);
    world
        .complete("a", json!({}))
        .input(pause())
        .complete("b", json!({}));
    assert_eq!(world.shows(), "paused: a completed, b completed");
    assert_eq!(
        world.refusal(rollback(Rollback::Reset)),
        RefusedReason::NoCheckpoint
    );
    world.input(checkpoint());
    assert_eq!(
        world.refusal(rollback(Rollback::Restore(Some(2)))),
        RefusedReason::NoCheckpoint
    );
    world.input(rollback(Rollback::Reset));
    assert_eq!(world.shows(), "paused: a pending, b pending");
    let back = world.journal.iter().find_map(|entry| match &entry.event {
        Some(Event::RunRolledBack(back)) => back.data.clone(),
        _ => None,
    });
    let data = back.expect("it says to which checkpoint").inline;
    assert_eq!(json_of(ValueView::Struct(&data)), json!({"at": "noon"}));
    world.input(resume());
    assert_eq!(world.shows(), "running: a running, b pending");
}

// RUN-8.5
#[test]
fn a_restore_keeps_what_had_completed_at_the_checkpoint() {
    let mut world = World::of(json!([call("a"), call("b"), call("c")]));
    world.complete("a", json!({})).input(Input::Checkpoint {
        data: opaque(&json!({})),
    });
    world
        .complete("b", json!({}))
        .input(pause())
        .complete("c", json!({}));
    world.input(rollback(Rollback::Restore(None))).input(resume());
    assert_eq!(world.shows(), "running: a completed, b running, c pending");
}

/// Returns a run with a condition that is true, both arms, and a step after them.
fn both_arms() -> World {
    let condition = json!({"key": "if", "type": "condition",
        "config": {"condition": "true", "true_step": "yes", "false_step": "no"}});
    World::of(json!([
        condition,
        and(call("yes"), json!({"on_success": "end"})),
        call("no"),
        call("end")
    ]))
}

// RUN-8.4, RUN-8.5
#[test]
fn a_restore_leaves_the_arm_skipped_that_was_not_taken() {
    let mut world = both_arms();
    let at = "if completed, yes running, no skipped branch, end pending";
    assert_eq!(world.shows(), format!("running: {at}"));
    world.input(Input::Checkpoint {
        data: opaque(&json!({})),
    });
    world.input(pause()).complete("yes", json!({}));
    world.input(rollback(Rollback::Restore(None))).input(resume());
    assert_eq!(world.shows(), format!("running: {at}"));
    world.complete("yes", json!({})).complete("end", json!({}));
    assert_eq!(
        world.shows(),
        "completed: if completed, yes completed, no skipped branch, end completed"
    );
    // The condition is asked again, and so both arms are open.
    let mut world = both_arms();
    world.input(Input::Checkpoint {
        data: opaque(&json!({})),
    });
    world.input(pause()).complete("yes", json!({}));
    world.input(rollback(Rollback::Reset));
    assert_eq!(
        world.shows(),
        "paused: if pending, yes pending, no pending, end pending"
    );
}

// RUN-8.4, RUN-8.5
#[test]
fn a_restore_opens_what_a_failure_jumped_over_that_is_taken_back() {
    let jumps = and(call("a"), json!({"on_failure": "c", "retry": {"max_retries": 0}}));
    let mut world = World::of(json!([jumps, call("b"), call("c")]));
    world.fail("a", Failed);
    assert_eq!(
        world.shows(),
        "running: a failed BROKEN, b skipped branch, c running"
    );
    world.input(Input::Checkpoint {
        data: opaque(&json!({})),
    });
    world.input(pause()).complete("c", json!({}));
    world.input(rollback(Rollback::Restore(None))).input(resume());
    assert_eq!(world.shows(), "running: a running, b pending, c pending");
}

// RUN-8.4
#[test]
fn a_rewind_behind_a_branch_opens_the_other_arm_only_if_it_names_it() {
    let mut world = both_arms();
    world.complete("yes", json!({}));
    world.input(rewind("yes", RewindScope::Later));
    assert_eq!(
        world.shows(),
        "running: if completed, yes running, no skipped branch, end pending"
    );
    world.complete("yes", json!({}));
    world.input(rewind("no", RewindScope::Later));
    assert_eq!(
        world.shows(),
        "running: if completed, yes completed, no running, end pending"
    );
    world.input(rewind("if", RewindScope::Later));
    assert_eq!(
        world.shows(),
        "running: if completed, yes running, no skipped branch, end pending"
    );
}

// RUN-8.7
#[test]
fn a_checkpoint_has_a_limit() {
    let data = |n: usize| Input::Checkpoint {
        data: opaque(&json!({"x": "y".repeat(n)})),
    };
    let mut world = World::of(json!([call("a")]));
    world.input(data(511_000));
    assert_eq!(world.refusal(data(512_000)), RefusedReason::DataTooLarge);
    assert_eq!(world.run.state().checkpoints.len(), 1);
}

// RUN-8.6
#[test]
fn an_operator_completes_fails_or_skips_a_step_of_a_run_that_rests() {
    let over = |word| Input::Override {
        step_key: "a".to_owned(),
        word,
        reason: "it is done".to_owned(),
    };
    let paused = || {
        let mut world = World::of(json!([call("z"), call("a"), call("b")]));
        world.input(pause()).complete("z", json!({}));
        world
    };
    let mut running = World::of(json!([call("a")]));
    assert_eq!(
        running.refusal(over(OverrideWord::Skip)),
        RefusedReason::NotPaused
    );
    let mut completes = paused();
    completes
        .input(over(OverrideWord::Complete(encoded(&json!({"by": "hand"})))))
        .input(resume());
    assert_eq!(completes.shows(), "running: z completed, a completed, b running");
    assert_eq!(
        completes.refusal(over(OverrideWord::Skip)),
        RefusedReason::NotPaused
    );
    let mut fails = paused();
    fails.input(over(OverrideWord::Fail {
        code: "BY_HAND".to_owned(),
        message: "no".to_owned(),
    }));
    fails.input(resume());
    assert_eq!(
        fails.shows(),
        "failed: z completed, a failed BY_HAND, b skipped runended"
    );
    let mut skips = paused();
    skips.input(over(OverrideWord::Skip));
    assert_eq!(
        skips.refusal(over(OverrideWord::Skip)),
        RefusedReason::StepSettled
    );
    skips.input(resume());
    assert_eq!(
        skips.shows(),
        "running: z completed, a skipped override, b running"
    );
}

// RUN-8.4
#[test]
fn a_rewind_of_dependents_sets_everything_behind_a_barrier_among_them_back() {
    let condition = json!({"key": "if", "type": "condition", "depends_on": ["a"],
        "config": {"condition": "more", "true_step": "yes", "false_step": "no"}});
    let steps = json!([
        call("a"),
        call("b"),
        condition,
        and(call("yes"), json!({"on_success": "end"})),
        call("no"),
        call("end")
    ]);
    let mut world = World::of(steps);
    world.complete("a", json!({})).complete("b", json!({}));
    world.input(Input::Evaluated {
        evaluation: 1,
        result: Ok(true),
    });
    world.complete("yes", json!({}));
    world.input(rewind("a", RewindScope::Dependents));
    assert_eq!(
        world.shows(),
        "running: a running, b completed, if pending, yes pending, no pending, end pending"
    );
    world.complete("a", json!({}));
    world.input(Input::Evaluated {
        evaluation: 2,
        result: Ok(false),
    });
    assert!(
        world.shows().contains("yes skipped branch, no running"),
        "{}",
        world.shows()
    );
}

// RUN-8.4
#[test]
fn a_rewind_of_dependents_takes_the_decisions_back_that_were_made_of_a_result() {
    let asks = |condition: &str| {
        json!({"key": "if", "type": "condition",
            "config": {"condition": condition, "true_step": "yes", "false_step": "no"}})
    };
    let world = |condition: &str| {
        let yes = and(call("yes"), json!({"on_success": "end"}));
        let steps = json!([
            call("a"),
            call("b"),
            asks(condition),
            yes,
            call("no"),
            call("end")
        ]);
        let mut world = World::of(steps);
        world.complete("a", json!({"n": 1})).complete("b", json!({}));
        if !condition.starts_with("result:") {
            world.input(Input::Evaluated {
                evaluation: 1,
                result: Ok(true),
            });
        }
        world.complete("yes", json!({}));
        world.input(rewind("a", RewindScope::Dependents));
        world
    };
    // None of these depends on "a" by `depends_on`.
    for condition in ["result:a", "results.a.n > 0"] {
        assert_eq!(
            world(condition).shows(),
            "running: a running, b completed, if pending, yes pending, no pending, end pending",
            "{condition}"
        );
    }
    assert_eq!(
        world("input.n > 0").shows(),
        "running: a pending, b completed, if completed, yes completed, no skipped branch, end running"
    );
    let sees = json!({"key": "d", "type": "llm_decision", "config": {"prompt": "?"}});
    let mut world = World::of(json!([call("a"), call("b"), sees, call("c")]));
    world.complete("a", json!({})).complete("b", json!({}));
    world.complete("d", json!({"content": "yes"}));
    world.input(rewind("a", RewindScope::Dependents));
    assert_eq!(
        world.shows(),
        "running: a pending, b completed, d pending, c running",
        "a model that was shown the result is asked again"
    );
}

// RUN-8.5
#[test]
fn a_restore_takes_back_what_was_made_of_a_failure_that_is_taken_back() {
    let fails = and(call("a"), json!({"required": false, "retry": {"max_retries": 0}}));
    let takes = and(
        call_after("b", &["a"]),
        json!({"on_dependency_failure": "null_input"}),
    );
    let mut world = World::of(json!([fails, takes, call("c"), call("d")]));
    world.fail("a", Failed);
    world.complete("b", json!({})).complete("c", json!({}));
    world.input(Input::Checkpoint {
        data: opaque(&json!({})),
    });
    world.input(pause()).complete("d", json!({}));
    world.input(rollback(Rollback::Restore(None)));
    assert_eq!(
        world.shows(),
        "paused: a pending, b pending, c completed, d pending"
    );
}

// RUN-8.4, RUN-5.6
#[test]
fn a_rewind_of_one_failure_leaves_the_other() {
    let drains = |key| {
        and(
            call(key),
            json!({"on_failure": "drain", "retry": {"max_retries": 0}}),
        )
    };
    let mut world = World::of(json!([drains("a"), drains("b"), call("c")]));
    world.fail("a", Failed).fail("b", Failed);
    world.input(rewind("a", RewindScope::Dependents));
    world.complete("c", json!({})).complete("a", json!({}));
    assert_eq!(world.shows(), "failed: a completed, b failed BROKEN, c completed");
}

// RUN-8.6, RUN-14.3
#[test]
fn an_operator_completes_a_step_whose_own_patch_is_none() {
    let items = json!({"key": "a", "type": "parallel", "config": {"steps": [
        {"tool_name": "pure.work", "tool_args": {}}, {"tool_name": "pure.work", "tool_args": {}}]}});
    let mut world = World::of(json!([items, call("b")]));
    world.complete_unit("a", 0, json!({"$state_patch": 7}));
    world.input(pause());
    world.fail_unit("a", 1, Failed);
    world.input(Input::Override {
        step_key: "a".to_owned(),
        word: OverrideWord::Complete(encoded(&json!({"by": "hand"}))),
        reason: "it is done".to_owned(),
    });
    assert_eq!(world.shows(), "paused: a completed, b pending");
}

// RUN-8.6
#[test]
fn a_condition_that_an_operator_completes_takes_that_side() {
    let condition = json!({"key": "a", "type": "condition",
        "config": {"condition": "more", "true_step": "yes", "false_step": "no"}});
    let over = |output: serde_json::Value| Input::Override {
        step_key: "a".to_owned(),
        word: OverrideWord::Complete(encoded(&output)),
        reason: String::new(),
    };
    let steps = json!([
        call("z"),
        condition,
        and(call("yes"), json!({"on_success": "end"})),
        call("no"),
        call("end")
    ]);
    let mut world = World::of(steps);
    world.input(pause()).complete("z", json!({}));
    assert_eq!(world.refusal(over(json!("yes"))), RefusedReason::AnswerInvalid);
    world.input(over(json!(false))).input(resume());
    assert_eq!(
        world.shows(),
        "running: z completed, a completed, yes skipped branch, no running, end pending"
    );
}
