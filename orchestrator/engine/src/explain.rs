//! Why an execution and its steps stand where they do: what the contract knows, and the place among others.
//! Changes nothing, and shows nothing that a crash would take back.

use crate::admission::Admission;
use crate::effect::Reply;
use crate::engine::{Engine, Timer};
use crate::fleet::{Action, ActionKey, QueueKey, Waiting, WaitingKey};
use crate::input::CallerId;
use crate::live::{ExecutionKey, Live};
use crate::need::NeedKey;
use crate::parked::Place;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Keys;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::iter::Peekable;
use escapement_contract::{
    AdmissionFacts, COUNTED_MAX, ExecutionFacts, ExecutionWhy, Explanation, HeldBackFacts, QueueFacts,
    Request, StepFacts, StepIndex, StepWhy, WorkerFacts, WriteFacts,
};
use escapement_model::ExecutionId;

/// Why a live execution and its steps stand where they do.
#[derive(Clone, Debug)]
pub struct Explained {
    /// Which.
    pub execution_id: ExecutionId,
    /// What was asked.
    pub request: Arc<Request>,
    /// Its start is durable.
    pub has_started: bool,
    /// Unix milliseconds of the moment that is explained.
    pub at_unix_ms: i64,
    /// The facts.
    pub explanation: Explanation,
}

/// Why an execution waits whose request stands in the store alone. All its steps wait for its start.
#[derive(Clone, Debug)]
pub struct ExplainedParked {
    /// Unix milliseconds of the moment that is explained.
    pub at_unix_ms: i64,
    /// The facts.
    pub execution: ExecutionFacts,
}

impl Engine {
    pub(crate) fn explain(&mut self, caller: CallerId, execution_id: ExecutionId) {
        self.follow_changes();
        let reply = match self.durable(execution_id) {
            Some(key) => Reply::Explained(Box::new(self.explained(key))),
            None => self
                .explained_parked(execution_id)
                .map_or(Reply::NotLive, Reply::ExplainedParked),
        };
        self.reply(caller, reply);
    }

    fn explained(&self, key: ExecutionKey) -> Explained {
        let live = self.live.at(key);
        let mut explanation = live.execution.explain(self.now, live.n_shown);
        self.place_execution(key, live, &mut explanation.execution.why);
        self.place_steps(live, &mut explanation.steps);
        Explained {
            execution_id: live.execution_id,
            request: Arc::clone(&live.request),
            has_started: live.shown_started_at().is_some(),
            at_unix_ms: self.now.unix_ms,
            explanation,
        }
    }

    fn explained_parked(&self, execution_id: ExecutionId) -> Option<ExplainedParked> {
        let parked = self.parked.find(execution_id)?;
        Some(ExplainedParked {
            at_unix_ms: self.now.unix_ms,
            execution: ExecutionFacts {
                why: ExecutionWhy::Queued(Some(self.admission_facts(parked.place(), parked.need))),
                ends_in_ms: Some(parked.due_ms.saturating_sub(self.now.monotonic_ms)),
            },
        })
    }

    fn place_execution(&self, key: ExecutionKey, live: &Live, why: &mut ExecutionWhy) {
        match why {
            ExecutionWhy::Queued(admission) => {
                let place = Admission::place(live.request.plan().priority(), key);
                *admission = live.need.map(|need| self.admission_facts(place, need));
            }
            ExecutionWhy::Starting(write) | ExecutionWhy::Settling { write, .. } => {
                *write = self.write_facts(key);
            }
            ExecutionWhy::Running { .. } | ExecutionWhy::Settled(_) => {}
        }
    }

    fn admission_facts(&self, place: Place, need: NeedKey) -> AdmissionFacts {
        let is_held = self.admission.needs.is_held(need);
        let queued = self.admission.before(place, need);
        let parked = self.parked.before(place, need, is_held);
        AdmissionFacts {
            n_before: queued.chain(parked).take(COUNTED_MAX as usize).count() as u64,
            n_running: count(self.admission.n_running()),
            n_running_max: count(self.config.max_running_executions),
            is_draining: self.drain.is_some(),
            held_back: is_held.then(|| self.held_back_facts(need)).flatten(),
        }
    }

    //
    fn held_back_facts(&self, need: NeedKey) -> Option<HeldBackFacts> {
        let actions = self.admission.needs.actions(need);
        let action = self.fleet.action(*actions.first()?);
        let now_ms = self.now.monotonic_ms;
        Some(HeldBackFacts {
            action: Arc::clone(&action.name),
            n_others: count(actions.len() - 1),
            absent_for_ms: action.was_offered.then(|| now_ms - action.left_at_ms),
            registered_for_ms: action.registered_for_ms(now_ms),
        })
    }

