//! How the orchestrator stops: nothing new, what runs may end, then everybody is told. Loses nothing that waits.

use crate::effect::Effect;
use crate::engine::{Engine, Timer};
use crate::input::SessionKey;
use crate::worker::ToWorker;
use alloc::vec::Vec;

/// A drain under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drain {
    /// The grace is over: what still runs is left to the restart.
    pub(crate) expired: bool,
    pub(crate) reported: bool,
}

impl Engine {
    pub(crate) fn start_drain(&mut self, grace_ms: u64) {
        if self.drain.is_some() {
            return;
        }
        self.drain = Some(Drain {
            expired: false,
            reported: false,
        });
        self.timers
            .set(Timer::Drain, Some(self.now.monotonic_ms.saturating_add(grace_ms)));
    }

    pub(crate) fn drain_due(&mut self) {
        if let Some(drain) = &mut self.drain {
            drain.expired = true;
        }
    }

    /// Reports once that nothing runs and nothing is being written, or that the grace is over.
    pub(crate) fn finish_drain(&mut self) {
        if self.drain.is_none() {
            return;
        }
        let n_unfinished = self.live.n_running();
        let idle = self.writes.is_empty() && n_unfinished == 0;
        let Some(drain) = &mut self.drain else { return };
        if drain.reported || !(drain.expired || idle) {
            return;
        }
        drain.reported = true;
        self.timers.set(Timer::Drain, None);
        let sessions: Vec<SessionKey> = self.fleet.sessions.keys().copied().collect();
        for session in sessions {
            self.send(
                session,
                ToWorker::Reconnect {
                    jitter_ms: RECONNECT_JITTER_MS,
                    deadline_ms: 0,
                },
            );
        }
        self.effects.push_back(Effect::Drained { n_unfinished });
    }
}

/// Workers spread their reconnects over this time.
const RECONNECT_JITTER_MS: u64 = 1_000;
