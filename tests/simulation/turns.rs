//! Whose turn it was among namespaces, by what was written and what sessions said. Judges a process of the orchestrator once it
//! is over, when it is known what started in it. Shares no code with what decides.
//!
//! Two namespaces are held against each other while both are backlogged for certain: of each an execution waits that starts
//! later in the same process, and so was not over before; a worker offers one of its first actions; and its namespace
//! has a running place left. While that lasts, what one of them has started, divided by its weight, is never ahead of the other
//! by more than one start of each, from whatever moment on it is counted.

use crate::scenario::ACTIONS;
use crate::shares::{NAMES, Shares};
use escapement_contract::Request;
use escapement_engine::{FromWorker, RejectReason, SessionKey, StoreWrite, ToWorker};
use escapement_model::ExecutionId;
use std::collections::{BTreeMap, BTreeSet};

/// Notes what happens, and accuses.
#[derive(Debug, Default)]
pub(crate) struct TurnsJudge {
    handed_in: BTreeMap<ExecutionId, HandedIn>,
    /// What happened in this process, in order.
    events: Vec<Event>,
    /// What the engine has at the end of the batch at the latest: it counts from then on.
    soon: Vec<Event>,
    /// Executions of this process whose starts were wanted.
    started: BTreeSet<ExecutionId>,
    /// Sessions whose hello offers the action that is looked at.
    greeting: BTreeSet<SessionKey>,
    /// Those that the engine has as offering it, at the end of the batch at the latest.
    offering_soon: BTreeSet<SessionKey>,
    /// Those that it has as such for certain.
    offering: BTreeSet<SessionKey>,
    /// Starts that were held against other namespaces.
    pub(crate) n_judged: u64,
}

#[derive(Clone, Copy, Debug)]
struct HandedIn {
    /// The place of its namespace.
    place: usize,
    /// It is not held back while the action that is looked at is offered.
    begins_with_work: bool,
    /// It may be nested, and so pass the queue.
    names_parent: bool,
}

#[derive(Debug)]
enum Event {
    /// None hold for certain until others do.
    SharesEnd,
    Shares(Shares),
    Offered(bool),
    /// Its accept is wanted: it may take a place with it. True if it starts with it.
    Accepting(ExecutionId, bool),
    Refused(ExecutionId),
    Waits(ExecutionId),
    Starts(ExecutionId),
    /// Its end is wanted and no start was: it may have had its turn all the same.
    EndsUnstarted(ExecutionId),
    Settled(ExecutionId),
}

/// What is so at a moment, as far as it is certain.
#[derive(Debug, Default)]
struct Course {
    shares: Option<Shares>,
    is_offered: bool,
    /// Those that will start.
    waiting: [BTreeSet<ExecutionId>; NAMES.len()],
    /// Those that may have a running place.
    running: [BTreeSet<ExecutionId>; NAMES.len()],
    ending: BTreeSet<ExecutionId>,
    started: BTreeSet<ExecutionId>,
    /// Of each pair that is backlogged: how far the first is ahead since then, and the least and the most of that.
    ahead: BTreeMap<(usize, usize), [i64; 3]>,
    n_judged: u64,
}

/// Each worker has it.
const WORK: &str = ACTIONS[0];

impl TurnsJudge {
    /// A plan is handed in. Where two have one id, only what holds for both is known.
    pub(crate) fn handed_in(&mut self, id: ExecutionId, place: usize, request: &Request) {
        let plan = request.plan();
        let steps = plan.canonical_order().iter().map(|index| plan.step(*index));
        let mut first = steps
            .filter(|step| step.depends_on().is_empty())
            .take(request.max_concurrent_steps() as usize);
        let now = HandedIn {
            place,
            begins_with_work: first.any(|step| step.action() == WORK),
            names_parent: request.parent_execution_id().is_some(),
        };
        let known = self.handed_in.entry(id).or_insert(now);
        known.begins_with_work &= now.begins_with_work;
        known.names_parent |= now.names_parent;
    }

