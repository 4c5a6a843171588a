//! What operators do to workers and actions.

use super::Engine;
use crate::effect::Reply;
use crate::fleet::{Forgotten, Losses};
use crate::input::CallerId;
use escapement_contract::Evidence;
use escapement_model::InstanceId;

impl Engine {
    //
    /// Settles now what the lease would settle later.
    pub(super) fn declare_worker_dead(&mut self, caller: CallerId, instance_id: InstanceId) {
        let Some(key) = self.fleet.declare_dead(instance_id, &mut self.turn) else {
            return self.turn.reply(caller, Reply::NoSuchWorker);
        };
        let Losses { n_lost, n_returned } = self.lose_session(key, Evidence::DeclaredDead);
        self.turn
            .reply(caller, Reply::DeclaredDead { n_lost, n_returned });
    }

    /// Ends the memory of an action.
    pub(super) fn forget_action(&mut self, caller: CallerId, name: &str) {
        let reply = match self.fleet.forget_registration(name, &self.turn) {
            Forgotten::InUse => Reply::ActionInUse,
            Forgotten::Unknown => Reply::ActionForgotten {
                was_known: false,
                n_queued: 0,
            },
            Forgotten::Done(action) => Reply::ActionForgotten {
                was_known: true,
                n_queued: self.n_needing(action),
            },
        };
        self.turn.reply(caller, reply);
    }
}