    //
    fn write_facts(&self, key: ExecutionKey) -> WriteFacts {
        let mut facts = WriteFacts::default();
        for write in self.writes.values().filter(|write| write.key == key) {
            facts.n_failures = facts.n_failures.max(write.failures);
            facts.waits_for_space |= write.waits_for_space;
        }
        facts
    }

    fn place_steps(&self, live: &Live, steps: &mut [StepFacts]) {
        let places = self.places(live);
        for facts in steps {
            match &mut facts.why {
                StepWhy::Waiting { queue, .. } => {
                    let place = places[facts.step.as_usize()].unwrap_or(ENDS_NOW);
                    if let (Some(expires), Some(left)) = (place.expires_in_ms, &mut facts.ends_in_ms) {
                        *left = expires.min(*left);
                    }
                    *queue = Some(place);
                }
                StepWhy::Assigned { worker, .. } | StepWhy::Started { worker, .. } => {
                    *worker = self.worker_facts(live, facts.step);
                }
                StepWhy::AwaitsExecution { .. }
                | StepWhy::AwaitsDependencies { .. }
                | StepWhy::AwaitsTurn { .. }
                | StepWhy::BackingOff { .. }
                | StepWhy::Held(_)
                | StepWhy::Completed { .. }
                | StepWhy::NotCompleted { .. }
                | StepWhy::Stopped { .. } => {}
            }
        }
    }

    /// By step: its place, where it waits for a worker. Walks each queue once, however many of them wait in it.
    fn places(&self, live: &Live) -> Vec<Option<QueueFacts>> {
        let mut by_queue: BTreeMap<QueueKey, Vec<(WaitingKey, StepIndex)>> = BTreeMap::new();
        for (step, (queue, place)) in &live.waiting {
            by_queue.entry(queue.clone()).or_default().push((*place, *step));
        }
        let mut places = vec![None; live.request.plan().steps().len()];
        for (queue, mut waiting) in by_queue {
            waiting.sort_unstable();
            let facts = self.queue_facts(&queue);
            let mut others = self.served_by_the_same(&queue);
            let mut n_before = 0;
            for (place, step) in waiting {
                while n_before < COUNTED_MAX && others.next_before(place) {
                    n_before += 1;
                }
                places[step.as_usize()] = Some(QueueFacts { n_before, ..facts });
            }
        }
        places
    }

    /// The places that compete with those of a queue.
    fn served_by_the_same(&self, queue: &QueueKey) -> Merged<'_> {
        let action = self.fleet.action(queue.action);
        // Where attempts only wait, each depth has slots of its own.
        let is_shared = action.sessions.is_empty() || !self.only_waits(queue.action, action);
        let queues = action.queues.iter();
        let competing = queues.filter(|(other, _)| is_shared || other.depth == queue.depth);
        Merged(competing.map(|(_, places)| places.keys().peekable()).collect())
    }

    fn only_waits(&self, key: ActionKey, action: &Action) -> bool {
        let mut sessions = action.sessions.iter();
        sessions.all(|session| self.fleet.sessions[session].actions[&key].waits)
    }

    fn queue_facts(&self, queue: &QueueKey) -> QueueFacts {
        let action = self.fleet.action(queue.action);
        let is_offered = !action.sessions.is_empty();
        QueueFacts {
            n_before: 0,
            n_workers: count(action.sessions.len()),
            n_slots_free: self.action_free_slots(queue.action, action),
            //
            expires_in_ms: (!is_offered)
                .then(|| action.registered_for_ms(self.now.monotonic_ms))
                .flatten(),
        }
    }

    fn worker_facts(&self, live: &Live, step: StepIndex) -> Option<WorkerFacts> {
        let attempt = self.fleet.attempts.get(live.attempts.get(&step)?)?;
        let session = self.fleet.sessions.get(&attempt.session)?;
        let lease_due_ms = self.timers.due_ms(Timer::Lease(attempt.session));
        Some(WorkerFacts {
            label: Arc::clone(&session.identity.as_ref()?.worker_id),
            vanishes_in_ms: lease_due_ms
                .filter(|_| !session.connected)
                .map(|due_ms| due_ms.saturating_sub(self.now.monotonic_ms)),
        })
    }
}

/// The places of several queues. There are few: one for each depth of nesting, and for each set of workers that refused.
struct Merged<'a>(Vec<Peekable<Keys<'a, WaitingKey, Waiting>>>);

impl Merged<'_> {
    /// Takes one more that lies before a place, whichever it is; false where none is left.
    fn next_before(&mut self, place: WaitingKey) -> bool {
        let mut queues = self.0.iter_mut();
        queues.any(|places| places.next_if(|other| **other < place).is_some())
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

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
