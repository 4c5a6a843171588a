//! Forks, previews, and what is forgotten.

use escapement_run::ids::RunId;
use escapement_run::journal::Decision::{Answer, Approve};
use escapement_run::journal::Event;
use escapement_run::journal::OutcomeClass::{Failed, FailedForGood};
use escapement_run::presets::Preset;
use escapement_run::spec::{Fallback, FallbackAction, FallbackKind, Spec};
use escapement_run::{DISCARDED, EditedPlan, Input, Keep, RefusedReason, Takes, plan, preview};
use serde_json::{Value, json};
use std::sync::Arc;

use crate::world::{World, and, call, call_after, opaque, spec, tool};

fn other_id() -> RunId {
    RunId::from_random([9; 16])
}

// RUN-8.8
#[test]
fn a_fork_keeps_all_completed_work_and_runs_the_rest() {
    let loop_step =
        json!({"key": "l", "type": "loop", "config": {"tool_name": "pure.work", "max_iterations": 2}});
    let condition = json!({"key": "if", "type": "condition", "config": {"condition": "true", "true_step": "yes", "false_step": "no"}});
    let steps = json!([
        loop_step,
        condition,
        call("yes"),
        call("no"),
        tool("x", "mail.send", &["yes"])
    ]);
    let mut world = World::of(steps);
    world
        .complete("l", json!({"i": 0}))
        .complete("l", json!({"i": 1}))
        .complete("yes", json!({"y": 1}));
    world.fail("x", FailedForGood);
    assert_eq!(world.run.shown().as_str(), "failed");
    let old = world.run.state().clone();
    let mut fork = world
        .fork(other_id(), spec(Preset::Standard), Keep::Completed)
        .unwrap();
    assert_eq!(*world.run.state(), old);
    assert_eq!(
        fork.shows(),
        "queued: l completed, if completed, yes completed, no skipped branch, x pending"
    );
    fork.input(Input::Admit);
    assert_eq!(fork.submitted(), 1);
    fork.complete("x", json!({"sent": true}));
    assert_eq!(fork.run.shown().as_str(), "completed");
    assert_eq!(fork.run.state().spec.forked_from, old.run_id);
}

// RUN-8.5
#[test]
fn a_run_that_has_ended_is_rolled_back_by_a_fork_that_is_paused() {
    let patch = json!({"$state_patch": {"seen": "then"}});
    let late = json!({"$state_patch": {"seen": "late"}});
    let mut world = World::of(json!([call("a"), call_after("b", &["a"])]));
    let session = |world: &World| {
        let session = world.run.state().session.clone().unwrap();
        session.state.inline
    };
    world.complete("a", patch);
    let at_checkpoint = session(&world);
    let data = opaque(&json!({}));
    world.input(Input::Checkpoint { data });
    world.complete("b", late);
    assert_eq!(world.run.shown().as_str(), "completed");
    let rolled_back = |keep| world.fork(other_id(), spec(Preset::Standard), keep);

    let mut restored = rolled_back(Keep::Checkpoint(1)).unwrap();
    assert_eq!(restored.shows(), "queued: a completed, b pending");
    assert_eq!(session(&restored), at_checkpoint, "the session of that time");
    assert!(restored.run.state().pause_wanted);
    let reason = String::new();
    restored.input(Input::Resume { reason });
    restored.input(Input::Admit);
    restored.complete("b", json!({}));
    assert_eq!(restored.run.shown().as_str(), "completed");

    let reset = rolled_back(Keep::Nothing).unwrap();
    assert_eq!(reset.shows(), "queued: a pending, b pending");
    assert_ne!(session(&reset), at_checkpoint, "stays as it is");
    let refused = rolled_back(Keep::Checkpoint(2)).err().unwrap();
    assert_eq!(refused.reason, RefusedReason::NoCheckpoint);
}

// RUN-8.4, RUN-8.8
#[test]
fn a_fork_from_an_arm_or_to_a_checkpoint_leaves_the_other_arm_skipped() {
    let condition = json!({"key": "if", "type": "condition",
        "config": {"condition": "true", "true_step": "yes", "false_step": "no"}});
    let yes = and(call("yes"), json!({"on_success": "end"}));
    let mut world = World::of(json!([condition, yes, call("no"), call("end")]));
    world.input(Input::Checkpoint {
        data: opaque(&json!({})),
    });
    world.complete("yes", json!({})).complete("end", json!({}));
    for keep in [Keep::Checkpoint(1), Keep::Before("yes")] {
        let fork = world.fork(other_id(), spec(Preset::Standard), keep).unwrap();
        assert_eq!(
            fork.shows(),
            "queued: if completed, yes pending, no skipped branch, end pending",
            "{keep:?}"
        );
    }
    let from_no = world.fork(other_id(), spec(Preset::Standard), Keep::Before("no"));
    assert_eq!(
        from_no.unwrap().shows(),
        "queued: if completed, yes completed, no pending, end pending"
    );
}

