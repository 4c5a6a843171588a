//! Which instants of a schedule fire at a moment, and which of them were missed. Records nothing.

use alloc::vec::Vec;

use crate::schedule::Schedule;

/// What becomes of instants that passed while nothing could fire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CatchUp {
    /// The latest of them fires.
    Latest,
    /// The latest of them fire, up to that many.
    All(u32),
    /// None of them fires.
    Skip,
}

/// What a moment leads to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// Instants that fire, in order, Unix milliseconds.
    pub firing: Vec<i64>,
    /// Those that do not.
    pub missed: Option<Missed>,
}

/// Instants that never fire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missed {
    /// The first of them, Unix milliseconds.
    pub first_ms: i64,
    /// How many; [`Missed::COUNT_MAX`] stands for more, too.
    pub n: u32,
}

impl Missed {
    /// As many as are counted.
    pub const COUNT_MAX: u32 = 1_000;
}

// TRIG-2.2
/// What is due in the time after `handled_ms`, up to `now_ms`.
///
/// An instant that passed less than a minute ago is on time and fires in any case. One that passed more than an hour ago
/// never fires.
pub fn due(schedule: &Schedule, catch_up: CatchUp, handled_ms: i64, now_ms: i64) -> Due {
    let mut due = Due::default();
    let Some(first_ms) = next(schedule, handled_ms, now_ms) else {
        return due;
    };
    let mut n_missed = 0;
    let mut at = Some(first_ms);
    // Before the window they are counted, as far as that is worth it.
    let opens = now_ms.saturating_sub(WINDOW_MS);
    while let Some(instant) = at.filter(|instant| *instant < opens) {
        n_missed += 1;
        let from = if n_missed < Missed::COUNT_MAX {
            instant
        } else {
            opens - 1
        };
        at = next(schedule, from, now_ms);
    }
    let mut late = Vec::new();
    while let Some(instant) = at {
        let is_late = now_ms - instant >= ON_TIME_MS;
        if is_late { &mut late } else { &mut due.firing }.push(instant);
        at = next(schedule, instant, now_ms);
    }
    let n_kept = match catch_up {
        // What is on time is later.
        CatchUp::Latest => usize::from(due.firing.is_empty()),
        CatchUp::All(most) => most as usize,
        CatchUp::Skip => 0,
    };
    let kept = late.split_off(late.len().saturating_sub(n_kept));
    due.firing.splice(0..0, kept);
    n_missed = n_missed.saturating_add(u32::try_from(late.len()).unwrap_or(u32::MAX));
    if n_missed > 0 {
        due.missed = Some(Missed {
            first_ms,
            n: n_missed.min(Missed::COUNT_MAX),
        });
    }
    due
}

fn next(schedule: &Schedule, after_ms: i64, now_ms: i64) -> Option<i64> {
    schedule.next_after(after_ms).filter(|instant| *instant <= now_ms)
}

/// How long ago an instant may have passed that still fires: one hour.
const WINDOW_MS: i64 = 3_600_000;
/// How long ago one passed that was not missed: less than a minute.
const ON_TIME_MS: i64 = 60_000;

#[cfg(test)]
mod tests {
    use super::{CatchUp, Due, Missed, due};
    use crate::cron::Cron;
    use crate::schedule::Schedule;
    use crate::zone::Zone;

    const MINUTE: i64 = 60_000;
    const HOUR: i64 = 60 * MINUTE;

    fn every(cron: &str) -> Schedule {
        Schedule::new(Cron::read(cron).unwrap(), Zone::named("UTC").unwrap())
    }

    fn missed(first_ms: i64, n: u32) -> Option<Missed> {
        Some(Missed { first_ms, n })
    }

    #[track_caller]
    fn check(catch_up: CatchUp, now_ms: i64, firing: &[i64], missed: Option<Missed>) {
        let expected = Due {
            firing: firing.to_vec(),
            missed,
        };
        assert_eq!(due(&every("*/10 * * * *"), catch_up, 0, now_ms), expected);
    }

    // TRIG-2.2
    #[test]
    fn what_is_on_time_fires_whatever_the_policy() {
        for catch_up in [CatchUp::Latest, CatchUp::All(3), CatchUp::Skip] {
            check(catch_up, 10 * MINUTE + 5, &[10 * MINUTE], None);
            check(catch_up, 10 * MINUTE - 1, &[], None);
        }
    }

    // TRIG-2.2
    #[test]
    fn what_was_missed_fires_as_the_policy_says() {
        let now = 35 * MINUTE;
        let [one, two, three] = [10, 20, 30].map(|minute| minute * MINUTE);
        check(CatchUp::Latest, now, &[three], missed(one, 2));
        check(CatchUp::All(2), now, &[two, three], missed(one, 1));
        check(CatchUp::All(5), now, &[one, two, three], None);
        check(CatchUp::Skip, now, &[], missed(one, 3));
        check(CatchUp::Latest, 30 * MINUTE, &[three], missed(one, 2));
        check(CatchUp::All(5), 30 * MINUTE, &[one, two, three], None);
    }

    // TRIG-2.2
    #[test]
    fn nothing_fires_that_passed_more_than_an_hour_ago() {
        let now = 24 * HOUR + 5 * MINUTE;
        let latest = 24 * HOUR;
        check(CatchUp::Latest, now, &[latest], missed(10 * MINUTE, 143));
        let six = [50, 40, 30, 20, 10, 0].map(|minute| latest - minute * MINUTE);
        check(CatchUp::All(100), now, &six, missed(10 * MINUTE, 138));
        let daily = every("0 12 * * *");
        let after = due(&daily, CatchUp::Latest, 0, 14 * HOUR);
        assert_eq!(after.firing, [], "two hours ago");
        assert_eq!(after.missed, missed(12 * HOUR, 1));
    }

    #[test]
    fn a_year_is_counted_as_far_as_it_is_worth() {
        let after = due(&every("* * * * *"), CatchUp::All(3), 0, 365 * 24 * HOUR);
        assert_eq!(
            after.firing.len(),
            4,
            "three that are late and one that is on time"
        );
        assert_eq!(after.missed, missed(MINUTE, Missed::COUNT_MAX));
    }
}
