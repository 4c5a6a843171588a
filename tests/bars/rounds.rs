//! How long and how often is measured. Measures nothing.

use std::time::Duration;

/// The size of a measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Extent {
    /// Rounds; in each of them the product and its baseline take turns.
    pub(crate) rounds: usize,
    /// How long a rate is measured in one round.
    pub(crate) span: Duration,
    /// Calls of one round of a latency.
    pub(crate) calls: usize,
    /// Large plans of one round.
    pub(crate) plans: usize,
    /// How often a queue is filled.
    pub(crate) queues: usize,
    /// Executions that are queued.
    pub(crate) queued: usize,
    /// Executions that are settled when the orchestrator starts again.
    pub(crate) settled: usize,
    /// Idle sessions.
    pub(crate) sessions: usize,
    /// How long something idle is looked at.
    pub(crate) idle: Duration,
}

impl Extent {
    /// What the figures in the README were taken with.
    pub(crate) const FULL: Self = Self {
        rounds: 5,
        span: Duration::from_secs(3),
        calls: 2_000,
        plans: 12,
        queues: 3,
        queued: 100_000,
        settled: 1_000_000,
        sessions: 2_000,
        idle: Duration::from_secs(30),
    };
    /// Under two minutes, for a look in between. The sizes that the bars name stay.
    pub(crate) const QUICK: Self = Self {
        rounds: 3,
        span: Duration::from_secs(1),
        calls: 500,
        plans: 4,
        queues: 1,
        idle: Duration::from_secs(8),
        ..Self::FULL
    };
}

impl Default for Extent {
    fn default() -> Self {
        Self::FULL
    }
}
