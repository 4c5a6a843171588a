//! Plans that a planner made: their expressions, what the run knows of their actions, and whether another one may follow.

use escapement_run::journal::{OutcomeClass, RefusedPart, Verdict};
use escapement_run::outcome::AttemptOutcome;
use escapement_run::planner::expressions_in;
use escapement_run::presets::Preset;
use escapement_run::spec::ActionProfile;
use serde_json::json;

use crate::planning::{
    document, of_goal, offer, offer_profiles, planned, planner, plans, profile, verdicts, violation_codes,
};
use crate::world::{World, call, completed, encoded, tool};

// RUN-11.5
#[test]
fn an_expression_that_is_none_is_a_mistake_of_the_plan() {
    let mut world = of_goal(planned(Preset::Standard));
    offer(&mut world, &["pure.work"]);
    let asks = |text: &str| json!({"key": "c", "type": "condition", "config": {"condition": text}});
    let plan = json!({"plan": document(json!([call("a"), asks("input.n >"), asks("true")]))});
    let found = expressions_in(&encoded(&plan));
    assert_eq!(found, []);
    let plan = json!({"plan": document(json!([call("a"), asks("input.n >")]))});
    let found = expressions_in(&encoded(&plan));
    assert_eq!(
        found,
        [("steps[1].config.condition".to_owned(), "input.n >".to_owned())]
    );
    let mistake = RefusedPart {
        path: found[0].0.clone(),
        code: "INVALID_FIELD".to_owned(),
        message: "a value is missing".repeat(100),
    };
    let outcome = AttemptOutcome {
        mistakes: vec![mistake; 50],
        ..completed(plan)
    };
    planner(&mut world, outcome);
    assert_eq!(verdicts(&world), [Verdict::Refused]);
    assert_eq!(violation_codes(&world), vec!["INVALID_FIELD"; 20]);
    assert_eq!(world.submitted(), 1, "nothing of it runs");
}

// RUN-11.10
#[test]
fn whether_another_plan_may_follow_is_known_before_it_is_needed() {
    let mut spec = planned(Preset::Standard);
    spec.limits.max_generations = 2;
    let mut world = of_goal(spec);
    let can_replan = |world: &World| world.run.state().can_replan();
    plans(&mut world, json!([tool("a", "pure.other", &[])]));
    assert!(can_replan(&world), "a generation is left");
    world.fail("a", OutcomeClass::FailedForGood);
    plans(&mut world, json!([call("a")]));
    assert!(!can_replan(&world), "that was the last one");
    world.complete("a", json!({}));
    assert!(!can_replan(&world));
    assert!(!can_replan(&World::of(json!([call("a")]))), "nobody plans");
}

// RUN-12.3
#[test]
fn an_alternative_takes_the_place_of_an_action_of_a_planned_step() {
    let mut spec = planned(Preset::Standard);
    spec.limits.max_substitutions = 3;
    let mut world = of_goal(spec);
    let first = ActionProfile {
        alternatives: vec!["pure.second".to_owned()],
        ..profile("pure.first")
    };
    offer_profiles(&mut world, vec![first, profile("pure.second")]);
    let steps = json!([tool("a", "pure.first", &[])]);
    planner(&mut world, completed(json!({"plan": document(steps)})));
    world.fail("a", OutcomeClass::FailedForGood);
    let profiles = world.run.state().profiles.clone();
    assert!(
        profiles
            .iter()
            .any(|known| known.action == "pure.second" && known.seen)
    );
    world.complete("a", json!({"by": "second"}));
    assert_eq!(world.shows(), "completed: a completed");
    assert_eq!(
        world.run.state().planning.as_ref().unwrap().generation,
        1,
        "nobody was asked again"
    );
}

// RUN-13.3, RUN-13.6
#[test]
fn a_model_of_a_planned_step_has_its_tools_as_they_were_offered() {
    let mut world = of_goal(planned(Preset::Standard));
    let steps =
        json!([{"key": "d", "type": "llm_decision", "config": {"prompt": "?", "tools": ["pure.work"]}}]);
    plans(&mut world, steps);
    assert_eq!(
        world.payload("d")["tools"],
        json!([{"name": "pure.work", "description": "does pure.work", "parameters": {"type": "object"}}])
    );
}

// RUN-11.6
#[test]
fn a_planner_makes_plans_of_two_to_seven_steps_in_plan_mode() {
    let steps = |n: usize| json!((0..n).map(|at| call(&format!("s{at}"))).collect::<Vec<_>>());
    for (preset, n_steps, is_taken) in [
        (Preset::PlanMode, 0, false),
        (Preset::PlanMode, 1, false),
        (Preset::PlanMode, 2, true),
        (Preset::PlanMode, 7, true),
        (Preset::PlanMode, 8, false),
        (Preset::Standard, 1, true),
        (Preset::Standard, 8, true),
    ] {
        let mut spec = planned(preset);
        spec.limits.max_generations = 1;
        let mut world = of_goal(spec);
        plans(&mut world, steps(n_steps));
        let (verdict, codes) = match is_taken {
            true => (Verdict::Accepted, vec![]),
            false => (Verdict::Refused, vec!["PLAN_SIZE"]),
        };
        assert_eq!(verdicts(&world), [verdict], "{n_steps} steps with {preset:?}");
        assert_eq!(violation_codes(&world), codes);
    }
}
