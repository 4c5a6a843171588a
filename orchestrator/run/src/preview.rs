//! What can be said of a run before it starts: how much it can do at most, and whom it will ask.

use crate::plan::{self, Plan, Step, StepKind};
use crate::spec::{ActionProfile, Spec};
use crate::turn::gate::{asks, asks_for_plan, checks_safety};
use crate::turn::time::attempt_ms;
use crate::turn::tools::CALLS_MAX;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use escapement_model::planted::{self, Bug};

/// Bounds of a run, and what it asks people. Attempts that provably never ran, restarts, looks at artifacts,
/// and what people add by their answers are not in the numbers; the limits of time hold in every case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preview {
    /// Executions that the run hands to workers at most.
    pub attempts_max: u64,
    /// Of them, those that ask a language model.
    pub model_calls_max: u64,
    /// Of them, the tools that models call.
    pub tool_calls_max: u64,
    /// Times that a planner is asked for a plan at most. Not in the attempts, and what its plans do is in no number.
    pub planner_calls_max: u64,
    /// Child runs that it makes at most.
    pub children_max: u64,
    /// Milliseconds of active time at most: the sum over all units with their retries, or the run's limit if that is less.
    pub active_ms_max: u64,
    /// Milliseconds from its creation to its end at most, whatever happens.
    pub lifetime_ms: u64,
    /// True if the plan as a whole is approved first.
    pub plan_approval: bool,
    /// Keys of the steps that ask a question, in canonical order.
    pub questions: Vec<String>,
    /// Keys of the steps that wait for an approval, in canonical order; `fallback` behind them, if that asks.
    pub gates: Vec<String>,
    /// Actions that no worker has offered, sorted.
    pub unknown_actions: Vec<String>,
    /// Reasons why its steps run one at a time although the plan is `parallel` or marks steps `async`.
    pub alone: Vec<&'static str>,
}

// RUN-7.7
/// Says what can be said of a run of the plan. `profiles` are sorted by name.
pub fn preview(plan: &Plan, spec: &Spec, profiles: &[ActionProfile]) -> Preview {
    let mut preview = Preview {
        lifetime_ms: spec.limits.lifetime_ms,
        ..Preview::default()
    };
    let mut active_ms: u64 = 0;
    for step in &plan.steps {
        active_ms = active_ms.saturating_add(preview.add(step, spec, profiles));
    }
    // RUN-12.3: a substitution may do again what it does not keep.
    let has_alternatives = profiles.iter().any(|profile| !profile.alternatives.is_empty());
    let revisions = 1 + if has_alternatives {
        u64::from(spec.limits.max_substitutions)
    } else {
        0
    };
    preview.attempts_max = preview.attempts_max.saturating_mul(revisions);
    preview.model_calls_max = preview.model_calls_max.saturating_mul(revisions);
    preview.tool_calls_max = preview.tool_calls_max.saturating_mul(revisions);
    preview.children_max = preview.children_max.saturating_mul(revisions);
    active_ms = active_ms.saturating_mul(revisions);
    // RUN-11.11
    if let Some((plan, spec)) = fallback(spec) {
        let of_fallback = self::preview(&plan, &spec, profiles);
        preview.attempts_max = preview.attempts_max.saturating_add(of_fallback.attempts_max);
        active_ms = active_ms.saturating_add(of_fallback.active_ms_max);
        preview.unknown_actions.extend(of_fallback.unknown_actions);
        if of_fallback.plan_approval || !of_fallback.gates.is_empty() {
            preview.gates.extend(plan.steps.into_iter().map(|step| step.key));
        }
    }
    preview.alone = alone(plan, spec);
    preview.plan_approval = asks_for_plan(spec.autonomy_level, plan);
    // RUN-11.2
    if spec.planner.is_some() {
        preview.planner_calls_max = u64::from(spec.limits.max_generations);
        active_ms = u64::MAX;
    }
    preview.active_ms_max = active_ms.min(spec.limits.run_ms);
    preview.unknown_actions.sort();
    preview.unknown_actions.dedup();
    preview
}

