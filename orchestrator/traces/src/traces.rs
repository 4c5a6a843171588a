//! The way in: takes records that are durable, if they are sampled and there is room. Never waits.

use crate::exporter::Exporter;
use crate::flags::TraceFlags;
use crate::limits::{FLUSH_TIME, QUEUE_BYTES_MAX, QUEUE_MAX};
use crate::losses::Losses;
use crate::waiting::Waiting;
use escapement_codec::trace::{Sampling, Trace};
use escapement_contract::{AuditKind, Request, Settlement};
use escapement_engine::StoreWrite;
use std::fmt;
use std::sync::{Arc, mpsc as std_mpsc};
use tokio::sync::{Semaphore, mpsc, oneshot};

/// Where settled executions are handed in to be exported. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Traces {
    sampling: Sampling,
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

impl std::error::Error for CannotStart {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            CannotStart::Flag(..) => None,
            CannotStart::Thread(source) => Some(source),
        }
    }
}

impl Traces {
    /// Starts the thread that exports. `None` if no endpoint is given: then nothing is done for traces.
    ///
    /// # Errors
    /// [`CannotStart`].
    pub fn start(flags: &TraceFlags, version: &'static str) -> Result<Option<(Self, Flush)>, CannotStart> {
        let (Some(endpoint), Some(sampling)) = (&flags.otlp_endpoint, flags.sampling()) else {
            return Ok(None);
        };
        flags
            .check()
            .map_err(|(flag, problem)| CannotStart::Flag(flag, problem))?;
        let losses = Losses::default();
        let (waiting, queue) = mpsc::channel(QUEUE_MAX);
        let (stop, stopped) = oneshot::channel();
        let (flushed_tx, flushed) = std_mpsc::channel();
        let exporter = Exporter::new(flags.clone(), endpoint.clone(), version, losses.clone());
        exporter
            .spawn(queue, stopped, flushed_tx)
            .map_err(CannotStart::Thread)?;
        let traces = Self {
            sampling,
            waiting,
            room: Arc::new(Semaphore::new(QUEUE_BYTES_MAX)),
            losses,
        };
        Ok(Some((traces, Flush { stop, flushed })))
    }

    /// Takes a write that is durable, if it settles an execution that is traced.
    pub fn written(&self, content: &StoreWrite) {
        if let StoreWrite::Settle { settlement, request } = content {
            let trace = Trace::of(settlement.result.execution_id, request, self.sampling);
            if trace.is_sampled && !self.take(settlement, request, trace) {
                self.losses.lost(1, "too many wait for the collector");
            }
        }
    }

    /// How many executions that are traced were not exported, since the start.
    pub fn dropped(&self) -> u64 {
        self.losses.count()
    }

    fn take(&self, settlement: &Arc<Settlement>, request: &Arc<Request>, trace: Trace) -> bool {
        let room = u32::try_from(bytes_of(settlement, request)).ok();
        let room = room.and_then(|bytes| Arc::clone(&self.room).try_acquire_many_owned(bytes).ok());
        let waiting = room.map(|room| Waiting {
            settlement: Arc::clone(settlement),
            request: Arc::clone(request),
            trace,
            room,
        });
        waiting.is_some_and(|waiting| self.waiting.try_send(waiting).is_ok())
    }
}

impl Flush {
    /// Lets what waits be exported, for 3 s at most. To be called when nothing more is handed in.
    pub fn wait(self) {
        let Self { stop, flushed } = self;
        // A thread that is gone has nothing to export.
        if stop.send(()).is_ok() && flushed.recv_timeout(FLUSH_TIME).is_err() {
            tracing::warn!("the collector takes too long; the last traces are dropped");
        }
    }
}

/// About what an execution keeps in memory.
fn bytes_of(settlement: &Settlement, request: &Request) -> usize {
    let errors = settlement.audit.iter().map(|entry| match &entry.kind {
        AuditKind::AttemptFailed { error, .. } | AuditKind::StepNotCompleted { error, .. } => {
            error.context.len()
        }
        _ => 0,
    });
    let steps = request.plan().steps();
    let payloads = steps.iter().map(|step| step.payload().len() + STEP_BYTES);
    request.environment().len()
        + payloads.sum::<usize>()
        + settlement.result.result_payload.len()
        + settlement.inputs.bytes()
        + settlement.audit.len() * ENTRY_BYTES
        + errors.sum::<usize>()
}

/// About the bytes of a step beside its payload, and those of its output's frame.
const STEP_BYTES: usize = 512;
/// About the bytes of an entry of a record.
const ENTRY_BYTES: usize = 256;
