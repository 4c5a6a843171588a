//! The engine, its callers and its workers, in one order.

use crate::joint::{Attempts, FromRuns, ToRuns};
use crate::write_queue::{Job, StoredBatch};
use escapement_codec::session_journal::Event;
use escapement_codec::session_out::session_error_code;
use escapement_contract::{Evidence, Moment, Persisted};
use escapement_engine::{
    CallerId, Effect, Engine, EngineConfig, Input, LoadOutcome, Notice, Reply, SessionKey, Submission,
    ToWorker,
};
use escapement_model::ExecutionId;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::sync::Arc;

/// The ways to those who wait, which the host keeps and never uses.
pub trait Links {
    /// The way to a caller.
    type Caller: Debug;
    /// The way to a worker.
    type Session: Debug;
    /// Link from an attempt to its run.
    type Attempt: Debug;
    /// Batch of runs with the link to its thread.
    type RunBatch: Debug;

    /// Returns true if the caller left before its call was handled.
    fn is_given_up(caller: &Self::Caller) -> bool;
}

/// Inputs that are handled together.
#[derive(Debug)]
pub struct Batch<L: Links> {
    /// Answers of the store.
    pub stored: Vec<StoredBatch>,
    /// Requests that were read back.
    pub loaded: Vec<(ExecutionId, LoadOutcome)>,
    /// Everything else that has happened.
    pub messages: Vec<Message<L>>,
    /// Callers that no longer wait.
    pub gone: Vec<CallerId>,
    /// Messages of the thread of runs.
    pub from_runs: Vec<FromRuns<L::Attempt, L::RunBatch>>,
}

/// Something that has happened.
#[derive(Debug)]
pub struct Message<L: Links> {
    /// Input of the engine.
    pub input: Input,
    /// Destination of the engine's answers.
    pub route: Route<L>,
}

/// Destination of the engine's answers to an input.
#[derive(Debug)]
pub enum Route<L: Links> {
    /// Nowhere.
    None,
    /// To a caller, once.
    Caller(CallerId, L::Caller),
    /// To a worker, until either side closes.
    Session(SessionKey, L::Session),
}

/// A thing to do, in this order.
#[derive(Debug)]
pub enum Output<L: Links> {
    /// Answer a call.
    Answer(L::Caller, Reply),
    /// Send a message to a worker.
    Send {
        /// On which stream.
        session: SessionKey,
        /// Number of the message on the stream.
        seq: u64,
        /// Message.
        message: ToWorker,
    },
    /// End a stream after the messages that were sent.
    EndSession {
        /// Session of the stream.
        session: SessionKey,
        /// The way to it.
        link: L::Session,
        /// For the log: the error that it was sent, or `goodbye`.
        reason: &'static str,
    },
    /// Send an event to the sinks.
    EmitEvent(Persisted),
    /// Notify the error handler.
    NotifyErrorHandler(Persisted),
    /// For the log: a worker is gone for good.
    WorkerLost {
        /// Label.
        worker_id: Arc<str>,
        /// Evidence of the loss.
        evidence: Evidence,
        /// Attempts that had started.
        n_lost: u32,
        /// Attempts that had not, and wait for another worker.
        n_returned: u32,
    },
    /// For the log.
    Note(Notice),
    /// The drain is over.
    Drained {
        /// Executions that still run.
        n_unfinished: usize,
    },
    /// Stop acknowledging and exit.
    GiveUp {
        /// Number of failed writes of a record.
        attempts: u32,
    },
    /// Read these requests of queued executions.
    Load(Vec<ExecutionId>),
    /// Write these in this order, together if they fit, so that they share a commit.
    Write(Vec<Job>),
    /// Write a batch of runs, or answer the thread of runs.
    Runs(ToRuns<L::Attempt, L::RunBatch>),
}

/// The engine and the ways to those who wait for it.
#[derive(Debug)]
pub struct Host<L: Links> {
    engine: Engine,
    callers: BTreeMap<CallerId, L::Caller>,
    sessions: BTreeMap<SessionKey, OpenSession<L::Session>>,
    /// Effects that were not polled yet.
    effects: VecDeque<Effect>,
    wanted: Vec<ExecutionId>,
    writes: Vec<Job>,
    attempts: Attempts<L::Attempt, L::RunBatch>,
    /// Monotonic milliseconds of the last batch.
    now_ms: u64,
    /// Sessions whose streams have ended. They are forgotten after the effects: a worker that has sent its last message
    /// may still read.
    closed: Vec<SessionKey>,
}