impl Preview {
    /// Adds what the step may do. Gives its milliseconds of active time at most.
    fn add(&mut self, step: &Step, spec: &Spec, profiles: &[ActionProfile]) -> u64 {
        let profile = |action: &str| {
            let found = profiles.binary_search_by(|profile| profile.action.as_str().cmp(action));
            found.map_or_else(|_| ActionProfile::default(), |at| profiles[at].clone())
        };
        let retries = step.retry.max_retries.unwrap_or(spec.limits.max_retries);
        let forgets = planted::is_on(Bug::RunCertificateShort) && spec.planner.is_some();
        let attempts = if forgets { 1 } else { u64::from(retries) + 1 };
        let mut active_ms: u64 = 0;
        match &step.kind {
            StepKind::UserInput(_) => self.questions.push(step.key.clone()),
            StepKind::SubPlan(_) => {
                self.children_max += attempts;
                active_ms = u64::MAX;
            }
            StepKind::Condition(_)
            | StepKind::LlmDecision(_)
            | StepKind::ToolCall(_)
            | StepKind::Parallel(_)
            | StepKind::Loop(_) => {}
        }
        let mut asks_somebody = false;
        for (what, n_units, actions) in units(step, spec) {
            let tries = n_units.saturating_mul(attempts);
            match what {
                Called::ByPlan => {}
                Called::Model => self.model_calls_max = self.model_calls_max.saturating_add(tries),
                Called::ByModel => self.tool_calls_max = self.tool_calls_max.saturating_add(tries),
            }
            self.attempts_max = self.attempts_max.saturating_add(tries);
            let called = with_alternatives(&actions, spec, profiles);
            let longest = called
                .iter()
                .map(|action| unit_ms(step, spec, &profile(action)))
                .max();
            active_ms = active_ms.saturating_add(n_units.saturating_mul(longest.unwrap_or(0)));
            let risks = || called.iter().map(|action| profile(action).risk());
            // RUN-6.11
            if risks().any(|risk| checks_safety(spec, risk)) {
                self.attempts_max = self.attempts_max.saturating_add(n_units);
                let check_ms = check_ms(spec, &profile(&spec.safety_action));
                active_ms = active_ms.saturating_add(n_units.saturating_mul(check_ms));
            }
            asks_somebody |= risks().any(|risk| asks(spec.autonomy_level, risk));
            let unknown = actions.into_iter().filter(|action| !profile(action).seen);
            self.unknown_actions.extend(unknown);
        }
        if asks_somebody {
            self.gates.push(step.key.clone());
        }
        active_ms
    }
}

// RUN-3.7
/// Returns the reasons why no two steps run at once, if the plan is `parallel` or marks steps `async`.
fn alone(plan: &Plan, spec: &Spec) -> Vec<&'static str> {
    let n_marked = plan.steps.iter().filter(|step| step.is_async).count();
    let mut reasons = Vec::new();
    if plan.steps.len() < 2 || (!plan.parallel && n_marked == 0) {
        return reasons;
    }
    if !plan.parallel {
        reasons.push("`async` has no effect, because the plan is not `parallel`");
    } else if n_marked == 1 {
        reasons.push("the steps run one at a time, because only one of them is `async`");
    } else if n_marked == 0 && !plan.counts_all_async(&spec.policy) {
        reasons.push(
            "the steps run one at a time, because none is `async` and `policy.async_by_default` is false",
        );
    }
    if plan.parallel && spec.limits.max_concurrency <= 1 {
        reasons.push("the steps run one at a time, because `limits.max_concurrency` is 1");
    }
    reasons
}

