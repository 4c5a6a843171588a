//! The instants of a cron expression in a zone. Knows no present.

use jiff::ToSpan;

use crate::cron::Cron;
use crate::zone::Zone;

/// A cron expression in a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    cron: Cron,
    zone: Zone,
}

impl Schedule {
    /// Of this expression in this zone.
    pub fn new(cron: Cron, zone: Zone) -> Self {
        Self { cron, zone }
    }

    // TRIG-2.1
    /// The first instant after that one, both in Unix milliseconds; `None` if there is none that can be told.
    ///
    /// A local time that does not exist counts as the first instant behind its gap, one that occurs twice as its first.
    pub fn next_after(&self, instant_ms: i64) -> Option<i64> {
        let mut local = self.zone.local(instant_ms)?;
        // Local times that are the same instant, or an earlier one, lie within one change of the clock.
        for _ in 0..STEPS_MAX {
            let found = self.cron.at_or_after(local)?;
            let instant = self.zone.instant(found)?;
            if instant > instant_ms {
                return Some(instant);
            }
            local = found.checked_add(1.minute()).ok()?;
        }
        None
    }
}

/// Minutes of the longest change of a clock, and those of a day behind it.
const STEPS_MAX: usize = 2 * 1_500;

#[cfg(test)]
mod tests {
    use super::Schedule;
    use crate::cron::Cron;
    use crate::zone::Zone;
    use alloc::vec::Vec;

    fn schedule(cron: &str, zone: &str) -> Schedule {
        Schedule::new(Cron::read(cron).unwrap(), Zone::named(zone).unwrap())
    }

    fn instants(cron: &str, zone: &str, from_ms: i64, n: usize) -> Vec<i64> {
        let schedule = schedule(cron, zone);
        let mut at = from_ms;
        let next = || {
            at = schedule.next_after(at)?;
            Some(at)
        };
        core::iter::from_fn(next).take(n).collect()
    }

    const MINUTE: i64 = 60_000;
    const HOUR: i64 = 60 * MINUTE;
    /// 2026-03-29 03:00 in Berlin, one o'clock UTC.
    const SPRING: i64 = 1_774_746_000_000;
    /// 2026-10-25 02:00 in Berlin for the first time, midnight UTC.
    const AUTUMN: i64 = 1_792_886_400_000;

    // TRIG-2.1
    #[test]
    fn a_gap_fires_once_at_its_end() {
        let at_half_past_two = instants("30 2 * * *", "Europe/Berlin", SPRING - 24 * HOUR, 3);
        let before = SPRING - 24 * HOUR + 30 * MINUTE;
        let after = SPRING + 24 * HOUR - 30 * MINUTE;
        assert_eq!(at_half_past_two, [before, SPRING, after]);
        let quarters = instants("*/15 * * * *", "Europe/Berlin", SPRING - 16 * MINUTE, 3);
        assert_eq!(quarters, [SPRING - 15 * MINUTE, SPRING, SPRING + 15 * MINUTE]);
    }

    // TRIG-2.1
    #[test]
    fn what_occurs_twice_fires_at_the_first() {
        let at_half_past_two = instants("30 2 * * *", "Europe/Berlin", AUTUMN - 24 * HOUR, 3);
        let days = [AUTUMN - 24 * HOUR, AUTUMN, AUTUMN + 25 * HOUR];
        assert_eq!(at_half_past_two, days.map(|day| day + 30 * MINUTE));
        let hours = instants("0 * * * *", "Europe/Berlin", AUTUMN - HOUR, 3);
        assert_eq!(hours, [AUTUMN, AUTUMN + 2 * HOUR, AUTUMN + 3 * HOUR]);
        let between = instants("*/30 * * * *", "Europe/Berlin", AUTUMN + HOUR + MINUTE, 1);
        assert_eq!(between, [AUTUMN + 2 * HOUR], "within the second occurrence");
    }

    #[test]
    fn a_day_that_is_left_out_fires_once() {
        // 2011-12-30 was left out; the 31st began at 10:00 UTC of the 30th.
        let start = 1_325_239_200_000;
        let at_nine = instants("0 9 * * *", "Pacific/Apia", start - HOUR, 2);
        assert_eq!(at_nine, [start, start + 9 * HOUR]);
        let minutes = instants("* * * * *", "Pacific/Apia", start - MINUTE, 2);
        assert_eq!(minutes, [start, start + MINUTE]);
    }

    #[test]
    fn the_ends_of_time_are_no_instants() {
        assert_eq!(schedule("* * * * *", "UTC").next_after(i64::MAX), None);
        assert_eq!(schedule("* * * * *", "UTC").next_after(i64::MIN), None);
        assert_eq!(schedule("* * * * *", "UTC").next_after(-1), Some(0));
    }
}
