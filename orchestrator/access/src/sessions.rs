//! Whose the instances of workers are: what one principal began, no other goes on with.
//! Knows no session but by the instance that it is of.

use crate::denial::Denial;
use crate::principal::{Identity, Principal};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use escapement_model::InstanceId;

/// The instances that have sessions, or had some lately.
#[derive(Debug, Default)]
pub struct InstanceOwners {
    instances: BTreeMap<InstanceId, Instance>,
    /// Those of each principal without a session, the longest ago first; some may have one again.
    gone: BTreeMap<Identity, VecDeque<InstanceId>>,
    n_gone: usize,
    /// Those that keep a place without a session, by when they lose it.
    kept: BTreeSet<(u64, InstanceId)>,
    /// Instances with a place, of each principal; none of them 0.
    n_places: BTreeMap<Identity, u32>,
}

#[derive(Debug)]
struct Instance {
    owner: Identity,
    /// Streams that are open: two for a moment, when a worker comes back before its old connection is known to be dead.
    n_open: u32,
    /// Time at which it loses the place that it keeps without a session; `None` if it has a session, or no place.
    kept_until_ms: Option<u64>,
}

impl Instance {
    fn has_place(&self) -> bool {
        self.n_open > 0 || self.kept_until_ms.is_some()
    }
}

impl InstanceOwners {
    /// Notes that the instance begins a session. All times are milliseconds of one clock that never goes back.
    ///
    /// # Errors
    /// [`Denial::InstanceOfAnother`] if another principal has it or had it, [`Denial::TooManySessions`] if the principal has as
    /// many as it may and the instance has kept no place.
    pub fn begin(
        &mut self,
        instance_id: InstanceId,
        principal: &Principal,
        now_ms: u64,
    ) -> Result<(), Denial> {
        self.free_places(now_ms);
        let owner = principal.identity();
        let n_places = self.n_places.get(&owner).copied().unwrap_or(0);
        let known = self.instances.get_mut(&instance_id);
        if known.as_ref().is_some_and(|known| known.owner != owner) {
            return Err(Denial::InstanceOfAnother);
        }
        let has_place = known.as_ref().is_some_and(|known| known.has_place());
        match principal.max_sessions() {
            Some(max) if !has_place && n_places >= max => return Err(Denial::TooManySessions { max }),
            Some(_) | None => {}
        }
        if !has_place {
            self.n_places.insert(owner.clone(), n_places + 1);
        }
        match known {
            Some(known) => {
                known.n_open += 1;
                if let Some(until_ms) = known.kept_until_ms.take() {
                    self.kept.remove(&(until_ms, instance_id));
                }
            }
            None => {
                let instance = Instance {
                    owner,
                    n_open: 1,
                    kept_until_ms: None,
                };
                self.instances.insert(instance_id, instance);
            }
        }
        Ok(())
    }

    /// Returns true if the instance is the principal's, as far as it is known whose it is.
    pub fn is_of(&self, instance_id: InstanceId, principal: &Principal) -> bool {
        let known = self.instances.get(&instance_id);
        known.is_some_and(|known| known.owner == principal.identity())
    }

    /// Notes that a session of the instance, which had begun, is over. After its last one the instance keeps its place until that
    /// time, so that a worker whose connection broke finds it free; `None`: it has left. Whose the instance is stays known for a while.
    ///
    /// # Panics
    /// No session of the instance had begun.
    pub fn end(&mut self, instance_id: InstanceId, keep_until_ms: Option<u64>) {
        let known = self.instances.get_mut(&instance_id);
        let known = known.filter(|known| known.n_open > 0);
        let known = known.expect("a session that is over had begun");
        known.n_open -= 1;
        if known.n_open > 0 {
            return;
        }
        known.kept_until_ms = keep_until_ms;
        match keep_until_ms {
            Some(until_ms) => {
                self.kept.insert((until_ms, instance_id));
            }
            None => give_back(&mut self.n_places, &known.owner),
        }
        let owner = known.owner.clone();
        self.gone.entry(owner).or_default().push_back(instance_id);
        self.n_gone += 1;
        if self.n_gone > GONE_REMEMBERED_MAX {
            self.forget_oldest();
        }
    }

    /// Forgets the oldest instance without a session, of the principal that has most of them.
    /// A principal with many short sessions does not displace the instances of others.
    fn forget_oldest(&mut self) {
        let most = self.gone.iter().max_by_key(|(_, gone)| gone.len());
        let owner = most.expect("there are more than none").0.clone();
        let gone = self.gone.get_mut(&owner).expect("it was there a line ago");
        let oldest = gone.pop_front().expect("a principal without any has no queue");
        if gone.is_empty() {
            self.gone.remove(&owner);
        }
        self.n_gone -= 1;
        self.forget(oldest);
    }

    /// Takes the places back that were kept until now at the latest.
    fn free_places(&mut self, now_ms: u64) {
        while let Some((until_ms, instance_id)) = self.kept.first().copied() {
            if until_ms > now_ms {
                return;
            }
            self.kept.pop_first();
            let instance = self.instances.get_mut(&instance_id);
            let instance = instance.expect("an instance that keeps a place is known");
            instance.kept_until_ms = None;
            give_back(&mut self.n_places, &instance.owner);
        }
    }

    /// Forgets whose the instance is, unless it has a session again.
    fn forget(&mut self, instance_id: InstanceId) {
        if self
            .instances
            .get(&instance_id)
            .is_none_or(|known| known.n_open > 0)
        {
            return;
        }
        let forgotten = self.instances.remove(&instance_id);
        let forgotten = forgotten.expect("it is there");
        if let Some(until_ms) = forgotten.kept_until_ms {
            self.kept.remove(&(until_ms, instance_id));
            give_back(&mut self.n_places, &forgotten.owner);
        }
    }
}

fn give_back(n_places: &mut BTreeMap<Identity, u32>, owner: &Identity) {
    let n = n_places.get_mut(owner).expect("a place that is had is counted");
    *n -= 1;
    if *n == 0 {
        n_places.remove(owner);
    }
}

/// Instances without a session of which it stays known whose they are: as many as can be between two sessions at a time.
const GONE_REMEMBERED_MAX: usize = 65_536;

#[cfg(test)]
mod tests;
