//! The state machine itself: which input goes where. What each input means stands in the modules beside this one.

use crate::admission::Admission;
use crate::config::EngineConfig;
use crate::drain::Drain;
use crate::effect::{Effect, Reply, StoreWrite};
use crate::fleet::{ActionKey, Fleet, Registrations};
use crate::input::{CallerId, Input, SessionKey, WriteId};
use crate::live::{ExecutionKey, LiveSet};
use crate::parked::ParkedSet;
use crate::timers::Timers;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use escapement_contract::{Moment, StepIndex};

/// All executions and all workers of one orchestrator.
#[derive(Debug)]
pub struct Engine {
    pub(crate) config: EngineConfig,
    pub(crate) now: Moment,
    pub(crate) live: LiveSet,
    pub(crate) admission: Admission,
    pub(crate) parked: ParkedSet,
    /// Executions that were asked for because their deadlines were over, and are not settled.
    pub(crate) n_overdue: usize,
    /// True for a while after a request could not be read.
    pub(crate) loads_paused: bool,
    /// How often in a row that happened.
    pub(crate) load_failures: u32,
    pub(crate) fleet: Fleet,
    pub(crate) timers: Timers<Timer>,
    pub(crate) writes: BTreeMap<WriteId, PendingWrite>,
    pub(crate) next_write: u64,
    /// Writes that wait for space; no request is accepted meanwhile.
    pub(crate) n_waiting_for_space: usize,
    /// Attempts whose action nobody offers; settled at the end of the batch.
    pub(crate) not_found: Vec<(ExecutionKey, StepIndex, u32)>,
    /// What each caller that waits is waiting for.
    pub(crate) callers: BTreeMap<CallerId, ExecutionKey>,
    pub(crate) drain: Option<Drain>,
    pub(crate) effects: VecDeque<Effect>,
}

/// What a timer is for. The order decides ties: executions first, so that a limit precedes all else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// The earliest timer of an execution's own.
    Execution(ExecutionKey),
    /// A failed write is tried again.
    Write(WriteId),
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
    /// The store is told of registrations, and the log of steps whose actions are not registered.
    Registrations,
    /// Requests that could not be read are asked for again.
    Loads,
    /// The drain's grace ends.
    Drain,
}

/// A write that the store has not answered.
#[derive(Debug)]
pub(crate) struct PendingWrite {
    pub(crate) key: ExecutionKey,
    pub(crate) content: StoreWrite,
    /// How often it failed.
    pub(crate) failures: u32,
    /// How often of these for another reason than want of space.
    pub(crate) failures_bounded: u32,
    /// It failed last for want of space.
    pub(crate) waits_for_space: bool,
}

impl Engine {
    /// An engine with nothing in it. `now` is the start of this process lifetime.
    pub fn new(config: EngineConfig, now: Moment) -> Self {
        assert!(
            config.max_running_executions >= 1,
            "one execution at least must be able to run"
        );
        assert!(
            config.queued_in_memory_max >= 1,
            "what runs next must fit into memory"
        );
        let boot_grace_until_ms = now.monotonic_ms.saturating_add(config.registration_grace_ms);
        let fleet = Fleet::new(Registrations::new(
            boot_grace_until_ms,
            config.declared_actions.clone(),
        ));
        let mut engine = Self {
            config,
            now,
            live: LiveSet::default(),
            admission: Admission::default(),
            parked: ParkedSet::default(),
            n_overdue: 0,
            loads_paused: false,
            load_failures: 0,
            fleet,
            timers: Timers::new(),
            writes: BTreeMap::new(),
            next_write: 0,
            n_waiting_for_space: 0,
            not_found: Vec::new(),
            callers: BTreeMap::new(),
            drain: None,
            effects: VecDeque::new(),
        };
        engine.start_registrations();
        engine
    }

