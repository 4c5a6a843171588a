//! Which queued executions keep their requests in memory, and when a request is read back. Reads nothing itself.
//!
//! In memory are the first of those that may start, up to a limit, and those that somebody watches; what is held back
//! fills what is left. Whatever else waits is parked: its request is asked for when its turn comes near, when its
//! deadline is over, and when somebody wants to watch it.

use crate::answer::{Caller, Ended, Refusal, Submitted, Watched};
use crate::clock::WallClock;
use crate::durable::DurableAccept;
use crate::effect::Effect;
use crate::engine::{Engine, Timer};
use crate::input::{LoadOutcome, Recovered, RecoveredParked, Submitter, Watch};
use crate::keys::ExecutionKey;
use crate::limits::{LOADS_AHEAD_MAX, LOADS_WATCHED_MAX, OVERDUE_LOADED_MAX};
use crate::live::Stage;
use crate::need::NeedKey;
use crate::parked::{Interest, Load, Parked};
use crate::submit::new_live;
use alloc::sync::Arc;
use escapement_contract::{Execution, Input as ContractInput, Phase, Request, due_at_unix};
use escapement_model::ExecutionId;

impl Engine {
    //
    /// Parks whatever is beyond the limit, what is held back before anything else, and what stands behind a parked
    /// execution that may start: then the first of those that may start are in memory.
    pub(crate) fn park_excess(&mut self) {
        loop {
            let is_beyond = self.admission.n_queued() > self.config.queued_in_memory_max;
            let held = self.admission.last_held().filter(|_| is_beyond);
            let open = self.admission.last_open().filter(|last| {
                let is_behind = self.parked.first_idle().is_some_and(|first| first < *last);
                is_beyond || is_behind
            });
            match held.or(open) {
                Some(last) => self.park(last.1),
                None => return,
            }
        }
    }

    fn park(&mut self, key: ExecutionKey) {
        let place = self.place_of(key);
        let live = self.live.at(key);
        let need = live.need.expect("what is parked has waited in the queue");
        if !live.watchers.is_empty() {
            return self.admission.pin(place, need);
        }
        let live = self.live.remove(key).expect("the key of a live execution");
        assert_eq!(
            live.execution.phase(),
            Phase::Queued,
            "what waits has not started"
        );
        self.admission.remove(place, need);
        self.timers.set(Timer::Execution(key), None);
        let due_ms = live.execution.next_due_ms();
        let parked = Parked {
            key,
            digest: *live.request.digest(),
            priority: live.request.plan().priority(),
            clock: live.clock,
            due_ms: due_ms.expect("a queued execution has a deadline"),
            need,
            load: Load::None,
        };
        let is_held = self.admission.needs.is_held(need);
        self.parked.insert(live.execution_id, parked, is_held);
        self.parked.add_waiters(key, live.waiters);
    }

    /// An execution from before the restart that waits beyond memory.
    pub(crate) fn recover_parked(&mut self, recovered: RecoveredParked) {
        let execution_id = recovered.execution_id;
        assert!(
            self.live.find(execution_id).is_none(),
            "the store holds each execution once"
        );
        let key = self.live.next_key();
        self.parked.insert(
            execution_id,
            Parked {
                key,
                digest: recovered.request_digest,
                priority: recovered.priority,
                clock: WallClock::set(self.turn.now()),
                //
                due_ms: due_at_unix(recovered.deadline_ms, self.turn.now()),
                // Its request is read once in its turn, and tells.
                need: NeedKey::NONE,
                load: Load::None,
            },
            false,
        );
    }

    /// Asks for requests, each kind within its own bounds, so that none holds up another.
    pub(crate) fn load_requests(&mut self) {
        if self.loads_paused {
            return;
        }
        while self.parked.n_watched() < LOADS_WATCHED_MAX
            && let Some(execution_id) = self.parked.ask_watched(&self.admission.needs)
        {
            self.turn.push(Effect::Load { execution_id });
        }
        // Those whose ends are not written yet count: on a full disk the rest waits where it takes no memory.
        while self.n_overdue < OVERDUE_LOADED_MAX
            && let Some(execution_id) = self.parked.ask_overdue(&self.admission.needs)
        {
            self.n_overdue += 1;
            self.turn.push(Effect::Load { execution_id });
        }
        if self.drain.is_on() {
            return;
        }
        while self.parked.n_ahead() < LOADS_AHEAD_MAX
            && self.admission.n_queued_open() + self.parked.n_ahead() < self.config.queued_in_memory_max
            && let Some(execution_id) = self.parked.ask_ahead(&self.admission.needs)
        {
            self.turn.push(Effect::Load { execution_id });
        }
    }

