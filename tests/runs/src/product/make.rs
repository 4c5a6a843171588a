//! A run of the core that is made from a plan of the interpreter.

use std::collections::BTreeMap;
use std::sync::Arc;

use escapement_model::Opaque;
use escapement_model::opaque::StructBuilder;
use escapement_run::catalogue::{Catalogue, CatalogueAction};
use escapement_run::ids::RunId;
use escapement_run::outcome::AttemptOutcome;
use escapement_run::plan::{
    Call, Condition, Constraints, Expression as CoreExpression, InputType, LlmContext, LlmDecision, Loop,
    OnDependencyFailure as CoreWord, OnFailure as CoreOnFailure, Parallel, Plan as CorePlan, RetrySpec,
    Step as CoreStep, StepKind, SubPlan, UserInput,
};
use escapement_run::spec::{
    ActionProfile, DependencyDefault, EffectClass, FailureDefault, Fallback as CoreFallback, FallbackAction,
    FallbackKind, InDoubt, Limits as CoreLimits, Planner as CorePlanner, Policy, ResumePolicy,
    Risk as CoreRisk, Spec,
};
use escapement_run::{Commit, Run};

use super::{NoBlobs, values};
use crate::plans::{HARMLESS, INSTEAD};
use crate::reference::plan::{
    Action, Doubt, Expression, Fallback, Kind, Limits, OnDependencyFailure, OnFailure, Plan, Planner, Risk,
    Step,
};
use crate::reference::words::{Outcome, Responder, Value};

pub(super) fn run(plan: &Plan, limits: &Limits, now: i64) -> (Run, Commit) {
    let core = CorePlan {
        document: Opaque::default(),
        name: "Small".to_owned(),
        goal: String::new(),
        description: String::new(),
        parallel: plan.parallel,
        narrative: None,
        output: None,
        constraints: Constraints::default(),
        steps: plan
            .steps
            .iter()
            .enumerate()
            .map(|(index, it)| step(index, it))
            .collect(),
        digest: [1; 32],
    };
    let known = profiles(plan, limits);
    let profiles = match limits.learns {
        true => known.into_iter().map(unknown).collect(),
        false => known,
    };
    Run::create(run_id(), spec(limits), Arc::new(core), profiles, now, &NoBlobs)
}

pub(super) fn run_id() -> RunId {
    RunId::from_random([7; 16])
}

pub(super) fn key(step: usize) -> String {
    format!("s{step}")
}

pub(super) fn responder(by: Responder) -> String {
    if by.is_user {
        USER.to_owned()
    } else {
        format!("person-{}", by.id)
    }
}

const USER: &str = "ada";

fn step(index: usize, it: &Step) -> CoreStep {
    CoreStep {
        key: key(index),
        order: u32::try_from(index).expect("a small plan") + 1,
        place: index,
        name: key(index),
        description: String::new(),
        kind: kind(&it.kind),
        depends_on: it.depends_on.clone(),
        required: it.required,
        is_async: it.is_async,
        timeout_ms: it.timeout_ms,
        retry: RetrySpec {
            max_retries: it.max_retries,
            ..RetrySpec::default()
        },
        on_success: it.on_success,
        on_failure: it.on_failure.map(|word| match word {
            OnFailure::Abort => CoreOnFailure::Abort,
            OnFailure::Drain => CoreOnFailure::Drain,
            OnFailure::Skip => CoreOnFailure::Skip,
            OnFailure::Jump(target) => CoreOnFailure::Jump(target),
        }),
        on_dependency_failure: it.on_dependency_failure.map(|word| match word {
            OnDependencyFailure::Skip => CoreWord::Skip,
            OnDependencyFailure::Null => CoreWord::NullInput,
            OnDependencyFailure::Synthetic => CoreWord::Synthetic,
            OnDependencyFailure::Block => CoreWord::Block,
            OnDependencyFailure::ByRequired => unreachable!("a word of policies"),
        }),
        verify: None,
        is_fresh_for_run: false,
        metadata: Opaque::default(),
    }
}

