//! What scrapes and probes of an orchestrator are answered from.

use crate::figures::Metrics;
use crate::gauges::Source;
use escapement_codec::trace::Sampling;
use escapement_figures::{Answers, Endpoint, Push, open_metrics, serve};
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::timeout;

/// Figures, the endpoint that shows them, and what pushes them.
#[derive(Debug)]
pub struct Figures {
    /// The figures.
    pub metrics: Metrics,
    endpoint: Option<Endpoint>,
    push: Option<Push>,
}

impl Figures {
    /// Returns figures that begin at 0, as [`Metrics::new`] says, or `None` if they are neither served nor pushed.
    pub fn new(
        endpoint: Option<Endpoint>,
        push: Option<Push>,
        actions_max: u32,
        version: &'static str,
        sampling: Option<Sampling>,
    ) -> Option<Self> {
        (endpoint.is_some() || push.is_some()).then(|| Self {
            metrics: Metrics::new(actions_max as usize, version, sampling),
            endpoint,
            push,
        })
    }

    /// Serves and pushes them until the process ends, as [`serve`] says. `store`: the directory of the stores.
    ///
    /// # Errors
    /// Those of [`serve`].
    pub fn serve(self, store: PathBuf, source: impl Source) -> std::io::Result<()> {
        let of_orchestrator = OfOrchestrator {
            metrics: self.metrics,
            source,
            store,
        };
        serve(self.endpoint, self.push, of_orchestrator)
    }
}

/// What the listener answers from.
#[derive(Debug)]
struct OfOrchestrator<S> {
    metrics: Metrics,
    source: S,
    /// The directory of the stores.
    store: PathBuf,
}

impl<S: Source> OfOrchestrator<S> {
    /// Whether the engine answers within the limit; if not, what that is called.
    async fn stands_still(&self, limit: Duration) -> Option<&'static str> {
        let turns = timeout(limit, self.source.turns()).await;
        (turns != Ok(true)).then_some("the engine does not answer\n")
    }
}

impl<S: Source> Answers for OfOrchestrator<S> {
    /// Figures of what stands now are left as they were if the engine does not answer: the others still tell.
    async fn figures(&self) -> String {
        let look = timeout(SCRAPE_TIME, self.source.look()).await.ok().flatten();
        if let Some(look) = &look {
            self.metrics.show(look);
        }
        self.metrics.show_files(&self.store);
        let is_ready = look.is_some() && self.metrics.unready().is_none();
        self.metrics.0.families.ready.set(is_ready.into());
        open_metrics(&self.metrics.0.families.registry)
    }

    async fn unlive(&self) -> Option<&'static str> {
        self.stands_still(LIVE_TIME).await
    }

    async fn unready(&self) -> Option<&'static str> {
        match self.metrics.unready() {
            Some(why) => Some(why),
            None => self.stands_still(READY_TIME).await,
        }
    }
}

/// An engine that does not answer for so long helps nobody any more.
const LIVE_TIME: Duration = Duration::from_secs(30);
/// How soon an engine answers if calls should be sent to it.
const READY_TIME: Duration = Duration::from_secs(5);
/// How long a scrape waits for what stands now; Prometheus gives up after 10 s.
const SCRAPE_TIME: Duration = Duration::from_secs(5);
