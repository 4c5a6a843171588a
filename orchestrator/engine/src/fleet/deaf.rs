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

use super::Fleet;
use super::last_hello::LastHello;
use crate::keys::SessionKey;
use crate::turn::Turn;
use crate::worker::Hello;
use escapement_model::InstanceId;

impl Fleet {
    /// What is remembered of the last hello of an instance.
    pub(super) fn last_hello(&self, instance_id: InstanceId) -> Option<LastHello> {
        let present = self.instances.get(&instance_id);
        present
            .and_then(|key| LastHello::of(&self.sessions[key]))
            .or_else(|| self.last_hellos.recall(instance_id))
    }

    /// Since when the worker that says this hello has not read what it was sent; `None` if it has.
    pub(super) fn deaf_since(&self, hello: &Hello) -> Option<u64> {
        let last = self.last_hello(hello.instance_id)?;
        (hello.previous_session_id != Some(last.session_id)).then_some(last.deaf_since_ms)
    }

    /// Returns true if a session greeted so long after its process heard something that the process has expired.
    pub(super) fn is_long_deaf(&self, key: SessionKey, turn: &Turn) -> bool {
        let deaf_since_ms = self.sessions[&key].deaf_since_ms;
        deaf_since_ms.is_some_and(|since_ms| turn.now_ms() >= since_ms + self.patience_ms())
    }
}
