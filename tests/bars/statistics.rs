//! Medians and spreads. Knows no bar.

use std::time::Duration;

/// What several rounds gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Figure {
    /// Half of the rounds gave less.
    pub(crate) median: f64,
    /// The least.
    pub(crate) low: f64,
    /// The most.
    pub(crate) high: f64,
    /// How many rounds.
    pub(crate) rounds: usize,
}

impl Figure {
    /// Of the figures of all rounds.
    ///
    /// # Panics
    /// There is none.
    pub(crate) fn of(figures: impl IntoIterator<Item = f64>) -> Self {
        let mut figures: Vec<f64> = figures.into_iter().collect();
        figures.sort_by(f64::total_cmp);
        Self {
            median: middle(&figures),
            low: *figures.first().expect("there is a round"),
            high: *figures.last().expect("there is a round"),
            rounds: figures.len(),
        }
    }
}

/// Returns the value below which this share of the sorted values lies; the nearest one.
///
/// # Panics
/// There is none.
pub(crate) fn quantile(sorted: &[Duration], share: f64) -> Duration {
    let last = sorted.len().checked_sub(1).expect("there is a value");
    sorted[(last as f64 * share).round() as usize]
}

fn middle(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) {
        f64::midpoint(sorted[half - 1], sorted[half])
    } else {
        sorted[half]
    }
}

#[cfg(test)]
mod tests {
    use super::{Figure, quantile};
    use std::time::Duration;

    #[test]
    fn the_median_of_an_even_number_lies_between_the_two_in_the_middle() {
        let figure = Figure::of([4.0, 1.0, 2.0, 3.0]);
        assert_eq!((figure.median, figure.low, figure.high), (2.5, 1.0, 4.0));
        assert_eq!(Figure::of([3.0, 9.0, 1.0]).median, 3.0);
    }

    #[test]
    fn a_quantile_is_one_of_the_values() {
        let values: Vec<Duration> = (0..=100).map(Duration::from_millis).collect();
        assert_eq!(quantile(&values, 0.5), Duration::from_millis(50));
        assert_eq!(quantile(&values, 0.99), Duration::from_millis(99));
        assert_eq!(quantile(&values[..1], 0.99), Duration::ZERO);
    }
}
