//! What runs are made from: their limits and policies, who makes their plans, and what is known of actions. Runs nothing.

use crate::artifacts::{KINDS, produced_by};
use crate::dice::Dice;
use crate::plans::opaque;
use escapement_model::Opaque;
use escapement_run::budget::{Budget, Exhausted, ModelPrice};
use escapement_run::catalogue::{Catalogue, CatalogueAction};
use escapement_run::plan::{self, Plan};
use escapement_run::presets::Preset;
use escapement_run::spec::{
    ActionProfile, Constraints, DependencyDefault, EffectClass, FailureDefault, Fallback, FallbackAction,
    FallbackKind, InDoubt, Limits, Planner, Policy, ResumePolicy, Risk, Spec,
};
use serde_json::json;

/// Whose runs these are.
pub(crate) const USER: &str = "ada";
/// What planners make plans for.
const GOAL: &str = "make it so";

/// What a run is made from, but for its plan.
pub(crate) fn spec(dice: &mut Dice) -> Spec {
    let preset = *dice.pick(&Preset::ALL);
    let planner = dice.percent(30).then(|| Box::new(planner(dice)));
    Spec {
        budget: dice.percent(30).then(|| budget(dice, planner.is_some())),
        planner,
        fallback: fallback(dice, preset),
        safety_action: (*dice.pick(&["", "check.safe"])).to_owned(),
        session_id: (*dice.pick(&["", "", "shared", "other"])).to_owned(),
        input: opaque(&json!({"name": "Ada", "n": dice.roll(5)})),
        environment: opaque(&json!({"region": "eu"})),
        limits: limits(dice, preset),
        policy: policy(dice, preset),
        autonomy_level: u32::try_from(*dice.pick(&[0_u64, 1, 2, 3, 3, 4, 4])).expect("it is small"),
        user_id: USER.to_owned(),
        priority: u32::try_from(dice.between(1, 10)).expect("it is small"),
        llm_action: "llm.chat".to_owned(),
        llm_model: "small".to_owned(),
        preset: preset.as_str().to_owned(),
        ..Spec::default()
    }
}

/// The same for a run whose first plan is made by a planner.
pub(crate) fn goal(dice: &mut Dice) -> Spec {
    let spec = spec(dice);
    Spec {
        // Some plans have hardly time for one call.
        limits: Limits {
            revision_ms: match dice.percent(50) {
                true => dice.between(150, 900),
                false => spec.limits.revision_ms,
            },
            ..spec.limits
        },
        planner: Some(Box::new(planner(dice))),
        budget: dice.percent(40).then(|| budget(dice, true)),
        goal: GOAL.to_owned(),
        ..spec
    }
}

/// The same for the run of a plan within another one.
pub(crate) fn child(dice: &mut Dice) -> Spec {
    Spec {
        planner: None,
        budget: None,
        session_id: String::new(),
        ..spec(dice)
    }
}

/// What stands for the plan of a run that has none yet.
pub(crate) fn plan_of_goal() -> Opaque {
    opaque(&json!({"schema": "escapement.plan/1", "name": GOAL, "goal": GOAL, "steps": []}))
}

/// What a preset has, or an action.
fn fallback(dice: &mut Dice, preset: Preset) -> Option<Fallback> {
    if dice.percent(60) {
        return preset.fallback();
    }
    let action = FallbackAction {
        action: (*dice.pick(&FALLBACKS)).to_owned(),
        payload: opaque(&json!({"who": "${input:/name}", "const": 3})),
    };
    Some(Fallback {
        kind: Some(FallbackKind::Action(action)),
    })
}

fn planner(dice: &mut Dice) -> Planner {
    Planner {
        action: "plan.make".to_owned(),
        limit_ms: dice.between(1_000, 20_000),
        ..Planner::default()
    }
}

