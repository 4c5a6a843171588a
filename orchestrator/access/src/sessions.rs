//! Whose the instances of workers are: what one principal began, no other goes on with.
//! Knows no session but by the instance that it is of.

use crate::denial::Denial;
use crate::principal::{Identity, Principal};
use alloc::collections::{BTreeMap, VecDeque};
use escapement_model::InstanceId;

/// The instances that have sessions, or had some lately.
#[derive(Debug, Default)]
pub struct InstanceOwners {
    instances: BTreeMap<InstanceId, Instance>,
    /// Those without a session, the longest ago first; some may have one again.
    gone: VecDeque<InstanceId>,
    /// Instances with sessions of each principal; none of them 0.
    n_present: BTreeMap<Identity, u32>,
}

#[derive(Debug)]
struct Instance {
    owner: Identity,
    /// Streams that are open: two for a moment, when a worker comes back before its old connection is known to be dead.
    n_open: u32,
}

impl InstanceOwners {
    /// Notes that the instance begins a session.
    ///
    /// # Errors
    /// [`Denial::InstanceOfAnother`] if another principal has it or had it, [`Denial::TooManySessions`] if the principal has as
    /// many as it may.
    pub fn begin(&mut self, instance_id: InstanceId, principal: &Principal) -> Result<(), Denial> {
        let owner = principal.identity();
        let n_present = self.n_present.get(&owner).copied().unwrap_or(0);
        let known = self.instances.get_mut(&instance_id);
        if known.as_ref().is_some_and(|known| known.owner != owner) {
            return Err(Denial::InstanceOfAnother);
        }
        let is_present = known.as_ref().is_some_and(|known| known.n_open > 0);
        match principal.max_sessions() {
            Some(max) if !is_present && n_present >= max => return Err(Denial::TooManySessions { max }),
            Some(_) | None => {}
        }
        if !is_present {
            self.n_present.insert(owner.clone(), n_present + 1);
        }
        match known {
            Some(known) => known.n_open += 1,
            None => {
                self.instances.insert(instance_id, Instance { owner, n_open: 1 });
            }
        }
        Ok(())
    }

    /// True if the instance is the principal's, as far as it is known whose it is.
    pub fn is_of(&self, instance_id: InstanceId, principal: &Principal) -> bool {
        let known = self.instances.get(&instance_id);
        known.is_some_and(|known| known.owner == principal.identity())
    }

    /// Notes that a session of the instance, which had begun, is over. Whose the instance is stays known for a while.
    ///
    /// # Panics
    /// No session of the instance had begun.
    pub fn end(&mut self, instance_id: InstanceId) {
        let known = self.instances.get_mut(&instance_id);
        let known = known.filter(|known| known.n_open > 0);
        let known = known.expect("a session that is over had begun");
        known.n_open -= 1;
        if known.n_open > 0 {
            return;
        }
        let n_present = self.n_present.get_mut(&known.owner);
        let n_present = n_present.expect("an instance that is present is counted");
        *n_present -= 1;
        if *n_present == 0 {
            self.n_present.remove(&known.owner);
        }
        self.gone.push_back(instance_id);
        if self.gone.len() > GONE_REMEMBERED_MAX {
            let oldest = self.gone.pop_front().expect("it holds more than none");
            if self
                .instances
                .get(&oldest)
                .is_some_and(|oldest| oldest.n_open == 0)
            {
                self.instances.remove(&oldest);
            }
        }
    }
}

/// Instances without a session of which it stays known whose they are: as many as can be between two sessions at a time.
const GONE_REMEMBERED_MAX: usize = 65_536;

#[cfg(test)]
mod tests;
