//! What counts, and how it is registered.

use crate::catalogue::Entry;
use crate::label::Labels;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::exemplar::HistogramWithExemplars;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

pub(crate) type Counters = Family<Labels, Counter>;
pub(crate) type Gauges = Family<Labels, Gauge>;
pub(crate) type Histograms = Family<Labels, Histogram, Buckets>;
/// Histograms whose buckets name the trace of the last value in them, if that is exported.
pub(crate) type TracedHistograms = Family<Labels, HistogramWithExemplars<TraceLabel>, Buckets>;
/// The label of an exemplar.
pub(crate) type TraceLabel = [(&'static str, String); 1];

/// Makes histograms with certain limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buckets(pub(crate) &'static [f64]);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

impl MetricConstructor<HistogramWithExemplars<TraceLabel>> for Buckets {
    fn new_metric(&self) -> HistogramWithExemplars<TraceLabel> {
        HistogramWithExemplars::new(self.0.iter().copied())
    }
}

/// Registers what counts under its name. The library adds `_total` to counters and a full stop to the help.
pub(crate) fn registered<M: Metric + Clone>(registry: &mut Registry, entry: &Entry, metric: M) -> M {
    let help = entry.help.strip_suffix('.').unwrap_or(entry.help);
    registry.register(entry.stem(), help, metric.clone());
    metric
}

/// What a gauge takes.
pub(crate) fn signed(figure: impl TryInto<i64>) -> i64 {
    figure.try_into().unwrap_or(i64::MAX)
}

pub(crate) fn long() -> Histograms {
    Histograms::new_with_constructor(Buckets(LONG))
}

pub(crate) fn long_traced() -> TracedHistograms {
    TracedHistograms::new_with_constructor(Buckets(LONG))
}

/// Limits in seconds for what executions and steps take.
const LONG: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0,
];
/// Limits in seconds for what runs and people take: up to a week.
pub(crate) const LONGEST: &[f64] = &[
    0.1, 1.0, 10.0, 60.0, 300.0, 1800.0, 7200.0, 21600.0, 86400.0, 604_800.0,
];
/// Limits in seconds for what the orchestrator itself takes.
pub(crate) const SHORT: &[f64] = &[
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0,
];
