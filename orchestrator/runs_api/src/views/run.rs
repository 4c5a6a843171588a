//! A run as a message: state, figures, links.

use super::attempts::key_of;
use super::input_request::request_view;
use super::plan::Document;
use super::session::skill_view;
use super::step::output_ref;
use super::words::{
    count, digest_text, error_type, outcome, signed, small, state_of, status_word, time, uuid_text,
};
use crate::budget::{budget_view, usage_view};
use crate::caller::shown_author;
use crate::header::Header;
use crate::resolution::{IN_DOUBT, NOTICES, ON_DEPENDENCY_FAILURE, ON_FAILURE, fallback_view, planner_view};
use crate::settings::RESUME;
use escapement_model::{ExecutionId, Opaque, OpaqueValue, RunId};
use escapement_run::ids::{AttemptName, IdSeed};
use escapement_run::journal::{Entry, Event, Failure, Limit, Substituted, ToolCalled};
use escapement_run::plan::Plan;
use escapement_run::spec::{Constraints, Limits, Spec, namespace_named};
use escapement_run::state::{RunState, StepStage};
use escapement_run::{Blobs, Run};
use escapement_store::runs::RunSummary;
use escapement_wire::runs::v1;

/// How much of a run is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Everything but the input.
    Usual,
    /// Everything.
    Full,
}

/// The run as it is.
pub(crate) fn run_view(run: &Run, blobs: &dyn Blobs, detail: Detail) -> v1::Run {
    let (state, plan) = (run.state(), run.plan());
    let shown = state_of(run.shown());
    let end = state.end.clone().unwrap_or_default();
    let output = end.output.as_ref();
    let input = &state.input;
    let is_small = |length: u64| length <= SHOWN_BYTES_MAX;
    v1::Run {
        state: shown.into(),
        plan_status: status_word(shown).to_owned(),
        outcome: outcome(shown, end.partial, output.is_some()).into(),
        error_type: error_type(shown, end.error.as_ref().map_or("", |error| &error.code)).into(),
        reason: reason(run),
        error: error(run),
        output: output
            .filter(|output| is_small(output.length))
            .map(|output| OpaqueValue::from_encoded(output.load(blobs))),
        output_ref: output.map(output_ref),
        goal: match state.spec.goal.as_str() {
            "" => plan.goal.clone(),
            goal => goal.to_owned(),
        },
        revision_digest: match state.has_no_plan() {
            true => String::new(),
            false => digest_text(&state.revision),
        },
        etag: state.sequence.to_string(),
        can_replan: state.can_replan(),
        replans_count: small(state.revision_number.saturating_sub(1)),
        recoveries: small(state.recoveries),
        orphans: orphans(state, plan),
        open_requests: state
            .open_requests()
            .map(|request| request_view(request, run, plan, blobs, SHOWN_BYTES_MAX))
            .collect(),
        created_at: state.created_at,
        started_at: time(state.started_at),
        updated_at: state.updated_at,
        completed_at: time(state.ended_at),
        expires_at: state
            .created_at
            .saturating_add(signed(state.spec.limits.lifetime_ms)),
        last_sequence: signed(state.sequence),
        input: (detail == Detail::Full && is_small(input.length))
            .then(|| Opaque::from_encoded(input.load(blobs))),
        active_ms: signed(state.active_ms),
        generations: small(state.planning.as_ref().map_or(0, |planning| planning.generation)),
        skills: state
            .session
            .iter()
            .flat_map(|session| session.skills.iter().map(skill_view))
            .collect(),
        disabled_skills: state.disabled_skills().into_iter().map(str::to_owned).collect(),
        usage: state.usage.as_ref().map(usage_view),
        budget: budget_view(state),
        ..with_figures(of_spec(&state.run_id, &state.spec, &plan.name), state, plan)
    }
}

/// What never changes of a run.
fn of_spec(run_id: &[u8], spec: &Spec, plan_name: &str) -> v1::Run {
    let header = Header::of(spec);
    let run_id = uuid_text(run_id);
    let or = |text: String, default: &str| if text.is_empty() { default.to_owned() } else { text };
    v1::Run {
        chain_id: or(header.chain_id, &run_id),
        run_id,
        name: or(header.name, plan_name),
        request_id: spec.request_id.clone(),
        intent: header.intent,
        user_id: spec.user_id.clone(),
        namespace: namespace_named(&spec.namespace).to_string(),
        started_by: shown_author(spec.author.as_deref()),
        plan_id: header.plan_id,
        trigger_id: header.trigger_id,
        goal_id: header.goal_id,
        parent_run_id: uuid_text(&spec.parent_run_id),
        forked_from: uuid_text(&spec.forked_from),
        priority: small(spec.priority),
        autonomy_level: small(spec.autonomy_level),
        preset: spec.preset.clone(),
        limits: Some(limits(&spec.limits)),
        policy: Some(policy(spec)),
        labels: header.labels,
        metadata: Some(header.metadata).filter(|metadata| !metadata.is_empty()),
        source: header.source,
        source_id: header.source_id,
        parent_execution_id: spec.parent_execution_id.clone(),
        llm_action: spec.llm_action.clone(),
        llm_model: spec.llm_model.clone(),
        retry_count: small(header.retry_count),
        depth: small(spec.depth),
        constraints: constraints(&spec.constraints),
        planner: spec.planner.as_deref().map(planner_view),
        resolved_fallback: spec.fallback.as_ref().map(fallback_view),
        session_id: spec.session_id.clone(),
        locale: spec.locale.clone(),
        notices: word(&NOTICES, spec.notices()),
        ..v1::Run::default()
    }
}