// RUN-8.9
#[test]
fn a_run_that_was_discarded_is_not_forked() {
    let mut world = World::of(json!([call("a"), call_after("b", &["a"])]));
    world.complete("a", json!({}));
    let reason = DISCARDED.to_owned();
    world.input(Input::Cancel { reason });
    assert!(world.run.state().is_discarded());
    let refused = world.fork(other_id(), spec(Preset::Standard), Keep::Completed);
    assert_eq!(refused.err().unwrap().reason, RefusedReason::RunDiscarded);
}

/// A plan of these steps, in the place of another one.
fn edited(steps: Value) -> EditedPlan {
    let document = json!({"schema": "escapement.plan/1", "name": "Edited", "steps": steps});
    EditedPlan {
        plan: Arc::new(plan::read(&opaque(&document)).unwrap()),
        profiles: Vec::new(),
    }
}

// RUN-8.8
#[test]
fn a_fork_with_an_edited_plan_keeps_the_results_of_steps_that_are_as_they_were() {
    let condition = || {
        let config = json!({"condition": "true", "true_step": "yes", "false_step": "no"});
        json!({"key": "if", "type": "condition", "config": config})
    };
    let mut world = World::of(json!([
        call("a"),
        condition(),
        call("yes"),
        call("no"),
        call("b")
    ]));
    world
        .complete("a", json!({"n": 1}))
        .complete("yes", json!({"y": 1}));
    world.fail("b", FailedForGood);
    // Another step comes first, a name changes, and the step that failed does something else.
    let named = and(call("a"), json!({"name": "Another name"}));
    let steps = json!([
        and(call("new"), json!({"order": 1})),
        and(named, json!({"order": 2})),
        and(condition(), json!({"order": 3})),
        and(call("yes"), json!({"order": 4})),
        and(call("no"), json!({"order": 5})),
        and(tool("b", "pure.other", &[]), json!({"order": 6})),
    ]);
    let standard = || spec(Preset::Standard);
    let mut fork = world
        .fork_edited(other_id(), standard(), Keep::Completed, Some(edited(steps)))
        .unwrap();
    assert_eq!(
        fork.shows(),
        "queued: new pending, a completed, if completed, yes completed, no skipped branch, b pending"
    );
    fork.input(Input::Admit)
        .complete("new", json!({}))
        .complete("b", json!({"b": 2}));
    assert_eq!(fork.run.shown().as_str(), "completed");

    // Each kept step that differs is named with its path.
    let steps = json!([condition(), tool("yes", "pure.other", &[]), call("no"), call("b")]);
    let other = edited(steps);
    let changed = world.run.changed_by(Keep::Completed, &other.plan).unwrap();
    let changed: Vec<(&str, &str)> = changed
        .iter()
        .map(|changed| (changed.key.as_str(), changed.path.as_str()))
        .collect();
    assert_eq!(changed, [("a", "steps"), ("yes", "steps[1].config")]);
    let refused = world.fork_edited(other_id(), standard(), Keep::Completed, Some(other));
    assert_eq!(
        refused.map(|_| ()).unwrap_err().reason,
        RefusedReason::KeptStepChanged
    );
    let question = json!({"key": "a", "type": "user_input", "config": {"question": "Why?"}});
    let other = edited(json!([question]));
    let changed = world.run.changed_by(Keep::Before("if"), &other.plan).unwrap();
    assert_eq!(changed[0].path, "steps[0].type");
    // What is not kept may change.
    let other = edited(json!([question]));
    let fork = world
        .fork_edited(other_id(), standard(), Keep::Before("a"), Some(other))
        .unwrap();
    assert_eq!(fork.shows(), "queued: a pending");
}

