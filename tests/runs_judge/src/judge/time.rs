//! Active time: by the journal of a run, and by the real stalls of its process.

use super::book::{Book, Stage};
use super::{Desk, Execution, Finding, Judge};
use crate::canonical::uuid;
use crate::journal::{Entry, Event};
use std::collections::BTreeMap;

/// Time as the clock of a process went, in Unix milliseconds of that clock.
#[derive(Debug, Default)]
pub(super) struct Clock {
    stalls: Vec<Stall>,
    /// Arrival times of outcomes and of the ends of child runs, by their ids.
    came: BTreeMap<[u8; 16], i64>,
}

/// Interval in which the process did nothing.
#[derive(Clone, Copy, Debug)]
struct Stall {
    /// Earliest start: the last write, if the disk was full.
    from: i64,
    /// Latest start.
    surely_from: i64,
    until: i64,
}

impl Clock {
    /// Returns the stalled milliseconds between two times: at least, and at most.
    fn stood_ms(&self, since: i64, until: i64) -> (u64, u64) {
        let within = |from: i64, end: i64| u64::try_from(end.min(until) - from.max(since)).unwrap_or(0);
        let stalls = self.stalls.iter();
        let both = stalls.map(|it| (within(it.surely_from, it.until), within(it.from, it.until)));
        both.fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1))
    }
}

/// The time of one run.
#[derive(Debug, Default)]
pub(super) struct Active {
    /// Lead of its times over the clock of the process.
    ahead_ms: u64,
    /// Time before a session was read, which belongs to the next entry.
    unread_ms: u64,
    /// Upper bound of the active time.
    ms: u64,
    /// Same bound at the last progress.
    at_progress: u64,
    /// Same bound at the start of the revision.
    at_revision: u64,
    /// Limit that ended the run, and its milliseconds.
    pub(super) over: Option<(u32, u64)>,
}

/// Times of a run in milliseconds of the simulation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Life {
    born_ms: u64,
    /// Lower bound of its start.
    born_min_ms: u64,
    /// Time of its last durable entry.
    moved_ms: u64,
    n_entries: u64,
    /// Extension of its lifetime by stalls and by clocks that were set back.
    longer_ms: u64,
    has_ended: bool,
}

impl Book {
    // RUN-7.2
    /// Returns the counted part of the time before an entry, and compares it with the real stalls.
    pub(super) fn counts(&mut self, entry: &Entry, passed_ms: u64, desk: &mut Desk<'_>) -> u64 {
        let passed_ms = passed_ms + std::mem::take(&mut self.active.unread_ms);
        if let Event::SessionRead { .. } = entry.event {
            self.active.unread_ms = passed_ms;
            return 0;
        }
        let until = entry.at.saturating_sub_unsigned(self.active.ahead_ms);
        let (surely_ms, most_ms) = desk
            .clock
            .stood_ms(until.saturating_sub_unsigned(passed_ms), until);
        let counted_ms = match entry.event {
            Event::Recovered { ahead_ms } => {
                self.active.ahead_ms = ahead_ms;
                0
            }
            Event::Stalled { ms } => {
                desk.count("times that do not count");
                if ms < surely_ms || ms > most_ms {
                    let text = format!(
                        "leaves out {ms} ms, and the process stood still for {surely_ms} to {most_ms}"
                    );
                    desk.finds("RI8", &text);
                }
                passed_ms.saturating_sub(ms)
            }
            _ => {
                if surely_ms > 0 && self.is_in_flight() {
                    desk.finds(
                        "RI8",
                        &format!("counts {surely_ms} ms in which the process stood still"),
                    );
                }
                passed_ms
            }
        };
        if self.is_under_way() && !self.surely_waits() {
            self.active.ms += counted_ms;
        }
        counted_ms
    }

    // RUN-7.3
    /// Notes progress and revisions.
    pub(super) fn marks_time(&mut self, event: &Event) {
        let active = &mut self.active;
        match event {
            Event::Planned { .. } => {
                (active.at_revision, active.at_progress) = (active.ms, active.ms);
            }
            Event::Output(output)
                if output.class == 0 && !output.unit.is_generation() && !output.unit.is_look() =>
            {
                active.at_progress = active.ms;
            }
            Event::StepCompleted { .. }
            | Event::StepFailed { .. }
            | Event::UnitFailed(_)
            | Event::ChildEnded { .. }
            | Event::Answered(_)
            | Event::Resumed
            | Event::Replanned { .. } => active.at_progress = active.ms,
            _ => {}
        }
    }