    pub(crate) fn loaded(&mut self, execution_id: ExecutionId, outcome: LoadOutcome) {
        match outcome {
            LoadOutcome::Loaded(recovered) => {
                self.load_failures = 0;
                self.unpark(recovered);
            }
            LoadOutcome::Damaged => {
                let (parked, interest) = self.parked.remove(execution_id, &self.admission.needs);
                self.give_back_need(parked.need);
                self.forget_overdue(parked.load == Load::Overdue);
                self.tell_not_live(interest);
            }
            LoadOutcome::Failed => {
                let now_ms = self.turn.now_ms();
                let parked = self.parked.put_back(execution_id, now_ms, &self.admission.needs);
                self.forget_overdue(parked.load == Load::Overdue);
                self.pause_loads();
            }
        }
    }

    /// Those that were under way together fail together, and count once.
    fn pause_loads(&mut self) {
        if !self.loads_paused {
            self.loads_paused = true;
            self.load_failures = self.load_failures.saturating_add(1);
            let due_ms = self
                .turn
                .now_ms()
                .saturating_add(self.retry_pause_ms(self.load_failures));
            self.timers.set(Timer::Loads, Some(due_ms));
        }
    }

    /// The execution is queued in memory from now on; where its deadline is over, it ends.
    fn unpark(&mut self, recovered: Recovered) {
        let accept = DurableAccept::of_recovered(&recovered);
        let Recovered {
            execution_id,
            request,
            accepted_at,
            deadline_ms,
            ..
        } = recovered;
        let (parked, interest) = self.parked.remove(execution_id, &self.admission.needs);
        let execution = Execution::accept(
            Arc::clone(&request),
            execution_id,
            accepted_at,
            deadline_ms,
            parked.clock.at(self.turn.now_ms()),
        );
        let mut live = new_live(execution, request, execution_id, parked.clock);
        live.stage = Stage::Durable(accept);
        live.counts_as_overdue = parked.load == Load::Overdue;
        live.waiters = interest.waiters;
        self.live.insert_at(parked.key, live);
        self.enter_queue(parked.key);
        self.give_back_need(parked.need);
        self.apply_input(parked.key, ContractInput::Tick)
            .expect("time always passes");
        for watch in interest.watches {
            self.callers.remove(&watch.caller.id);
            self.watch(watch);
        }
    }

    pub(crate) fn forget_overdue(&mut self, counts_as_overdue: bool) {
        if counts_as_overdue {
            self.n_overdue -= 1;
        }
    }

    /// The same id as a parked execution's.
    //
    pub(crate) fn attach_parked(&mut self, submitter: Submitter, parked: Parked, request: &Request) {
        if parked.digest != *request.digest() {
            return self.refuse(submitter, Refusal::ExecutionIdUsed);
        }
        match submitter {
            // The store shows the same as memory would.
            Submitter::ForAccept(caller) => self.turn.reply(caller, Submitted::NotLive),
            Submitter::ForEnd(caller) => self.wait_parked(caller, parked),
        }
    }

    pub(crate) fn wait_parked(&mut self, caller: Caller<Ended>, parked: Parked) {
        self.parked.add_waiters(parked.key, [caller]);
        self.callers.insert(caller.id, parked.key);
    }

    pub(crate) fn watch_parked(&mut self, watch: Watch) {
        let Some(key) = self.parked.find(watch.execution_id).map(|parked| parked.key) else {
            return self.turn.reply(watch.caller, Watched::NotLive);
        };
        self.callers.insert(watch.caller.id, key);
        self.parked.add_watch(watch);
    }

    /// An execution that nobody watches any more is parked like any other.
    pub(crate) fn unpin_unwatched(&mut self, key: ExecutionKey) {
        if let Some(live) = self.live.find_mut(key)
            && live.watchers.is_empty()
            && let Some(need) = live.need
        {
            let place = self.place_of(key);
            self.admission.unpin(place, need);
        }
    }

    /// The store says what is wrong with it.
    fn tell_not_live(&mut self, interest: Interest) {
        for caller in interest.waiters {
            self.callers.remove(&caller.id);
            self.turn.reply(caller, Ended::NotLive);
        }
        for watch in interest.watches {
            self.callers.remove(&watch.caller.id);
            self.turn.reply(watch.caller, Watched::NotLive);
        }
    }
}
