//! The order of the items in each level, so that few lines cross. Gives no item its final place.

use super::{Beside, Item, Layout, mean};

impl Layout {
    /// Sweeps to and fro, and keeps the order with the fewest crossings.
    pub(super) fn order(&mut self, levels: &mut Vec<Vec<usize>>, beside: &Beside) {
        let n_sweeps = if self.lines.len() <= LINES_COUNTED_MAX {
            SWEEPS
        } else {
            SWEEPS_OF_MANY
        };
        let mut best = (usize::MAX, levels.clone());
        for sweep in 0..n_sweeps {
            let is_down = sweep % 2 == 0;
            for at in 0..levels.len() {
                let level = if is_down { at } else { levels.len() - 1 - at };
                self.sort(
                    &mut levels[level],
                    if is_down { &beside.before } else { &beside.after },
                );
            }
            let n_crossings = if self.lines.len() <= LINES_COUNTED_MAX {
                self.n_crossings()
            } else {
                0
            };
            if n_crossings < best.0 || self.lines.len() > LINES_COUNTED_MAX {
                best = (n_crossings, levels.clone());
            }
        }
        *levels = best.1;
        for level in levels {
            for (rank, item) in level.iter().enumerate() {
                self.items[*item].rank = rank;
            }
        }
        self.set_offsets();
    }

    fn set_offsets(&mut self) {
        for item in &mut self.items {
            item.cross = item.rank as f64;
        }
    }

    /// Sorts a level by the mean place of what its items hang on; those that hang on nothing keep theirs.
    fn sort(&mut self, level: &mut [usize], beside: &[Vec<usize>]) {
        let middle = |item: &Item| item.cross;
        let n = level.len() as f64;
        let mut keyed: Vec<(f64, usize)> = level
            .iter()
            .map(|item| {
                let key = mean(beside[*item].iter().map(|other| middle(&self.items[*other])));
                (key.unwrap_or(self.items[*item].cross), *item)
            })
            .collect();
        keyed.sort_by(|one, other| one.0.total_cmp(&other.0));
        for (rank, (place, (_, item))) in level.iter_mut().zip(keyed).enumerate() {
            *place = item;
            self.items[item].rank = rank;
            // Counted from the middle of the level, so that narrow and wide levels compare.
            self.items[item].cross = rank as f64 - (n - 1.0) / 2.0;
        }
    }

    /// Pairs of lines between the same levels whose ends stand in opposite orders.
    pub(super) fn n_crossings(&self) -> usize {
        let mut lines: Vec<(usize, usize, usize, usize)> = self
            .lines
            .iter()
            .map(|(from, to)| (&self.items[*from], &self.items[*to]))
            .map(|(from, to)| (from.level, to.level, from.rank, to.rank))
            .collect();
        lines.sort_unstable();
        let mut n_crossings = 0;
        for group in lines.chunk_by(|one, other| (one.0, one.1) == (other.0, other.1)) {
            let n_ranks = group.iter().map(|line| line.3 + 1).max().unwrap_or(0);
            let mut seen = Counts(vec![0; n_ranks + 1]);
            for (n_before, line) in group.iter().enumerate() {
                n_crossings += n_before - seen.up_to(line.3);
                seen.add(line.3);
            }
        }
        n_crossings
    }
}

/// How many of each rank were seen, summed up in logarithmic time.
struct Counts(Vec<usize>);

impl Counts {
    fn add(&mut self, rank: usize) {
        let mut at = rank + 1;
        while at < self.0.len() {
            self.0[at] += 1;
            at += at & at.wrapping_neg();
        }
    }

    fn up_to(&self, rank: usize) -> usize {
        let mut at = rank + 1;
        let mut sum = 0;
        while at > 0 {
            sum += self.0[at];
            at -= at & at.wrapping_neg();
        }
        sum
    }
}

const SWEEPS: usize = 16;
const SWEEPS_OF_MANY: usize = 4;
/// Lines whose crossings are counted; counting more takes too long.
const LINES_COUNTED_MAX: usize = 16_384;
