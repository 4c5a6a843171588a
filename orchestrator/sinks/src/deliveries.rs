//! Sinks that get every terminal event, or how every run ended, at least once and in order: readers of the feeds inside of the
//! orchestrator. They read the stores, and no execution and no run waits for them.

mod cloud_event;
mod cursors;
mod figures;
mod file;
mod key;
mod message;
mod nats;
mod page;
mod post;
mod sender;
mod source;
mod task;
mod way;

pub use self::figures::{DeliveryFigures, SinkFigures};
pub use self::file::SinksFile;

use self::cursors::Cursors;
use self::file::Sink;
use self::key::{Feed, SinkKey};
use self::source::Source;
use self::task::{Surroundings, Task};
use crate::feed::FeedSource;
use crate::flags::EventFlags;
use crate::subscription::Subscribers;
use escapement_runs_shell::RunsHandle;
use escapement_store::FeedMark;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{error, warn};

/// The sinks of a file, and how far each is.
#[derive(Debug)]
pub struct Deliveries {
    file: watch::Receiver<Arc<SinksFile>>,
    cursors: Arc<Cursors>,
    figures: DeliveryFigures,
    settlements: watch::Receiver<u64>,
    event_source: Arc<str>,
}

impl Deliveries {
    /// Reads how far the sinks are, of a file in that directory, which is that of the store. Sends nothing yet.
    /// `file`: the sinks; `None` if there are none.
    pub fn open(
        file: Option<watch::Receiver<Arc<SinksFile>>>,
        store_directory: &Path,
        flags: &EventFlags,
        subscribers: &Subscribers,
    ) -> Self {
        let file = file.unwrap_or_else(|| watch::channel(Arc::default()).1);
        let keys = keys(&file.borrow());
        Self {
            file,
            cursors: Arc::new(Cursors::open(store_directory, keys, flags.feed_patience_ms)),
            figures: DeliveryFigures::new(subscribers.queues.clone()),
            settlements: subscribers.settlements.clone(),
            event_source: Arc::clone(&subscribers.source),
        }
    }

    /// What all sinks have had of executions.
    pub fn mark(&self) -> FeedMark {
        self.cursors.mark(Feed::Executions)
    }

    /// What all sinks have had of runs.
    pub fn mark_of_runs(&self) -> FeedMark {
        self.cursors.mark(Feed::Runs)
    }

    /// What operators see of them.
    pub fn figures(&self) -> DeliveryFigures {
        self.figures.clone()
    }

    /// Serves the sinks of the file, and of the file as it is replaced, until the process closes. Ends at once if there is no file.
    /// `runs`: `None` if there are no runs; then sinks of runs get nothing.
    pub async fn serve<S: FeedSource + Clone>(
        mut self,
        store: S,
        runs: Option<RunsHandle>,
        mut closing: watch::Receiver<bool>,
    ) {
        loop {
            let file = Arc::clone(&self.file.borrow_and_update());
            let (stop, stopped) = watch::channel(false);
            let mut tasks = self.start(&file, &store, runs.as_ref(), &stopped);
            let file = &mut self.file;
            let is_closing = tokio::select! {
                biased;
                _ = closing.wait_for(|closing| *closing) => true,
                // What reads the file again ends with the process.
                replaced = file.changed() => replaced.is_err(),
            };
            stop.send_replace(true);
            while let Some(ended) = tasks.join_next().await {
                if let Err(error) = ended {
                    error!(%error, "the task of a sink ended with a panic");
                }
            }
            if is_closing {
                return;
            }
        }
    }

    fn start<S: FeedSource + Clone>(
        &self,
        file: &SinksFile,
        store: &S,
        runs: Option<&RunsHandle>,
        stop: &watch::Receiver<bool>,
    ) -> JoinSet<()> {
        let keys = keys(file);
        self.figures.keep(&keys);
        self.cursors.set_sinks(keys);
        let mut tasks = JoinSet::new();
        for sink in file.sinks() {
            let (source, ends) = match (sink.feed, runs) {
                (Feed::Executions, _) => (Source::Executions(store.clone()), self.settlements.clone()),
                (Feed::Runs, Some(runs)) => (Source::Runs(runs.readers().clone()), runs.endings()),
                (Feed::Runs, None) => {
                    warn!(
                        sink = sink.name,
                        "there are no runs whose ends this sink could get"
                    );
                    continue;
                }
            };
            let surroundings = Surroundings {
                source,
                cursors: Arc::clone(&self.cursors),
                ends: ends.clone(),
                event_source: Arc::clone(&self.event_source),
                stop: stop.clone(),
            };
            let figures = self.figures.of(&sink.name, ends);
            tasks.spawn(Task::run(sink.clone(), surroundings, figures));
        }
        tasks
    }
}

fn keys(file: &SinksFile) -> Vec<SinkKey> {
    file.sinks().iter().map(Sink::key).collect()
}
