//! What runs do by themselves, a part of it at a time, so that no batch grows without bounds: what time and room bring, and what
//! a start brings. Writes nothing.

use escapement_model::RunId;
use escapement_model::planted::{self, Bug};
use escapement_run::Input;

use super::RunsHost;
use crate::limits::{BATCH_BYTES, DEFINITION_BYTES, OWN_MAX};

// RUN-9.10
impl RunsHost {
    /// Lets runs go on whose time has come, or for which there is room, as far as the next batch has room for what they write.
    /// [`RunsHost::due_at`] says when there is more to do.
    pub fn time(&mut self, now: i64) {
        self.now = now;
        // Time comes after the start: it may end a run that another one looks for.
        while self.has_room_of_own()
            && let Some(run_id) = self.unheard.first().copied()
        {
            self.hear_of_start(run_id, now);
        }
        while self.unheard.is_empty() && self.has_room_of_own() {
            let Some(work) = self.runs.time(now, 1, &self.contents).pop() else {
                break;
            };
            self.n_own += 1;
            self.push(work, None);
        }
        self.admit(now);
    }

    // RUN-7.5
    /// Fires due timers before queued inputs, as of the arrival of the `first`: no timer precedes an earlier input.
    /// Returns that time.
    pub fn time_before(&mut self, first: Option<i64>, now: i64) -> i64 {
        let first = first.filter(|_| !planted::is_on(Bug::RunTimeFirst));
        let until = first.map_or(now, |first| first.min(now));
        self.time(until);
        until
    }

    // RUN-7.2
    /// Records that the process stood still, or could write nothing, from one time to another, in Unix
    /// milliseconds. That time is not active time of any run.
    pub fn stood_still(&mut self, from: i64, until: i64) {
        self.runs.stood_still(from, until);
    }

    /// Tells the run what it has to know before an input: that the process was started, and that its time has come.
    pub fn catch_up(&mut self, run_id: RunId, now: i64) {
        self.now = now;
        self.hear_of_start(run_id, now);
        // A limit that is over may bring another one with it.
        while let Some(work) = self.runs.time_of(run_id, now, &self.contents) {
            self.push(work, None);
        }
    }

    // RUN-9.4
    fn hear_of_start(&mut self, run_id: RunId, now: i64) {
        if !self.unheard.remove(&run_id) {
            return;
        }
        self.n_own += 1;
        // RUN-9.5
        let input = match self.stopped_orderly {
            true => Input::Restarted,
            false => Input::Recovered,
        };
        // One that was lost meanwhile hears nothing.
        if let Ok(Some(work)) = self.runs.handle(run_id, input, now, &self.contents) {
            self.push(work, None);
        }
    }

    pub(super) fn admit(&mut self, now: i64) {
        while self.unheard.is_empty() && self.has_room_of_own() {
            let Some(work) = self.runs.admit(now, 1, &self.contents).pop() else {
                break;
            };
            self.n_own += 1;
            self.push(work, None);
        }
    }

    /// When [`RunsHost::time`] has something to do, in Unix milliseconds.
    pub fn due_at(&self) -> Option<i64> {
        match !self.unheard.is_empty() || self.runs.can_admit() {
            true => Some(self.now),
            false => self.runs.due_at(),
        }
    }

    /// Returns true once every resumed run knows of the start: by then no parent searches for a child that
    /// ended earlier.
    pub fn has_told_start(&self) -> bool {
        self.unheard.is_empty()
    }

    /// Returns true while the next batch has room for the bytes of another input.
    pub fn has_room(&self) -> bool {
        self.queue_bytes < BATCH_BYTES && self.definitions.n_bytes() < DEFINITION_BYTES
    }

    fn has_room_of_own(&self) -> bool {
        self.has_room() && self.n_own < OWN_MAX
    }
}
