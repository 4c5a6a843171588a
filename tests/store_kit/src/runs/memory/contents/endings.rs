//! The order of ending in memory. Looks into no run.

use std::collections::BTreeMap;

use super::RunContents;
use escapement_store::runs::EndedPage;

/// Places of runs that ended.
#[derive(Clone, Debug, Default)]
pub(super) struct Endings {
    /// The numbers of the runs, by their places.
    runs: BTreeMap<u64, u64>,
    last: u64,
    /// The highest place whose run the policy did not keep.
    removed: u64,
}

impl Endings {
    /// The run of that number ends.
    pub(super) fn ends(&mut self, number: u64) {
        self.last += 1;
        self.runs.insert(self.last, number);
    }

    pub(super) fn place_of(&self, number: u64) -> Option<u64> {
        let found = self.runs.iter().find(|(_, of)| **of == number);
        found.map(|(place, _)| *place)
    }

    /// The policy does not keep the run of that number, which is still there.
    pub(super) fn is_not_kept(&mut self, number: u64) {
        self.removed = self.removed.max(self.place_of(number).unwrap_or_default());
    }

    /// The run of that number is removed.
    pub(super) fn remove(&mut self, number: u64) {
        self.runs.retain(|_, of| *of != number);
    }
}

impl RunContents {
    pub(in crate::runs::memory) fn ended(&self, after: u64, limit: usize) -> EndedPage {
        let Endings { runs, last, removed } = &self.endings;
        let behind = runs.range(after.saturating_add(1)..).take(limit);
        let run = |(place, number): (&u64, &u64)| (*place, self.runs[number].summary.clone());
        EndedPage {
            runs: behind.map(run).collect(),
            damaged: None,
            last: *last,
            removed: *removed,
        }
    }
}