// RUN-8.8, RUN-9.6
#[test]
fn a_fork_of_many_results_keeps_its_entries_small() {
    let repeated =
        json!({"key": "l", "type": "loop", "config": {"tool_name": "pure.work", "max_iterations": 200}});
    let mut world = World::of(json!([repeated, call("b")]));
    for n in 0..200 {
        world.complete("l", json!({"n": n, "x": "y".repeat(1000)}));
    }
    world.fail("b", FailedForGood);
    let mut fork = world
        .fork(other_id(), spec(Preset::Standard), Keep::Completed)
        .unwrap();
    let longest = fork.bytes.iter().map(|entry| entry.len()).max().unwrap();
    assert!(longest < 32_768, "{longest}");
    fork.input(Input::Admit).complete("b", json!({}));
    assert_eq!(fork.run.shown().as_str(), "completed");
}

// RUN-8.8
#[test]
fn a_fork_from_a_step_keeps_what_ended_before_it() {
    let steps = json!([
        and(call("a"), json!({"required": false})),
        call("b"),
        call_after("c", &["b"])
    ]);
    let mut world = World::of(steps);
    world
        .fail("a", FailedForGood)
        .complete("b", json!({"n": 1}))
        .complete("c", json!({}));
    let mut fork = world
        .fork(other_id(), spec(Preset::Standard), Keep::Before("c"))
        .unwrap();
    fork.input(Input::Admit);
    assert_eq!(fork.shows(), "running: a failed BROKEN, b completed, c running");
    let refused = world.fork(other_id(), spec(Preset::Standard), Keep::Before("x"));
    assert_eq!(refused.err().unwrap().reason, RefusedReason::UnknownStep);
}

fn mails(key: &str, n: u32) -> Value {
    let config = json!({"tool_name": "safe.mail", "tool_args": {"to": "eve"}, "max_iterations": n});
    json!({"key": key, "type": "loop", "config": config})
}

fn memos(world: &World) -> Vec<(u32, u32)> {
    let memos = world.journal.iter().filter_map(|entry| match &entry.event {
        Some(Event::UnitMemoized(memo)) => Some((memo.unit.step, memo.unit.index)),
        _ => None,
    });
    memos.collect()
}

// RUN-12.6
#[test]
fn a_fork_does_not_send_again_what_a_loop_sent_before_it_failed() {
    let mut world = World::of(json!([mails("l", 3)]));
    world
        .complete("l", json!({"n": 0}))
        .complete("l", json!({"n": 1}));
    let sent = world.live_unit("l", Some(2)).unwrap();
    world.fail("l", FailedForGood);
    let again = || spec(Preset::Standard);
    let mut fork = world.fork(other_id(), again(), Keep::Completed).unwrap();
    fork.input(Input::Admit);
    assert_eq!(memos(&fork), [(0, 0), (0, 1)]);
    assert_eq!(fork.submitted(), 1, "the third mail alone");
    assert_ne!(fork.live("l"), sent);
    fork.fail("l", FailedForGood);

    // What a fork took over is taken over from it.
    let third_id = RunId::from_random([10; 16]);
    let mut third = fork.fork(third_id, again(), Keep::Completed).unwrap();
    third.input(Input::Admit);
    assert_eq!((memos(&third), third.submitted()), ([(0, 0), (0, 1)].into(), 1));
    let of = |world: &World| {
        let units = &world.run.state().steps[0].units;
        units.iter().map(|unit| unit.memo_of.clone()).collect::<Vec<_>>()
    };
    assert_eq!(of(&third)[..2], of(&fork)[..2], "the execution that sent it");
    third.complete("l", json!({"n": 2}));
    assert_eq!(third.output(), json!([{"n": 0}, {"n": 1}, {"n": 2}]));

    // Who goes back to the step wants it again.
    let refused = world.fork(other_id(), again(), Keep::Before("l")).err().unwrap();
    assert_eq!(refused.reason, RefusedReason::EffectsWouldRepeat);
    let takes = Takes {
        keep: Keep::Before("l"),
        edited: None,
        doubts_of_children: Vec::new(),
        allow_repeat_effects: true,
    };
    let mut back = world.fork_taking(other_id(), again(), takes).unwrap();
    back.input(Input::Admit);
    assert_eq!((memos(&back), back.submitted()), (Vec::new(), 1));
}

