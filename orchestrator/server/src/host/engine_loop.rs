//! The thread that owns the engine: takes inputs in batches, handles them, carries out the effects, sleeps.
//! Does no I/O of its own and never waits for anything but the next input or the next timer.

use super::effects::Desk;
use super::handle::{EngineEnd, Message, Route};
use super::journal::Journal;
use crate::clock::Clock;
use crate::exit::ExitOnPanic;
use crate::limits::{GONE_BATCH_MAX, LOADED_BATCH_MAX, STORED_BATCH_MAX};
use crate::storage::loader::Loaded;
use crate::storage::recovery::Unsettled;
use crate::storage::writer::{StoredBatch, StoredReceiver};
use escapement_codec::session_journal::Event;
use escapement_contract::Moment;
use escapement_engine::{CallerId, Effect, Engine, EngineConfig, Input, SessionKey};
use escapement_model::ExecutionId;
use std::collections::VecDeque;
use std::sync::mpsc as std_mpsc;
use std::thread::JoinHandle;
use tokio::sync::mpsc;

/// Everything that the thread starts with.
#[derive(Debug)]
pub(crate) struct EngineStart {
    pub(crate) config: EngineConfig,
    pub(crate) clock: Clock,
    pub(crate) recovered: Unsettled,
    pub(crate) end: EngineEnd,
    pub(crate) stored: StoredReceiver,
    /// Takes the executions whose requests are wanted.
    pub(crate) loader: std_mpsc::Sender<Vec<ExecutionId>>,
    pub(crate) loaded: mpsc::UnboundedReceiver<Loaded>,
    pub(crate) desk: Desk,
    pub(crate) journal: Journal,
}

/// Starts the thread. It recovers first, so an input that is sent at once comes after.
///
/// # Errors
/// Where the operating system gives no thread or no runtime.
pub(crate) fn spawn(start: EngineStart) -> std::io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    std::thread::Builder::new()
        .name("engine".to_owned())
        .spawn(move || {
            let _exit_on_panic = ExitOnPanic { thread: "engine" };
            runtime.block_on(EngineLoop::new(start).run());
        })
}

struct EngineLoop {
    engine: Engine,
    clock: Clock,
    recovered: Unsettled,
    end: EngineEnd,
    stored: StoredReceiver,
    loader: std_mpsc::Sender<Vec<ExecutionId>>,
    loaded: mpsc::UnboundedReceiver<Loaded>,
    desk: Desk,
    batch: Batch,
    /// Noted and not carried out yet.
    effects: VecDeque<Effect>,
    /// Last, so that it is dropped last: its end waits for a file, and nobody else should.
    journal: Journal,
}

/// What is handled together.
#[derive(Default)]
struct Batch {
    stored: Vec<StoredBatch>,
    loaded: Vec<Loaded>,
    messages: Vec<Message>,
    gone: Vec<CallerId>,
    /// Sessions whose streams have ended, among these messages.
    closed: Vec<SessionKey>,
}

impl EngineLoop {
    fn new(start: EngineStart) -> Self {
        let EngineStart {
            config,
            clock,
            recovered,
            end,
            stored,
            loader,
            loaded,
            desk,
            journal,
        } = start;
        let engine = Engine::new(config, clock.now());
        Self {
            engine,
            clock,
            recovered,
            end,
            stored,
            loader,
            loaded,
            desk,
            batch: Batch::default(),
            effects: VecDeque::new(),
            journal,
        }
    }

    async fn run(mut self) {
        self.recover();
        while self.wait().await {
            self.top_up();
            let now = self.clock.now();
            let goes_on = self.handle_batch(now);
            self.finish(now);
            if !goes_on {
                return;
            }
        }
    }

    fn recover(&mut self) {
        let now = self.clock.now();
        for input in std::mem::take(&mut self.recovered).into_inputs() {
            self.engine.handle(now, input);
        }
        self.finish(now);
    }

