//! Reason why an execution and its steps are in their states: what the contract knows, and the place among others.
//! Changes nothing, and shows nothing that a crash would take back.

use super::Engine;
use crate::answer::{Caller, ExplainAnswer, Explained, ExplainedParked};
use crate::keys::ExecutionKey;
use crate::queue::NeedKey;
use alloc::boxed::Box;
use escapement_contract::{
    AdmissionFacts, ExecutionFacts, ExecutionReason, QueueFacts, StepFacts, StepReason,
};
use escapement_model::ExecutionId;

impl Engine {
    pub(crate) fn explain(&mut self, caller: Caller<ExplainAnswer>, execution_id: ExecutionId) {
        self.follow_changes();
        let reply = match self.executions.durable(execution_id) {
            Some((key, _)) => ExplainAnswer::Live(Box::new(self.explained(key))),
            None => self
                .explained_parked(execution_id)
                .map_or(ExplainAnswer::NotLive, ExplainAnswer::Parked),
        };
        self.turn.reply(caller, reply);
    }

    fn explained(&self, key: ExecutionKey) -> Explained {
        let mut explained = self.executions.explained(key, &self.turn);
        self.place_execution(key, &mut explained.explanation.execution.why);
        self.place_steps(key, &mut explained.explanation.steps);
        explained
    }

    fn explained_parked(&self, execution_id: ExecutionId) -> Option<ExplainedParked> {
        let parked = self.queue.find_parked(execution_id)?;
        let facts = self.queue.parked_facts(&parked);
        Some(ExplainedParked {
            at_unix_ms: self.turn.now().unix_ms,
            execution: ExecutionFacts {
                why: ExecutionReason::Queued(Some(self.admission_facts(facts, parked.need))),
                ends_in_ms: Some(parked.due_ms.saturating_sub(self.turn.now_ms())),
            },
        })
    }

    fn place_execution(&self, key: ExecutionKey, why: &mut ExecutionReason) {
        match why {
            ExecutionReason::Queued(admission) => {
                let ticket = self.executions.ticket(key);
                *admission = ticket
                    .map(|ticket| self.admission_facts(self.queue.admission_facts(ticket), ticket.need()));
            }
            ExecutionReason::Starting(write) | ExecutionReason::Settling { write, .. } => {
                *write = self.executions.write_facts(key);
            }
            ExecutionReason::Running { .. } | ExecutionReason::Settled(_) => {}
        }
    }

    //
    /// Adds to what the queue knows what the fleet and the drain do.
    fn admission_facts(&self, facts: AdmissionFacts, need: NeedKey) -> AdmissionFacts {
        let held_back_for = self.queue.held_back_for(need);
        AdmissionFacts {
            is_draining: self.drain.is_on(),
            held_back: held_back_for.and_then(|actions| self.fleet.held_back_facts(&actions, &self.turn)),
            ..facts
        }
    }

    fn place_steps(&self, key: ExecutionKey, steps: &mut [StepFacts]) {
        let n_steps = self.executions.request(key).plan().steps().len();
        let places = self.fleet.places(key, n_steps, &self.turn);
        for facts in steps {
            match &mut facts.why {
                StepReason::Waiting { queue, .. } => {
                    let place = places[facts.step.as_usize()].unwrap_or(ENDS_NOW);
                    if let (Some(expires), Some(left)) = (place.expires_in_ms, &mut facts.ends_in_ms) {
                        *left = expires.min(*left);
                    }
                    *queue = Some(place);
                }
                StepReason::Assigned { worker, .. } | StepReason::Started { worker, .. } => {
                    *worker = self.fleet.worker_facts(key, facts.step, &self.turn);
                }
                StepReason::AwaitsExecution { .. }
                | StepReason::AwaitsDependencies { .. }
                | StepReason::AwaitsTurn { .. }
                | StepReason::BackingOff { .. }
                | StepReason::Held(_)
                | StepReason::Completed { .. }
                | StepReason::NotCompleted { .. }
                | StepReason::Stopped { .. } => {}
            }
        }
    }
}

/// The action is not registered, and the step ends at the end of the batch.
//
const ENDS_NOW: QueueFacts = QueueFacts {
    n_before: 0,
    n_workers: 0,
    n_slots_free: 0,
    expires_in_ms: Some(0),
};
