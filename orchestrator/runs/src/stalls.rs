//! Records the times during which the process stood still.

use alloc::collections::VecDeque;
use escapement_model::planted::{self, Bug};
use escapement_run::{Input, Run};

/// Times in which the process stood still, or could write nothing, since its start: none overlaps another one.
#[derive(Debug, Default)]
pub(crate) struct Stalls(VecDeque<(i64, i64)>);

impl Stalls {
    pub(crate) fn add(&mut self, from: i64, until: i64) {
        let from = self.0.back().map_or(from, |(_, last)| from.max(*last));
        if from >= until {
            return;
        }
        self.0.push_back((from, until));
        if self.0.len() > STALLS_MAX {
            // Two old ones become one: time that is not yet known to runs is left out rather than counted.
            let first = self.0.pop_front().map_or(from, |(first, _)| first);
            if let Some(next) = self.0.front_mut() {
                next.0 = first;
            }
        }
    }

    // RUN-7.2
    /// Returns the input that an active run has to handle before that one; `None` if the process did not
    /// stand still since its last entry.
    pub(crate) fn of(&self, run: &Run, input: &Input, now: i64) -> Option<Input> {
        let newest = self.0.back()?;
        let since = run.clock_time(run.state().updated_at);
        // After a start no time since the last entry is active.
        let starts = matches!(input, Input::Recovered | Input::Restarted);
        let is_counted = planted::is_on(Bug::RunStallCounted);
        if newest.1 <= since || !run.state().is_active() || starts || is_counted {
            return None;
        }
        let ms = self.within(since, now);
        (ms > 0).then_some(Input::Stalled { ms })
    }

    fn within(&self, since: i64, now: i64) -> u64 {
        let stalls = self.0.iter().rev().take_while(|(_, until)| *until > since);
        let within = stalls.map(|(from, until)| {
            let ms = until.min(&now).saturating_sub(*from.max(&since));
            u64::try_from(ms).unwrap_or(0)
        });
        within.sum()
    }
}

/// Stalls that are known one by one.
const STALLS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::{STALLS_MAX, Stalls};

    #[test]
    fn only_what_lies_between_counts() {
        let mut stalls = Stalls::default();
        stalls.add(10, 20);
        stalls.add(15, 30);
        stalls.add(50, 60);
        assert_eq!(stalls.within(0, 100), 30);
        assert_eq!(stalls.within(12, 55), 23);
        assert_eq!(stalls.within(30, 50), 0);
        assert_eq!(stalls.within(60, 90), 0);
        assert_eq!(stalls.within(55, 52), 0);
    }

    #[test]
    fn of_very_many_the_oldest_become_one() {
        let mut stalls = Stalls::default();
        for at in 0..STALLS_MAX as i64 + 1 {
            stalls.add(at * 10, at * 10 + 1);
        }
        assert_eq!(stalls.0.len(), STALLS_MAX);
        assert_eq!(stalls.0[0], (0, 11));
        assert_eq!(stalls.within(20, 31), 2);
    }
}