/// Sometimes less than one call needs. Planners are told more than models are.
fn budget(dice: &mut Dice, has_planner: bool) -> Budget {
    let limit = |dice: &mut Dice, most| dice.percent(50).then(|| dice.between(1, most));
    let price = |model: &str, prompt_micros, completion_micros| ModelPrice {
        model: model.to_owned(),
        prompt_micros,
        completion_micros,
    };
    let n_tokens = if has_planner { 10_000 } else { 2_000 };
    Budget {
        max_llm_calls: limit(dice, 4),
        max_tool_calls: limit(dice, 8),
        max_tokens: limit(dice, n_tokens),
        max_cost_micros: limit(dice, n_tokens),
        prices: vec![price("", 400_000, 1_500_000), price("small", 700_000, 300_000)],
        warn_percent: 80,
        exhausted: dice.pick(&[Exhausted::Ask, Exhausted::Fail]).to_owned().into(),
        answer_tokens: 50,
    }
}

/// Short enough that a run is over within an hour.
fn limits(dice: &mut Dice, preset: Preset) -> Limits {
    Limits {
        attempt_ms: dice.between(1_000, 10_000),
        queue_wait_ms: dice.between(5_000, 30_000),
        worker_wait_ms: dice.between(5_000, 30_000),
        watchdog_ms: if dice.percent(80) { 0 } else { 60_000 },
        revision_ms: match dice.percent(25) {
            true => dice.between(300, 6_000),
            false => 0,
        },
        run_ms: dice.between(60_000, 900_000),
        lifetime_ms: match dice.percent(15) {
            true => dice.between(10_000, 60_000),
            false => dice.between(600_000, 1_800_000),
        },
        pause_ms: dice.between(20_000, 300_000),
        question_ms: dice.between(10_000, 120_000),
        approval_ms: dice.between(10_000, 120_000),
        max_retries: u32::try_from(dice.roll(4)).expect("it is small"),
        max_backoff_ms: 5_000,
        max_turns: u32::try_from(dice.between(1, 3)).expect("it is small"),
        max_generations: u32::try_from(dice.between(1, 4)).expect("it is small"),
        max_substitutions: u32::try_from(dice.roll(3)).expect("it is small"),
        max_concurrency: u32::try_from(dice.between(1, 3)).expect("it is small"),
        ..preset.limits(2)
    }
}

fn policy(dice: &mut Dice, preset: Preset) -> Policy {
    let doubt = |dice: &mut Dice| *dice.pick(&[InDoubt::Ask, InDoubt::Fail, InDoubt::Retry]);
    let on_failure = *dice.pick(&[FailureDefault::Abort, FailureDefault::Drain, FailureDefault::Skip]);
    let word = *dice.pick(&[
        DependencyDefault::Skip,
        DependencyDefault::NullIfOptional,
        DependencyDefault::Synthetic,
        DependencyDefault::Block,
        DependencyDefault::Null,
    ]);
    let approvers = if dice.percent(30) {
        &["bob", "carol", "dora"][..]
    } else {
        &[]
    };
    let resume = if dice.percent(5) {
        ResumePolicy::Discard
    } else {
        ResumePolicy::RetryPending
    };
    Policy {
        ambiguity: doubt(dice).into(),
        ambiguous_timeout: doubt(dice).into(),
        on_failure: on_failure.into(),
        on_dependency_failure: word.into(),
        escalate: dice.percent(40),
        four_eyes: dice.percent(40),
        approvers: approvers.iter().map(|name| (*name).to_owned()).collect(),
        quorum: if dice.percent(25) { 2 } else { 1 },
        resume: resume.into(),
        // Not by the dice, so that seeds stay what they are.
        async_by_default: matches!(preset, Preset::Standard | Preset::Autonomous),
    }
}

