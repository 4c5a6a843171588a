//! Attempts that share commits with their runs. An attempt is accepted in the commit of its intent, and ends in the commit of its
//! outcome. The module `port` submits all other attempts once their intents are durable.

use std::sync::{Arc, Mutex, PoisonError};

use escapement_model::RunId;
use escapement_run::{INLINE_BYTES_MAX, Input};
use escapement_store::StoreFault;
use escapement_store::runs::RunBatch;

use crate::attempt::{Attempt, PreparedAttempt, outcome_of, prepared};
use crate::clock::Clock;
use crate::contract_port::{JointWay, Leaving, LinkedAttempt};
use crate::message::{LinkedEnd, Returned};
use crate::rights::Rights;
use crate::seen::SeenActions;
use crate::slots::Slots;
use crate::store_port::Joined;

/// Link that the thread of runs takes once it is there. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct JointSlot(Arc<Mutex<Option<Joint>>>);

impl JointSlot {
    pub(crate) fn set(&self, joint: Joint) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(joint);
    }

    pub(crate) fn take(&self) -> Option<Joint> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl std::fmt::Debug for JointSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JointSlot").finish_non_exhaustive()
    }
}

/// Context in which attempts leave and return.
pub(crate) struct Context {
    pub(crate) clock: Clock,
    pub(crate) rights: Rights,
    pub(crate) seen: SeenActions,
    /// Sends an end to the thread of runs.
    pub(crate) back: Arc<dyn Fn(Returned) + Send + Sync>,
}

/// State of this link on the thread of runs.
pub(crate) struct Joint {
    way: Box<dyn JointWay>,
    context: Context,
    slots: Slots,
    nested: Slots,
    /// Number of ends that were received before they were durable.
    n_received: u64,
    /// Number of them that was reported.
    n_reported: u64,
}

impl Joint {
    pub(crate) fn new(way: Box<dyn JointWay>, context: Context, (slots, nested): (Slots, Slots)) -> Self {
        Self {
            way,
            context,
            slots,
            nested,
            n_received: 0,
            n_reported: 0,
        }
    }

    /// Returns true if the next batch may build on an end that is not durable.
    pub(crate) fn owes(&self) -> bool {
        self.n_received > self.n_reported
    }

    /// Returns the run and the input that an end is for.
    pub(crate) fn receive(&mut self, ended: LinkedEnd) -> (RunId, Input) {
        let LinkedEnd {
            run_id,
            is_durable,
            input,
        } = ended;
        self.n_received += u64::from(!is_durable);
        (run_id, input())
    }

    /// Reports received ends that no batch builds on.
    pub(crate) fn report(&mut self) {
        if self.owes() {
            self.way.received(self.n_received);
            self.n_reported = self.n_received;
        }
    }

    /// Commits a batch with the ends that were received and the accepts of these attempts.
    ///
    /// # Errors
    /// As the store's commit.
    pub(crate) fn commit(&mut self, batch: &RunBatch, attempts: Vec<Leaving>) -> Result<Joined, StoreFault> {
        let joined = self.way.commit(batch, self.n_received, attempts);
        if let Ok(_) | Err(StoreFault::CorruptRun { .. }) = joined {
            self.n_reported = self.n_received;
        }
        joined
    }

    /// Returns those of these attempts that may be accepted in the commit of their intents. An attempt must be small, find a free
    /// slot, and have an end that needs no long work.
    pub(crate) fn leaving(&self, attempts: impl Iterator<Item = Attempt>) -> Vec<Leaving> {
        let leaving = attempts.filter_map(|attempt| self.leave(attempt));
        leaving.take(JOINED_MAX).collect()
    }

    fn leave(&self, mut attempt: Attempt) -> Option<Leaving> {
        let (n_bytes, run_id, execution_id) = (attempt.request.len(), attempt.run_id, attempt.execution_id);
        // The output of a planner is parsed on another thread first.
        if n_bytes > INLINE_BYTES_MAX || attempt.plans {
            return None;
        }
        let PreparedAttempt {
            request,
            step_id,
            action,
        } = prepared(&mut attempt, self.context.clock).ok()?;
        let is_permitted = self.context.rights.permit(&attempt.origin, &action);
        // The parent would be read from the store.
        if request.parent_execution_id.is_some() || !is_permitted {
            return None;
        }
        let nested = attempt.is_nested.then(|| self.nested.take(n_bytes)).flatten();
        let slot = nested.or_else(|| self.slots.take_at_once(n_bytes))?;
        let (slot, _submission) = slot.split();
        let (seen, back) = (self.context.seen.clone(), Arc::clone(&self.context.back));
        let origin = attempt.origin.clone();
        let attempt = LinkedAttempt::new(origin, move |end, is_durable| {
            let input = Box::new(move || {
                let outcome = outcome_of(end(), &attempt, (&step_id, &action), &seen);
                drop(slot);
                Input::Settled {
                    execution_id,
                    outcome,
                }
            });
            back(Returned::Ended(LinkedEnd {
                run_id,
                is_durable,
                input,
            }));
        });
        Some(Leaving { request, attempt })
    }
}

/// Limit of attempts in one commit with their intents. Further attempts are submitted after it.
const JOINED_MAX: usize = 256;
