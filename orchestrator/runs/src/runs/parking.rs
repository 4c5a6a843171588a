//! Which runs are in memory: all that are under way, and of the others those that came to rest last.

use super::{Durable, Runs, weight};
use crate::sessions::hand;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use escapement_run::ids::RunId;
use escapement_run::{Commit, Input, Refused, Run};

/// A run that cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The run.
    pub run_id: RunId,
    /// The run that waits for it.
    pub parent: Option<RunId>,
    /// Reason.
    pub why: String,
}

impl Runs {
    // RUN-9.9
    /// Parks runs that rest, those first that came to rest first, until at most so many are in memory, of at most about so many
    /// bytes. Returns how many were parked. Everything that was decided MUST be durable.
    pub fn park(&mut self, max_runs: usize, max_bytes: usize) -> usize {
        let mut n_parked = 0;
        while (self.resting.len() > max_runs || self.resting_bytes > max_bytes)
            && let Some((_, (run_id, weight))) = self.resting.pop_first()
        {
            self.resting_bytes -= weight;
            let live = self.runs.get_mut(&run_id).expect("what rests lives");
            (live.run, live.rests) = (None, None);
            n_parked += 1;
        }
        n_parked
    }

    /// Returns the run, if it lives and is in memory.
    pub fn in_memory(&self, run_id: RunId) -> Option<&Run> {
        self.runs.get(&run_id)?.run.as_deref()
    }

    /// Runs that could not be folded, or lacked a content, when they were needed, since they were last taken. They do not go on.
    pub fn take_lost(&mut self) -> Vec<Lost> {
        core::mem::take(&mut self.lost)
    }

    /// Forgets a run that lives and cannot go on.
    pub fn lose(&mut self, run_id: RunId, why: String) {
        let Some(live) = self.runs.get(&run_id) else {
            return;
        };
        let parent = live.parent;
        self.set_aside(run_id);
        self.lost.push(Lost { run_id, parent, why });
    }

    /// Forgets a run that cannot go on, because the store has lost what it is made of.
    pub fn set_aside(&mut self, run_id: RunId) {
        self.rises(run_id);
        let Some(live) = self.runs.remove(&run_id) else {
            return;
        };
        self.sessions.run_ends(&live.session_key);
        self.states.change(live.shown, None);
        self.requests.run_ends(run_id);
        if let Some(queued) = live.queued {
            self.queue.remove(&queued);
        }
        if let Some(due) = live.due_at {
            self.due.remove(&(due, run_id));
        }
        self.n_under_way -= usize::from(live.under_way);
    }

    /// Returns the run, if it lives; one that is parked is folded.
    pub fn get(&mut self, run_id: RunId, durable: &dyn Durable) -> Option<&Run> {
        self.wake(run_id, durable);
        self.in_memory(run_id)
    }

    /// Hands an input to a run; `None` if it does not live.
    pub(super) fn hand(
        &mut self,
        run_id: RunId,
        input: Input,
        now: i64,
        durable: &dyn Durable,
    ) -> Option<Result<Commit, Refused>> {
        self.wake(run_id, durable);
        let run = self.runs.get_mut(&run_id)?.run.as_mut()?;
        let (sessions, stalls) = (&self.sessions, &self.stalls);
        let (mut input, mut handed) = (Some(input), None);
        let whole = durable.whole(&mut || {
            if let Some(input) = input.take() {
                handed = Some(hand(sessions, stalls, run, input, now, durable.blobs()));
            }
        });
        if let Err(why) = whole {
            self.lose(run_id, why);
            return None;
        }
        handed
    }

    fn wake(&mut self, run_id: RunId, durable: &dyn Durable) {
        let Some(live) = self.runs.get_mut(&run_id).filter(|live| live.run.is_none()) else {
            return;
        };
        match durable.fold(run_id) {
            Ok(run) => {
                live.weight = weight(&run);
                live.run = Some(Box::new(run));
                self.rests(run_id);
            }
            Err(why) => self.lose(run_id, why),
        }
    }

    /// A run that is in memory rests, unless it is under way.
    pub(super) fn rests(&mut self, run_id: RunId) {
        let live = self.runs.get_mut(&run_id).expect("the run lives");
        if live.under_way {
            return;
        }
        self.n_rests += 1;
        live.rests = Some(self.n_rests);
        self.resting.insert(self.n_rests, (run_id, live.weight));
        self.resting_bytes += live.weight;
    }

    /// A run does not rest any more, if it did.
    pub(super) fn rises(&mut self, run_id: RunId) {
        let rested = self.runs.get_mut(&run_id).and_then(|live| live.rests.take());
        if let Some((_, weight)) = rested.and_then(|rested| self.resting.remove(&rested)) {
            self.resting_bytes -= weight;
        }
    }
}
