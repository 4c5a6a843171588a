//! Stalls of the process, full disks, and jumps of the wall clock. The process continues after a stall as its shell does.

use crate::process::Process;
use crate::world::{Happening, World};
use escapement_model::RunId;
use escapement_run::Input;
use escapement_runs_judge::Judge;
use std::collections::VecDeque;

/// Clock and stalls of a process.
pub(crate) struct Pause {
    /// Error of the wall clock.
    pub(crate) wall_off_ms: i64,
    pub(crate) written_at: i64,
    /// Inputs that arrived during a stall, each with its time.
    pub(crate) held: VecDeque<(i64, RunId, Input)>,
    standstill: Option<Standstill>,
}

/// Stall that has not ended.
struct Standstill {
    /// Earliest start by the clock of the process.
    from: i64,
    /// Latest start.
    surely_from: i64,
    until_ms: u64,
}

impl Pause {
    pub(crate) fn new(now: i64, wall_off_ms: i64) -> Self {
        Self {
            wall_off_ms,
            written_at: now,
            held: VecDeque::new(),
            standstill: None,
        }
    }

    /// Returns the end of the stall, or `None` without a stall.
    pub(crate) fn ends_at_ms(&self) -> Option<u64> {
        self.standstill.as_ref().map(|it| it.until_ms)
    }
}

impl Process {
    pub(crate) fn stands_still(&self) -> bool {
        self.pause.ends_at_ms().is_some()
    }

    fn stops(&mut self, from: i64, now_ms: u64, until_ms: u64) {
        let surely_from = self.unix_ms(now_ms);
        let known = self.pause.standstill.get_or_insert(Standstill {
            from,
            surely_from,
            until_ms,
        });
        known.until_ms = known.until_ms.max(until_ms);
    }

    // RUN-7.2
    /// Returns true if a timer is due and the last write is too old to prove that the disk has space.
    pub(crate) fn has_to_probe(&self, now: i64) -> bool {
        let is_due = self.host.due_at().is_some_and(|due| due <= now);
        is_due && now - self.pause.written_at > PROBE_MS && self.host.runs().n_under_way() > 0
    }

    /// Starts a stall because the disk is full. Its start is unknown.
    pub(crate) fn finds_no_space(&mut self, now_ms: u64, until_ms: u64) {
        let now = self.unix_ms(now_ms);
        self.stops(self.pause.written_at.min(now), now_ms, until_ms);
    }

    // RUN-7.2, RUN-7.5
    /// Ends a stall that is over, and submits its inputs in the order of time. Returns false during a stall.
    pub(crate) fn goes_on(&mut self, now_ms: u64, judge: &mut Judge) -> bool {
        if self.pause.ends_at_ms().is_some_and(|until_ms| until_ms > now_ms) {
            return false;
        }
        let Some(standstill) = self.pause.standstill.take() else {
            return true;
        };
        let now = self.unix_ms(now_ms);
        let stood_ms = now - standstill.from;
        judge.nothing_happens_for(u64::try_from(stood_ms).unwrap_or(0));
        if stood_ms > STALL_MS {
            self.host.stood_still(standstill.from, now);
            judge.stood_still(standstill.from, standstill.surely_from, now);
        }
        let first = self.pause.held.front().map(|(at, ..)| *at);
        self.host.time_before(first, now);
        for (at, run_id, input) in std::mem::take(&mut self.pause.held) {
            // The run may have ended.
            let _ = self.host.handle(run_id, input, at);
        }
        true
    }
}

impl World {
    pub(crate) fn draw_hard_times(&mut self) {
        for (happening, most_ms) in [
            (Happening::StandsStill, STALL_AFTER_MS),
            (Happening::DiskFills, FAULT_AFTER_MS),
            (Happening::ClockIsSet, FAULT_AFTER_MS),
        ] {
            let after_ms = self.time_dice.between(100, most_ms);
            self.plan(after_ms, happening);
        }
    }

    /// Schedules the same fault again until the storm ends.
    fn again(&mut self, happening: Happening, most_ms: u64) {
        if self.is_stormy {
            let after_ms = self.time_dice.between(100, most_ms);
            self.plan(after_ms, happening);
        }
    }

    pub(crate) fn stands_still(&mut self) {
        self.again(Happening::StandsStill, STALL_AFTER_MS);
        let most_ms = *self
            .time_dice
            .pick(&[2_000, 2_000, 2_000, 2_000, 10_000, 120_000]);
        let until_ms = self.now_ms + self.time_dice.between(100, most_ms);
        let now_ms = self.now_ms;
        let Some(process) = self.process.as_mut().filter(|_| self.is_stormy) else {
            return;
        };
        let now = process.unix_ms(now_ms);
        process.stops(now, now_ms, until_ms);
        self.count("fault: process stands still");
    }

    pub(crate) fn disk_fills(&mut self) {
        self.again(Happening::DiskFills, FAULT_AFTER_MS);
        if self.is_stormy {
            let most_ms = *self.time_dice.pick(&[1_000, 10_000, 60_000, 600_000]);
            self.full_until_ms = self.now_ms + self.time_dice.roll(most_ms);
            self.count("fault: disk is full");
        }
    }

    pub(crate) fn clock_is_set(&mut self) {
        self.again(Happening::ClockIsSet, FAULT_AFTER_MS);
        if !self.is_stormy {
            return;
        }
        self.count("fault: clock is set");
        let most_ms = *self.time_dice.pick(&[60_000, 60_000, HOURS_MS, YEARS_MS]);
        let off_ms = self.time_dice.roll(most_ms + 1).cast_signed();
        let is_ahead = self.time_dice.percent(50);
        self.sets_clock(if is_ahead { off_ms } else { -off_ms });
        // A start with a clock far ahead rightly ends every run.
        if most_ms > 60_000 {
            let after_ms = self.time_dice.between(1_000, 20_000);
            self.plan(after_ms, Happening::ClockIsRight);
        }
    }

    pub(crate) fn sets_clock(&mut self, off_ms: i64) {
        self.wall_off_ms = off_ms;
        if let Some(process) = &mut self.process {
            process.pause.wall_off_ms = off_ms;
        }
        if let Some(contract) = &mut self.contract {
            contract.offset_ms = off_ms;
        }
    }
}

/// Longest pause of a process that does not count as a stall.
const STALL_MS: i64 = 2_000;
/// Oldest write that proves that the disk has space.
const PROBE_MS: i64 = 1_000;
/// Longest time until the next stall.
const STALL_AFTER_MS: u64 = 4_000;
/// Longest time until the next full disk or jump.
const FAULT_AFTER_MS: u64 = 20_000;
const HOURS_MS: u64 = 5 * 3_600_000;
const YEARS_MS: u64 = 10 * 365 * 24 * 3_600_000;