    // RUN-7.3, RUN-7.4, RUN-7.6
    /// Checks that a limit was reached.
    pub(super) fn is_over(&mut self, limit: u32, limit_ms: u64, desk: &mut Desk<'_>) {
        desk.count("limits that ended runs");
        self.active.over = Some((limit, limit_ms));
        let lived = |since: i64| u64::try_from(self.at.saturating_sub(since)).unwrap_or(0);
        let (active, spec) = (&self.active, &self.spec);
        let (reached_ms, said_ms) = match limit {
            LIFETIME => (lived(self.created_at), Some(spec.lifetime_ms)),
            RUN => (active.ms, Some(spec.run_ms)),
            WATCHDOG => (
                active.ms - active.at_progress,
                Some(spec.watchdog_ms).filter(|ms| *ms > 0),
            ),
            REVISION => (active.ms - active.at_revision, Some(spec.revision_ms)),
            _ => (self.paused_at.map_or(0, lived), Some(spec.pause_ms)),
        };
        if said_ms.is_some_and(|said_ms| said_ms != limit_ms) || limit_ms == 0 {
            desk.finds(
                "RI8",
                &format!("is ended by limit {limit} of {limit_ms} ms, which it does not have"),
            );
        }
        let least_ms = match limit {
            LIFETIME | RUN | REVISION => limit_ms.saturating_sub(NOTHING_BEGINS_MS),
            _ => limit_ms,
        };
        if reached_ms < least_ms {
            let text = format!("is ended by limit {limit} of {limit_ms} ms at {reached_ms} ms");
            desk.finds("RI8", &text);
        }
        self.is_not_late(limit, desk);
    }

    // J4, RUN-7.5
    /// Checks that no awaited outcome arrived before the limit that ended the run.
    fn is_not_late(&self, limit: u32, desk: &mut Desk<'_>) {
        let at = self.at.saturating_sub_unsigned(self.active.ahead_ms);
        let came = &desk.clock.came;
        let came_before = |id: &[u8; 16]| came.get(id).is_some_and(|came| *came < at);
        // Running steps are skipped directly before the end of their run.
        let awaits = |it: &Execution| {
            let stage = self.stage_of(it.unit);
            let live = self.unit(it.unit).and_then(|unit| unit.live);
            live == Some(it.attempt) && matches!(stage, Some(Stage::Running | Stage::Left))
        };
        let executions = desk.executions.iter();
        let mut before = executions
            .filter(|(id, execution)| execution.run == self.id && came_before(id) && awaits(execution));
        let of_attempt = before
            .next()
            .map(|(_, execution)| format!("{:?}", execution.unit));
        let running = self
            .steps
            .iter()
            .filter(|step| matches!(step.stage, Stage::Running | Stage::Left));
        let children = running
            .flat_map(|step| step.units.values())
            .filter_map(|unit| unit.child.as_deref());
        let mut ended = children
            .filter_map(|child| <[u8; 16]>::try_from(child).ok())
            .filter(came_before);
        let of_child = ended.next().map(|child| format!("child {}", uuid(&child)));
        if let Some(late) = of_attempt.or(of_child) {
            desk.finds("J4", &format!("limit {limit} goes before the outcome of {late}"));
        }
    }

    /// Returns true if the run is certainly active: a worker has an attempt.
    fn is_in_flight(&self) -> bool {
        let running = self.steps.iter().filter(|step| step.stage == Stage::Running);
        let mut units = running.flat_map(|step| step.units.values());
        self.is_under_way() && units.any(|unit| unit.live.is_some())
    }

    /// Returns true if the run certainly waits for a person, with no other work.
    fn surely_waits(&self) -> bool {
        let mut units = self.steps.iter().flat_map(|step| step.units.values());
        let is_under_way = self.planning.is_some()
            || !self.evaluations.is_empty()
            || units.any(|unit| unit.live.is_some() || unit.child.is_some() || unit.retry_at.is_some());
        self.requests.values().any(|request| request.open) && !is_under_way
    }
}

