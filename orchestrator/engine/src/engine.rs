//! The state machine itself: which input goes to which owner, and what one owner's answer means for the others.

mod attempts;
mod dispatch;
mod drive;
mod explain;
mod operators;
mod queue;
mod sessions;
mod submit;

use crate::config::EngineConfig;
use crate::drain::Drain;
use crate::effect::Effect;
use crate::executions::Executions;
use crate::fleet::{Due, Fleet};
use crate::input::Input;
use crate::queue::Queue;
use crate::turn::Turn;
use alloc::sync::Arc;
use escapement_contract::{Evidence, Moment};

/// All executions and all workers of one orchestrator.
#[derive(Debug)]
pub struct Engine {
    config: Arc<EngineConfig>,
    turn: Turn,
    executions: Executions,
    queue: Queue,
    fleet: Fleet,
    drain: Drain,
}

impl Engine {
    /// Creates an engine with nothing in it. `now` is the start of this process lifetime.
    pub fn new(config: EngineConfig, now: Moment) -> Self {
        assert!(
            config.max_running_executions >= 1,
            "one execution at least must be able to run"
        );
        assert!(
            config.queued_in_memory_max >= 1,
            "what runs next must fit into memory"
        );
        let config = Arc::new(config);
        Self {
            turn: Turn::new(now),
            executions: Executions::new(Arc::clone(&config)),
            queue: Queue::new(Arc::clone(&config)),
            fleet: Fleet::new(Arc::clone(&config), now.monotonic_ms),
            drain: Drain::default(),
            config,
        }
    }

    /// Takes one input. Timers that are due by `now` fire before it.
    ///
    /// # Panics
    /// When time runs backwards: the shell brings a monotonic clock.
    pub fn handle(&mut self, now: Moment, input: Input) {
        self.fire_due_timers(now);
        match input {
            Input::ShareOut(shares) => self.queue.share_out(shares),
            Input::Submit(submission) => self.submit(submission),
            Input::Wait { caller, execution_id } => self.wait(caller, execution_id),
            Input::Describe { caller, execution_id } => {
                let view = self.executions.describe(execution_id);
                self.turn.reply(caller, view);
            }
            Input::Explain { caller, execution_id } => self.explain(caller, execution_id),
            Input::Watch(watch) => self.watch(watch),
            Input::CallerGone(caller) => self.forget_caller(caller),
            Input::ListWorkers(caller) => {
                let workers = self.fleet.worker_views(&self.turn);
                self.turn.reply(caller, workers);
            }
            Input::ListActions(caller) => {
                let n_held_for = |action| self.queue.n_held_for(action);
                let actions = self.fleet.action_views(n_held_for, &self.turn);
                self.turn.reply(caller, actions);
            }
            Input::FindAttempts { caller, tokens } => {
                let standings = tokens.into_iter().map(|token| self.attempt_standing(token));
                let standings = standings.collect();
                self.turn.reply(caller, standings);
            }
            Input::ReportOutcomes { caller, items } => self.report_outcomes(caller, items),
            Input::DrainWorker { caller, worker } => {
                let drained = self.fleet.drain_worker(&worker, &mut self.turn);
                self.turn.reply(caller, drained);
            }
            Input::ForgetAction { caller, name } => self.forget_action(caller, &name),
            Input::DeclareWorkerDead { caller, instance_id } => self.declare_worker_dead(caller, instance_id),
            Input::RecoverAction(memory) => self.fleet.recover_action(memory, &self.turn),
            Input::Recover(recovered) => self.recover(recovered),
            Input::RecoverParked(recovered) => self.recover_parked(&recovered),
            Input::Loaded {
                execution_id,
                outcome,
            } => self.loaded(execution_id, outcome),
            Input::Stored { write, outcome } => self.stored(write, outcome),
            Input::SessionOpened { session, session_id } => {
                self.fleet.session_opened(session, session_id, &self.turn);
            }
            Input::SessionMessage {
                session,
                seq,
                message,
            } => self.session_message(session, seq, message),
            Input::SessionClosed(session) => self.fleet.session_closed(session, &self.turn),
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
        self.queue.load_requests(self.drain.is_on(), &mut self.turn);
        self.fleet.write_memories(&mut self.turn);
        self.fleet.flush_sessions(&mut self.turn);
        self.finish_drain();
    }

    /// The next thing to do, in order.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.turn.poll()
    }