fn kind(kind: &Kind) -> StepKind {
    match kind {
        Kind::Call(action) => StepKind::ToolCall(call(*action)),
        Kind::Decision(choices) => StepKind::LlmDecision(LlmDecision {
            prompt: "Which?".to_owned(),
            choices: choices.clone(),
            context: LlmContext::None,
            tools: Vec::new(),
            model: None,
            max_iterations: None,
        }),
        Kind::Question { has_default } => StepKind::UserInput(UserInput {
            question: "What?".to_owned(),
            input_type: InputType::Text,
            options: Vec::new(),
            timeout_ms: None,
            default_answer: has_default.then(|| values::encoded(&Value::Text("default".to_owned()))),
        }),
        Kind::Condition {
            expression: asked,
            true_step,
            false_step,
        } => StepKind::Condition(Condition {
            condition: expression(*asked),
            true_step: *true_step,
            false_step: *false_step,
        }),
        Kind::Parallel {
            n_items,
            batch_size,
            wait_all,
            action,
        } => StepKind::Parallel(Parallel {
            items: (0..*n_items).map(|_| call(*action)).collect(),
            batch_size: Some(u32::try_from(*batch_size).expect("a small batch")),
            wait_all: *wait_all,
        }),
        Kind::Loop {
            max_iterations,
            condition,
            action,
        } => StepKind::Loop(Loop {
            call: call(*action),
            pass_iteration: true,
            max_iterations: Some(u32::try_from(*max_iterations).expect("a short loop")),
            loop_condition: condition.map(expression),
        }),
        Kind::Child => StepKind::SubPlan(SubPlan {
            plan_id: Some("0b9e7a34-51c2-4d8e-8f60-1a2b3c4d5e01".to_owned()),
            revision_digest: None,
            input: Opaque::default(),
        }),
    }
}

fn expression(expression: Expression) -> CoreExpression {
    match expression {
        Expression::Literal(value) => CoreExpression::Literal(value),
        Expression::ResultOf(step) => CoreExpression::ResultOf(step),
        Expression::Outside => CoreExpression::Text("input.n > 2".to_owned()),
    }
}

fn call(action: Action) -> Call {
    Call {
        tool_name: name_of(action),
        tool_args: Opaque::default(),
    }
}

fn name_of(action: Action) -> String {
    let Action {
        repeatable,
        has_effect,
        risk,
    } = action;
    format!("{risk:?}.{repeatable}.{has_effect}")
}

/// Returns an action that no worker or operator has described yet.
fn unknown(profile: ActionProfile) -> ActionProfile {
    ActionProfile {
        action: profile.action,
        unknown: true,
        seen: true,
        ..ActionProfile::default()
    }
}

pub(super) fn profiles(plan: &Plan, limits: &Limits) -> Vec<ActionProfile> {
    let model = ActionProfile {
        action: MODEL.to_owned(),
        effect: EffectClass::Llm.into(),
        risk: CoreRisk::Safe.into(),
        idempotent: false,
        attempt_ms: 0,
        seen: true,
        ..ActionProfile::default()
    };
    let mut all = BTreeMap::from([(MODEL.to_owned(), model)]);
    let of_steps = plan.steps.iter().filter_map(|step| match step.kind {
        Kind::Call(action) | Kind::Parallel { action, .. } | Kind::Loop { action, .. } => Some(action),
        Kind::Decision(_) | Kind::Question { .. } | Kind::Condition { .. } | Kind::Child => None,
    });
    let of_fallback = match limits.fallback {
        Some(Fallback::Call(action)) => Some(action),
        Some(Fallback::Output) | None => None,
    };
    for action in of_steps.chain(of_fallback) {
        let profile = profile(action);
        all.insert(profile.action.clone(), profile);
    }
    all.into_values().collect()
}

fn profile(action: Action) -> ActionProfile {
    let effect = if action.has_effect {
        EffectClass::SideEffect
    } else {
        EffectClass::Pure
    };
    let risk = match action.risk {
        Risk::Safe => CoreRisk::Safe,
        Risk::Unusual => CoreRisk::Unusual,
        Risk::Destructive => CoreRisk::Destructive,
    };
    ActionProfile {
        action: name_of(action),
        effect: effect.into(),
        risk: risk.into(),
        idempotent: action.has_effect && action.repeatable,
        attempt_ms: 0,
        seen: true,
        ..ActionProfile::default()
    }
}

const MODEL: &str = "llm.chat";

fn spec(limits: &Limits) -> Spec {
    Spec {
        limits: core_limits(limits),
        policy: policy(limits),
        autonomy_level: u32::from(limits.autonomy),
        user_id: USER.to_owned(),
        priority: 5,
        llm_action: MODEL.to_owned(),
        llm_model: "small".to_owned(),
        safety_action: if limits.checks { "safety.judge" } else { "" }.to_owned(),
        preset: "standard".to_owned(),
        fallback: limits.fallback.map(fallback),
        goal: match &limits.planner {
            Some(planner) if planner.is_goal => "Weigh the bears".to_owned(),
            Some(_) | None => String::new(),
        },
        planner: limits
            .planner
            .as_ref()
            .map(|planner| Box::new(planner_of(planner))),
        ..Spec::default()
    }
}

fn planner_of(planner: &Planner) -> CorePlanner {
    CorePlanner {
        action: PLANNER.to_owned(),
        model: String::new(),
        parameters: Opaque::default(),
        catalogue: Vec::new(),
        instructions: String::new(),
        limit_ms: planner.limit_ms,
    }
}

