//! The orchestrator's process: the real host, what waits for it, and how callers and workers are known to it.
//! Moves no message: see `world`.

use crate::callers::{CallNumber, Question};
use crate::dice::Dice;
use crate::scenario::Scenario;
use crate::truth::{ProcessKey, Report};
use crate::watching::WHOLE;
use escapement_codec::session_out::WelcomeDefaults;
use escapement_contract::Moment;
use escapement_engine::{Caller, CallerId, EngineConfig, Input, SessionKey, Watch};
use escapement_host::{Batch, Host, Links, Message, Route};
use escapement_model::limits::{HEARTBEAT_INTERVAL_MS, LEASE_MS};
use escapement_model::{AttemptToken, BootId, ExecutionId, SessionId};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;

/// Callers and workers wait in the world.
#[derive(Debug)]
pub(crate) struct Simulated;

impl Links for Simulated {
    type Caller = Call;
    type Session = ProcessKey;
    type Attempt = Infallible;
    type RunBatch = Infallible;

    fn is_given_up(_: &Call) -> bool {
        false
    }
}

/// A process of the orchestrator.
pub(crate) struct Orchestrator {
    pub(crate) host: Host<Simulated>,
    /// 1 for the first process.
    pub(crate) boot: u64,
    pub(crate) boot_id: BootId,
    pub(crate) greeting: WelcomeDefaults,
    began_at_ms: u64,
    /// It stands still until then.
    pub(crate) frozen_until_ms: u64,
    /// What has come since the last batch.
    pub(crate) batch: Batch<Simulated>,
    next_session: u64,
    next_caller: u64,
    /// Executions that somebody watches.
    pub(crate) watched: BTreeSet<ExecutionId>,
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
            host: Host::new(config, start),
            boot,
            boot_id,
            greeting: WelcomeDefaults {
                boot_id,
                heartbeat_interval_ms: HEARTBEAT_INTERVAL_MS,
                lease_ms: LEASE_MS,
                peers: Arc::from([]),
                traces: None,
            },
            began_at_ms: now_ms,
            frozen_until_ms: 0,
            batch: Batch::default(),
            next_session: 1,
            next_caller: 1,
            watched: BTreeSet::new(),
            is_draining: false,
            is_drained: false,
        }
    }

    /// Returns the process's own clocks.
    pub(crate) fn moment(&self, now_ms: u64, unix_ms: i64) -> Moment {
        Moment {
            monotonic_ms: now_ms - self.began_at_ms,
            unix_ms,
        }
    }

    /// Returns the time at which it has something to do, on the world's clock.
    pub(crate) fn due_at_ms(&self, now_ms: u64) -> Option<u64> {
        let due_ms = self
            .host
            .next_due_ms()
            .map(|due_ms| due_ms.saturating_add(self.began_at_ms));
        let due_ms = if self.batch.is_empty() {
            due_ms
        } else {
            Some(now_ms)
        };
        due_ms.map(|due_ms| due_ms.max(self.frozen_until_ms))
    }

    /// Something has happened that nobody is answered about.
    pub(crate) fn happened(&mut self, input: Input) {
        let route = Route::None;
        self.batch.messages.push(Message { input, route });
    }

    /// Returns a process of a worker opens a stream.
    pub(crate) fn open_session(&mut self, session_id: SessionId, by: ProcessKey) -> SessionKey {
        let session = SessionKey(self.next_session);
        self.next_session += 1;
        let input = Input::SessionOpened { session, session_id };
        let route = Route::Session(session, by);
        self.batch.messages.push(Message { input, route });
        session
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

    /// Callers do not wait any more; returns what they waited for.
    pub(crate) fn leave(&mut self, is_of: impl Fn(&Call) -> bool) -> Vec<Call> {
        let pending = self
            .batch
            .messages
            .iter()
            .filter_map(|message| match &message.route {
                Route::Caller(caller, call) => Some((*caller, call)),
                Route::None | Route::Session(..) => None,
            });
        let waiting = self.host.callers().chain(pending);
        let leaving = waiting.filter(|(caller, call)| is_of(call) && !self.batch.gone.contains(caller));
        let leaving: Vec<(CallerId, Call)> = leaving.map(|(caller, call)| (caller, call.clone())).collect();
        self.batch.gone.extend(leaving.iter().map(|(caller, _)| *caller));
        leaving.into_iter().map(|(_, call)| call).collect()
    }

    /// Queues a call and remembers who waits.
    pub(crate) fn call<A>(&mut self, call: Call, input: impl FnOnce(Caller<A>) -> Input) {
        let caller = CallerId(self.next_caller);
        self.next_caller += 1;
        let input = input(caller.into());
        let route = Route::Caller(caller, call);
        self.batch.messages.push(Message { input, route });
    }
}
