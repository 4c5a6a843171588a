//! What runs of a session see of each other: its state, and how its skills do.

use escapement_model::Opaque;
use escapement_model::opaque::{ValueView, WalkBudget};
use escapement_run::ids::RunId;
use escapement_run::journal::Decision::Approve;
use escapement_run::journal::OutcomeClass::{Completed, Failed, FailedForGood, NeverRan, TimedOut, Unknown};
use escapement_run::journal::{Event, OutcomeClass};
use escapement_run::presets::Preset;
use escapement_run::session::{
    Health, PATCH_WORK_MAX, STATE_BYTES_MAX, Session, SkillEvent, SkillHealth, health_of, merged, next,
    set_health,
};
use escapement_run::{Input, Keep, Rollback, SessionNews};
use serde_json::{Value, json};

use crate::world::{World, call, call_after, json_of, opaque, rollback, spec, tool};

fn merge(state: &Value, patch: &Value) -> Value {
    merge_all(state, std::slice::from_ref(patch))
}

fn merge_all(state: &Value, patches: &[Value]) -> Value {
    let patches: Vec<Opaque> = patches.iter().map(opaque).collect();
    let patches = patches.iter().map(|patch| &patch.as_encoded()[..]);
    let state = merged(&opaque(state), patches, &mut WalkBudget::new(PATCH_WORK_MAX)).unwrap();
    json_of(ValueView::Struct(state.as_encoded()))
}

