//! Carries out the engine's effects, in order. Decides nothing and never waits: whatever cannot take an item
//! loses it
//! or is closed, as its limit says.

use super::handle::{AnswerSlot, Outbound, Route, SessionLink};
use crate::exit::{EXIT_STORE, stop_here};
use crate::limits::SESSION_QUEUE_UNIT_BYTES;
use crate::sinks::Sinks;
use crate::storage::writer::Job;
use escapement_codec::session_out::session_error_code;
use escapement_engine::{CallerId, Effect, Notice, Reply, SessionKey, ToWorker};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc as std_mpsc;
use tokio::sync::watch;
use tracing::{error, info, warn};

/// The maps from callers and sessions to their channels, and the ways to the writer and the sinks.
#[derive(Debug)]
pub(crate) struct Desk {
    callers: HashMap<CallerId, Box<dyn AnswerSlot>>,
    sessions: HashMap<SessionKey, OpenSession>,
    writes: Vec<Job>,
    writer: std_mpsc::Sender<Vec<Job>>,
    sinks: Sinks,
    drained: watch::Sender<Option<usize>>,
}

/// The way to one worker.
#[derive(Debug)]
struct OpenSession {
    link: SessionLink,
    /// The error that it was sent, which is why it ends.
    error: Option<&'static str>,
}

impl Desk {
    pub(crate) fn new(
        writer: std_mpsc::Sender<Vec<Job>>,
        sinks: Sinks,
        drained: watch::Sender<Option<usize>>,
    ) -> Self {
        Self {
            callers: HashMap::new(),
            sessions: HashMap::new(),
            writes: Vec::new(),
            writer,
            sinks,
            drained,
        }
    }

    /// Notes where answers go, before the input is handled.
    ///
    /// Gives the caller back where nobody waits any more: its notice of departure may have come before its
    /// call.
    pub(crate) fn register(&mut self, route: Route) -> Option<CallerId> {
        match route {
            Route::None => None,
            Route::Caller(caller, reply) => {
                let is_gone = reply.is_given_up();
                self.callers.insert(caller, reply);
                is_gone.then_some(caller)
            }
            Route::Session(session, link) => {
                self.sessions.insert(session, OpenSession { link, error: None });
                None
            }
        }
    }

    /// Forgets a caller; true where it was known, so that the engine should forget it too.
    pub(crate) fn forget_caller(&mut self, caller: CallerId) -> bool {
        self.callers.remove(&caller).is_some()
    }

    /// Forgets a session whose stream has ended.
    pub(crate) fn forget_session(&mut self, session: SessionKey) {
        self.sessions.remove(&session);
    }

    /// Carries out one effect.
    pub(crate) fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Write { write, content } => self.writes.push(Job { write, content }),
            Effect::Load { .. } => unreachable!("loads go to the loader, see `EngineLoop::finish`"),
            Effect::Reply { caller, reply } => self.reply(caller, reply),
            Effect::Send {
                session,
                seq,
                message,
            } => self.send(session, seq, message),
            // Without an error before it, it answers a goodbye.
            Effect::CloseSession(session) => self.end_session(session, "goodbye"),
            Effect::EmitEvent(settlement) => self.sinks.emit(&settlement),
            Effect::NotifyErrorHandler(settlement) => self.sinks.notify_error_handler(&settlement),
            Effect::WorkerLost {
                worker_id,
                evidence,
                n_lost,
                n_returned,
            } => {
                let evidence = evidence.as_str();
                warn!(%worker_id, evidence, n_lost, n_returned, "worker is gone with attempts that it had");
            }
            Effect::Note(notice) => log(&notice),
            Effect::Drained { n_unfinished } => {
                self.drained.send_replace(Some(n_unfinished));
            }
            Effect::GiveUp { attempts } => {
                error!(
                    attempts,
                    "a record could not be written; nothing more is acknowledged; free space, restart"
                );
                stop_here(EXIT_STORE);
            }
        }
    }

    /// Hands the writes of one batch to the writer together, so that they can share a commit.
    pub(crate) fn flush_writes(&mut self) {
        if !self.writes.is_empty() {
            // A writer that is gone has ended the process, or is about to.
            let _writer_ended = self.writer.send(std::mem::take(&mut self.writes));
        }
    }

    fn reply(&mut self, caller: CallerId, reply: Reply) {
        if let Some(waiting) = self.callers.remove(&caller) {
            waiting.answer(reply);
        }
    }

    fn send(&mut self, session: SessionKey, seq: u64, message: ToWorker) {
        let Some(open) = self.sessions.get_mut(&session) else {
            return;
        };
        if let ToWorker::SessionError { code, .. } = &message {
            open.error = Some(session_error_code(*code).as_str_name());
        }
        let room = Arc::clone(&open.link.room).try_acquire_many_owned(queue_units(&message));
        let is_full = room.is_err();
        if let Ok(room) = room {
            // As many messages as there is room for. Where the stream is gone, the session's reader says so.
            let _gone = open.link.outbound.try_send(Outbound::Engine {
                seq,
                message,
                _room: room,
            });
        }
        if is_full {
            warn!(session = session.0, "worker does not read; session closed");
            // The session's reader tells the engine that the session is closed.
            self.end_session(session, "does not read");
        }
    }

    /// Closes a session from this side: its stream ends after what was sent.
    fn end_session(&mut self, session: SessionKey, reason: &'static str) {
        if let Some(OpenSession { link, error }) = self.sessions.remove(&session) {
            // The reader may have ended by itself.
            let _reader_ended = link.closed.send(error.unwrap_or(reason));
        }
    }
}

fn log(notice: &Notice) {
    match notice {
        Notice::HeldBack { action } => {
            warn!(%action, "no live worker offers this action; executions that begin with it wait in the queue");
        }
        Notice::Offered { action } => {
            info!(%action, "a worker offers this action again; executions that waited for it start");
        }
        Notice::NotFound { action, n_steps } => {
            warn!(%action, n_steps, "steps ended with ACTION_NOT_FOUND: the action is not registered");
        }
    }
}

/// What a message takes of its session's queue: one unit, and one more for each `SESSION_QUEUE_UNIT_BYTES`.
fn queue_units(message: &ToWorker) -> u32 {
    let bytes = match message {
        ToWorker::Welcome(welcome) => {
            size_of_val(welcome.verdicts.as_slice())
                + welcome
                    .refused_actions
                    .iter()
                    .map(|refusal| refusal.name.len() + ITEM_BYTES)
                    .sum::<usize>()
        }
        ToWorker::OutcomeAcks(items) => size_of_val(items.as_slice()),
        ToWorker::UnknownOutcomes(tokens) => tokens.iter().map(|token| token.len() + ITEM_BYTES).sum(),
        ToWorker::Cancels(items) => size_of_val(items.as_slice()),
        // Payloads and environments are shared with their executions.
        ToWorker::Assignments(items) => size_of_val(items.as_slice()),
        ToWorker::SessionError { detail, .. } => detail.len(),
        ToWorker::HeartbeatAck { .. }
        | ToWorker::SnapshotRequest { .. }
        | ToWorker::DrainStarted { .. }
        | ToWorker::Reconnect { .. } => 0,
    };
    u32::try_from(bytes / SESSION_QUEUE_UNIT_BYTES).map_or(u32::MAX, |n_more| n_more.saturating_add(1))
}

/// What an item holds beside its text.
const ITEM_BYTES: usize = 32;

#[cfg(test)]
mod tests;
