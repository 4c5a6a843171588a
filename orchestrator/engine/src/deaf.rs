//! Workers that are heard and do not hear: a partition one way. Ends no session.
//!
//! A worker names the session of the last welcome that it read.
//! One that says hello again and does not name the session that it was given last has not read that welcome: it is *deaf*,
//! since that session was last heard, or for as long as it was deaf before.
//! Its hellos renew the lease all the same, again and again, though the worker itself has expired long ago.
//! So it gets no new work before a heartbeat shows that it reads,
//! and after a lease and its margin what it has and does not run is settled by evidence, though it lists it.
//!
//! That is safe whatever the worker is like.
//! The body of an attempt that it lists as finished runs no more; its outcome comes too late, as that of a lost worker does.
//! One that it lists as received is only started with the verdict "keep" of a later welcome, and it gets "stop".
//! What it lists as running moves to the new session as ever, and what has ended meanwhile is listed so in the next hello.

use crate::engine::Engine;
use crate::fleet::LastHello;
use crate::input::SessionKey;
use crate::worker::{Hello, InFlightPhase};
use escapement_contract::Evidence;
use escapement_model::{AttemptToken, InstanceId};

impl Engine {
    /// What is remembered of the last hello of an instance.
    pub(crate) fn last_hello(&self, instance_id: InstanceId) -> Option<LastHello> {
        let present = self.fleet.instances.get(&instance_id);
        present
            .and_then(|key| LastHello::of(&self.fleet.sessions[key]))
            .or_else(|| self.fleet.last_hellos.recall(instance_id))
    }

    /// Since when the worker that says this hello has not read what it was sent; `None` where it has.
    pub(crate) fn deaf_since(&self, hello: &Hello) -> Option<u64> {
        let last = self.last_hello(hello.instance_id)?;
        (hello.previous_session_id != Some(last.session_id)).then_some(last.deaf_since_ms)
    }

    /// True where a session greeted so long after its process heard something that the process has expired.
    pub(crate) fn is_long_deaf(&self, key: SessionKey) -> bool {
        let deaf_since_ms = self.fleet.sessions[&key].deaf_since_ms;
        deaf_since_ms.is_some_and(|since_ms| self.now.monotonic_ms >= since_ms + self.patience_ms())
    }

    //
    /// Settles what a worker that has been deaf for long lists and does not run; the session before still holds it.
    pub(crate) fn settle_unheard(&mut self, previous: SessionKey, token: AttemptToken, phase: InFlightPhase) {
        if phase == InFlightPhase::Finished {
            // A body that has ended had started, whether or not the worker said so.
            self.attempt_started(previous, token);
        }
        self.settle_gone(token, Evidence::LeaseExpired);
    }
}
