//! What a round of kills draws beside plain numbers: times, and what happened lately. A seed is the shape of a whole round;
//! what the machine makes of it is its own.

use escapement_tests::Dice;
use std::time::Duration;

/// More draws.
pub(crate) trait Draws {
    /// Both ends included.
    fn ms(&mut self, least: u64, most: u64) -> Duration;

    /// An index of what has so many elements; newer ones more often.
    fn recent(&mut self, len: usize) -> usize;
}

impl Draws for Dice {
    fn ms(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_micros(1_000 * least + self.roll(1_000 * (most - least) + 1))
    }

    fn recent(&mut self, len: usize) -> usize {
        let is_recent = self.percent(80);
        let sides = if is_recent { len.min(RECENT) } else { len };
        len - 1 - self.index(sides)
    }
}

const RECENT: usize = 40;