    /// A process begins, with these on its disk.
    pub(crate) fn begins(&mut self, unsettled: impl IntoIterator<Item = ExecutionId>, shares: &Shares) {
        self.judge();
        self.soon.extend(unsettled.into_iter().map(Event::Waits));
        self.shares_change(shares);
    }

    /// These hold from the next batch on.
    pub(crate) fn shares_change(&mut self, shares: &Shares) {
        self.events.push(Event::SharesEnd);
        self.soon.push(Event::Shares(shares.clone()));
    }

    /// A worker's message has come.
    pub(crate) fn heard(&mut self, session: SessionKey, message: &FromWorker) {
        let offers = |actions: &[escapement_engine::ActionSpec]| actions.iter().any(|one| one.name == WORK);
        match message {
            FromWorker::Hello(hello) if offers(&hello.actions) => {
                self.greeting.insert(session);
            }
            FromWorker::RegisterActions { actions, .. } if !offers(actions) => self.session_leaves(session),
            FromWorker::AttemptAcks { rejected, .. }
                if rejected
                    .iter()
                    .any(|(_, why)| *why == RejectReason::UnknownAction) =>
            {
                self.session_leaves(session);
            }
            FromWorker::Drain | FromWorker::Goodbye => self.session_leaves(session),
            _ => {}
        }
    }

    /// A message to a worker leaves.
    pub(crate) fn said(&mut self, session: SessionKey, message: &ToWorker) {
        match message {
            ToWorker::Welcome(_) if self.greeting.contains(&session) => {
                self.offering_soon.insert(session);
            }
            ToWorker::DrainStarted { .. } | ToWorker::SessionError { .. } => self.session_leaves(session),
            _ => {}
        }
    }

    /// Whatever it offers is not certain any more.
    pub(crate) fn session_leaves(&mut self, session: SessionKey) {
        self.greeting.remove(&session);
        self.offering_soon.remove(&session);
        if self.offering.remove(&session) && self.offering.is_empty() {
            self.events.push(Event::Offered(false));
        }
    }

    /// The orchestrator wants this written.
    pub(crate) fn decided(&mut self, write: &StoreWrite) {
        match write {
            StoreWrite::Accept {
                execution_id,
                started_at,
                ..
            } => {
                let starts = started_at.is_some();
                if starts {
                    self.started.insert(*execution_id);
                }
                self.events.push(Event::Accepting(*execution_id, starts));
            }
            StoreWrite::Start { execution_id, .. } => {
                // A write that failed is wanted again.
                if self.started.insert(*execution_id) {
                    self.events.push(Event::Starts(*execution_id));
                }
            }
            StoreWrite::Settle { settlement, .. } => {
                let id = settlement.result.execution_id;
                if !self.started.contains(&id) {
                    self.events.push(Event::EndsUnstarted(id));
                }
            }
            StoreWrite::RememberActions { .. } => {}
        }
    }

    /// The store has answered.
    pub(crate) fn answered(&mut self, write: &StoreWrite, is_durable: bool) {
        match write {
            StoreWrite::Accept { execution_id, .. } if !is_durable => {
                self.started.remove(execution_id);
                self.soon.push(Event::Refused(*execution_id));
            }
            StoreWrite::Accept {
                execution_id,
                started_at: None,
                ..
            } => self.soon.push(Event::Waits(*execution_id)),
            StoreWrite::Settle { settlement, .. } if is_durable => {
                self.soon.push(Event::Settled(settlement.result.execution_id));
            }
            _ => {}
        }
    }

    /// The engine has had everything that came so far.
    pub(crate) fn batch_ended(&mut self) {
        if self.offering.is_empty() && !self.offering_soon.is_empty() {
            self.events.push(Event::Offered(true));
        }
        self.offering.append(&mut self.offering_soon);
        self.events.append(&mut self.soon);
    }

