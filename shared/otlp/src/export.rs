//! The way in: takes traces if there is room. Never waits.

use crate::collector::Collector;
use crate::exporter::Exporter;
use crate::limits::{FLUSH_TIME, QUEUE_BYTES_MAX, QUEUE_MAX};
use crate::losses::Losses;
use crate::service::Service;
use crate::waiting::{MakeSpans, Waiting};
use opentelemetry_proto::tonic::trace::v1::Span;
use std::fmt;
use std::sync::{Arc, mpsc as std_mpsc};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tracing::{info, warn};

/// Where traces are handed in to be exported. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Export {
    waiting: mpsc::Sender<Waiting>,
    room: Arc<Semaphore>,
    losses: Losses,
}

/// The end of the export.
#[derive(Debug)]
pub struct Flush {
    stop: oneshot::Sender<()>,
    flushed: std_mpsc::Receiver<()>,
}

/// Why nothing is exported.
#[derive(Debug)]
pub enum CannotStart {
    /// A flag cannot be kept, and why.
    Flag(&'static str, String),
    /// The operating system gives no thread.
    Thread(std::io::Error),
}

impl fmt::Display for CannotStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CannotStart::Flag(flag, problem) => write!(f, "{flag} {problem}"),
            CannotStart::Thread(_) => f.write_str("no thread for traces"),
        }
    }
}

impl From<(&'static str, String)> for CannotStart {
    fn from((flag, problem): (&'static str, String)) -> Self {
        CannotStart::Flag(flag, problem)
    }
}

impl std::error::Error for CannotStart {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            CannotStart::Flag(..) => None,
            CannotStart::Thread(source) => Some(source),
        }
    }
}

impl Export {
    /// Starts the thread that exports.
    ///
    /// # Errors
    /// [`CannotStart`].
    pub fn start(collector: Collector, service: Service) -> Result<(Self, Flush), CannotStart> {
        let collector = collector.checked()?;
        let losses = Losses::of("traces");
        let (waiting, queue) = mpsc::channel(QUEUE_MAX);
        let (stop, stopped) = oneshot::channel();
        let (flushed_tx, flushed) = std_mpsc::channel();
        info!(endpoint = collector.endpoint, "traces exported");
        let exporter = Exporter::new(collector, service, losses.clone());
        exporter
            .spawn(queue, stopped, flushed_tx)
            .map_err(CannotStart::Thread)?;
        let room = Arc::new(Semaphore::new(QUEUE_BYTES_MAX));
        let export = Self {
            waiting,
            room,
            losses,
        };
        Ok((export, Flush { stop, flushed }))
    }

    /// What is handed in comes out of the queue.
    #[cfg(all(test, feature = "live"))]
    pub(crate) fn unattended() -> (Self, mpsc::Receiver<Waiting>) {
        let (waiting, queue) = mpsc::channel(QUEUE_MAX);
        let export = Self {
            waiting,
            room: Arc::new(Semaphore::new(QUEUE_BYTES_MAX)),
            losses: Losses::of("traces"),
        };
        (export, queue)
    }

    /// Takes a trace, or what this process has of one, unless too much waits already: then it is dropped and counted. `bytes` is
    /// about what `spans` holds in memory; it is called once, on the thread that exports, and may say why there are no spans.
    pub fn hand_in(&self, bytes: usize, spans: impl FnOnce() -> Result<Vec<Span>, String> + Send + 'static) {
        if !self.take(bytes, Box::new(spans)) {
            self.losses.lost(1, "too many wait for the collector");
        }
    }

    /// How many traces were not exported, since the start.
    pub fn dropped(&self) -> u64 {
        self.losses.count()
    }

    fn take(&self, bytes: usize, spans: MakeSpans) -> bool {
        let room = u32::try_from(bytes).ok();
        let room = room.and_then(|bytes| Arc::clone(&self.room).try_acquire_many_owned(bytes).ok());
        let waiting = room.map(|room| Waiting { spans, room });
        waiting.is_some_and(|waiting| self.waiting.try_send(waiting).is_ok())
    }
}

impl Flush {
    /// Lets what waits be exported, for 3 s at most. To be called when nothing more is handed in.
    pub fn wait(self) {
        let Self { stop, flushed } = self;
        // A thread that is gone has nothing to export.
        if stop.send(()).is_ok() && flushed.recv_timeout(FLUSH_TIME).is_err() {
            warn!("the collector takes too long; the last traces are dropped");
        }
    }
}