    /// Takes one input. Timers that are due by `now` fire before it.
    ///
    /// # Panics
    /// When time runs backwards: the shell brings a monotonic clock.
    pub fn handle(&mut self, now: Moment, input: Input) {
        assert!(now.monotonic_ms >= self.now.monotonic_ms, "time runs forwards");
        self.fire_due_timers(now);
        match input {
            Input::Submit(submission) => self.submit(submission),
            Input::Wait { caller, execution_id } => self.wait(caller, execution_id),
            Input::Describe { caller, execution_id } => self.describe(caller, execution_id),
            Input::Explain { caller, execution_id } => self.explain(caller, execution_id),
            Input::Watch(watch) => self.watch(watch),
            Input::CallerGone(caller) => self.forget_caller(caller),
            Input::ListWorkers(caller) => self.reply(caller, Reply::Workers(self.worker_views())),
            Input::ListActions(caller) => self.reply(caller, Reply::Actions(self.action_views())),
            Input::ReportOutcomes { caller, items } => self.report_outcomes(caller, items),
            Input::DrainWorker { caller, worker } => self.drain_worker(caller, &worker),
            Input::ForgetAction { caller, name } => self.forget_registration(caller, &name),
            Input::DeclareWorkerDead { caller, instance_id } => self.declare_worker_dead(caller, instance_id),
            Input::RecoverAction(memory) => self.recover_action(memory),
            Input::Recover(recovered) => self.recover(recovered),
            Input::RecoverParked(recovered) => self.recover_parked(recovered),
            Input::Loaded {
                execution_id,
                outcome,
            } => self.loaded(execution_id, outcome),
            Input::Stored { write, outcome } => self.stored(write, outcome),
            Input::SessionOpened { session, session_id } => self.session_opened(session, session_id),
            Input::SessionMessage {
                session,
                seq,
                message,
            } => self.session_message(session, seq, message),
            Input::SessionClosed(session) => self.session_closed(session),
            Input::Tick => {}
            Input::Drain { grace_ms } => self.start_drain(grace_ms),
        }
    }

    /// Ends a batch of inputs: admits, hands out, and puts together what goes to the workers.
    pub fn finish_batch(&mut self, now: Moment) {
        self.fire_due_timers(now);
        self.follow_changes();
        self.park_excess();
        self.dispatch();
        self.load_requests();
        self.write_memories();
        self.flush_sessions();
        self.finish_drain();
    }

    /// The next thing to do, in order.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When the engine wants a `Tick`, in monotonic milliseconds; `None`: not until something happens.
    pub fn next_due_ms(&self) -> Option<u64> {
        let parked = self.parked.next_due_ms();
        self.timers.next_due_ms().into_iter().chain(parked).min()
    }

    /// Executions that are accepted and not settled.
    pub fn live_executions(&self) -> usize {
        self.live.len() + self.parked.len()
    }

    fn fire_due_timers(&mut self, now: Moment) {
        self.forgive_pause(now);
        self.now = now;
        self.parked.expire(now.monotonic_ms, &self.admission.needs);
        while let Some(timer) = self.timers.pop_due(now.monotonic_ms) {
            match timer {
                Timer::Execution(key) => self.execution_due(key),
                Timer::Write(write) => self.write_again(write),
                Timer::Lease(session) => self.lease_due(session),
                Timer::Cancels(session) => self.repeat_cancels(session),
                Timer::Pause(session) => self.pause_over(session),
                Timer::Snapshot(session) => self.snapshot_due(session),
                Timer::Registration(action) => self.registration_over(action),
                Timer::Registrations => self.look_at_registrations(),
                Timer::Loads => self.loads_paused = false,
                Timer::Drain => self.drain_due(),
            }
        }
    }

    /// A process that was stopped for a while read no heartbeats meanwhile: no worker is declared dead for that, and no
    /// action forgotten.
    fn forgive_pause(&mut self, now: Moment) {
        let since = now.monotonic_ms - self.now.monotonic_ms;
        let late = self
            .timers
            .next_due_ms()
            .is_some_and(|due| now.monotonic_ms.saturating_sub(due) > PAUSE_MS);
        if late && since > PAUSE_MS {
            self.renew_leases(now.monotonic_ms);
            self.extend_registrations(since);
        }
    }

    pub(crate) fn reply(&mut self, caller: CallerId, reply: Reply) {
        self.effects.push_back(Effect::Reply { caller, reply });
    }

    pub(crate) fn write(&mut self, key: ExecutionKey, content: StoreWrite) {
        self.next_write += 1;
        let write = WriteId(self.next_write);
        self.effects.push_back(Effect::Write {
            write,
            content: content.clone(),
        });
        self.writes.insert(
            write,
            PendingWrite {
                key,
                content,
                failures: 0,
                failures_bounded: 0,
                waits_for_space: false,
            },
        );
    }
}

/// A tick that comes this late means that the whole process stood still.
const PAUSE_MS: u64 = 1_000;