/// What plans may call: the actions of the planner's plans.
pub(super) fn catalogue() -> Catalogue {
    let mut actions: Vec<CatalogueAction> = PLANNED
        .map(|action| CatalogueAction {
            profile: profile(action),
            ..CatalogueAction::default()
        })
        .into();
    actions.sort_by(|one, other| one.profile.action.cmp(&other.profile.action));
    Catalogue {
        actions,
        n_left_out: 0,
    }
}

/// What a planner says that comes to this: the plan of this number, or no plan.
pub(super) fn planned(outcome: &Outcome, said: AttemptOutcome) -> AttemptOutcome {
    let text = match outcome {
        Outcome::Completed(Value::Number(number)) => {
            let at = usize::try_from(*number).expect("a plan has a number");
            let name = name_of(PLANNED[at]);
            format!(
                r#"{{"schema": "escapement.plan/1", "name": "Small", "steps": [
                    {{"key": "s0", "type": "tool_call", "config": {{"tool_name": "{name}"}}}}]}}"#
            )
        }
        Outcome::Completed(_) => "no plan".to_owned(),
        _ => return said,
    };
    let object = StructBuilder::new().text("content", &text).build();
    AttemptOutcome {
        output: Some(escapement_run::outcome::value_of_object(&object)),
        pause: false,
        ..said
    }
}

/// The actions of the plans of planners, by the numbers of the plans.
const PLANNED: [Action; 2] = [INSTEAD, HARMLESS];
const PLANNER: &str = "planner.make";

fn fallback(fallback: Fallback) -> CoreFallback {
    let kind = match fallback {
        Fallback::Output => {
            let output = StructBuilder::new().text("content", "instead").build();
            FallbackKind::Output(output)
        }
        Fallback::Call(action) => FallbackKind::Action(FallbackAction {
            action: name_of(action),
            payload: Opaque::default(),
        }),
    };
    CoreFallback { kind: Some(kind) }
}

fn core_limits(limits: &Limits) -> CoreLimits {
    CoreLimits {
        attempt_ms: limits.attempt_ms,
        queue_wait_ms: limits.queue_wait_ms,
        worker_wait_ms: limits.worker_wait_ms,
        watchdog_ms: limits.watchdog_ms.unwrap_or(0),
        revision_ms: limits.revision_ms.unwrap_or(0),
        run_ms: limits.run_ms,
        lifetime_ms: limits.lifetime_ms,
        pause_ms: limits.pause_ms,
        question_ms: limits.question_ms,
        approval_ms: limits.approval_ms,
        max_retries: limits.max_retries,
        backoff_ms: limits.backoff_ms,
        multiplier: limits.multiplier,
        max_backoff_ms: limits.max_backoff_ms,
        max_concurrency: u32::try_from(limits.max_concurrency).expect("a small number"),
        batch_size: 5,
        max_iterations: 5,
        max_turns: 5,
        max_generations: limits
            .planner
            .as_ref()
            .map_or(5, |planner| planner.max_generations),
        max_substitutions: 3,
        degraded_timeout_factor: 1.0,
    }
}

fn policy(limits: &Limits) -> Policy {
    let doubt = |word| match word {
        Doubt::Ask => InDoubt::Ask,
        Doubt::Fail => InDoubt::Fail,
        Doubt::Retry => InDoubt::Retry,
    };
    let on_failure = match limits.on_failure {
        OnFailure::Abort => FailureDefault::Abort,
        OnFailure::Drain => FailureDefault::Drain,
        OnFailure::Skip => FailureDefault::Skip,
        OnFailure::Jump(_) => unreachable!("a word of steps"),
    };
    let on_dependency_failure = match limits.on_dependency_failure {
        OnDependencyFailure::Skip => DependencyDefault::Skip,
        OnDependencyFailure::Null => DependencyDefault::Null,
        OnDependencyFailure::Synthetic => DependencyDefault::Synthetic,
        OnDependencyFailure::Block => DependencyDefault::Block,
        OnDependencyFailure::ByRequired => DependencyDefault::NullIfOptional,
    };
    let resume = if limits.discards {
        ResumePolicy::Discard
    } else {
        ResumePolicy::RetryPending
    };
    Policy {
        ambiguity: doubt(limits.unknown).into(),
        ambiguous_timeout: doubt(limits.timed_out).into(),
        on_failure: on_failure.into(),
        on_dependency_failure: on_dependency_failure.into(),
        escalate: limits.escalate,
        four_eyes: limits.four_eyes,
        approvers: limits.approvers.iter().map(|id| format!("person-{id}")).collect(),
        quorum: u32::try_from(limits.quorum).expect("a small number"),
        resume: resume.into(),
        async_by_default: limits.async_by_default,
    }
}
