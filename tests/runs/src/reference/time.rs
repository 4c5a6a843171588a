//! Section 7: what time does.

use super::misreading::Misreading;
use super::plan::Kind;
use super::run::{RequestState, Run, Step, Unit, UnitState};
use super::words::{Limit, Shown, StepState};

/// What is due first at one instant stands first: RUN-2.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Unit,
    Request(usize),
    Generation,
    Limit(Limit),
}

impl Run {
    /// When the run changes at the latest; none once it has ended.
    #[must_use]
    pub fn due_at(&self) -> Option<u64> {
        self.next().map(|(at, _)| at)
    }

    /// All that is due up to this time happens, each at its own instant.
    pub(super) fn pass_time(&mut self, now: u64) {
        while let Some((at, due)) = self.next().filter(|(at, _)| *at <= now) {
            self.move_to(at.max(self.now));
            match due {
                Due::Unit => {}
                Due::Request(number) => self.expire(number),
                Due::Generation => self.generation_is_over(),
                Due::Limit(limit) => self.time_out(limit),
            }
            self.go_on();
        }
        self.move_to(now);
    }

    fn move_to(&mut self, now: u64) {
        if self.is_active() {
            self.active_ms += now - self.now;
        }
        self.now = now;
    }

    /// Excludes so much of the time until now from active time (RUN-7.2); no timer fires in between.
    pub(super) fn time_stands_still(&mut self, now: u64, ms: u64) {
        if self.end.is_some() {
            return;
        }
        if self.is_active() && !self.reads(Misreading::StallsAreActive) {
            self.active_ms += (now - self.now).saturating_sub(ms);
        } else if self.is_active() {
            self.active_ms += now - self.now;
        }
        self.now = now;
    }

    /// RUN-7.2.
    #[must_use]
    pub fn is_active(&self) -> bool {
        let waits = self.shown() == Shown::Waiting && self.reads(Misreading::WaitingIsActive);
        matches!(self.shown(), Shown::Planning | Shown::Running | Shown::Pausing) || waits
    }

    fn next(&self) -> Option<(u64, Due)> {
        if self.end.is_some() {
            return None;
        }
        let mut all = Vec::new();
        if !self.wants_pause {
            for step in self.steps.iter().filter(|step| step.state == StepState::Running) {
                for unit in &step.units {
                    if let UnitState::BackingOff(at) = unit.state {
                        all.push((at, Due::Unit));
                    }
                }
            }
        }
        let aborting = self.failing.is_some_and(|failing| !failing.drains);
        if aborting {
            all.clear();
        }
        for (number, request) in self.requests.iter().enumerate() {
            if request.state == RequestState::Open {
                all.push((request.until, Due::Request(number)));
            }
        }
        if let Some(left_ms) = self.generation_left_ms().filter(|_| self.is_active()) {
            all.push((self.now + left_ms, Due::Generation));
        }
        for (left_ms, limit) in self.limits_left() {
            all.push((self.now + left_ms, Due::Limit(limit)));
        }
        all.into_iter().min()
    }

    /// The limits that run, and how much is left of each.
    fn limits_left(&self) -> Vec<(u64, Limit)> {
        let limits = &self.limits;
        let lifetime_at = self.created_at + limits.lifetime_ms;
        let mut left = vec![(lifetime_at.saturating_sub(self.now), Limit::Lifetime)];
        if self.is_active() {
            left.push((limits.run_ms.saturating_sub(self.active_ms), Limit::Run));
            if let Some(revision_ms) = self.revision_ms() {
                left.push((
                    (self.revision_began_ms + revision_ms).saturating_sub(self.active_ms),
                    Limit::Revision,
                ));
            }
            if let Some(watchdog_ms) = self.watchdog_ms() {
                left.push((
                    (self.progress_ms + watchdog_ms).saturating_sub(self.active_ms),
                    Limit::Watchdog,
                ));
            }
        }
        if let Some(since) = self.paused_at {
            left.push(((since + limits.pause_ms).saturating_sub(self.now), Limit::Pause));
        }
        left
    }

    /// Its time does not pass while another plan is made.
    fn revision_ms(&self) -> Option<u64> {
        self.limits.revision_ms.filter(|_| !self.planning.is_wanted)
    }

    /// RUN-7.3.
    fn watchdog_ms(&self) -> Option<u64> {
        if self.limits.watchdog_ms.is_some() {
            return self.limits.watchdog_ms;
        }
        let mut longest = 30_000;
        for (index, step) in self.steps.iter().enumerate() {
            if step.state != StepState::Running || !step.units.iter().any(|unit| !unit.has_ended()) {
                continue;
            }
            if self.plan.steps[index].kind == Kind::Child && step.has_in_flight() {
                return None;
            }
            longest = longest.max(self.worst_case_ms(index, step) + 5_000);
        }
        Some(longest)
    }

    fn worst_case_ms(&self, index: usize, step: &Step) -> u64 {
        let limits = &self.limits;
        let attempt_ms = self.plan.steps[index].timeout_ms.unwrap_or(limits.attempt_ms);
        let one_ms = limits.queue_wait_ms + limits.worker_wait_ms + attempt_ms;
        let of_unit = |unit: &Unit| {
            let delays_ms: u64 = (1..=unit.max_retries).map(|k| limits.delay_ms(k)).sum();
            u64::from(unit.max_retries + 1) * one_ms + delays_ms
        };
        let live = step
            .units
            .iter()
            .filter(|unit| matches!(unit.state, UnitState::InFlight | UnitState::BackingOff(_)));
        live.map(of_unit).max().unwrap_or(0)
    }

    /// RUN-7.4: the outer limit of which less than 50 ms are left.
    pub(super) fn limit_that_is_near(&self) -> Option<Limit> {
        let mut near = self.limits_of_dispatch();
        near.retain(|(left_ms, _)| *left_ms < 50);
        near.into_iter().min().map(|(_, limit)| limit)
    }

    /// Returns the milliseconds that the outer limits leave.
    pub(super) fn left_ms(&self) -> u64 {
        let left = self.limits_of_dispatch().into_iter().map(|(left_ms, _)| left_ms);
        left.min().unwrap_or(u64::MAX)
    }

    /// Returns true if an attempt of the step has less than its own limit now (RUN-7.4). An eighth of what is
    /// left is kept.
    pub(super) fn cuts(&self, step: usize) -> bool {
        let own_ms = self.plan.steps[step].timeout_ms.unwrap_or(self.limits.attempt_ms);
        let left_ms = self.left_ms();
        own_ms > left_ms - (left_ms / 8).min(self.limits.queue_wait_ms)
    }

    fn limits_of_dispatch(&self) -> Vec<(u64, Limit)> {
        let limits = &self.limits;
        let lifetime_at = self.created_at + limits.lifetime_ms;
        let mut left = vec![
            (lifetime_at.saturating_sub(self.now), Limit::Lifetime),
            (limits.run_ms.saturating_sub(self.active_ms), Limit::Run),
        ];
        if let Some(revision_ms) = self.revision_ms() {
            left.push((
                (self.revision_began_ms + revision_ms).saturating_sub(self.active_ms),
                Limit::Revision,
            ));
        }
        left
    }
}
