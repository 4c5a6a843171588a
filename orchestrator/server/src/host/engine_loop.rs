//! The thread that drives the host: takes inputs in batches, carries out what they led to, sleeps.
//! Does no I/O of its own and never waits for anything but the next input, another policy, or the next timer.

use super::effects::EffectRunner;
use super::handle::{Channels, EngineInbox, Message};
use crate::clock::Clock;
use crate::exit::ExitOnPanic;
use crate::limits::{GONE_BATCH_MAX, LOADED_BATCH_MAX, STORED_BATCH_MAX};
use crate::storage::loader::Loaded;
use crate::storage::writer::StoredReceiver;
use escapement_access::Access;
use escapement_codec::namespaces::share_out;
use escapement_engine::EngineConfig;
use escapement_host::recovery::Unsettled;
use escapement_host::{Batch, Host, Route};
use escapement_sinks::SessionJournal;
use std::iter;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::{mpsc, watch};

/// Everything that the thread starts with.
#[derive(Debug)]
pub(crate) struct EngineStart {
    pub(crate) config: EngineConfig,
    pub(crate) clock: Clock,
    /// What namespaces may take stands there.
    pub(crate) access: watch::Receiver<Arc<Access>>,
    pub(crate) recovered: Unsettled,
    pub(crate) inbox: EngineInbox,
    pub(crate) stored: StoredReceiver,
    pub(crate) loaded: mpsc::UnboundedReceiver<Loaded>,
    pub(crate) effects: EffectRunner,
    pub(crate) journal: SessionJournal,
}

/// Starts the thread. It recovers first, so an input that is sent at once comes after.
///
/// # Errors
/// If the operating system gives no thread or no runtime.
pub(crate) fn spawn(start: EngineStart) -> std::io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    std::thread::Builder::new()
        .name("engine".to_owned())
        .spawn(move || {
            let _exit_on_panic = ExitOnPanic { thread: "engine" };
            runtime.block_on(EngineLoop::run(start));
        })
}

struct EngineLoop {
    host: Host<Channels>,
    clock: Clock,
    access: watch::Receiver<Arc<Access>>,
    inbox: EngineInbox,
    stored: StoredReceiver,
    loaded: mpsc::UnboundedReceiver<Loaded>,
    effects: EffectRunner,
    batch: Batch<Channels>,
    /// Of the same batch, as they came.
    messages: Vec<Message>,
    /// Last, so that it is dropped last: its end waits for a file, and nothing else should.
    journal: SessionJournal,
}

impl EngineLoop {
    async fn run(start: EngineStart) {
        let now = start.clock.now();
        let mut driven = Self {
            host: Host::new(start.config, now),
            clock: start.clock,
            access: start.access,
            inbox: start.inbox,
            stored: start.stored,
            loaded: start.loaded,
            effects: start.effects,
            batch: Batch::default(),
            messages: Vec::new(),
            journal: start.journal,
        };
        let shares = share_out(&driven.access.borrow_and_update());
        let inputs = iter::once(shares).chain(start.recovered.into_inputs());
        driven.host.handle_recovered(now, inputs);
        driven.carry_out();
        while driven.wait().await {
            driven.top_up();
            if !driven.handle_batch() {
                return;
            }
        }
    }

    /// Waits for something to do; false if nothing can come any more.
    async fn wait(&mut self) -> bool {
        let due = self.host.next_due_ms().map(|due_ms| self.clock.instant(due_ms));
        let timer = async {
            match due {
                Some(due) => tokio::time::sleep_until(due.into()).await,
                None => std::future::pending().await,
            }
        };
        // Biased: what is taken first does not matter, since every batch takes from every channel (see `top_up`), and a
        // random choice would cost a random number each time.
        let n_received = tokio::select! {
            biased;
            n = self.stored.recv_many(&mut self.batch.stored, STORED_BATCH_MAX) => n,
            n = self.loaded.recv_many(&mut self.batch.loaded, LOADED_BATCH_MAX) => n,
            message = self.inbox.messages.recv() => {
                let n_received = usize::from(message.is_some());
                self.messages.extend(message);
                n_received
            }
            n = self.inbox.gone.recv_many(&mut self.batch.gone, GONE_BATCH_MAX) => n,
            n = self.inbox.from_runs.recv_many(&mut self.batch.from_runs, 1) => n,
            // Without a policy there is no change, ever.
            Ok(()) = self.access.changed() => {
                let shares = share_out(&self.access.borrow_and_update());
                self.messages.push(Message::Input(shares, Route::None));
                1
            }
            () = timer => return true,
        };
        n_received > 0
    }

    /// Takes what else waits, from every channel, so that none can starve another.
    fn top_up(&mut self) {
        while self.batch.stored.len() < STORED_BATCH_MAX {
            let Ok(stored) = self.stored.try_recv() else { break };
            self.batch.stored.push(stored);
        }
        while self.batch.loaded.len() < LOADED_BATCH_MAX {
            let Ok(loaded) = self.loaded.try_recv() else { break };
            self.batch.loaded.push(loaded);
        }
        self.inbox.messages.top_up(&mut self.messages);
        while self.batch.gone.len() < GONE_BATCH_MAX {
            let Ok(caller) = self.inbox.gone.try_recv() else {
                break;
            };
            self.batch.gone.push(caller);
        }
        // The thread of runs waits for each of its batches.
        while let Ok(said) = self.inbox.from_runs.try_recv() {
            self.batch.from_runs.push(said);
        }
    }

    /// Handles the batch; false if it asks for the end.
    fn handle_batch(&mut self) -> bool {
        let began = self.effects.metrics.is_some().then(std::time::Instant::now);
        let mut goes_on = true;
        // Given back once everything is handled.
        let mut permits = Vec::new();
        for message in self.messages.drain(..) {
            let (input, route) = match message {
                Message::Input(input, route) => (input, route),
                Message::Said(input, permit) => {
                    permits.push(permit);
                    (input, Route::None)
                }
                Message::Stop => {
                    goes_on = false;
                    continue;
                }
            };
            let message = escapement_host::Message { input, route };
            self.batch.messages.push(message);
        }
        let (now, journal) = (self.clock.now(), &mut self.journal);
        self.host
            .handle_batch(now, &mut self.batch, &mut |event| journal.note(now, event));
        self.carry_out();
        if let Some((metrics, began)) = self.effects.metrics.as_ref().zip(began) {
            metrics.turned(began.elapsed());
        }
        goes_on
    }

    fn carry_out(&mut self) {
        while let Some(output) = self.host.poll_output() {
            self.effects.carry_out(&mut self.host, output);
        }
        self.journal.flush();
        if let Some(metrics) = &self.effects.metrics {
            metrics.counted(self.host.engine().census());
        }
    }
}
