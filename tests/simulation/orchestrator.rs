//! The orchestrator's process: the real engine, what waits for it, and who waits for its answers.
//! Moves no message: see `world`.

use crate::callers::{CallNumber, Question};
use crate::dice::Dice;
use crate::scenario::Scenario;
use crate::truth::{ProcessKey, Report};
use crate::watching::WHOLE;
use escapement_codec::session_out::Greeting;
use escapement_contract::Moment;
use escapement_engine::{Caller, CallerId, Engine, EngineConfig, Input, SessionKey, Watch};
use escapement_model::limits::{HEARTBEAT_INTERVAL_MS, LEASE_MS};
use escapement_model::{AttemptToken, BootId, ExecutionId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One process of the orchestrator.
pub(crate) struct Orchestrator {
    pub(crate) engine: Engine,
    /// 1 for the first process.
    pub(crate) boot: u64,
    pub(crate) boot_id: BootId,
    pub(crate) greeting: Greeting,
    began_at_ms: u64,
    /// It stands still until then.
    pub(crate) frozen_until_ms: u64,
    pub(crate) inbox: Vec<Input>,
    next_session: u64,
    next_caller: u64,
    pub(crate) callers: BTreeMap<CallerId, Call>,
    /// Those who left before they were answered.
    pub(crate) gone: BTreeSet<CallerId>,
    /// Executions that somebody watches.
    pub(crate) watched: BTreeSet<ExecutionId>,
    /// Who holds which session.
    pub(crate) sessions: BTreeMap<SessionKey, ProcessKey>,
    /// It was told to stop.
    pub(crate) is_draining: bool,
    /// It said that it may exit: nothing is handed out any more.
    pub(crate) is_drained: bool,
}

/// A call that waits for its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// Somebody out there waits for it.
    Asked(CallNumber, Question),
    /// Looks over the orchestrator's shoulder, so that what it shows can be compared with what is so; from this entry on.
    Follow(ExecutionId, u64),
    Report(Vec<(AttemptToken, Report)>),
    Operate,
    /// Asks whether everything has come to rest.
    Workers,
    Actions,
}

impl Orchestrator {
    pub(crate) fn new(boot: u64, now_ms: u64, unix_ms: i64, scenario: &Scenario, dice: &mut Dice) -> Self {
        let boot_id = BootId::new(dice.bytes());
        let mut key = [0; 32];
        key[..16].copy_from_slice(&dice.bytes());
        let mut config = EngineConfig::new(boot_id, key);
        config.max_running_executions = scenario.max_running_executions;
        config.max_live_executions = scenario.max_live_executions;
        config.queued_in_memory_max = scenario.queued_in_memory_max;
        let start = Moment {
            monotonic_ms: 0,
            unix_ms,
        };
        Self {
            engine: Engine::new(config, start),
            boot,
            boot_id,
            greeting: Greeting {
                boot_id,
                heartbeat_interval_ms: HEARTBEAT_INTERVAL_MS,
                lease_ms: LEASE_MS,
                peers: Arc::from([]),
            },
            began_at_ms: now_ms,
            frozen_until_ms: 0,
            inbox: Vec::new(),
            next_session: 1,
            next_caller: 1,
            callers: BTreeMap::new(),
            gone: BTreeSet::new(),
            watched: BTreeSet::new(),
            sessions: BTreeMap::new(),
            is_draining: false,
            is_drained: false,
        }
    }

    /// The process's own clocks.
    pub(crate) fn moment(&self, now_ms: u64, unix_ms: i64) -> Moment {
        Moment {
            monotonic_ms: now_ms - self.began_at_ms,
            unix_ms,
        }
    }

    /// When it has something to do, on the world's clock.
    pub(crate) fn due_at_ms(&self, now_ms: u64) -> Option<u64> {
        let due_ms = self
            .engine
            .next_due_ms()
            .map(|due_ms| due_ms.saturating_add(self.began_at_ms));
        let due_ms = if self.inbox.is_empty() {
            due_ms
        } else {
            Some(now_ms)
        };
        due_ms.map(|due_ms| due_ms.max(self.frozen_until_ms))
    }

    pub(crate) fn new_session(&mut self) -> SessionKey {
        let key = SessionKey(self.next_session);
        self.next_session += 1;
        key
    }

    /// Follows an execution from its first entry on, once.
    pub(crate) fn follow(&mut self, execution_id: ExecutionId) {
        if self.watched.insert(execution_id) {
            self.follow_on(execution_id, 1);
        }
    }

    pub(crate) fn follow_on(&mut self, execution_id: ExecutionId, from_sequence: u64) {
        self.call(Call::Follow(execution_id, from_sequence), |caller| {
            Input::Watch(Watch {
                caller,
                execution_id,
                from_sequence,
                after_hash: None,
                piece: WHOLE,
                waits: true,
            })
        });
    }

    /// A caller does not wait any more.
    pub(crate) fn leaves(&mut self, caller: CallerId) -> Option<Call> {
        let about = self.callers.remove(&caller)?;
        self.gone.insert(caller);
        self.inbox.push(Input::CallerGone(caller));
        Some(about)
    }

    /// Queues a call and remembers who waits.
    pub(crate) fn call<A>(&mut self, call: Call, input: impl FnOnce(Caller<A>) -> Input) {
        let caller = CallerId(self.next_caller);
        self.next_caller += 1;
        self.callers.insert(caller, call);
        self.inbox.push(input(caller.into()));
    }
}
