//! Who runs next: the queue by priority and age, and the limit of running executions. Starts nothing by itself.

use crate::engine::Engine;
use crate::live::ExecutionKey;
use alloc::collections::BTreeSet;
use core::cmp::Reverse;
use escapement_contract::Input as ContractInput;

/// The executions that wait for their start, and how many run.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    // higher priority first, first come first served among equals.
    queue: BTreeSet<(Reverse<i32>, ExecutionKey)>,
    running: usize,
}

impl Admission {
    pub(crate) fn enqueue(&mut self, priority: i32, key: ExecutionKey) {
        self.queue.insert((Reverse(priority), key));
    }

    pub(crate) fn remove(&mut self, priority: i32, key: ExecutionKey) {
        self.queue.remove(&(Reverse(priority), key));
    }

    pub(crate) fn take_slot(&mut self) {
        self.running += 1;
    }

    pub(crate) fn free_slot(&mut self) {
        self.running = self
            .running
            .checked_sub(1)
            .expect("a slot is freed once, by who took it");
    }

    /// True where an execution that comes now may start without overtaking anybody.
    pub(crate) fn is_open(&self, running_max: usize) -> bool {
        self.queue.is_empty() && self.running < running_max
    }

    fn next(&mut self, running_max: usize) -> Option<ExecutionKey> {
        if self.running >= running_max {
            return None;
        }
        self.queue.pop_first().map(|(_, key)| key)
    }
}

impl Engine {
    /// Starts executions while there are slots.
    pub(crate) fn admit(&mut self) {
        if self.drain.is_some() {
            return;
        }
        while let Some(key) = self.admission.next(self.config.max_running_executions) {
            self.admission.take_slot();
            self.live.at_mut(key).holds_slot = true;
            // A deadline that is over ends the execution first, and then the start is refused.
            let _already_over = self.act(key, ContractInput::Start);
        }
    }
}