// RUN-12.6
#[test]
fn a_fork_does_not_repeat_the_items_that_completed() {
    let item = |to: &str| json!({"tool_name": "safe.mail", "tool_args": {"to": to}});
    let steps = json!([{"key": "p", "type": "parallel", "config": {"steps": [item("eve"), item("bob")]}}]);
    let mut world = World::of(steps);
    world
        .complete_unit("p", 0, json!({"to": "eve"}))
        .fail_unit("p", 1, FailedForGood);
    let mut fork = world
        .fork(other_id(), spec(Preset::Standard), Keep::Completed)
        .unwrap();
    fork.input(Input::Admit);
    assert_eq!((memos(&fork), fork.submitted()), ([(0, 0)].into(), 1));
    // A step with the same key that does something else takes nothing.
    let other =
        edited(json!([{"key": "p", "type": "parallel", "config": {"steps": [item("ann"), item("bob")]}}]));
    let mut fork = world
        .fork_edited(other_id(), spec(Preset::Standard), Keep::Completed, Some(other))
        .unwrap();
    fork.input(Input::Admit);
    assert_eq!((memos(&fork), fork.submitted()), (Vec::new(), 2));
    // The fork says what it comes from.
    let made = fork.journal.iter().find_map(|entry| match &entry.event {
        Some(Event::PlanCreated(made)) => Some(made.clone()),
        _ => None,
    });
    let made = made.unwrap();
    assert_eq!(made.parent[..], world.run.plan().digest[..]);
    assert_eq!(made.failed_steps, ["p"]);
}

// RUN-7.7
#[test]
fn the_bounds_of_a_run_hold_when_everything_fails_as_late_as_it_can() {
    let items: Vec<Value> = (0..3).map(|_| json!("pure.work")).collect();
    let steps = json!([
        and(call("a"), json!({"retry": {"max_retries": 2}, "required": false})),
        {"key": "p", "type": "parallel", "required": false, "config": {"steps": items}},
        {"key": "l", "type": "loop", "required": false, "config": {"tool_name": "pure.work", "max_iterations": 4}},
        {"key": "d", "type": "llm_decision", "required": false, "config": {"prompt": "?", "choices": ["a", "b"]}},
    ]);
    let mut world = World::of(steps);
    let bounds = preview(
        world.run.plan(),
        &world.run.state().spec,
        &world.run.state().profiles,
    );
    assert_eq!(
        (bounds.attempts_max, bounds.model_calls_max),
        (3 + 12 + 16 + 8, 8)
    );
    assert!(bounds.gates.is_empty() && bounds.questions.is_empty() && !bounds.plan_approval);
    // Every unit fails as often as it may, and completes at last.
    let mut tries = std::collections::BTreeMap::new();
    while !world.run.state().stage().is_end() {
        let Some((step, index)) = world.first_live() else {
            let due = world.run.due_at().unwrap() - world.now;
            world.pass(due);
            continue;
        };
        let failures = tries.entry((step.clone(), index)).or_insert(0);
        let last = *failures == if step == "a" { 2 } else { 3 };
        *failures += 1;
        match last {
            true => world.complete_unit(&step, index, json!({"content": "neither"})),
            false => world.fail_unit(&step, index, Failed),
        };
    }
    assert_eq!(world.submitted() as u64, bounds.attempts_max);
    assert!(world.run.state().active_ms <= bounds.active_ms_max);
}

// RUN-7.7
#[test]
fn substitutions_count_in_every_bound() {
    let config = json!({"prompt": "?", "tools": ["pure.sum"]});
    let steps = json!([{"key": "d", "type": "llm_decision", "config": config}, call("a")]);
    let world = World::of(steps);
    let mut spec = spec(Preset::Standard);
    spec.limits.max_substitutions = 2;
    let mut profiles = world.run.state().profiles.clone();
    let bounds = |profiles: &[_]| {
        let preview = preview(world.run.plan(), &spec, profiles);
        (
            preview.attempts_max,
            preview.model_calls_max,
            preview.tool_calls_max,
        )
    };
    let (attempts, models, tools) = bounds(&profiles);
    assert!(tools > 0);
    let work = profiles.iter_mut().find(|profile| profile.action == "pure.work");
    work.unwrap().alternatives = vec!["pure.other".to_owned()];
    assert_eq!(bounds(&profiles), (3 * attempts, 3 * models, 3 * tools));
}

// RUN-7.7, RUN-6.2
#[test]
fn a_preview_names_who_will_be_asked() {
    let question = json!({"key": "q", "type": "user_input", "config": {"question": "?"}});
    let steps = json!([question, tool("mail", "mail.send", &[]), call("a")]);
    let world = World::with(
        steps,
        Spec {
            autonomy_level: 1,
            ..spec(Preset::Standard)
        },
    );
    let bounds = preview(world.run.plan(), &world.run.state().spec, &[]);
    assert!(bounds.plan_approval);
    assert_eq!(
        (bounds.questions, bounds.gates),
        (vec!["q".to_owned()], vec!["mail".to_owned(), "a".to_owned()])
    );
    assert_eq!(bounds.unknown_actions, ["mail.send", "pure.work"]);
}

