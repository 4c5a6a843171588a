//! An edge over a real engine and a store in memory, for tests. Has no threads, no connections and no sinks.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::Edge;
use crate::host::handle::{Channels, EngineInbox, Message, link};
use crate::storage::readers::Readers;
use bytes::Bytes;
use escapement_codec::session_out::WelcomeDefaults;
use escapement_contract::Moment;
use escapement_engine::EngineConfig;
use escapement_host::{Batch, Committer, Host, Output, WriteQueue};
use escapement_model::{BootId, ExecutionId, Opaque};
use escapement_operators::{AccessEdge, Operators};
use escapement_store::{
    ActionMemory, Counts, ListFilter, OperatorAction, OperatorFilter, Outcome, Reader, Removal, Removed,
    RemovedExecution, SettledPage, Store, StoreFault, StoredExecution, StoredSummary, Write,
};
use escapement_store_kit::Memory;
use escapement_transport::{CallClass, Recipient};
use escapement_wire::v1;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{Mutex, OwnedMutexGuard, watch};
use tonic::Extensions;

/// What a test looks at, and the edge that it asks.
pub(crate) struct Stage {
    pub(crate) edge: Edge,
    pub(crate) reads: Arc<Reads>,
    _closing: watch::Sender<bool>,
}

/// What the readers of the store were asked for.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    /// Records of what happened that were read.
    pub(crate) n_records: AtomicUsize,
    /// Who holds this holds up everybody who reads such a record.
    gate: Arc<Mutex<()>>,
}

impl Reads {
    /// Holds up the reading of records for as long as this is there.
    pub(crate) fn hold_up(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.gate).try_lock_owned().unwrap()
    }
}

impl Stage {
    /// Returns a watcher inside of the process.
    pub(crate) fn recipient(&self) -> Recipient {
        Recipient::new(&self.edge.answers, CallClass::Watches, &Extensions::default())
    }

    /// Nothing was accepted yet.
    pub(crate) fn start(removal: Removal) -> Self {
        Self::with_records(removal, |_| {})
    }

    /// Some writes were made before.
    pub(crate) fn with_records(removal: Removal, fill: impl FnOnce(&mut Counting)) -> Self {
        let reads = Arc::new(Reads::default());
        let mut store = Counting {
            store: Memory::new(),
            reads: Arc::clone(&reads),
        };
        fill(&mut store);
        let (engine, end) = link();
        let (closing, closing_rx) = watch::channel(false);
        let readers = Readers::open(&store).unwrap();
        let greeting = WelcomeDefaults {
            boot_id: boot_id(),
            heartbeat_interval_ms: 1,
            lease_ms: 1,
            peers: Arc::new([]),
            traces: None,
        };
        let events = escapement_sinks::Sinks::without_sinks().subscribers();
        let operators = Operators::new(|_| false);
        let access = AccessEdge::new(operators, store.reader().unwrap());
        let edge = Edge::new(engine, readers, events, greeting, 1, 1_000, access, closing_rx);
        tokio::spawn(run_engine(end, store, removal));
        Self {
            edge,
            reads,
            _closing: closing,
        }
    }
}

fn boot_id() -> BootId {
    BootId::new([1; 16])
}

/// Handles one input after another. Every write is durable at once, and then the store removes what it does not keep.
async fn run_engine(mut inbox: EngineInbox, store: Counting, removal: Removal) {
    let mut store = Committer::new(store);
    let mut now = Moment {
        monotonic_ms: 0,
        unix_ms: 1_000_000,
    };
    let mut host: Host<Channels> = Host::new(EngineConfig::new(boot_id(), [1; 32]), now);
    let (mut batch, mut writes) = (Batch::default(), WriteQueue::default());
    while let Some(message) = inbox.messages.recv().await {
        let Message::Input(input, route) = message else {
            panic!("no worker speaks here")
        };
        batch.messages.push(escapement_host::Message { input, route });
        while !batch.is_empty() {
            now.monotonic_ms += 1;
            now.unix_ms += 1;
            host.handle_batch(now, &mut batch, &mut |_| {});
            while let Some(output) = host.poll_output() {
                match output {
                    Output::Write(jobs) => {
                        writes.handle_jobs(jobs);
                        batch
                            .stored
                            .push(store.handle_commit(&writes.poll_commit()).unwrap());
                        store.store_mut().remove_settled(&removal, now.unix_ms).unwrap();
                    }
                    Output::Answer(caller, reply) => caller.answer(reply),
                    Output::EmitEvent(_) | Output::NotifyErrorHandler(_) | Output::Note(_) => {}
                    other => panic!("{other:?} is not for this stage"),
                }
            }
        }
    }
}

/// A store in memory whose readers count and can be held up.
pub(crate) struct Counting {
    store: Memory,
    reads: Arc<Reads>,
}

impl Store for Counting {
    fn commit(&mut self, batch: &[Write]) -> Result<Vec<Outcome>, StoreFault> {
        self.store.commit(batch)
    }

    fn remove_settled(&mut self, policy: &Removal, now_unix_ms: i64) -> Result<Removed, StoreFault> {
        self.store.remove_settled(policy, now_unix_ms)
    }

    fn reader(&self) -> Result<Box<dyn Reader>, StoreFault> {
        Ok(Box::new(CountingReader {
            reader: self.store.reader()?,
            reads: Arc::clone(&self.reads),
        }))
    }
}

struct CountingReader {
    reader: Box<dyn Reader>,
    reads: Arc<Reads>,
}

impl Reader for CountingReader {
    fn execution(&self, id: ExecutionId) -> Result<Option<StoredExecution>, StoreFault> {
        self.reader.execution(id)
    }

    fn audit(&self, id: ExecutionId) -> Result<Option<Bytes>, StoreFault> {
        self.reads.n_records.fetch_add(1, Ordering::Relaxed);
        drop(self.reads.gate.blocking_lock());
        self.reader.audit(id)
    }

    fn removed(&self, id: ExecutionId) -> Result<Option<RemovedExecution>, StoreFault> {
        self.reader.removed(id)
    }

    fn list(
        &self,
        filter: &ListFilter,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<StoredSummary>, StoreFault> {
        self.reader.list(filter, before, limit)
    }

    fn unsettled(&self, after: Option<u64>, limit: usize) -> Result<Vec<StoredExecution>, StoreFault> {
        self.reader.unsettled(after, limit)
    }

    fn settled(&self, after: u64, limit: usize) -> Result<SettledPage, StoreFault> {
        self.reader.settled(after, limit)
    }

    fn remembered_actions(&self) -> Result<Vec<ActionMemory>, StoreFault> {
        self.reader.remembered_actions()
    }

    fn operator_actions(
        &self,
        filter: &OperatorFilter,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<OperatorAction>, StoreFault> {
        self.reader.operator_actions(filter, before, limit)
    }

    fn counts(&self) -> Result<Counts, StoreFault> {
        self.reader.counts()
    }
}

/// Returns a plan that ends as soon as it starts: the environment lacks what it requires.
pub(crate) fn plan_that_fails_at_once(number: u8) -> v1::Plan {
    let id = |first| {
        ExecutionId::from_random([first, number, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]).to_string()
    };
    v1::Plan {
        id: id(1),
        version: 1,
        created_at: 1,
        name: "plan".to_owned(),
        context_requirements: vec!["key".to_owned()],
        steps: vec![v1::PlanStep {
            id: id(2),
            action: "copy".to_owned(),
            payload: Some(Opaque::default()),
            ..v1::PlanStep::default()
        }],
        ..v1::Plan::default()
    }
}