// RUN-14.2
#[test]
fn patches_merge_as_rfc_7396_says() {
    let vectors = [
        (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
        (json!({"a": "b"}), json!({"a": null}), json!({})),
        (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
        (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
        (
            json!({"a": {"b": "c"}}),
            json!({"a": {"b": "d", "c": null}}),
            json!({"a": {"b": "d"}}),
        ),
        (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
        (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
        (
            json!({}),
            json!({"a": {"bb": {"ccc": null}}}),
            json!({"a": {"bb": {}}}),
        ),
        (
            json!({"a": {"b": {"c": 1}, "d": 2}}),
            json!({"a": {"b": {"e": [1, 2]}}}),
            json!({"a": {"b": {"c": 1, "e": [1, 2]}, "d": 2}}),
        ),
    ];
    for (state, patch, wanted) in vectors {
        assert_eq!(merge(&state, &patch), wanted, "{patch} into {state}");
    }
}

// RUN-14.2
#[test]
fn one_patch_after_another_is_not_one_patch() {
    let patches = [json!({"a": null}), json!({"a": {"c": 1}})];
    assert_eq!(
        merge_all(&json!({"a": {"b": 1}}), &patches),
        json!({"a": {"c": 1}})
    );
}

// RUN-14.3
#[test]
fn patches_that_take_more_work_than_is_allowed_fail_their_step() {
    let items: Vec<Value> = (0..64)
        .map(|n| json!({"tool_name": "pure.work", "tool_args": {"n": n}}))
        .collect();
    let step = json!({"key": "a", "type": "parallel", "config": {"steps": items, "batch_size": 64}});
    let mut world = World::of(json!([step]));
    // Together they make little of the state: each has the same keys.
    let patch: serde_json::Map<String, Value> = (0..20_000).map(|n| (format!("k{n}"), json!(true))).collect();
    for n in 0..64 {
        world.complete_unit("a", n, json!({"$state_patch": patch}));
    }
    assert_eq!(world.shows(), "failed: a failed OUTPUT_INVALID");
    let (_, message) = world.error();
    assert!(message.contains("more work than is allowed"), "{message}");
}

// RUN-14.2
#[test]
fn a_state_that_would_be_too_large_or_too_deep_is_refused() {
    let mut session = Session::new("ada", opaque(&json!({"a": "x".repeat(STATE_BYTES_MAX / 2)})));
    let why = session
        .patch(&opaque(&json!({"b": "x".repeat(STATE_BYTES_MAX / 2)})))
        .unwrap_err();
    assert!(why.contains("1048576 bytes"), "{why}");
    assert_eq!(session.state_version, 1);
    let deep = |n: usize| (0..n).fold(json!({}), |inner, _| json!({"a": inner}));
    assert!(session.patch(&opaque(&deep(29))).unwrap());
    let mut other = Session::new("ada", Opaque::default());
    let why = other.patch(&opaque(&deep(30))).unwrap_err();
    assert!(why.contains("29 objects"), "{why}");
}

// RUN-14.5
#[test]
fn every_cell_of_the_table_of_health() {
    use Health::{Degraded, Healthy, PermanentFailure, TemporaryFailure};
    use SkillEvent::{Failed, RetriesUsedUp, Succeeded, TimedOut};
    let cells = [
        ((Healthy, 2), Succeeded, (Healthy, 0)),
        ((Healthy, 0), TimedOut, (TemporaryFailure, 0)),
        ((Healthy, 0), Failed, (Healthy, 1)),
        ((Healthy, 1), Failed, (Healthy, 2)),
        ((Healthy, 2), Failed, (Degraded, 0)),
        ((Healthy, 2), RetriesUsedUp, (Healthy, 2)),
        ((TemporaryFailure, 0), Succeeded, (Healthy, 0)),
        ((TemporaryFailure, 0), TimedOut, (TemporaryFailure, 0)),
        ((TemporaryFailure, 0), Failed, (TemporaryFailure, 0)),
        ((TemporaryFailure, 0), RetriesUsedUp, (PermanentFailure, 0)),
        ((Degraded, 1), Succeeded, (Healthy, 0)),
        ((Degraded, 0), TimedOut, (Degraded, 1)),
        ((Degraded, 1), Failed, (Degraded, 2)),
        ((Degraded, 2), Failed, (PermanentFailure, 3)),
        ((Degraded, 2), TimedOut, (PermanentFailure, 3)),
        ((Degraded, 1), RetriesUsedUp, (Degraded, 1)),
        ((PermanentFailure, 3), Succeeded, (PermanentFailure, 3)),
        ((PermanentFailure, 3), TimedOut, (PermanentFailure, 3)),
        ((PermanentFailure, 3), Failed, (PermanentFailure, 3)),
        ((PermanentFailure, 3), RetriesUsedUp, (PermanentFailure, 3)),
    ];
    for ((health, failures), event, wanted) in cells {
        assert_eq!(
            next(health, failures, event),
            wanted,
            "{health:?} {failures} {event:?}"
        );
    }
}

// RUN-14.5
#[test]
fn only_skills_that_are_not_as_new_take_room() {
    let mut skills = Vec::new();
    for n in 0..2000 {
        set_health(&mut skills, &format!("s{n:04}"), Health::Degraded, 1);
    }
    assert_eq!(skills.len(), 1024);
    assert_eq!(health_of(&skills, "s1500"), (Health::Healthy, 0));
    set_health(&mut skills, "s0000", Health::Healthy, 0);
    assert_eq!(
        (skills.len(), health_of(&skills, "s0000")),
        (1023, (Health::Healthy, 0))
    );
    let mut session = Session {
        skills,
        ..Session::default()
    };
    assert!(session.forget_health(Some("s0001")));
    assert!(!session.forget_health(Some("s0001")));
    assert!(session.forget_health(None));
    assert_eq!((session.skills.len(), session.health_version), (0, 2));
}

fn uses_session(key: &str, depends_on: &[&str]) -> Value {
    json!({"key": key, "type": "tool_call", "depends_on": depends_on,
        "config": {"tool_name": "pure.work", "tool_args": {"$from": "session", "path": "/seen", "default": 0}}})
}

fn shows(key: &str, depends_on: &[&str]) -> Value {
    json!({"key": key, "type": "tool_call", "depends_on": depends_on,
        "config": {"tool_name": "pure.work", "tool_args": {"seen": "${session:/seen}"}}})
}

// RUN-14.3
#[test]
fn the_patch_of_a_step_that_completed_is_seen_by_the_next_one() {
    let mut world = World::of(json!([call("a"), shows("b", &["a"])]));
    world.complete("a", json!({"$state_patch": {"seen": {"n": 1}}, "other": 2}));
    assert_eq!(
        world.last_events()[..3],
        ["ToolOutput", "StatePatched", "StepCompleted"]
    );
    assert_eq!(world.payload("b"), json!({"seen": {"n": 1}}));
}

// RUN-14.3
#[test]
fn the_patch_of_an_item_counts_once_its_step_completes_and_never_if_it_fails() {
    let parallel = json!({"key": "p", "type": "parallel", "required": false, "retry": {"max_retries": 0}, "config": {"steps": [
        {"tool_name": "pure.a", "tool_args": {}}, {"tool_name": "pure.b", "tool_args": {}}]}});
    let with = |second: OutcomeClass| {
        let mut world = World::of(json!([parallel, call_after("next", &[])]));
        world.complete_unit("p", 0, json!({"$state_patch": {"a": 1, "b": 1}}));
        assert!(!world.last_events().contains(&"StatePatched".to_owned()));
        match second {
            Completed => world.complete_unit("p", 1, json!({"$state_patch": {"b": null, "c": 3}})),
            class => world.fail_unit("p", 1, class),
        };
        let session = world.run.state().session.clone();
        session.map_or(json!({}), |session| {
            json_of(ValueView::Struct(&session.state.inline))
        })
    };
    assert_eq!(with(Completed), json!({"a": 1, "c": 3}));
    assert_eq!(with(FailedForGood), json!({}));
}

// RUN-14.3
#[test]
fn a_patch_that_is_none_or_too_large_fails_the_step() {
    for (output, part) in [
        (json!({"$state_patch": 7}), "$state_patch is not an object"),
        (
            json!({"$state_patch": {"more": "x".repeat(600_000)}}),
            "more than 1048576 bytes",
        ),
    ] {
        let mut world = World::of(json!([call("a"), call_after("b", &["a"])]));
        world.complete("a", json!({"$state_patch": {"have": "x".repeat(600_000)}}));
        world.complete("b", output);
        let (code, message) = world.error();
        assert_eq!(code, "OUTPUT_INVALID");
        assert!(message.contains(part), "{message}");
    }
}

// RUN-8.5
#[test]
fn a_restore_sets_the_state_of_an_own_session_back_and_leaves_a_shared_one() {
    let seen_after = |session_id: &str, before: Option<Value>| {
        let own = escapement_run::spec::Spec {
            session_id: session_id.to_owned(),
            ..spec(Preset::Standard)
        };
        let steps = json!([call("a"), call_after("b", &["a"]), call_after("c", &["b"])]);
        let document = json!({"schema": "escapement.plan/1", "name": "Story", "steps": steps});
        let mut world = World::queued(document, own);
        world.input(Input::Admit);
        let patch = |n: i32| json!({ "$state_patch": { "n": n } });
        world.complete("a", before.unwrap_or(json!({})));
        let data = opaque(&json!({}));
        world.input(Input::Checkpoint { data });
        world.complete("b", patch(2));
        world.input(Input::Pause {
            reason: String::new(),
        });
        world.complete("c", json!({}));
        world.input(rollback(Rollback::Restore(None)));
        let session = world.run.state().session.clone().unwrap();
        json_of(ValueView::Struct(&session.state.inline))
    };
    let first = json!({ "$state_patch": { "n": 1 } });
    assert_eq!(seen_after("", Some(first.clone())), json!({"n": 1}));
    assert_eq!(seen_after("", None), json!({}), "as new");
    assert_eq!(seen_after("s", Some(first)), json!({"n": 2}));
}

// RUN-14.4
#[test]
fn what_others_change_in_a_session_is_in_the_journal_before_it_is_seen() {
    let shared = escapement_run::spec::Spec {
        session_id: "s".to_owned(),
        ..spec(Preset::Standard)
    };
    let document = json!({"schema": "escapement.plan/1", "name": "Story", "steps": [shows("a", &[]), shows("b", &["a"])]});
    let mut world = World::queued(document, shared);
    let news = |version, state: Value| SessionNews {
        state: Some((version, opaque(&state))),
        health: None,
    };
    world.input(Input::Session(news(4, json!({"seen": 1}))));
    world.input(Input::Admit);
    assert_eq!(world.payload("a"), json!({"seen": 1}));
    world.input(Input::Session(news(5, json!({"seen": 2}))));
    assert_eq!(world.payload("a"), json!({"seen": 1}), "what is intended stays");
    world.complete("a", json!({}));
    assert_eq!(world.payload("b"), json!({"seen": 2}));
    assert_eq!(world.run.state().session.as_ref().unwrap().state_version, 5);
}

// RUN-6.3, RUN-6.7
#[test]
fn an_approval_that_a_handler_asked_for_goes_with_no_other_payload() {
    let shared = escapement_run::spec::Spec {
        session_id: "s".to_owned(),
        ..spec(Preset::Standard)
    };
    let document = json!({"schema": "escapement.plan/1", "name": "Story", "steps": [shows("a", &[])]});
    let mut world = World::queued(document, shared);
    let news = |version, seen: u32| {
        Input::Session(SessionNews {
            state: Some((version, opaque(&json!({"seen": seen})))),
            health: None,
        })
    };
    world.input(news(4, 1)).input(Input::Admit);
    world.fail("a", OutcomeClass::ApprovalRequired);
    world.input(Input::Pause {
        reason: String::new(),
    });
    world.answer(Approve, Value::Null);
    world.input(news(5, 2)).input(Input::Resume {
        reason: String::new(),
    });
    assert_eq!(world.payload("a"), json!({"seen": 2}));
    let approval = |world: &World| world.environment("a")["escapement_run"]["approval"].clone();
    assert_eq!(approval(&world), Value::Null);
    // For what it is sent now the handler asks anew, and then it has that approval.
    world.fail("a", OutcomeClass::ApprovalRequired);
    world.answer(Approve, Value::Null);
    assert_ne!(approval(&world), Value::Null);
    world.complete("a", json!({}));
    assert_eq!(world.shows(), "completed: a completed");
}

// RUN-14.1
#[test]
fn a_fork_begins_with_the_state_of_a_run_that_shares_none() {
    let mut world = World::of(json!([call("a"), shows("b", &["a"]), uses_session("c", &[])]));
    world.complete("a", json!({"$state_patch": {"seen": "here"}}));
    let id = RunId::from_bytes([8, 1, 1, 1, 1, 1, 0x41, 1, 0x81, 1, 1, 1, 1, 1, 1, 1]).unwrap();
    let mut fork = world.fork(id, spec(Preset::Standard), Keep::Completed).unwrap();
    fork.input(Input::Admit);
    assert_eq!(fork.payload("b"), json!({"seen": "here"}));
}

fn health(world: &World, skill: &str) -> (Health, u32) {
    world.run.state().health_of(skill)
}

// RUN-14.5
#[test]
fn attempts_change_the_health_of_the_skill_that_they_call() {
    let mut world = World::of(json!([call("a"), call_after("b", &["a"])]));
    world.fail("a", NeverRan);
    assert_eq!(health(&world, "pure.work"), (Health::Healthy, 0));
    world.pass(1000).fail("a", Unknown);
    assert_eq!(health(&world, "pure.work"), (Health::TemporaryFailure, 0));
    world.pass(30_000).complete("a", json!({}));
    assert_eq!(health(&world, "pure.work"), (Health::Healthy, 0));
    for n in 1..=3 {
        world.fail("b", Failed).pass(30_000);
        let wanted = [(Health::Healthy, 1), (Health::Healthy, 2), (Health::Degraded, 0)][n - 1];
        assert_eq!(health(&world, "pure.work"), wanted);
    }
    let changes: Vec<(Health, Health)> = changes(&world);
    assert_eq!(
        changes,
        [
            (Health::Healthy, Health::TemporaryFailure),
            (Health::TemporaryFailure, Health::Healthy),
            (Health::Healthy, Health::Healthy),
            (Health::Healthy, Health::Healthy),
            (Health::Healthy, Health::Degraded),
        ]
    );
}

fn changes(world: &World) -> Vec<(Health, Health)> {
    let entries = world.journal.iter().filter_map(|entry| entry.event.as_ref());
    entries
        .filter_map(|event| match event {
            Event::SkillHealthChanged(changed) => Some((changed.before(), changed.health())),
            _ => None,
        })
        .collect()
}

// RUN-14.5, RUN-14.6
#[test]
fn a_skill_that_times_out_until_no_retry_is_left_is_out() {
    let mut world = World::of(json!([call("a")]));
    for _ in 0..4 {
        world.fail("a", TimedOut).pass(30_000);
    }
    assert_eq!(health(&world, "pure.work"), (Health::PermanentFailure, 0));
    let disabled: Vec<&str> = world.run.state().actions_that_are_out().collect();
    assert_eq!(disabled, ["pure.work"]);
}

// RUN-14.6
#[test]
fn what_failed_for_good_is_disabled_in_this_run_alone() {
    let steps = json!([
        {"key": "a", "type": "tool_call", "required": false, "config": {"tool_name": "pure.one", "tool_args": {}}},
        tool("b", "pure.two", &[]),
    ]);
    let mut world = World::of(steps);
    world.fail("a", FailedForGood);
    let disabled = |world: &World| {
        let skills = world.run.state().disabled_skills();
        skills.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(disabled(&world), ["pure.one"]);
    assert_eq!(health(&world, "pure.one"), (Health::Healthy, 1));
    // A session that is restarted is another one; what failed here stays disabled here.
    world.input(Input::Session(SessionNews {
        state: None,
        health: Some((9, Vec::new())),
    }));
    assert_eq!(disabled(&world), ["pure.one"]);
    let out = SkillHealth {
        skill: "pure.zero".to_owned(),
        health: Health::PermanentFailure.into(),
        failures: 3,
    };
    world.input(Input::Session(SessionNews {
        state: None,
        health: Some((10, vec![out])),
    }));
    assert_eq!(disabled(&world), ["pure.one", "pure.zero"]);
}

// RUN-14.7
#[test]
fn the_limit_of_a_degraded_skill_is_longer_if_the_run_says_so() {
    for (factor, wanted) in [(2.0, 60_000), (1.0, 30_000), (0.5, 30_000)] {
        let mut spec = spec(Preset::Standard);
        spec.limits.degraded_timeout_factor = factor;
        let mut world = World::with(json!([call("a")]), spec);
        for _ in 0..3 {
            world.fail("a", Failed).pass(30_000);
        }
        let live = world.run.state().steps[0].units[0].live.clone().unwrap();
        assert_eq!(live.attempt_ms, wanted);
    }
}

// RUN-14.4
#[test]
fn expressions_see_the_session() {
    let steps = json!([call("a"), {"key": "c", "type": "condition", "depends_on": ["a"],
        "config": {"condition": "session.n == 1"}}]);
    let mut world = World::of(steps);
    world.complete("a", json!({"$state_patch": {"n": 1}}));
    assert_eq!(world.bindings(1)["session"], json!({"n": 1}));
}
