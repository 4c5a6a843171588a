//! What one sink has lost. Says when losing begins and when it ends, so that a dead sink does not fill the log.

use crate::limits::SINK_CALM;
use std::time::Instant;
use tracing::{info, warn};

/// The count, and whether losing goes on.
#[derive(Debug)]
pub(crate) struct Losses {
    sink: &'static str,
    n_lost: u64,
    /// While losing goes on: how much was lost before it began, and the last loss.
    since: Option<(u64, Instant)>,
}

impl Losses {
    pub(crate) fn new(sink: &'static str) -> Self {
        Self {
            sink,
            n_lost: 0,
            since: None,
        }
    }

    /// One event more is lost. True if that is the first for a while.
    pub(crate) fn lost(&mut self, now: Instant) -> bool {
        let begins = self.since.is_none();
        let before = self.since.map_or(self.n_lost, |(before, _)| before);
        self.since = Some((before, now));
        self.n_lost += 1;
        if begins {
            warn!(sink = self.sink, dropped = self.n_lost, "events are dropped");
        }
        begins
    }

    /// An event was taken. How many were lost meanwhile, if that is over: nothing was lost for `SINK_CALM`.
    pub(crate) fn taken(&mut self, now: Instant) -> Option<u64> {
        let (before, last) = self.since?;
        if now.saturating_duration_since(last) < SINK_CALM {
            return None;
        }
        self.since = None;
        let lost = self.n_lost - before;
        info!(
            sink = self.sink,
            lost,
            dropped = self.n_lost,
            "events are taken again"
        );
        Some(lost)
    }
}