// RUN-7.7, RUN-12.3, RUN-11.11
#[test]
fn a_preview_names_what_alternatives_and_a_fallback_ask() {
    let world = World::of(json!([call("a")]));
    let mut spec = Spec {
        autonomy_level: 2,
        ..spec(Preset::Standard)
    };
    let mut profiles = world.run.state().profiles.clone();
    let gates = |spec: &Spec, profiles: &[_]| preview(world.run.plan(), spec, profiles).gates;
    assert!(gates(&spec, &profiles).is_empty());
    spec.limits.max_substitutions = 1;
    for profile in &mut profiles {
        profile.alternatives = vec!["danger.wipe".to_owned()];
    }
    // Nobody knows what that one does.
    assert_eq!(gates(&spec, &profiles), ["a"]);
    spec.fallback = Some(Fallback {
        kind: Some(FallbackKind::Action(FallbackAction {
            action: "danger.wipe".to_owned(),
            ..FallbackAction::default()
        })),
    });
    assert_eq!(gates(&spec, &profiles), ["a", "fallback"]);
}

// RUN-6.9
#[test]
fn old_requests_are_forgotten_and_open_ones_never() {
    let question =
        json!({"key": "l", "type": "loop", "config": {"tool_name": "mail.send", "max_iterations": 300}});
    let open = json!({"key": "q", "type": "user_input", "async": true, "config": {"question": "?"}});
    let document = json!({"schema": "escapement.plan/1", "name": "Story", "parallel": true,
        "steps": [open, and(question, json!({"async": true}))]});
    let mut two = Spec {
        autonomy_level: 2,
        ..spec(Preset::Standard)
    };
    two.limits.max_concurrency = 2;
    let mut world = World::document(document, two);
    let first = world.run.state().requests[0].clone();
    for _ in 0..300 {
        let request = world.run.state().open_requests().last().unwrap().clone();
        let answer = world.answer_of(&request, "bob", Approve, Value::Null);
        world.input(Input::Answer(answer)).complete("l", json!({}));
    }
    assert_eq!(world.run.state().requests.len(), 256);
    let answer = world.answer_of(&first, "bob", Answer, json!("still here"));
    world.input(Input::Answer(answer));
    assert_eq!(world.run.shown().as_str(), "completed");
}

// RUN-9.7
#[test]
fn each_entry_has_a_name_of_its_own() {
    let mut world = World::with(
        json!([tool("a", "mail.send", &[])]),
        Spec {
            autonomy_level: 1,
            ..spec(Preset::Standard)
        },
    );
    world
        .answer(Approve, Value::Null)
        .answer(Approve, Value::Null)
        .complete("a", json!({}));
    let names: Vec<&str> = world
        .journal
        .iter()
        .map(|entry| entry.event.as_ref().unwrap().name())
        .collect();
    assert_eq!(
        names,
        [
            "run_created",
            "plan_created",
            "run_started",
            "approval_requested",
            "approval_resolved",
            "step_started",
            "approval_requested",
            "approval_resolved",
            "tool_called",
            "tool_output",
            "step_completed",
            "run_completed"
        ]
    );
    let started = world.journal[2].event.as_ref().unwrap();
    assert_eq!(started.aliases(), ["plan:started", "started", "plan_started"]);
}

// RUN-12.6, RUN-8.8
#[test]
fn a_fork_from_a_step_takes_what_completed_in_an_earlier_step_that_is_under_way() {
    let item = |tool: &str| json!({"tool_name": tool, "tool_args": {}});
    let config = json!({"steps": [item("safe.mail"), item("pure.work")]});
    let parallel = json!({"key": "p", "type": "parallel", "config": config});
    let mut world = World::of(json!([parallel, call_after("c", &["p"])]));
    world.complete_unit("p", 0, json!({}));
    let id = RunId::from_random([9; 16]);
    let fork = world.fork(id, spec(Preset::Standard), Keep::Before("c"));
    let mut fork = fork.unwrap();
    fork.input(Input::Admit);
    assert_eq!(fork.submitted(), 1, "the mail is not sent again");
    fork.complete_unit("p", 1, json!({}));
    assert_eq!(fork.shows(), "running: p completed, c running");
}
