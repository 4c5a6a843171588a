//! What runs do by themselves: they are admitted, and their time comes. In which order, and how many at a time.

use super::{Durable, Runs};
use crate::work::Work;
use alloc::vec::Vec;
use escapement_run::Input;
use escapement_run::ids::RunId;

impl Runs {
    /// Returns true if a queued run may go on.
    pub fn can_admit(&self) -> bool {
        self.n_under_way < self.config.max_live_runs && !self.queue.is_empty()
    }

    /// Lets queued runs go on while there is room, at most `max` of them: the highest priority first, then the oldest. One whose
    /// time has come is told that first, which may end it.
    pub fn admit(&mut self, now: i64, max: usize, durable: &dyn Durable) -> Vec<Work> {
        let mut admitted = Vec::new();
        while admitted.len() < max
            && self.can_admit()
            && let Some((_, _, run_id)) = self.queue.first().copied()
        {
            if let Some(work) = self.time_of(run_id, now, durable) {
                admitted.push(work);
                continue;
            }
            let Some(handed) = self.hand(run_id, Input::Admit, now, durable) else {
                continue;
            };
            let commit = handed.expect("it waits for admission");
            admitted.push(self.work(run_id, commit));
        }
        admitted
    }

    // RUN-7.2
    /// Records that the process stood still, or could write nothing, from one time to another, in Unix
    /// milliseconds. Runs that were active handle that before their next input. Until then their timers may
    /// be early.
    pub fn stood_still(&mut self, from: i64, until: i64) {
        self.stalls.add(from, until);
    }

    /// When time is due next, in Unix milliseconds.
    pub fn due_at(&self) -> Option<i64> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Hands time to the runs whose time has come, the earliest first, at most `max` of them.
    pub fn time(&mut self, now: i64, max: usize, durable: &dyn Durable) -> Vec<Work> {
        let mut done = Vec::new();
        while done.len() < max
            && let Some((due, run_id)) = self.due.first().copied()
            && due <= now
        {
            let Some(handed) = self.hand(run_id, Input::Time, now, durable) else {
                continue;
            };
            let commit = handed.expect("time is never refused");
            assert!(!commit.entries.is_empty(), "what is due changes something");
            done.push(self.work(run_id, commit));
        }
        done
    }

    // RUN-7.5
    /// Hands time to that run, if its time has come. What came before its last entry is taken in at the time of that.
    pub fn time_of(&mut self, run_id: RunId, now: i64, durable: &dyn Durable) -> Option<Work> {
        let live = self.runs.get(&run_id)?;
        live.due_at.filter(|due| *due <= now.max(live.updated_at))?;
        let commit = self.hand(run_id, Input::Time, now, durable)?;
        Some(self.work(run_id, commit.expect("time is never refused")))
    }
}