    /// The process is over.
    pub(crate) fn judge(&mut self) {
        let ended = std::mem::take(self);
        let mut course = Course::default();
        for event in &ended.events {
            course.follow(event, &ended);
        }
        self.n_judged = ended.n_judged + course.n_judged;
        self.handed_in = ended.handed_in;
    }
}

impl Course {
    fn follow(&mut self, event: &Event, judge: &TurnsJudge) {
        let known = |id: &ExecutionId| judge.handed_in[id];
        match event {
            Event::SharesEnd => self.shares = None,
            Event::Shares(shares) => self.shares = Some(shares.clone()),
            Event::Offered(is_offered) => self.is_offered = *is_offered,
            Event::Accepting(id, starts) => {
                let HandedIn {
                    place, names_parent, ..
                } = known(id);
                let other = (0..NAMES.len()).find(|place| self.is_backlogged(*place));
                assert!(
                    !starts || names_parent || other.is_none(),
                    "{id} starts with its accept, and executions of {} wait that may start",
                    NAMES[other.unwrap_or_default()]
                );
                self.running[place].insert(*id);
            }
            Event::Refused(id) => {
                self.running[known(id).place].remove(id);
            }
            Event::Waits(id) => {
                let HandedIn {
                    place,
                    begins_with_work,
                    ..
                } = known(id);
                if !self.started.contains(id) && !self.ending.contains(id) {
                    self.running[place].remove(id);
                    if begins_with_work && judge.started.contains(id) {
                        self.waiting[place].insert(*id);
                    }
                }
            }
            Event::Starts(id) => {
                let place = known(id).place;
                self.note_start(place, *id);
                self.waiting[place].remove(id);
                self.running[place].insert(*id);
                self.started.insert(*id);
            }
            Event::EndsUnstarted(id) => {
                let place = known(id).place;
                self.ahead
                    .retain(|(one, other), _| *one != place && *other != place);
                self.running[place].insert(*id);
                self.ending.insert(*id);
            }
            Event::Settled(id) => {
                self.running[known(id).place].remove(id);
            }
        }
        self.look();
    }

    /// Of the namespace something waits, and nothing but slots and turns keeps it from starting.
    fn is_backlogged(&self, place: usize) -> bool {
        let has_room = |shares: &Shares| {
            let running_max = shares.running_max(place);
            running_max.is_none_or(|running_max| self.running[place].len() < running_max as usize)
        };
        self.is_offered && !self.waiting[place].is_empty() && self.shares.as_ref().is_some_and(has_room)
    }

    fn look(&mut self) {
        let backlogged: Vec<usize> = (0..NAMES.len())
            .filter(|place| self.is_backlogged(*place))
            .collect();
        let both = |one: &usize, other: &usize| backlogged.contains(one) && backlogged.contains(other);
        self.ahead.retain(|(one, other), _| both(one, other));
        for one in &backlogged {
            for other in backlogged.iter().filter(|other| *other > one) {
                self.ahead.entry((*one, *other)).or_default();
            }
        }
    }

    fn note_start(&mut self, place: usize, id: ExecutionId) {
        let Some(shares) = &self.shares else { return };
        let weight = |place: usize| i64::from(shares.weight(place));
        let mut is_judged = false;
        for ((one, other), [ahead, least, most]) in &mut self.ahead {
            // Both counts are multiplied by both weights, so that all numbers are whole.
            *ahead += match place {
                by if by == *one => weight(*other),
                by if by == *other => -weight(*one),
                _ => continue,
            };
            is_judged = true;
            (*least, *most) = ((*least).min(*ahead), (*most).max(*ahead));
            assert!(
                *most - *least <= weight(*one) + weight(*other),
                "with {id}, {} and {} are further apart than one start of each, by weights {} and {}",
                NAMES[*one],
                NAMES[*other],
                weight(*one),
                weight(*other)
            );
        }
        self.n_judged += u64::from(is_judged);
    }
}