/// Random constraints; none if the plan, if there is one, breaks all that are tried.
pub(crate) fn constraints(dice: &mut Dice, plan: Option<&Plan>) -> Constraints {
    let some = |dice: &mut Dice, chance, from: &[&str]| {
        let named = from.iter().filter(|_| dice.percent(chance));
        named.map(|name| (*name).to_owned()).collect::<Vec<_>>()
    };
    for _ in 0..TRIES {
        let (expects, allows, forbids) = (dice.percent(15), dice.percent(25), dice.percent(40));
        let constraints = Constraints {
            must_produce: some(dice, 40, &KINDS),
            expected_artifact_type: if expects {
                (*dice.pick(&KINDS)).to_owned()
            } else {
                String::new()
            },
            allowed_actions: some(dice, if allows { 80 } else { 0 }, &ACTIONS),
            forbidden_actions: some(dice, if forbids { 20 } else { 0 }, &ACTIONS),
        };
        if plan.is_none_or(|plan| keeps(plan, &constraints)) {
            return constraints;
        }
    }
    Constraints::default()
}

/// True if a plan keeps to constraints and to its own ones: nobody makes a run of any other.
pub(crate) fn keeps(plan: &Plan, constraints: &Constraints) -> bool {
    plan::constraints::violations(plan, constraints, &profiles(plan)).is_empty()
}

/// What is known of the actions of a plan, sorted by name.
pub(crate) fn profiles(plan: &Plan) -> Vec<ActionProfile> {
    let own = ["llm.chat", "check.safe", "plan.make", "file.stat"];
    let called = plan.actions().into_iter().chain(own).chain(FALLBACKS);
    let mut names: Vec<String> = called.map(str::to_owned).collect();
    let others: Vec<String> = names.iter().flat_map(|name| alternatives(name)).collect();
    names.extend(others);
    names.sort();
    names.dedup();
    names.into_iter().map(profile).collect()
}

/// Everything that may be called by a plan, as a planner learns it.
pub(crate) fn catalogue() -> Catalogue {
    let is_tool = |action: &&&str| {
        !["llm.", "check.", "plan.", "file."]
            .iter()
            .any(|own| action.starts_with(own))
    };
    let actions = ACTIONS.iter().filter(is_tool).map(|action| CatalogueAction {
        profile: profile((*action).to_owned()),
        ..CatalogueAction::default()
    });
    Catalogue {
        actions: actions.collect(),
        n_left_out: 0,
    }
}

/// What may take the place of an action.
fn alternatives(action: &str) -> Vec<String> {
    let names: &[&str] = match action {
        "mail.safe" => &["idem.safe", "pure.safe"],
        "world.safe" => &["pure.safe"],
        _ => &[],
    };
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Returns an action that no worker or operator has described yet.
pub(crate) fn unknown(profile: ActionProfile) -> ActionProfile {
    ActionProfile {
        action: profile.action,
        unknown: true,
        ..ActionProfile::default()
    }
}

pub(crate) fn profile(action: String) -> ActionProfile {
    let (class, risk) = action.split_once('.').expect("a name has two parts");
    let effect = match class {
        "pure" | "check" => EffectClass::Pure,
        "world" | "file" => EffectClass::World,
        "llm" | "plan" => EffectClass::Llm,
        "ext" => EffectClass::External,
        _ => EffectClass::SideEffect,
    };
    let risk = match risk {
        "unusual" => Risk::Unusual,
        "destructive" => Risk::Destructive,
        _ => Risk::Safe,
    };
    ActionProfile {
        idempotent: class == "idem",
        effect: effect.into(),
        risk: risk.into(),
        attempt_ms: 0,
        seen: true,
        alternatives: alternatives(&action),
        produces: produced_by(&action)
            .iter()
            .map(|kind| (*kind).to_owned())
            .collect(),
        action,
        ..ActionProfile::default()
    }
}

/// Constraints that are tried for a plan.
const TRIES: usize = 5;
/// Actions that are called if the plans failed.
const FALLBACKS: [&str; 3] = ["idem.safe", "mail.unusual", "ext.destructive"];
/// Every action that a plan may call.
pub(crate) const ACTIONS: [&str; 11] = [
    "check.safe",
    "ext.destructive",
    "file.stat",
    "idem.safe",
    "llm.chat",
    "mail.destructive",
    "mail.safe",
    "mail.unusual",
    "plan.make",
    "pure.safe",
    "world.safe",
];