/// The way to one worker.
#[derive(Debug)]
struct OpenSession<S> {
    link: S,
    /// The error that it was sent, which is why it ends.
    error: Option<&'static str>,
}

impl<L: Links> Default for Batch<L> {
    fn default() -> Self {
        Self {
            stored: Vec::new(),
            loaded: Vec::new(),
            messages: Vec::new(),
            gone: Vec::new(),
            from_runs: Vec::new(),
        }
    }
}

impl<L: Links> Batch<L> {
    /// Returns true if nothing has happened.
    pub fn is_empty(&self) -> bool {
        let is_quiet = self.stored.is_empty() && self.loaded.is_empty() && self.messages.is_empty();
        is_quiet && self.gone.is_empty() && self.from_runs.is_empty()
    }
}

impl<L: Links> Host<L> {
    /// Creates a host for an engine with nothing in it.
    pub fn new(config: EngineConfig, now: Moment) -> Self {
        Self {
            engine: Engine::new(config, now),
            callers: BTreeMap::new(),
            sessions: BTreeMap::new(),
            effects: VecDeque::new(),
            wanted: Vec::new(),
            writes: Vec::new(),
            attempts: Attempts::default(),
            now_ms: now.monotonic_ms,
            closed: Vec::new(),
        }
    }

    /// Returns the time at which the host wants a batch even if nothing happens, in monotonic milliseconds; `None`: never.
    pub fn next_due_ms(&self) -> Option<u64> {
        let due_ms = self.engine.next_due_ms().into_iter();
        due_ms.chain(self.attempts.next_due_ms()).min()
    }

    /// Returns the engine, to be looked at.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Callers that wait.
    pub fn callers(&self) -> impl Iterator<Item = (CallerId, &L::Caller)> {
        self.callers.iter().map(|(id, caller)| (*id, caller))
    }

    /// Returns the link to a worker, `None` once its stream has ended.
    pub fn session(&self, session: SessionKey) -> Option<&L::Session> {
        self.sessions.get(&session).map(|open| &open.link)
    }

    /// Takes what the store held at the start, before anything else.
    pub fn handle_recovered(&mut self, now: Moment, inputs: impl IntoIterator<Item = Input>) {
        for input in inputs {
            self.engine.handle(now, input);
        }
        self.engine.finish_batch(now);
        self.take_effects(&mut |_| {});
    }

