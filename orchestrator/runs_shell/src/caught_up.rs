//! The mark by which the contract's retention waits for runs: results that they have not read yet stay until they have. Removes
//! nothing itself.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use escapement_model::ExecutionId;

/// True once every attempt that was in flight at the start has its outcome durably in its run, or has no outcome yet. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct CaughtUp(Arc<AtomicBool>);

impl CaughtUp {
    /// Creates a mark that is set already, for servers without runs that read results.
    pub fn already() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    /// Returns true once the mark is set.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Attempts of before the start whose outcomes are not durable in their runs.
#[derive(Debug)]
pub(crate) struct Behind {
    mark: CaughtUp,
    /// Attempts that have left.
    left: BTreeSet<ExecutionId>,
    /// Attempts whose outcomes are not durable yet.
    settling: Vec<ExecutionId>,
    /// True once all of before the start have left.
    is_complete: bool,
}

impl Behind {
    pub(crate) fn new(mark: CaughtUp) -> Self {
        Self {
            mark,
            left: BTreeSet::new(),
            settling: Vec::new(),
            is_complete: false,
        }
    }

    /// Notes an attempt that leaves.
    pub(crate) fn leaves(&mut self, execution_id: ExecutionId) {
        if !self.is_complete {
            self.left.insert(execution_id);
        }
    }

    /// Notes an outcome that was handed to its run.
    pub(crate) fn settles(&mut self, execution_id: ExecutionId) {
        if self.left.remove(&execution_id) {
            self.settling.push(execution_id);
        }
    }

    /// Notes an attempt that has no outcome yet.
    pub(crate) fn is_under_way(&mut self, execution_id: ExecutionId) {
        self.left.remove(&execution_id);
    }

    /// Notes that everything so far is durable. `is_complete`: all attempts of before the start have left.
    pub(crate) fn written(&mut self, is_complete: bool) {
        self.settling.clear();
        self.is_complete |= is_complete;
        if self.is_complete && self.left.is_empty() {
            self.mark.0.store(true, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Behind, CaughtUp};
    use escapement_model::ExecutionId;

    #[test]
    fn the_mark_is_set_once_every_outcome_of_before_the_start_is_durable() {
        let [settled, running, later] = [1, 2, 3].map(|n| ExecutionId::from_random([n; 16]));
        let mark = CaughtUp::default();
        let mut behind = Behind::new(mark.clone());
        behind.leaves(settled);
        behind.leaves(running);
        behind.written(false);
        assert!(!mark.is_set(), "not all have left");
        behind.written(true);
        behind.leaves(later);
        behind.is_under_way(running);
        behind.settles(settled);
        assert!(!mark.is_set(), "its outcome is not durable");
        behind.written(true);
        assert!(mark.is_set());
        assert!(CaughtUp::already().is_set());
    }
}