// RUN-12.3
/// The actions, and those that may take their places.
fn with_alternatives(actions: &[String], spec: &Spec, profiles: &[ActionProfile]) -> BTreeSet<String> {
    let mut all: BTreeSet<String> = actions.iter().cloned().collect();
    for _ in 0..spec.limits.max_substitutions {
        let others = profiles.iter().filter(|profile| all.contains(&profile.action));
        let others: Vec<String> = others.flat_map(|profile| profile.alternatives.clone()).collect();
        all.extend(others);
    }
    all
}

/// The plan of a fallback that is an action, and what a run of that alone would be made from.
fn fallback(spec: &Spec) -> Option<(Plan, Spec)> {
    let action = spec.called_fallback()?;
    let alone = Spec {
        planner: None,
        fallback: None,
        ..spec.clone()
    };
    Some((plan::fallback(action).ok()?, alone))
}

/// Who calls an action, and what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Called {
    /// The plan, a tool.
    ByPlan,
    /// The plan, a model.
    Model,
    /// A model, a tool.
    ByModel,
}

/// How many units a step has at most, and which actions they call. A step with none calls nothing.
fn units(step: &Step, spec: &Spec) -> Vec<(Called, u64, Vec<String>)> {
    let limits = &spec.limits;
    let by_plan = |n_units: u64, actions: Vec<String>| match actions.is_empty() {
        true => Vec::new(),
        false => [(Called::ByPlan, n_units, actions)].into(),
    };
    match &step.kind {
        StepKind::ToolCall(call) => by_plan(1, [call.tool_name.clone()].into()),
        StepKind::LlmDecision(decision) => {
            let n_turns = u64::from(decision.max_iterations.unwrap_or(limits.max_turns).max(1));
            let model = |n_turns| (Called::Model, n_turns, [spec.llm_action.clone()].into());
            match (decision.tools.as_slice(), decision.choices.as_slice()) {
                // A turn, and one more if the answer is none of the choices.
                ([], []) => [model(1)].into(),
                ([], _) => [model(n_turns.min(2))].into(),
                // RUN-13.3, RUN-13.5
                (tools, _) => [
                    model(n_turns),
                    (Called::ByModel, (n_turns - 1) * CALLS_MAX as u64, tools.to_vec()),
                ]
                .into(),
            }
        }
        StepKind::Parallel(parallel) => {
            let actions = parallel.items.iter().map(|item| item.tool_name.clone());
            by_plan(parallel.items.len() as u64, actions.collect())
        }
        StepKind::Loop(repeated) => {
            let n = repeated.max_iterations.unwrap_or(limits.max_iterations);
            by_plan(u64::from(n), [repeated.call.tool_name.clone()].into())
        }
        StepKind::UserInput(_) | StepKind::Condition(_) | StepKind::SubPlan(_) => Vec::new(),
    }
}

/// Milliseconds that a safety check takes at most.
fn check_ms(spec: &Spec, profile: &ActionProfile) -> u64 {
    let limits = &spec.limits;
    let of_profile = (profile.attempt_ms > 0).then_some(profile.attempt_ms);
    limits
        .queue_wait_ms
        .saturating_add(limits.worker_wait_ms)
        .saturating_add(of_profile.unwrap_or(limits.attempt_ms))
}

/// Milliseconds that a unit of the step takes at most with its retries.
fn unit_ms(step: &Step, spec: &Spec, profile: &ActionProfile) -> u64 {
    let limits = &spec.limits;
    let attempt = limits.longest_ms(attempt_ms(step, profile, limits));
    let retries = step.retry.max_retries.unwrap_or(limits.max_retries);
    let one = limits
        .queue_wait_ms
        .saturating_add(limits.worker_wait_ms)
        .saturating_add(attempt);
    let delays = (1..=retries).fold(0_u64, |sum, retry| {
        sum.saturating_add(crate::turn::judge::retry_delay_ms(step, limits, retry))
    });
    one.saturating_mul(u64::from(retries) + 1).saturating_add(delays)
}