    /// Handles a batch, and leaves it empty. `note` hears of each input and each effect in the order in which the engine has them.
    pub fn handle_batch(&mut self, now: Moment, batch: &mut Batch<L>, note: &mut dyn FnMut(Event<'_>)) {
        self.now_ms = now.monotonic_ms;
        // Timers come first, and so have their own position in the journal.
        self.handle(now, Input::Tick, note);
        // Then what the store answered: it frees what the rest of the batch may want.
        for (write, outcome) in batch.stored.drain(..).flatten() {
            self.attempts.stored(write, outcome);
            self.handle(now, Input::Stored { write, outcome }, note);
        }
        for (execution_id, outcome) in batch.loaded.drain(..) {
            let loaded = Input::Loaded {
                execution_id,
                outcome,
            };
            self.handle(now, loaded, note);
        }
        for Message { input, route } in batch.messages.drain(..) {
            if let Input::SessionClosed(session) = &input {
                self.closed.push(*session);
            }
            let given_up = self.register(route);
            self.handle(now, input, note);
            if let Some(caller) = given_up {
                self.handle(now, Input::CallerGone(caller), note);
                self.callers.remove(&caller);
            }
        }
        for caller in batch.gone.drain(..) {
            if self.callers.remove(&caller).is_some() {
                self.handle(now, Input::CallerGone(caller), note);
            }
        }
        let submissions = self.attempts.go_on();
        self.submit(now, submissions, note);
        for said in batch.from_runs.drain(..) {
            let submissions = self.attempts.take(said, &mut self.writes);
            self.submit(now, submissions, note);
        }
        self.engine.finish_batch(now);
        self.take_effects(note);
        self.attempts.release(now.monotonic_ms, &mut self.writes);
    }

    fn submit(&mut self, now: Moment, submissions: Vec<Submission>, note: &mut dyn FnMut(Event<'_>)) {
        for submission in submissions {
            self.handle(now, Input::Submit(submission), note);
        }
    }

    /// Returns the next output, in order.
    pub fn poll_output(&mut self) -> Option<Output<L>> {
        while let Some(effect) = self.effects.pop_front() {
            if let Some(output) = self.output_of(effect) {
                return Some(output);
            }
        }
        if let Some(message) = self.attempts.poll_message() {
            return Some(Output::Runs(message));
        }
        for session in self.closed.drain(..) {
            self.sessions.remove(&session);
        }
        if !self.wanted.is_empty() {
            return Some(Output::Load(std::mem::take(&mut self.wanted)));
        }
        if !self.writes.is_empty() {
            return Some(Output::Write(std::mem::take(&mut self.writes)));
        }
        self.attempts.poll_commit().map(Output::Runs)
    }

    /// Ends a session from this side; gives the way to it back, `None` if its stream has ended.
    pub fn end_session(&mut self, session: SessionKey) -> Option<L::Session> {
        self.sessions.remove(&session).map(|open| open.link)
    }

    fn handle(&mut self, now: Moment, input: Input, note: &mut dyn FnMut(Event<'_>)) {
        note(Event::Input(&input));
        self.engine.handle(now, input);
        self.take_effects(note);
    }

    /// Notes each effect right after its cause; it is performed when the batch ends.
    fn take_effects(&mut self, note: &mut dyn FnMut(Event<'_>)) {
        while let Some(effect) = self.engine.poll_effect() {
            note(Event::Effect(&effect));
            self.effects.push_back(effect);
        }
    }

    /// Notes where answers go, before the input is handled.
    ///
    /// Returns a caller that has left already: its notice of departure may have come before its call.
    fn register(&mut self, route: Route<L>) -> Option<CallerId> {
        match route {
            Route::None => None,
            Route::Caller(id, caller) => {
                let is_given_up = L::is_given_up(&caller);
                self.callers.insert(id, caller);
                is_given_up.then_some(id)
            }
            Route::Session(session, link) => {
                self.sessions.insert(session, OpenSession { link, error: None });
                None
            }
        }
    }

    /// Returns the output of an effect; `None` if it waits for the end of the batch, or if its caller has left.
    fn output_of(&mut self, effect: Effect) -> Option<Output<L>> {
        Some(match effect {
            Effect::Write { write, content } => {
                let alone = self.attempts.write(Job { write, content }, self.now_ms);
                self.writes.extend(alone);
                return None;
            }
            Effect::Load { execution_id } => {
                self.wanted.push(execution_id);
                return None;
            }
            Effect::Reply { caller, reply } => Output::Answer(self.callers.remove(&caller)?, reply),
            Effect::Send {
                session,
                seq,
                message,
            } => {
                let open = self.sessions.get_mut(&session)?;
                if let ToWorker::SessionError { code, .. } = &message {
                    open.error = Some(session_error_code(*code).as_str_name());
                }
                Output::Send {
                    session,
                    seq,
                    message,
                }
            }
            Effect::CloseSession(session) => {
                let OpenSession { link, error } = self.sessions.remove(&session)?;
                // Without an error before it, it answers a goodbye.
                let reason = error.unwrap_or("goodbye");
                Output::EndSession {
                    session,
                    link,
                    reason,
                }
            }
            Effect::EmitEvent(persisted) => Output::EmitEvent(persisted),
            Effect::NotifyErrorHandler(persisted) => Output::NotifyErrorHandler(persisted),
            Effect::WorkerLost {
                worker_id,
                evidence,
                n_lost,
                n_returned,
            } => Output::WorkerLost {
                worker_id,
                evidence,
                n_lost,
                n_returned,
            },
            Effect::Note(notice) => Output::Note(notice),
            Effect::Drained { n_unfinished } => Output::Drained { n_unfinished },
            Effect::GiveUp { attempts } => Output::GiveUp { attempts },
        })
    }
}

#[cfg(test)]
mod tests;
