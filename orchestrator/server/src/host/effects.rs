//! Carries out what the host wants done, in order. Decides nothing and never waits: what cannot take an item loses it or is
//! closed, as its limit says.

use super::handle::{Channels, Outbound};
use crate::exit::{EXIT_STORE, stop_here};
use crate::limits::SESSION_QUEUE_UNIT_BYTES;
use crate::storage::writer::ToWriter;
use escapement_codec::execution;
use escapement_contract::{AuditKind, Settlement};
use escapement_engine::{Notice, SessionKey, ToWorker};
use escapement_host::{Host, Output, ToRuns, refusal};
use escapement_metrics::Metrics;
use escapement_model::ExecutionId;
use escapement_runs_shell::{EndedExecution, LinkedAttempt, WaitingBatch};
use escapement_sinks::Sinks;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use tokio::sync::watch;
use tracing::{error, info, warn};

/// The ways to the writer, the loader and the sinks.
#[derive(Debug)]
pub(crate) struct EffectRunner {
    writer: Sender<ToWriter>,
    loader: Sender<Vec<ExecutionId>>,
    sinks: Sinks,
    /// How many executions still run, once the drain is over.
    drained: watch::Sender<Option<usize>>,
    /// `None` if nobody looks at figures.
    pub(crate) metrics: Option<Metrics>,
}

impl EffectRunner {
    pub(crate) fn new(
        writer: Sender<ToWriter>,
        loader: Sender<Vec<ExecutionId>>,
        sinks: Sinks,
        drained: watch::Sender<Option<usize>>,
        metrics: Option<Metrics>,
    ) -> Self {
        Self {
            writer,
            loader,
            sinks,
            drained,
            metrics,
        }
    }

    /// Carries out one thing. `host` has the ways to the workers.
    pub(crate) fn carry_out(&mut self, host: &mut Host<Channels>, output: Output<Channels>) {
        match output {
            Output::Answer(caller, reply) => {
                self.metrics.iter().for_each(|metrics| metrics.replied(&reply));
                caller.answer(reply);
            }
            Output::Send {
                session,
                seq,
                message,
            } => {
                self.metrics.iter().for_each(|metrics| metrics.told(&message));
                send(host, session, seq, message);
            }
            Output::EndSession { link, reason, .. } => {
                // The reader may have ended by itself.
                let _reader_ended = link.closed.send(reason);
            }
            Output::EmitEvent(settlement) => self.sinks.emit(&settlement),
            Output::NotifyErrorHandler(settlement) => self.sinks.notify_error_handler(&settlement),
            Output::WorkerLost {
                worker_id,
                evidence,
                n_lost,
                n_returned,
            } => {
                let evidence = evidence.as_str();
                self.metrics.iter().for_each(Metrics::worker_lost);
                warn!(%worker_id, evidence, n_lost, n_returned, "worker is gone with attempts that it had");
            }
            Output::Note(notice) => log(&notice),
            Output::Drained { n_unfinished } => {
                self.drained.send_replace(Some(n_unfinished));
            }
            Output::GiveUp { attempts } => {
                error!(
                    attempts,
                    "a record could not be written; nothing more is acknowledged; free space, restart"
                );
                stop_here(EXIT_STORE);
            }
            // A loader or a writer that is gone has ended the process, or is about to.
            Output::Load(wanted) => {
                let _loader_ended = self.loader.send(wanted);
            }
            Output::Write(jobs) => {
                let _writer_ended = self.writer.send(ToWriter::Jobs(jobs));
            }
            Output::Runs(message) => self.carry_out_for_runs(message),
        }
    }

    fn carry_out_for_runs(&self, message: ToRuns<LinkedAttempt, WaitingBatch>) {
        match message {
            ToRuns::Write { batch, jobs } => {
                let _writer_ended = self.writer.send(ToWriter::Joint(batch, jobs));
            }
            ToRuns::Refuse { batch, failure } => {
                // The thread waits for this outcome unless it has ended.
                let _ended = batch.answer.send(Err(refusal(failure)));
            }
            ToRuns::Deliver {
                attempt,
                settlement,
                is_durable,
            } => attempt.deliver(move || ended_execution(&settlement), is_durable),
        }
    }
}

/// Returns an end as runs have it.
pub(crate) fn ended_execution(settlement: &Settlement) -> EndedExecution {
    let mut kinds = settlement.audit.iter().map(|entry| &entry.kind);
    let is_assigned = |kind: &AuditKind| matches!(kind, AuditKind::AttemptAssigned { .. });
    EndedExecution {
        result: execution::result(&settlement.result),
        assigned: Some(kinds.any(is_assigned)),
    }
}

fn send(host: &mut Host<Channels>, session: SessionKey, seq: u64, message: ToWorker) {
    let Some(link) = host.session(session) else {
        return;
    };
    if let Ok(permit) = Arc::clone(&link.room).try_acquire_many_owned(queue_units(&message)) {
        // As many messages as there is room for. If the stream is gone, the session's reader says so.
        let _gone = link.outbound.try_send(Outbound::Engine {
            seq,
            message,
            _room: permit,
        });
    } else if let Some(link) = host.end_session(session) {
        warn!(session = session.0, "worker does not read; session closed");
        // The session's reader tells the engine that the session is closed, if it has not ended by itself.
        let _reader_ended = link.closed.send("does not read");
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
        Notice::Refused {
            worker_id,
            n_actions,
            reason,
        } => {
            let worker_id = &**worker_id;
            warn!(worker_id, n_actions, reason, "worker actions refused");
        }
        Notice::NotFound { action, n_steps } => {
            warn!(%action, n_steps, "steps ended with ACTION_NOT_FOUND: the action is not registered");
        }
    }
}

/// Returns the part of its session's queue that a message takes: one unit, and one more for each `SESSION_QUEUE_UNIT_BYTES`.
fn queue_units(message: &ToWorker) -> u32 {
    let n_more = message.held_bytes() / SESSION_QUEUE_UNIT_BYTES;
    u32::try_from(n_more).map_or(u32::MAX, |n_more| n_more.saturating_add(1))
}

#[cfg(test)]
mod tests;
