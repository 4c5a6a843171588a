//! Attempts that share commits with their runs. An attempt is accepted in the commit of its intent, and ends in the commit of its
//! outcome. The module `port` submits all other attempts once their intents are durable.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use escapement_model::{ExecutionId, RunId};
use escapement_run::spec::Spec;
use escapement_run::state::Stage;
use escapement_run::{Effect, INLINE_BYTES_MAX, Input};
use escapement_runs_host::RunsHost;
use escapement_store::StoreFault;
use escapement_store::runs::RunBatch;

use crate::attempt::{Attempt, PreparedAttempt, outcome_of, prepared};
use crate::clock::Clock;
use crate::contract_port::{JointWay, Leaving, LinkedAttempt};
use crate::message::{LinkedEnd, Returned};
use crate::rights::{Origin, Rights};
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

    /// Returns the attempts of the last polled batch that may be accepted in its commit. An attempt must be small, find a free slot,
    /// and have an end that needs no long work.
    pub(crate) fn leaving(&self, host: &mut RunsHost, origin: &OriginOf<'_>) -> Vec<Leaving> {
        let submissions: Vec<(RunId, Effect)> = host
            .leaving()
            .filter(|(_, effect)| is_small(effect))
            .take(JOINED_MAX)
            .map(|(run_id, effect)| (run_id, effect.clone()))
            .collect();
        let leave = submissions
            .into_iter()
            .filter_map(|(run_id, effect)| self.leave(host, run_id, effect, origin));
        leave.collect()
    }

    fn leave(
        &self,
        host: &mut RunsHost,
        run_id: RunId,
        effect: Effect,
        origin_of: &OriginOf<'_>,
    ) -> Option<Leaving> {
        let Effect::Submit {
            execution_id,
            request,
            attempt_ms,
            seen,
        } = effect
        else {
            return None;
        };
        let (run, _) = host.run(run_id)?;
        let state = run.state();
        // The output of a planner is parsed on another thread first.
        if state.stage() == Stage::Planning {
            return None;
        }
        let (n_bytes, is_nested) = (request.len(), state.spec.is_nested);
        let mut attempt = Attempt {
            origin: origin_of(run_id, &state.spec, execution_id),
            execution_id,
            request,
            ahead_ms: state.ahead_ms,
            attempt_ms,
            seen,
            plans: false,
        };
        let PreparedAttempt {
            request,
            step_id,
            action,
        } = prepared(&attempt, self.context.clock).ok()?;
        // The request is not needed until the end.
        attempt.request = Bytes::new();
        let is_permitted = self.context.rights.permit(&attempt.origin, &action);
        // The parent would be read from the store.
        if request.parent_execution_id.is_some() || !is_permitted {
            return None;
        }
        let nested = is_nested.then(|| self.nested.take(n_bytes)).flatten();
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

/// Returns the origin of an attempt of a run.
pub(crate) type OriginOf<'a> = dyn Fn(RunId, &Spec, ExecutionId) -> Origin + 'a;

fn is_small(effect: &Effect) -> bool {
    matches!(effect, Effect::Submit { request, .. } if request.len() <= INLINE_BYTES_MAX)
}

/// Limit of attempts in one commit with their intents. Further attempts are submitted after it.
const JOINED_MAX: usize = 256;
