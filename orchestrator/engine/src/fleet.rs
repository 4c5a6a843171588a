//! The workers: their sessions, what they offer, what they have, and the steps that wait for them.
//! Knows executions by their keys alone: what one of them has to be told is returned as a [`Told`].

mod action;
mod allowance;
mod attempt;
mod free;
mod last_hello;
mod message_split;
mod recent;
mod registrations;
mod session;
mod snapshots;

mod action_memory;
mod actions;
mod attempts;
mod cancel;
mod deaf;
mod dispatch;
mod explain;
mod hello;
mod lease;
mod messages;
mod offering;
mod operators;
mod refusal;
mod registration;
mod send;
mod session_end;
mod snapshot;
#[cfg(test)]
mod tests;
mod views;
mod waiting;

use crate::config::EngineConfig;
use crate::keys::{ActionKey, ExecutionKey, SessionKey};
use crate::limits::ACTIONS_BYTES_MAX;
use crate::timers::Timers;
use crate::turn::Turn;
use crate::worker::AckVerdict;
use action::{Action, QueueKey, RefusedBy, Waiting, WaitingKey};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use escapement_contract::{Input as ContractInput, StepIndex};
use escapement_model::ledger::Ledger;
use escapement_model::{AttemptToken, InstanceId};
use last_hello::LastHello;
use recent::Recent;
use registrations::Registrations;
use session::Session;

pub(crate) use attempt::Attempt;
pub(crate) use dispatch::{ReadyStep, Work};
pub(crate) use hello::{Greeted, TakeOver};
pub(crate) use registration::Forgotten;
pub(crate) use session_end::Gone;

/// All sessions, actions, attempts in flight and waiting steps.
#[derive(Debug)]
pub(crate) struct Fleet {
    config: Arc<EngineConfig>,
    timers: Timers<Timer>,
    sessions: BTreeMap<SessionKey, Session>,
    instances: BTreeMap<InstanceId, SessionKey>,
    attempts: BTreeMap<AttemptToken, Attempt>,
    /// Steps that wait for a worker, or that one has.
    steps: BTreeMap<(ExecutionKey, StepIndex), StepState>,
    /// Which workers have refused the attempt under way of a step.
    refused: BTreeMap<(ExecutionKey, StepIndex), RefusedBy>,
    /// Attempts whose action is not registered; settled at the end of the batch.
    not_found: Vec<Waiting>,
    /// What a repeated outcome of an attempt that ended is told.
    ended: Recent<AttemptToken, AckVerdict>,
    /// Processes that get no new work, whichever session they come back with.
    drained: Recent<InstanceId, ()>,
    /// The last hello of processes that have no session.
    last_hellos: Recent<InstanceId, LastHello>,
    tokens_made: u64,
    actions: BTreeMap<ActionKey, Action>,
    /// Bytes that they take, of each owner.
    action_bytes: Ledger,
    names: BTreeMap<Arc<str>, ActionKey>,
    last_action: u64,
    /// Queues in which at least one step waits and to which a step or a free session came since no session was found
    /// for them.
    servable: BTreeSet<QueueKey>,
    /// Queues in which at least one step waits.
    n_queues: usize,
    /// Sessions whose load has changed since they were indexed under any of their actions.
    changed: BTreeSet<SessionKey>,
    /// Sessions whose index entries are stale for actions for which no step waited.
    stale: BTreeSet<SessionKey>,
    /// Sessions with something to send.
    unflushed: BTreeSet<SessionKey>,
    /// Until then a loss may be the network's: many sessions were counted as silent.
    many_are_silent_until_ms: u64,
    registrations: Registrations,
}

/// What a timer is for. The order decides ties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// The lease of a session, with its margin, runs out.
    Lease(SessionKey),
    /// Cancels that were not answered are sent again.
    Cancels(SessionKey),
    /// A session that had no room is tried again.
    Pause(SessionKey),
    /// A session may have to be asked what it has.
    Snapshot(SessionKey),
    /// The registration of an action that no session offers ends.
    Registration(ActionKey),
    /// Registrations are written to the store, and steps whose actions are not registered are counted in the log.
    Registrations,
}

/// What is due and concerns more than the fleet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Due {
    /// The session is over, and what it had is to be settled.
    LeaseOver(SessionKey),
    /// The operator is told which actions executions are held back for, among these that no session offers.
    Absent,
}

/// Where a step stands.
#[derive(Clone, Debug)]
enum StepState {
    Waiting(QueueKey, WaitingKey),
    Held(AttemptToken),
}

/// What an execution is told about one of its attempts.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) execution: ExecutionKey,
    pub(crate) input: ContractInput,
}

impl Fleet {
    /// Creates a fleet without workers. Declared actions are there from the start.
    pub(crate) fn new(config: Arc<EngineConfig>, now_ms: u64) -> Self {
        let boot_grace_until_ms = now_ms.saturating_add(config.registration_grace_ms);
        let registrations = Registrations::new(boot_grace_until_ms, config.declared_actions.clone());
        let mut fleet = Self {
            config,
            timers: Timers::new(),
            sessions: BTreeMap::new(),
            instances: BTreeMap::new(),
            attempts: BTreeMap::new(),
            steps: BTreeMap::new(),
            refused: BTreeMap::new(),
            not_found: Vec::new(),
            ended: Recent::default(),
            drained: Recent::default(),
            last_hellos: Recent::default(),
            tokens_made: 0,
            actions: BTreeMap::new(),
            action_bytes: Ledger::new(ACTIONS_BYTES_MAX),
            names: BTreeMap::new(),
            last_action: 0,
            servable: BTreeSet::new(),
            n_queues: 0,
            changed: BTreeSet::new(),
            stale: BTreeSet::new(),
            unflushed: BTreeSet::new(),
            many_are_silent_until_ms: 0,
            registrations,
        };
        fleet.start_registrations();
        fleet
    }

    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        self.timers.next_due_ms()
    }

    /// Fires the first timer that is due.
    pub(crate) fn handle_due(&mut self, turn: &mut Turn) -> Option<Due> {
        match self.timers.pop_due(turn.now_ms())? {
            Timer::Lease(session) => {
                return self.lease_due(session, turn).then_some(Due::LeaseOver(session));
            }
            Timer::Cancels(session) => self.repeat_cancels(session, turn),
            Timer::Pause(session) => self.pause_over(session),
            Timer::Snapshot(session) => self.snapshot_due(session, turn),
            Timer::Registration(action) => self.registration_over(action, turn),
            Timer::Registrations => {
                self.look_at_registrations(turn);
                return Some(Due::Absent);
            }
        }
        None
    }

    /// How many attempts of an execution workers have.
    pub(crate) fn n_attempts_of(&self, execution: ExecutionKey) -> usize {
        let steps = self.steps_of(execution);
        steps
            .filter(|(_, state)| matches!(state, StepState::Held(_)))
            .count()
    }

    /// Returns true if a step of an execution waits for a worker, or if one has it.
    pub(crate) fn has_steps_of(&self, execution: ExecutionKey) -> bool {
        self.steps_of(execution).next().is_some()
    }

    fn steps_of(&self, execution: ExecutionKey) -> impl Iterator<Item = (StepIndex, &StepState)> {
        let steps = self.steps.range((execution, StepIndex::FIRST)..);
        let steps = steps.take_while(move |((other, _), _)| *other == execution);
        steps.map(|((_, step), state)| (*step, state))
    }
}