fn constraints(constraints: &Constraints) -> Option<v1::Constraints> {
    let shown = v1::Constraints {
        must_produce: constraints.must_produce.clone(),
        expected_artifact_type: constraints.expected_artifact_type.clone(),
        allowed_actions: constraints.allowed_actions.clone(),
        forbidden_actions: constraints.forbidden_actions.clone(),
    };
    (shown != v1::Constraints::default()).then_some(shown)
}

fn substitution(substituted: &Substituted) -> v1::Substitution {
    v1::Substitution {
        step_key: substituted.step_key.clone(),
        from: substituted.from.clone(),
        to: substituted.to.clone(),
    }
}

fn with_figures(run: v1::Run, state: &RunState, plan: &Plan) -> v1::Run {
    let n = |stage: StepStage| state.steps.iter().filter(|step| step.stage() == stage).count();
    let total = plan.steps.len();
    let settled = state.steps.iter().filter(|step| step.stage().is_settled());
    let n_settled = settled.count();
    let current = state.steps.iter().position(|step| !step.stage().is_settled());
    let failures = state.steps.iter().zip(&plan.steps);
    let failures = failures.filter(|(step, _)| step.stage() == StepStage::Failed);
    v1::Run {
        substitutions: state.substitutions.iter().map(substitution).collect(),
        disabled_actions: state.disabled_actions.clone(),
        current_step_index: count(current.unwrap_or(total)),
        total_steps: count(total),
        completed_steps: count(n(StepStage::Completed)),
        failed_steps: count(n(StepStage::Failed)),
        skipped_steps: count(n(StepStage::Skipped)),
        blocked_steps: count(n(StepStage::Blocked)),
        progress: percent(n(StepStage::Completed), total, 0.0),
        settled_percent: percent(n_settled, total, 100.0),
        step_failures: failures
            .map(|(step, spec)| {
                let error = step.error.clone().unwrap_or_default();
                v1::StepFailure {
                    step_key: spec.key.clone(),
                    code: error.code,
                    message: error.message,
                }
            })
            .collect(),
        ..run
    }
}

/// With one decimal; `of_nothing` if there is nothing to count.
pub(crate) fn percent(part: usize, of: usize, of_nothing: f64) -> f64 {
    match of {
        0 => of_nothing,
        of => (1000.0 * part as f64 / of as f64).round() / 10.0,
    }
}

/// The reason of a cancelled run, and the limit of one that timed out.
fn reason(run: &Run) -> String {
    let end = run.state().end.as_ref().and_then(|end| end.error.as_ref());
    match (state_of(run.shown()), end) {
        (v1::run::State::Cancelled, Some(error)) => match error.message.is_empty() {
            true => error.code.clone(),
            false => error.message.clone(),
        },
        (v1::run::State::Timeout, Some(error)) => limit_of_code(&error.code).to_owned(),
        _ => String::new(),
    }
}

/// The limit that ran out, by the code of the end.
fn limit_of_code(code: &str) -> &'static str {
    let limit = match code {
        "WATCHDOG" => Limit::Watchdog,
        "REVISION_TIMEOUT" => Limit::Revision,
        "RUN_TIMEOUT" => Limit::Run,
        "PAUSE_TIMEOUT" => Limit::Pause,
        _ => Limit::Lifetime,
    };
    limit.as_str()
}

fn error(run: &Run) -> Option<v1::RunError> {
    let error = run.state().end.as_ref()?.error.as_ref()?;
    match state_of(run.shown()) {
        v1::run::State::Completed => None,
        _ => Some(error_view(error, run.plan())),
    }
}

/// A failure with the key of its step.
pub(super) fn error_view(error: &Failure, plan: &Plan) -> v1::RunError {
    let step = error.step.and_then(|step| plan.steps.get(step as usize));
    v1::RunError {
        code: error.code.clone(),
        message: error.message.clone(),
        step_key: step.map_or_else(String::new, |step| step.key.clone()),
    }
}

/// Executions that a run that has ended left behind.
fn orphans(state: &RunState, plan: &Plan) -> Vec<String> {
    let run_id = <[u8; 16]>::try_from(&state.run_id[..])
        .ok()
        .and_then(RunId::from_bytes);
    let (Some(run_id), true) = (run_id, state.stage().is_end()) else {
        return Vec::new();
    };
    let executions = state
        .live_attempts()
        .map(|called| execution_of(run_id, state.spec.seed(), plan, called));
    executions.map(|execution_id| execution_id.to_string()).collect()
}

