//! How the orchestrator stops: nothing new, what runs may end, then everybody is told. Loses nothing that waits.

use crate::effect::Effect;
use crate::engine::{Engine, Timer};
use crate::input::SessionKey;
use crate::limits::RECONNECT_JITTER_MS;
use crate::worker::ToWorker;
use alloc::vec::Vec;

/// A drain under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drain {
    /// When the grace is over.
    pub(crate) due_ms: u64,
    /// The grace is over: what still runs is left to the restart.
    pub(crate) expired: bool,
    pub(crate) reported: bool,
}

impl Engine {
    pub(crate) fn start_drain(&mut self, grace_ms: u64) {
        if self.drain.is_some() {
            return;
        }
        let due_ms = self.now.monotonic_ms.saturating_add(grace_ms);
        self.drain = Some(Drain {
            due_ms,
            expired: false,
            reported: false,
        });
        self.timers.set(Timer::Drain, Some(due_ms));
        self.tell_all_reconnect();
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
        let n_unfinished = self.live.len() - self.admission.n_waiting();
        let idle = self.writes.is_empty() && n_unfinished == 0;
        let Some(drain) = &mut self.drain else { return };
        if drain.reported || !(drain.expired || idle) {
            return;
        }
        drain.reported = true;
        self.timers.set(Timer::Drain, None);
        self.tell_all_reconnect();
        self.effects.push_back(Effect::Drained { n_unfinished });
    }

    fn tell_all_reconnect(&mut self) {
        let sessions = self.fleet.sessions.iter();
        let greeted: Vec<SessionKey> = sessions
            .filter(|(_, session)| session.identity.is_some())
            .map(|(key, _)| *key)
            .collect();
        for session in greeted {
            self.tell_reconnect(session);
        }
    }

    /// Says how long the drain leaves the worker; nothing once it is over.
    pub(crate) fn tell_reconnect(&mut self, key: SessionKey) {
        let Some(drain) = self.drain else { return };
        let deadline_ms = if drain.reported {
            0
        } else {
            drain.due_ms.saturating_sub(self.now.monotonic_ms)
        };
        self.send(
            key,
            ToWorker::Reconnect {
                jitter_ms: RECONNECT_JITTER_MS,
                deadline_ms,
            },
        );
    }
}
