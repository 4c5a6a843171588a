//! What people are told of a run and its steps, and of two revisions. The world asks for every explanation after every input.

use escapement_run::journal::{Decision, OutcomeClass};
use escapement_run::plan::{self, Plan};
use escapement_run::presets::Preset;
use escapement_run::state::StepStage;
use escapement_run::{Input, Run};
use escapement_runs_insight::{Diff, diff, explain, explain_step};
use serde_json::{Value, json};

use crate::world::{START, World, and, call, opaque, spec};

/// What holds for the explanations of every run.
pub(crate) fn check(run: &Run) {
    let explained = explain(run);
    assert!(!explained.text.is_empty() && !explained.rules.is_empty());
    assert_eq!(explained.due_at.is_none(), run.state().stage().is_end());
    for step in 0..u32::try_from(run.state().steps.len()).unwrap() {
        let explained = explain_step(run, step);
        assert!(!explained.text.is_empty() && !explained.rules.is_empty());
        let waits = run.state().steps[step as usize].stage() == StepStage::Pending;
        let names = !explained.waits_for_steps.is_empty() || !explained.waits_for_requests.is_empty();
        let is_of_run = ["RUN-2.4", "RUN-5.6", "RUN-8.1"].contains(&explained.rules[0]);
        assert!(
            !waits || names || is_of_run,
            "nothing keeps step {step} back: {explained:?}"
        );
    }
}

fn step(world: &World, key: &str) -> (String, String, Vec<u32>) {
    let explained = explain_step(&world.run, u32::try_from(world.at(key)).unwrap());
    (
        explained.rules[0].to_owned(),
        explained.text,
        explained.waits_for_steps,
    )
}

#[test]
fn a_step_that_does_not_run_says_why() {
    let condition = json!({"key": "c", "type": "condition", "config": {"condition": "input.n > 2"}});
    let steps = json!([
        call("a"),
        and(call("b"), json!({"depends_on": ["a"]})),
        condition,
        call("z")
    ]);
    let mut world = World::queued(
        json!({"schema": "escapement.plan/1", "name": "Story", "steps": steps}),
        spec(Preset::Standard),
    );
    assert_eq!(step(&world, "a").0, "RUN-2.4");
    world.input(Input::Admit);
    assert_eq!(
        step(&world, "a"),
        (
            "RUN-4.4".into(),
            "It has 1 attempt in flight of pure.work.".into(),
            [].into()
        )
    );
    let waits = "It waits for what it depends on: a.".to_owned();
    assert_eq!(step(&world, "b"), ("RUN-3.4".into(), waits, [0].into()));
    assert_eq!(step(&world, "c").0, "RUN-3.7");
    let barrier = "It starts only once it is decided which way the plan goes: c.".to_owned();
    assert_eq!(step(&world, "z"), ("RUN-3.3".into(), barrier, [2].into()));
    assert_eq!(explain(&world.run).next_step, Some(2));
    world.fail("a", OutcomeClass::Failed);
    let again = "It is tried again, because it failed with E_FAILED: it failed.";
    assert_eq!(step(&world, "a").0, "RUN-5.3", "{again}");
    let explained = explain(&world.run);
    assert_eq!(explained.due_at, Some(START + 1000));
    assert_eq!(explained.due, Some("a retry is due"));
    world.input(Input::Pause {
        reason: "look".to_owned(),
    });
    assert_eq!(step(&world, "z").0, "RUN-8.1");
    let text = explain(&world.run).text;
    assert!(
        text.starts_with("The run is paused. It goes on once somebody resumes it."),
        "{text}"
    );
}

#[test]
fn a_run_that_waits_says_for_whom() {
    let mut gated = spec(Preset::Standard);
    gated.autonomy_level = 0;
    gated.policy.quorum = 2;
    gated.policy.four_eyes = true;
    gated.policy.approvers = vec!["ada".to_owned(), "bob".to_owned(), "eve".to_owned()];
    let mut world = World::with(json!([call("a"), call("b")]), gated);
    let text = explain(&world.run).text;
    let whom =
        "The step a waits for an approval of 2 different people, each one of ada, bob, eve other than ada.";
    assert!(text.contains(whom), "{text}");
    assert_eq!(
        explain(&world.run).due,
        Some("an approval that nobody gave is denied")
    );
    world.answer(Decision::Approve, Value::Null);
    let text = explain(&world.run).text;
    assert!(
        text.contains("an approval of one of ada, bob, eve other than ada."),
        "{text}"
    );
    world.answer(Decision::Deny, Value::Null);
    let explained = explain(&world.run);
    let failed = "The run failed: its step a failed with APPROVAL_DENIED: bob denied it.";
    assert_eq!((explained.text.as_str(), explained.cause_step), (failed, Some(0)));
    assert_eq!(
        step(&world, "b"),
        ("RUN-10.3".into(), "The run ended before it.".into(), [].into())
    );
}

fn plan(name: &str, steps: &Value) -> Plan {
    let document = json!({"schema": "escapement.plan/1", "name": name, "steps": steps});
    plan::read(&opaque(&document)).unwrap()
}

#[test]
fn revisions_differ_by_the_keys_and_the_fields_of_their_steps() {
    let asks = |yes: &str| {
        let config = json!({"condition": "result:a", "true_step": yes});
        json!({"key": "c", "type": "condition", "config": config})
    };
    let before = plan("One", &json!([call("a"), asks("z"), call("y"), call("z")]));
    assert!(diff(&before, &before).is_empty());
    // Other positions, and the same steps.
    let moved = plan(
        "One",
        &json!([call("new"), call("a"), asks("z"), call("y"), call("z")]),
    );
    let found = diff(&before, &moved);
    assert_eq!((found.added, found.removed), (vec!["new".to_owned()], vec![]));
    let moved_only = |fields: &[&'static str]| fields == ["order"];
    assert!(
        found.changed.iter().all(|step| moved_only(&step.fields)),
        "{:?}",
        found.changed
    );
    let changed = plan(
        "Two",
        &json!([
            and(call("a"), json!({"timeout_ms": 5, "name": "A"})),
            asks("y"),
            call("y")
        ]),
    );
    let Diff {
        added,
        removed,
        changed,
        changed_fields,
    } = diff(&before, &changed);
    assert_eq!(
        (added, removed, changed_fields),
        (vec![], vec!["z".to_owned()], vec!["name"])
    );
    let found: Vec<_> = changed
        .iter()
        .map(|step| (step.key.as_str(), &step.fields[..]))
        .collect();
    assert_eq!(found, [("a", &["name", "timeout_ms"][..]), ("c", &["config"])]);
}