/// Returns the execution of an attempt.
pub(crate) fn execution_of(
    run_id: RunId,
    seed: Option<IdSeed>,
    plan: &Plan,
    called: &ToolCalled,
) -> ExecutionId {
    let name = AttemptName {
        run_id,
        seed,
        step: key_of(plan, called.unit.step),
        index: called.unit.index,
        epoch: called.unit.epoch,
        attempt: called.attempt,
    };
    name.execution_id()
}

fn limits(limits: &Limits) -> v1::Limits {
    let ms = |n: u64| Some(signed(n));
    let n = |n: u32| Some(small(n));
    v1::Limits {
        attempt_ms: ms(limits.attempt_ms),
        queue_wait_ms: ms(limits.queue_wait_ms),
        worker_wait_ms: ms(limits.worker_wait_ms),
        watchdog_ms: ms(limits.watchdog_ms),
        revision_ms: ms(limits.revision_ms),
        run_ms: ms(limits.run_ms),
        lifetime_ms: ms(limits.lifetime_ms),
        pause_ms: ms(limits.pause_ms),
        question_ms: ms(limits.question_ms),
        approval_ms: ms(limits.approval_ms),
        max_retries: n(limits.max_retries),
        max_generations: n(limits.max_generations),
        max_substitutions: n(limits.max_substitutions),
        max_concurrency: n(limits.max_concurrency),
        batch_size: n(limits.batch_size),
        max_iterations: n(limits.max_iterations),
        backoff_ms: ms(limits.backoff_ms),
        multiplier: Some(limits.multiplier),
        max_backoff_ms: ms(limits.max_backoff_ms),
        max_turns: n(limits.max_turns),
        degraded_timeout_factor: Some(limits.degraded_timeout_factor.max(1.0)),
    }
}

fn policy(spec: &Spec) -> v1::Policy {
    let policy = &spec.policy;
    v1::Policy {
        resume: word(&RESUME, policy.resume()),
        ambiguity: word(&IN_DOUBT, policy.ambiguity()),
        ambiguous_timeout: word(&IN_DOUBT, policy.ambiguous_timeout()),
        on_failure: word(&ON_FAILURE, policy.on_failure()),
        on_dependency_failure: word(&ON_DEPENDENCY_FAILURE, policy.on_dependency_failure()),
        escalate: Some(policy.escalate),
        auto_retry: None,
        four_eyes: Some(policy.four_eyes),
        approvers: policy.approvers.clone(),
        quorum: Some(small(policy.quorum)),
        safety_action: spec.safety_action.clone(),
        async_by_default: Some(policy.async_by_default),
    }
}

fn word<T: Copy + PartialEq>(words: &[(&str, T)], meaning: T) -> String {
    let found = words.iter().find(|(_, other)| *other == meaning);
    found.expect("every meaning has a word").0.to_owned()
}

/// A run as lists show it: its index columns, its first entry, and its last one if it has ended.
pub(crate) fn listed(
    summary: &RunSummary,
    first: Option<&Spec>,
    last: Option<&Entry>,
    state: v1::run::State,
) -> v1::Run {
    let run_id = summary.run_id.as_bytes();
    let spec = first.cloned().unwrap_or_default();
    let last_sequence = signed(summary.next_seq.saturating_sub(1));
    let (mut is_partial, mut has_fallback, mut reason, mut error) = (false, false, String::new(), None);
    match last.and_then(|last| last.event.as_ref()) {
        Some(Event::RunCompleted(completed)) => is_partial = completed.partial,
        Some(Event::RunCancelled(cancelled)) => reason.clone_from(&cancelled.reason),
        Some(Event::RunFailed(failed)) => {
            has_fallback = failed.output.is_some();
            if failed.timed_out {
                reason = limit_of_code(&failed.error.code).to_owned();
            }
            error = Some(v1::RunError {
                code: failed.error.code.clone(),
                message: failed.error.message.clone(),
                step_key: String::new(),
            });
        }
        _ => {}
    }
    v1::Run {
        state: state.into(),
        plan_status: status_word(state).to_owned(),
        outcome: outcome(state, is_partial, has_fallback).into(),
        error_type: error_type(
            state,
            error.as_ref().map_or("", |error: &v1::RunError| &error.code),
        )
        .into(),
        reason,
        error,
        etag: last_sequence.to_string(),
        created_at: summary.created.created_at,
        updated_at: summary.progress.updated_at,
        completed_at: summary.progress.ended_at,
        expires_at: summary
            .created
            .created_at
            .saturating_add(signed(spec.limits.lifetime_ms)),
        last_sequence,
        // A row is for finding a run: how it was set up is for `GetRun`.
        limits: None,
        policy: None,
        planner: None,
        resolved_fallback: None,
        goal: match spec.goal.is_empty() {
            true => Header::of(&spec).plan_goal,
            false => spec.goal.clone(),
        },
        ..of_spec(run_id, &spec, &Header::of(&spec).plan_name)
    }
}

/// Bytes of an output, or of an input, that is shown with its run: 1 MiB.
const SHOWN_BYTES_MAX: u64 = 1 << 20;
