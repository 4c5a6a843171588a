//! Runs that ended a moment ago: who waited for them looks at them now, and need not fold their journals. Decides nothing.

use std::collections::VecDeque;

use escapement_model::RunId;
use escapement_run::Run;
use prost::Message;

/// The runs that ended last, a bounded number of them.
#[derive(Debug, Default)]
pub(crate) struct RecentRuns {
    /// The oldest first, each with about how many bytes it takes.
    runs: VecDeque<(RunId, Run, usize)>,
    bytes: usize,
}

impl RecentRuns {
    /// Keeps a run whose end is durable, and forgets the oldest if there are too many.
    pub(crate) fn keep(&mut self, run_id: RunId, run: Run) {
        let bytes = run.state().encoded_len() + run.plan().document.len();
        if bytes > RECENT_BYTES_MAX {
            return;
        }
        self.bytes += bytes;
        self.runs.push_back((run_id, run, bytes));
        while self.runs.len() > RECENT_MAX || self.bytes > RECENT_BYTES_MAX {
            let oldest = self.runs.pop_front();
            self.bytes -= oldest.map_or(0, |(_, _, bytes)| bytes);
        }
    }

    pub(crate) fn get(&self, run_id: RunId) -> Option<&Run> {
        let found = self.runs.iter().rev().find(|(id, _, _)| *id == run_id);
        found.map(|(_, run, _)| run)
    }

    /// Forgets all of them: the store may have removed some.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Runs that are kept.
const RECENT_MAX: usize = 128;
/// Bytes of their states and plans.
const RECENT_BYTES_MAX: usize = 4 << 20;
