//! What operators do to workers: out of service, or gone. Both go by process, whatever its sessions do.

use crate::effect::Reply;
use crate::engine::Engine;
use crate::fleet::Identity;
use crate::input::{CallerId, SessionKey, WorkerSelector};
use crate::limits::INSTANCES_REMEMBERED_MAX;
use crate::worker::SessionErrorCode;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use escapement_contract::Evidence;
use escapement_model::InstanceId;

impl Engine {
    pub(crate) fn drain_worker(&mut self, caller: CallerId, worker: &WorkerSelector) {
        let sessions = self.fleet.sessions.iter();
        let chosen: BTreeMap<SessionKey, InstanceId> = sessions
            .filter_map(|(key, session)| {
                let identity = session.identity.as_ref()?;
                worker.means(identity).then_some((*key, identity.instance_id))
            })
            .collect();
        if chosen.is_empty() {
            return self.reply(caller, Reply::NoSuchWorker);
        }
        for (key, instance) in &chosen {
            self.fleet
                .drained
                .remember(*instance, (), INSTANCES_REMEMBERED_MAX);
            self.stop_offering(*key);
            if !self.session_mut(*key).drain_told {
                self.tell_drain_started(*key);
            }
        }
        let workers = self.worker_views_of(|key| chosen.contains_key(&key));
        let offered = workers.iter().flat_map(|worker| &worker.actions);
        let actions_without_worker: BTreeSet<Arc<str>> = offered
            .filter(|name| {
                let action = self.fleet.find_action(name);
                action.is_none_or(|key| self.fleet.action(key).sessions.is_empty())
            })
            .cloned()
            .collect();
        self.reply(
            caller,
            Reply::WorkersDrain {
                workers,
                actions_without_worker: actions_without_worker.into_iter().collect(),
            },
        );
    }

    //
    /// Settles now what the lease would settle later.
    pub(crate) fn declare_worker_dead(&mut self, caller: CallerId, instance_id: InstanceId) {
        let Some(key) = self.fleet.instances.get(&instance_id).copied() else {
            return self.reply(caller, Reply::NoSuchWorker);
        };
        if self.session_mut(key).connected {
            let detail = "an operator declared this worker dead";
            self.end_stream(key, SessionErrorCode::DeclaredDead, detail, 1_000);
        }
        let losses = self.lose_session(key, Evidence::DeclaredDead);
        self.reply(
            caller,
            Reply::DeclaredDead {
                n_lost: losses.n_lost,
                n_returned: losses.n_returned,
            },
        );
    }
}

impl WorkerSelector {
    fn means(&self, identity: &Identity) -> bool {
        match self {
            WorkerSelector::Instance(instance_id) => identity.instance_id == *instance_id,
            WorkerSelector::WorkerId(worker_id) => identity.worker_id == *worker_id,
        }
    }
}