    /// Waits for something to do; false where nothing can come any more.
    async fn wait(&mut self) -> bool {
        let due = self.engine.next_due_ms().map(|due_ms| self.clock.instant(due_ms));
        let timer = async {
            match due {
                Some(due) => tokio::time::sleep_until(due.into()).await,
                None => std::future::pending().await,
            }
        };
        // Biased: what is taken first does not matter, since every batch takes from every channel (see
        // `top_up`),
        // and a random choice would cost a random number each time.
        let n_received = tokio::select! {
            biased;
            n = self.stored.recv_many(&mut self.batch.stored, STORED_BATCH_MAX) => n,
            n = self.loaded.recv_many(&mut self.batch.loaded, LOADED_BATCH_MAX) => n,
            message = self.end.messages.recv() => {
                let n_received = usize::from(message.is_some());
                self.batch.messages.extend(message);
                n_received
            }
            n = self.end.gone.recv_many(&mut self.batch.gone, GONE_BATCH_MAX) => n,
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
        self.end.messages.top_up(&mut self.batch.messages);
        while self.batch.gone.len() < GONE_BATCH_MAX {
            let Ok(caller) = self.end.gone.try_recv() else {
                break;
            };
            self.batch.gone.push(caller);
        }
    }

    /// Handles the batch; false where it asks for the end.
    fn handle_batch(&mut self, now: Moment) -> bool {
        let Self {
            engine,
            journal,
            batch,
            desk,
            effects,
            ..
        } = self;
        // Each effect is noted right behind what led to it, and carried out when the batch ends.
        let mut handle = |journal: &mut Journal, input| {
            engine.handle(now, input);
            note_effects(engine, journal, effects, now);
        };
        let mut goes_on = true;
        // What time brings comes first, and so has its own place in the journal.
        handle(journal, Input::Tick);
        // Then what the store answered: it frees what the rest of the batch may want.
        for (write, outcome) in batch.stored.drain(..).flatten() {
            handle(journal, Input::Stored { write, outcome });
        }
        for (execution_id, outcome) in batch.loaded.drain(..) {
            let loaded = Input::Loaded {
                execution_id,
                outcome,
            };
            handle(journal, loaded);
        }
        for message in batch.messages.drain(..) {
            let (input, route) = match message {
                Message::Input(input, route) => (input, route),
                Message::Said(input, _room) => (input, Route::None),
                Message::Stop => {
                    goes_on = false;
                    continue;
                }
            };
            if let Input::SessionClosed(session) = &input {
                batch.closed.push(*session);
            }
            let gave_up = desk.register(route);
            journal.note(now, Event::Input(&input));
            handle(journal, input);
            if let Some(caller) = gave_up {
                handle(journal, Input::CallerGone(caller));
                desk.forget_caller(caller);
            }
        }
        for caller in batch.gone.drain(..) {
            if desk.forget_caller(caller) {
                handle(journal, Input::CallerGone(caller));
            }
        }
        goes_on
    }

    /// Ends the batch and carries out what it led to. Timers that are due fire here where no input came.
    fn finish(&mut self, now: Moment) {
        self.engine.finish_batch(now);
        note_effects(&mut self.engine, &mut self.journal, &mut self.effects, now);
        let mut wanted = Vec::new();
        while let Some(effect) = self.effects.pop_front() {
            if let Effect::Load { execution_id } = effect {
                wanted.push(execution_id);
                continue;
            }
            self.desk.carry_out(effect);
        }
        if !wanted.is_empty() {
            // A loader that is gone has ended the process, or is about to.
            let _loader_ended = self.loader.send(wanted);
        }
        // Only now: a worker that has said its last word may still read what it is told.
        for session in self.batch.closed.drain(..) {
            self.desk.forget_session(session);
        }
        self.desk.flush_writes();
        self.journal.flush();
    }
}

/// Moves what the engine wants done to where it waits for the end of the batch.
fn note_effects(engine: &mut Engine, journal: &mut Journal, effects: &mut VecDeque<Effect>, now: Moment) {
    while let Some(effect) = engine.poll_effect() {
        journal.note(now, Event::Effect(&effect));
        effects.push_back(effect);
    }
}
