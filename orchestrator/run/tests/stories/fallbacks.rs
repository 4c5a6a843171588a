//! Runs whose plans failed, and whose fallback is an action.

use escapement_run::journal::{Decision, OutcomeClass};
use escapement_run::presets::Preset;
use escapement_run::spec::{Constraints, Fallback, FallbackAction, FallbackKind, Spec};
use escapement_run::{ShownState, plan, preview};
use serde_json::{Value, json};

use crate::planning::{of_goal, offer, planned, planner};
use crate::world::{World, call, completed, opaque, spec, tool};

/// A spec whose fallback sends a mail about the input's city.
fn with_mail(spec: Spec) -> Spec {
    let action = FallbackAction {
        action: "mail.send".to_owned(),
        payload: opaque(&json!({"about": "${input:/city}"})),
    };
    Spec {
        fallback: Some(Fallback {
            kind: Some(FallbackKind::Action(action)),
        }),
        ..spec
    }
}

/// A goal whose one generation gives no plan.
fn exhausted(spec: Spec) -> World {
    let mut spec = with_mail(spec);
    spec.limits.max_generations = 1;
    let mut world = of_goal(spec);
    offer(&mut world, &[]);
    planner(&mut world, completed(json!({"content": "no plan"})));
    world
}

// RUN-11.11
#[test]
fn a_fallback_that_is_an_action_is_called_and_its_output_is_that_of_the_run() {
    let mut world = exhausted(planned(Preset::Standard));
    assert_eq!(world.run.shown(), ShownState::Running);
    assert_eq!(world.payload("fallback"), json!({"about": "Bern"}));
    world.complete("fallback", json!({"sent": true}));
    assert_eq!(world.run.shown(), ShownState::Failed);
    assert_eq!(world.error().0, "PLANNING_ERROR");
    assert_eq!(world.output(), json!({"sent": true}));
    assert_eq!(
        world.last_events(),
        ["ToolOutput", "StepCompleted", "FallbackUsed", "RunFailed"]
    );
}

// RUN-11.11
#[test]
fn a_plan_that_was_given_falls_back_to_an_action_too() {
    let mut world = World::with(json!([call("a")]), with_mail(spec(Preset::Standard)));
    world.fail("a", OutcomeClass::FailedForGood);
    world.complete("fallback", json!({"sent": true}));
    let (code, _) = world.error();
    assert_eq!((code.as_str(), world.output()), ("BROKEN", json!({"sent": true})));
}

// RUN-11.11
#[test]
fn a_fallback_that_fails_leaves_what_went_wrong_before() {
    let mut world = exhausted(planned(Preset::Standard));
    world.fail("fallback", OutcomeClass::FailedForGood);
    assert_eq!(world.run.shown(), ShownState::Failed);
    assert_eq!(world.error().0, "PLANNING_ERROR");
    assert!(world.run.state().end.as_ref().unwrap().output.is_none());
}

// RUN-11.11
#[test]
fn a_fallback_that_needs_an_approval_waits_for_it() {
    let mut world = exhausted(Spec {
        autonomy_level: 2,
        ..planned(Preset::Standard)
    });
    assert_eq!(world.run.shown(), ShownState::Waiting);
    world.answer(Decision::Approve, Value::Null);
    world.complete("fallback", json!({"sent": true}));
    assert_eq!(world.output(), json!({"sent": true}));
}

// RUN-11.11
#[test]
fn a_fallback_that_the_run_does_without_or_may_not_call_is_not_called() {
    let mail = json!([tool("a", "mail.send", &[])]);
    let mut world = World::with(mail, with_mail(spec(Preset::Standard)));
    world.fail("a", OutcomeClass::FailedForGood);
    assert_eq!((world.run.shown(), world.submitted()), (ShownState::Failed, 1));

    let constraints = Constraints {
        forbidden_actions: vec!["mail.send".to_owned()],
        ..Constraints::default()
    };
    let world = exhausted(Spec {
        constraints,
        ..planned(Preset::Standard)
    });
    assert_eq!(world.run.shown(), ShownState::Failed);
    assert_eq!(world.error().0, "PLANNING_ERROR");
}

// RUN-12.6
#[test]
fn a_fallback_takes_what_the_plan_that_was_given_completed() {
    let mail = json!({"tool_name": "mail.send", "tool_args": {"about": "Bern"}});
    let steps = json!([{"key": "mail", "type": "tool_call", "config": mail}, call("a")]);
    let mut world = World::with(steps, with_mail(spec(Preset::Standard)));
    world.complete("mail", json!({"sent": true}));
    world.fail("a", OutcomeClass::FailedForGood);
    assert_eq!(world.submitted(), 2, "the mail is not sent twice");
    assert_eq!(
        (world.run.shown(), world.output()),
        (ShownState::Failed, json!({"sent": true}))
    );
}

// RUN-7.7
#[test]
fn what_is_told_before_a_run_counts_its_fallback() {
    let document = json!({"schema": "escapement.plan/1", "name": "One", "steps": [call("a")]});
    let plan = plan::read(&opaque(&document)).unwrap();
    let spec = spec(Preset::Standard);
    let tries = u64::from(spec.limits.max_retries) + 1;
    assert_eq!(preview(&plan, &spec, &[]).attempts_max, tries);
    assert_eq!(preview(&plan, &with_mail(spec), &[]).attempts_max, 2 * tries);
}