    /// Returns the time at which the engine wants a `Tick`, in monotonic milliseconds; `None`: not until something happens.
    pub fn next_due_ms(&self) -> Option<u64> {
        self.next_timer_ms()
            .into_iter()
            .chain(self.queue.next_expiry_ms())
            .min()
    }

    fn next_timer_ms(&self) -> Option<u64> {
        let due_ms = [
            self.executions.next_due_ms(),
            self.fleet.next_due_ms(),
            self.queue.next_due_ms(),
            self.drain.next_due_ms(),
        ];
        due_ms.into_iter().flatten().min()
    }

    /// Executions that are accepted and not settled.
    pub fn live_executions(&self) -> usize {
        self.executions.len() + self.queue.n_parked()
    }

    /// The same by where they stand.
    pub fn census(&self) -> Census {
        let (waiting, parked) = (self.queue.n_waiting(), self.queue.n_parked());
        Census {
            queued: waiting + parked,
            running: self.executions.len() - waiting,
            parked,
        }
    }

    fn fire_due_timers(&mut self, now: Moment) {
        self.forgive_pause(now);
        self.turn.advance(now);
        self.queue.expire(now.monotonic_ms);
        // Executions come first, so that a limit precedes all else.
        while let Some(due_ms) = self.next_timer_ms().filter(|due_ms| *due_ms <= now.monotonic_ms) {
            if self.executions.next_due_ms() == Some(due_ms) {
                if let Some(key) = self.executions.handle_due(&mut self.turn) {
                    self.tick(key);
                }
            } else if self.fleet.next_due_ms() == Some(due_ms) {
                self.fire_fleet();
            } else if self.queue.next_due_ms() == Some(due_ms) {
                self.queue.handle_due();
            } else {
                self.drain.handle_due();
            }
        }
    }

    fn fire_fleet(&mut self) {
        match self.fleet.handle_due(&mut self.turn) {
            Some(Due::LeaseOver(session)) => {
                self.lose_session(session, Evidence::LeaseExpired);
            }
            Some(Due::Absent) => {
                for action in self.fleet.absent_actions(&self.turn) {
                    if self.queue.holds_back_for(action) {
                        self.fleet.note_held(&[action], &mut self.turn);
                    }
                }
            }
            None => {}
        }
    }

    /// A process that was stopped for a while read no heartbeats meanwhile: no worker is declared dead for that, and no
    /// action forgotten.
    fn forgive_pause(&mut self, now: Moment) {
        let since_ms = now.monotonic_ms.saturating_sub(self.turn.now_ms());
        let due_ms = self.next_timer_ms();
        let is_late = due_ms.is_some_and(|due_ms| now.monotonic_ms.saturating_sub(due_ms) > PAUSE_MS);
        if is_late && since_ms > PAUSE_MS {
            self.fleet.forgive_pause(now.monotonic_ms, since_ms, &self.turn);
        }
    }

    fn start_drain(&mut self, grace_ms: u64) {
        if self.drain.start(self.turn.now_ms(), grace_ms) {
            self.tell_all_reconnect();
        }
    }

    /// Reports once that nothing runs and nothing is being written, or that the grace is over.
    fn finish_drain(&mut self) {
        let n_unfinished = self.executions.len() - self.queue.n_waiting();
        if self
            .drain
            .end_if_done(!self.executions.is_writing() && n_unfinished == 0)
        {
            self.tell_all_reconnect();
            self.turn.push(Effect::Drained { n_unfinished });
        }
    }

    fn tell_all_reconnect(&mut self) {
        if let Some(left_ms) = self.drain.left_ms(self.turn.now_ms()) {
            self.fleet.tell_all_reconnect(left_ms, &mut self.turn);
        }
    }
}

/// How many executions there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// They wait for their start, or for the write of their accept before that.
    pub queued: usize,
    /// They run, or are being settled.
    pub running: usize,
    /// Those that are queued and have their requests on the disk only.
    pub parked: usize,
}

/// A tick that comes this late means that the whole process stood still.
const PAUSE_MS: u64 = 1_000;