impl Judge {
    // RUN-7.2
    /// Notes a stall of the process in times of its own clock: it began between the first two.
    pub fn stood_still(&mut self, from: i64, surely_from: i64, until: i64) {
        *self
            .counts
            .entry("times in which a process stood still")
            .or_default() += 1;
        self.clock.stalls.push(Stall {
            from,
            surely_from,
            until,
        });
    }

    // RUN-7.5
    /// Notes the arrival of an outcome, or of the end of a child run, at the process, by its own clock.
    pub fn came(&mut self, id: [u8; 16], at: i64) {
        self.clock.came.entry(id).or_insert(at);
    }

    /// Starts the clock of a new process, after all older entries were shown.
    pub fn clock_begins(&mut self) {
        self.clock = Clock::default();
    }

    // RUN-7.8
    /// Notes a start of the process at this time of the simulation. Its clock differs by so much from the clock of
    /// the process before.
    pub fn clock_is_off(&mut self, now_ms: u64, by_ms: i64) {
        for (run, life) in &mut self.lives {
            // A run whose times are ahead continues from its last entry.
            let is_ahead = self.runs.get(run).is_some_and(|book| book.active.ahead_ms > 0);
            if by_ms < 0 || is_ahead {
                life.longer_ms += now_ms - life.moved_ms;
            }
        }
        self.jumps.push((now_ms, u64::try_from(by_ms).unwrap_or(0)));
    }

    // RI8
    /// Checks runs at this time of the simulation. None lives longer than its lifetime and the time in which processes
    /// are down and messages late. No limit ended one before its time had passed.
    pub fn clock(&mut self, now_ms: u64, patience_ms: u64) {
        let born_min_ms = self.looked_at_ms[0];
        self.looked_at_ms = [self.looked_at_ms[1], now_ms];
        for (run, book) in &self.runs {
            let life = self.lives.entry(*run).or_insert(Life {
                born_ms: now_ms,
                born_min_ms,
                moved_ms: now_ms,
                n_entries: 0,
                longer_ms: 0,
                has_ended: false,
            });
            if life.n_entries != book.n_entries() {
                (life.n_entries, life.moved_ms) = (book.n_entries(), now_ms);
            }
            let may_ms = book.spec.lifetime_ms;
            let lived_ms = now_ms - life.born_ms;
            let mut finds = |text: String| {
                let text = format!("run {} {text}", uuid(run));
                self.findings.push(Finding {
                    invariant: "RI8",
                    text,
                });
            };
            if !book.has_ended() && lived_ms > may_ms + patience_ms + life.longer_ms {
                finds(format!("lives for {lived_ms} ms and may live for {may_ms}"));
            }
            let is_new = book.has_ended() && !std::mem::replace(&mut life.has_ended, book.has_ended());
            if let Some((limit, limit_ms)) = book.active.over.filter(|_| is_new) {
                let jumps = self.jumps.iter().filter(|(at_ms, _)| *at_ms >= life.born_min_ms);
                let sooner_ms = match limit {
                    LIFETIME | PAUSE => jumps.map(|(_, by_ms)| by_ms).sum(),
                    _ => 0,
                };
                let most_ms = now_ms - life.born_min_ms + sooner_ms + NOTHING_BEGINS_MS;
                if most_ms < limit_ms {
                    finds(format!(
                        "is ended by limit {limit} of {limit_ms} ms, {most_ms} ms after it was made"
                    ));
                }
            }
        }
    }

    /// Extends the lifetime of every run by a stall.
    pub fn nothing_happens_for(&mut self, ms: u64) {
        for life in self.lives.values_mut() {
            life.longer_ms += ms;
        }
    }
}

/// Limits by their numbers.
const LIFETIME: u32 = 0;
const RUN: u32 = 1;
const WATCHDOG: u32 = 2;
const REVISION: u32 = 3;
const PAUSE: u32 = 4;
// RUN-7.4
/// An outer limit is over as soon as less than this is left.
const NOTHING_BEGINS_MS: u64 = 50;
