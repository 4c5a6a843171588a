//! Reason why an execution and its steps are in their states, to the wire. Explains nothing itself: the contract has the facts,
//! the rules and the words.

use crate::execution;
use escapement_contract::{
    End, ExecutionFacts, ExecutionReason, Plan, StepFacts, StepIndex, StepReason, StepState, WorkerFacts,
};
use escapement_model::ExecutionId;
use escapement_wire::v1;
use escapement_wire::v1::execution::State;
use escapement_wire::v1::step_explanation::State as StepStateOnWire;

/// Returns an execution as a whole, in the state in which everybody sees it.
pub fn execution(
    execution_id: ExecutionId,
    state: State,
    at_unix_ms: i64,
    facts: &ExecutionFacts,
) -> v1::ExecutionExplanation {
    let plain = v1::ExecutionExplanation {
        execution_id: execution_id.to_string(),
        state: state as i32,
        rules: texts(facts.rules()),
        text: facts.describe(),
        at: at_unix_ms,
        ends_in_ms: facts.ends_in_ms.map(long),
        ..v1::ExecutionExplanation::default()
    };
    match &facts.why {
        ExecutionReason::Queued(None) => plain,
        ExecutionReason::Queued(Some(admission)) => v1::ExecutionExplanation {
            queue_position: Some(long(admission.n_before)),
            executions_running: Some(execution::count(admission.n_running)),
            executions_running_max: Some(execution::count(admission.n_running_max)),
            held_back_for_action: (admission.held_back.as_ref())
                .map(|held_back| held_back.action.to_string()),
            action_registered_for_ms: (admission.held_back.as_ref())
                .and_then(|held_back| held_back.registered_for_ms)
                .map(long),
            ..plain
        },
        ExecutionReason::Starting(write) | ExecutionReason::Settling { write, .. } => {
            v1::ExecutionExplanation {
                write_failures: execution::count(write.n_failures),
                waits_for_space: write.waits_for_space,
                ..plain
            }
        }
        ExecutionReason::Running { n_slots_free, .. } => v1::ExecutionExplanation {
            free_slots: Some(execution::count(*n_slots_free)),
            ..plain
        },
        ExecutionReason::Settled(end) => v1::ExecutionExplanation {
            status: execution::status(end.status) as i32,
            cause_step_id: cause(end),
            error_code: end.error_code.clone(),
            ..plain
        },
    }
}

/// Returns a step.
#[expect(clippy::too_many_lines, reason = "a table")]
pub fn step(plan: &Plan, facts: &StepFacts) -> v1::StepExplanation {
    let step = plan.step(facts.step);
    let plain = v1::StepExplanation {
        step_id: step.id().to_string(),
        action: step.action().to_owned(),
        state: state(facts.why.state()) as i32,
        rules: texts(facts.rules()),
        text: facts.describe(plan),
        attempts_max: Some(execution::count(facts.attempts_max)),
        ends_in_ms: facts.ends_in_ms.map(long),
        ..v1::StepExplanation::default()
    };
    let ids = |steps: &[StepIndex]| {
        steps
            .iter()
            .map(|step| plan.step(*step).id().to_string())
            .collect()
    };
    match &facts.why {
        StepReason::AwaitsExecution { open } => v1::StepExplanation {
            waits_for_step_ids: ids(&open.first),
            waits_for_steps: Some(execution::count(open.n)),
            ..plain
        },
        StepReason::AwaitsDependencies { open, doomed_by } => v1::StepExplanation {
            waits_for_step_ids: ids(&open.first),
            waits_for_steps: Some(execution::count(open.n)),
            cause_step_id: doomed_by.map(|root| root.to_string()),
            ..plain
        },
        StepReason::AwaitsTurn {
            n_before, doomed_by, ..
        } => v1::StepExplanation {
            waits_for_steps: Some(0),
            turn: Some(execution::count(*n_before)),
            cause_step_id: doomed_by.map(|root| root.to_string()),
            ..plain
        },
        StepReason::Waiting { attempt, queue, .. } => v1::StepExplanation {
            attempt: Some(execution::count(*attempt)),
            queue_position: queue.map(|queue| long(queue.n_before)),
            workers: queue.map(|queue| execution::count(queue.n_workers)),
            action_free_slots: queue.map(|queue| execution::count(queue.n_slots_free)),
            action_expires_in_ms: queue.and_then(|queue| queue.expires_in_ms).map(long),
            ..plain
        },
        StepReason::Assigned { attempt, worker } | StepReason::Started { attempt, worker } => {
            v1::StepExplanation {
                attempt: Some(execution::count(*attempt)),
                worker_id: worker.as_ref().map(|worker| worker.label.as_ref().to_owned()),
                worker_lost_in_ms: worker.as_ref().and_then(vanishes_in_ms),
                ..plain
            }
        }
        StepReason::BackingOff {
            next_attempt, in_ms, ..
        } => v1::StepExplanation {
            attempt: Some(execution::count(*next_attempt)),
            next_attempt_in_ms: Some(long(*in_ms)),
            ..plain
        },
        StepReason::Held(state) => v1::StepExplanation {
            attempt: held_attempt(*state),
            ..plain
        },
        StepReason::Completed { attempts, .. } => v1::StepExplanation {
            attempt: Some(execution::count(*attempts)),
            ..plain
        },
        StepReason::NotCompleted {
            attempts,
            reason,
            error_code,
            root,
            ..
        } => v1::StepExplanation {
            attempt: Some(execution::count(*attempts)),
            reason: Some(reason.as_str().to_owned()),
            error_code: Some(error_code.clone()),
            cause_step_id: root.map(|root| root.to_string()),
            ..plain
        },
        StepReason::Stopped { attempts, end, .. } => v1::StepExplanation {
            attempt: attempts.map(execution::count),
            cause_step_id: cause(end),
            ..plain
        },
    }
}

fn state(state: StepState) -> StepStateOnWire {
    match state {
        StepState::Pending => StepStateOnWire::Pending,
        StepState::Waiting { .. } => StepStateOnWire::Waiting,
        StepState::Assigned { .. } => StepStateOnWire::Assigned,
        StepState::Started { .. } => StepStateOnWire::Started,
        StepState::BackingOff { .. } => StepStateOnWire::BackingOff,
        StepState::Completed => StepStateOnWire::Completed,
        StepState::NotCompleted => StepStateOnWire::NotCompleted,
        StepState::Stopped => StepStateOnWire::Stopped,
    }
}

fn held_attempt(state: StepState) -> Option<i32> {
    match state {
        StepState::Waiting { attempt }
        | StepState::Assigned { attempt }
        | StepState::Started { attempt }
        | StepState::BackingOff {
            next_attempt: attempt,
        } => Some(execution::count(attempt)),
        StepState::Pending | StepState::Completed | StepState::NotCompleted | StepState::Stopped => None,
    }
}

fn cause(end: &End) -> Option<String> {
    end.step_id.map(|step_id| step_id.to_string())
}

fn vanishes_in_ms(worker: &WorkerFacts) -> Option<i64> {
    worker.vanishes_in_ms.map(long)
}

fn texts(rules: Vec<&str>) -> Vec<String> {
    rules.into_iter().map(str::to_owned).collect()
}

fn long(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
