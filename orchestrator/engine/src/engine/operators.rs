//! What operators do to workers and actions.

use super::Engine;
use crate::answer::{ActionForgotten, Caller, ForgetAnswer, Losses};
use crate::fleet::Forgotten;
use escapement_contract::Evidence;
use escapement_model::InstanceId;

impl Engine {
    //
    /// Settles now what the lease would settle later.
    pub(super) fn declare_worker_dead(&mut self, caller: Caller<Option<Losses>>, instance_id: InstanceId) {
        let Some(key) = self.fleet.declare_dead(instance_id, &mut self.turn) else {
            return self.turn.reply(caller, None);
        };
        let losses = self.lose_session(key, Evidence::DeclaredDead);
        self.turn.reply(caller, Some(losses));
    }

    /// Ends the memory of an action. It is told once a crash cannot bring the memory back.
    pub(super) fn forget_action(&mut self, caller: Caller<ForgetAnswer>, name: &str) {
        let forgotten = match self.fleet.forget_registration(name, &self.turn) {
            Forgotten::InUse => return self.turn.reply(caller, None),
            Forgotten::Unknown => ActionForgotten {
                was_known: false,
                n_queued: 0,
            },
            Forgotten::Done(action) => ActionForgotten {
                was_known: true,
                n_queued: self.queue.n_needing(action),
            },
        };
        self.fleet.tell_forgotten(caller, name, forgotten, &mut self.turn);
    }
}
