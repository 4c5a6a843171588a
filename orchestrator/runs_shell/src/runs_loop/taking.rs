//! Waits for the inputs of the thread of runs, and takes them in the order of time.

use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use escapement_store::StoreFault;
use escapement_store::runs::{RunBatch, RunStore};
use tracing::warn;

use super::{Ending, RunsLoop, Stop};
use crate::limits::{BATCH_MAX, PROBE_MS_MIN, STALL_LOOK_INTERVAL, STALL_MS_MIN, STORE_LOOK_INTERVAL};

impl<S: RunStore> RunsLoop<S> {
    // RUN-7.5, RUN-9.10
    /// Waits for work and does all pending work, as far as the next batch has capacity. Each input is
    /// submitted with its arrival time, and no timer precedes an earlier input.
    pub(super) fn take(&mut self) -> Result<(), Stop> {
        self.goes_on(Duration::ZERO);
        if self.own.is_empty() && self.held.is_empty() && self.works.is_empty() {
            self.wait()?;
        }
        self.probe()?;
        let now = self.clock.now();
        if self.held.is_empty() {
            self.held.extend(self.messages.try_recv());
        }
        let own = self.own.front().map(|(at, ..)| *at);
        let held = self.held.front().map(|held| held.at);
        let first = own.into_iter().chain(held).min();
        self.handed_at = self.host.time_before(first, now);
        while let Some((at, run_id, input)) = self.own.pop_front() {
            self.handed_at = at;
            self.input(run_id, input);
            if !self.host.has_room() {
                return Ok(());
            }
        }
        for _ in 0..BATCH_MAX {
            if !self.host.has_room() {
                return Ok(());
            }
            let held = self.held.pop_front();
            match held.map_or_else(|| self.messages.try_recv(), Ok) {
                Ok(received) => self.take_message(received),
                Err(_) => break,
            }
        }
        Ok(())
    }

    /// Performs the oldest work on the store. Later inputs do not wait for all such works.
    pub(super) fn work(&mut self) -> Result<(), Stop> {
        let Some((work, _room)) = self.works.pop_front() else {
            return Ok(());
        };
        // What was performed before is written before: the work sees it, and removes no child whose parent waits for its result.
        self.write()?;
        self.leave();
        while let Some((at, run_id, input)) = self.own.pop_front() {
            self.handed_at = at;
            self.input(run_id, input);
            self.write()?;
            self.leave();
        }
        let now = self.clock.now();
        work.work(&mut self.store, self.host.reader(), now);
        self.host.forget_ended();
        Ok(())
    }

    // RUN-7.2
    /// Notes how long the thread did not go on: it was stopped with its process, or could write nothing. It may have rested for
    /// so long on purpose.
    fn goes_on(&mut self, rested: Duration) {
        let now = self.clock.now();
        let stalled_ms = now.saturating_sub(self.seen_at);
        let rested_ms = i64::try_from(rested.as_millis()).unwrap_or(i64::MAX);
        if stalled_ms.saturating_sub(rested_ms) > STALL_MS_MIN {
            warn!(stalled_ms, "runs stood still, and were not active for that time");
            self.host.stood_still(self.seen_at, now);
        }
        self.seen_at = now;
    }

    fn wait(&mut self) -> Result<(), Stop> {
        let due = self.host.due_at().map(|due| self.clock.until(due));
        let due = due.into_iter().chain(self.retention.patience()).min();
        let patience = due.map_or(STORE_LOOK_INTERVAL, |due| due.min(STORE_LOOK_INTERVAL));
        let (patience, rested) = match self.host.runs().n_under_way() {
            0 => (patience, patience),
            _ => (patience.min(STALL_LOOK_INTERVAL), Duration::ZERO),
        };
        let received = self.messages.recv_timeout(patience);
        self.goes_on(rested);
        match received {
            Ok(received) => self.held.push_back(received),
            Err(RecvTimeoutError::Timeout) => self.look_for_the_store()?,
            Err(RecvTimeoutError::Disconnected) => self.is_stopping = true,
        }
        Ok(())
    }

    // RUN-7.2
    /// Proves before a timer that may end runs that the store takes writes, if the last write is too old.
    /// Runs may depend on inputs that wait to be written.
    fn probe(&mut self) -> Result<(), Stop> {
        let now = self.clock.now();
        let is_due = self.host.due_at().is_some_and(|due| due <= now);
        let is_long_ago = now.saturating_sub(self.written_at) > PROBE_MS_MIN;
        if is_due && is_long_ago && self.host.runs().n_under_way() > 0 {
            self.commit(&RunBatch::probe(), false)?;
            self.goes_on(Duration::ZERO);
        }
        Ok(())
    }

    /// Checks the store at intervals, so that its loss is noticed before the next write.
    fn look_for_the_store(&mut self) -> Result<(), Stop> {
        if self.looked_at.elapsed() < STORE_LOOK_INTERVAL {
            return Ok(());
        }
        self.looked_at = Instant::now();
        match self.store.commit(&RunBatch::new()) {
            Ok(_) | Err(StoreFault::Full(_) | StoreFault::Busy(_)) => Ok(()),
            Err(fault) => {
                (self.cannot_go_on)(Ending::Store(&fault));
                Err(Stop)
            }
        }
    }
}
