//! The product and its baseline, round by round.

use std::time::Duration;

use crate::report::Baseline;
use crate::statistics::{Figure, quantile};

/// Figures of both, in the order of the rounds.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    /// The product's.
    pub(crate) value: Vec<f64>,
    /// The baseline's.
    pub(crate) baseline: Vec<f64>,
}

impl Pairs {
    /// Returns the product's figure.
    pub(crate) fn value(&self) -> Figure {
        Figure::of(self.value.iter().copied())
    }

    /// Returns the baseline's figure, and the ratio of each round.
    pub(crate) fn baseline(&self, name: &'static str) -> Baseline {
        let ratios = self
            .value
            .iter()
            .zip(&self.baseline)
            .map(|(value, baseline)| value / baseline);
        Baseline {
            name,
            value: Figure::of(self.baseline.iter().copied()),
            ratio: Figure::of(ratios),
        }
    }
}

/// Returns the median of sorted latencies, in milliseconds, as the bars give it.
pub(crate) fn p50(latencies: &[Duration]) -> f64 {
    quantile(latencies, 0.5).as_secs_f64() * 1_000.0
}

/// Returns the latency, in milliseconds, that 99 of 100 do not exceed.
pub(crate) fn p99(latencies: &[Duration]) -> f64 {
    quantile(latencies, 0.99).as_secs_f64() * 1_000.0
}
