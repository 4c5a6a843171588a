//! What operators do to workers: out of service, or gone. Both go by process, whatever its sessions do.

use super::Fleet;
use super::session::Identity;
use crate::answer::WorkersDrain;
use crate::input::WorkerSelector;
use crate::keys::SessionKey;
use crate::limits::INSTANCES_REMEMBERED_MAX;
use crate::turn::Turn;
use crate::worker::SessionErrorCode;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use escapement_model::InstanceId;

impl Fleet {
    pub(crate) fn drain_worker(&mut self, worker: &WorkerSelector, turn: &mut Turn) -> Option<WorkersDrain> {
        let sessions = self.sessions.iter();
        let chosen: BTreeMap<SessionKey, InstanceId> = sessions
            .filter_map(|(key, session)| {
                let identity = session.identity.as_ref()?;
                worker.means(identity).then_some((*key, identity.instance_id))
            })
            .collect();
        if chosen.is_empty() {
            return None;
        }
        for (key, instance) in &chosen {
            self.drained.remember(*instance, (), INSTANCES_REMEMBERED_MAX);
            self.stop_offering(*key, turn);
            if !self.session_mut(*key).drain_told {
                self.tell_drain_started(*key, turn);
            }
        }
        let workers = self.worker_views_of(|key| chosen.contains_key(&key), turn);
        let offered = workers.iter().flat_map(|worker| &worker.actions);
        let actions_without_worker: BTreeSet<Arc<str>> = offered
            .filter(|name| {
                let action = self.find_action(name);
                action.is_none_or(|key| self.action(key).sessions.is_empty())
            })
            .cloned()
            .collect();
        Some(WorkersDrain {
            workers,
            actions_without_worker: actions_without_worker.into_iter().collect(),
        })
    }

    /// Ends the stream of a process that the operator declares dead. Returns its session, which is over; `None` if it has none.
    pub(crate) fn declare_dead(&mut self, instance_id: InstanceId, turn: &mut Turn) -> Option<SessionKey> {
        let key = *self.instances.get(&instance_id)?;
        if self.sessions[&key].connected {
            let detail = "an operator declared this worker dead";
            self.end_stream(key, SessionErrorCode::DeclaredDead, detail, 1_000, turn);
        }
        Some(key)
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
