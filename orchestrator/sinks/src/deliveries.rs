//! Sinks that get every terminal event at least once, in the order of settling: readers of the feed inside of the orchestrator.
//! They read the store, and no execution waits for them.

mod cloud_event;
mod cursors;
mod figures;
mod file;
mod message;
mod nats;
mod page;
mod post;
mod sender;
mod task;
mod way;

pub use self::cursors::FeedMark;
pub use self::figures::{DeliveryFigures, SinkFigures};
pub use self::file::SinksFile;

use self::cursors::Cursors;
use self::task::{Surroundings, Task};
use crate::feed::FeedSource;
use crate::flags::EventFlags;
use crate::subscription::Subscribers;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::error;

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
        let names = names(&file.borrow());
        Self {
            file,
            cursors: Arc::new(Cursors::open(store_directory, names, flags.feed_patience_ms)),
            figures: DeliveryFigures::new(subscribers.settlements.clone(), subscribers.queues.clone()),
            settlements: subscribers.settlements.clone(),
            event_source: Arc::clone(&subscribers.source),
        }
    }

    /// What all sinks have had.
    pub fn mark(&self) -> FeedMark {
        self.cursors.mark()
    }

    /// What operators see of them.
    pub fn figures(&self) -> DeliveryFigures {
        self.figures.clone()
    }

    /// Serves the sinks of the file, and of the file as it is replaced, until the process closes. Ends at once if there is no file.
    pub async fn serve<S: FeedSource + Clone>(mut self, store: S, mut closing: watch::Receiver<bool>) {
        loop {
            let file = Arc::clone(&self.file.borrow_and_update());
            let (stop, stopped) = watch::channel(false);
            let mut tasks = self.start(&file, &store, &stopped);
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
        stop: &watch::Receiver<bool>,
    ) -> JoinSet<()> {
        let names = names(file);
        self.figures.keep(&names);
        self.cursors.set_sinks(names);
        let mut tasks = JoinSet::new();
        for sink in file.sinks() {
            let surroundings = Surroundings {
                store: store.clone(),
                cursors: Arc::clone(&self.cursors),
                settlements: self.settlements.clone(),
                event_source: Arc::clone(&self.event_source),
                stop: stop.clone(),
            };
            let figures = self.figures.of(&sink.name);
            tasks.spawn(Task::run(sink.clone(), surroundings, figures));
        }
        tasks
    }
}

fn names(file: &SinksFile) -> Vec<String> {
    file.sinks().iter().map(|sink| sink.name.clone()).collect()
}
