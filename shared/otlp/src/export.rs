//! The way in: takes traces and records of the log if there is room. Never waits.

use crate::collector::Collector;
use crate::exporter::Exporter;
use crate::limits::{FLUSH_TIME, QUEUE_BYTES_MAX, RECORDS_MAX, TRACES_MAX};
use crate::losses::Losses;
use crate::service::Service;
use crate::signal::Signal;
use crate::waiting::{Encoded, Make, Waiting};
use std::fmt;
use std::sync::{Arc, mpsc as std_mpsc};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tracing::{info, warn};

/// Where traces, or records of the log, are handed in to be exported. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Export {
    waiting: mpsc::Sender<Waiting>,
    room: Arc<Semaphore>,
    losses: Losses,
}

/// The end of the export, which goes on if this is dropped.
#[derive(Debug)]
pub struct Flush {
    signal: Signal,
    stop: oneshot::Sender<()>,
    flushed: std_mpsc::Receiver<()>,
}

/// Reason why nothing is exported.
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
            CannotStart::Thread(_) => f.write_str("no thread for the export"),
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
    /// Starts the thread that exports traces.
    ///
    /// # Errors
    /// [`CannotStart`].
    pub fn start(collector: Collector, service: Service) -> Result<(Self, Flush), CannotStart> {
        Self::start_for(Signal::Traces, collector, service)
    }

    /// Starts the thread that exports traces, or records of the log.
    pub(crate) fn start_for(
        signal: Signal,
        collector: Collector,
        service: Service,
    ) -> Result<(Self, Flush), CannotStart> {
        let collector = collector.checked()?;
        let (export, queue) = Self::unattended(signal);
        let (stop, stopped) = oneshot::channel();
        let (flushed_tx, flushed) = std_mpsc::channel();
        let flush = Flush {
            signal,
            stop,
            flushed,
        };
        info!(endpoint = collector.endpoint, "{} exported", signal.as_str());
        let exporter = Exporter {
            signal,
            collector,
            service,
            losses: export.losses.clone(),
        };
        exporter
            .spawn(queue, stopped, flushed_tx)
            .map_err(CannotStart::Thread)?;
        Ok((export, flush))
    }

    /// Without a thread: what is handed in comes out of the queue.
    pub(crate) fn unattended(signal: Signal) -> (Self, mpsc::Receiver<Waiting>) {
        let (waiting, queue) = mpsc::channel(match signal {
            Signal::Logs => RECORDS_MAX,
            Signal::Traces | Signal::Metrics => TRACES_MAX,
        });
        let export = Self {
            waiting,
            room: Arc::new(Semaphore::new(QUEUE_BYTES_MAX)),
            losses: Losses::of(signal),
        };
        (export, queue)
    }

    /// Takes the spans of a trace, or what this process has of one, or a record of the log, unless too much waits already: then it is
    /// dropped and counted. `bytes` is about what `make` holds in memory; it is called once, on the thread that exports, and may
    /// say why there is nothing.
    pub fn hand_in(
        &self,
        bytes: usize,
        make: impl FnOnce() -> Result<Vec<Encoded>, String> + Send + 'static,
    ) {
        if !self.take(bytes, Box::new(make)) {
            let why = match self.waiting.is_closed() {
                true => "the export has ended",
                false => "too many wait for the collector",
            };
            self.losses.lost(1, why);
        }
    }

    /// What is handed in.
    pub fn signal(&self) -> Signal {
        self.losses.signal()
    }

    /// How many traces or records were not exported, since the start.
    pub fn dropped(&self) -> u64 {
        self.losses.count()
    }

    fn take(&self, bytes: usize, make: Make) -> bool {
        let room = u32::try_from(bytes).ok();
        let room = room.and_then(|bytes| Arc::clone(&self.room).try_acquire_many_owned(bytes).ok());
        let waiting = room.map(|room| Waiting { make, room });
        waiting.is_some_and(|waiting| self.waiting.try_send(waiting).is_ok())
    }
}

impl Flush {
    /// As what is done at the end of the process.
    pub fn at_end(self) -> Box<dyn FnOnce() + Send> {
        Box::new(move || self.wait())
    }

    /// Lets what waits be exported, for 3 s at most. To be called when nothing more is handed in.
    pub fn wait(self) {
        let Self {
            signal,
            stop,
            flushed,
        } = self;
        // A thread that is gone has nothing to export.
        if stop.send(()).is_ok() && flushed.recv_timeout(FLUSH_TIME).is_err() {
            warn!(
                "the collector takes too long; the last {} are dropped",
                signal.as_str()
            );
        }
    }
}
