//! Worker processes that operators have taken out of service. Bounded: the oldest go first.

use alloc::collections::{BTreeSet, VecDeque};
use escapement_model::InstanceId;

/// The processes that get no new work, whichever session they come back with.
#[derive(Debug, Default)]
pub(crate) struct DrainedInstances {
    instances: BTreeSet<InstanceId>,
    oldest_first: VecDeque<InstanceId>,
}

impl DrainedInstances {
    pub(crate) fn insert(&mut self, instance: InstanceId, n_max: usize) {
        if self.instances.insert(instance) {
            self.oldest_first.push_back(instance);
        }
        while self.oldest_first.len() > n_max {
            let oldest = self
                .oldest_first
                .pop_front()
                .expect("it is longer than its limit");
            self.instances.remove(&oldest);
        }
    }

    pub(crate) fn contains(&self, instance: InstanceId) -> bool {
        self.instances.contains(&instance)
    }
}
