//! Reads back what was accepted and is not settled: at the start, and request by request while it serves.
//! Settles nothing itself.

use escapement_codec::store_write::namespace_of;
use escapement_codec::{namespaces, stored};
use escapement_contract::Interruption;
use escapement_engine::{ActionMemory, Input, LoadOutcome, Recovered, RecoveredParked};
use escapement_model::ExecutionId;
use escapement_store::{Reader, StoreFault, StoredExecution, StoredState, StoredSummary};
use std::sync::Arc;
use tracing::{error, warn};

/// Executions that were accepted and have not settled.
#[derive(Debug, Default)]
pub struct Unsettled {
    /// Actions that stay registered for a while though no worker offers them.
    pub actions: Vec<ActionMemory>,
    /// Read whole: what had started, and the oldest of what is queued.
    pub whole: Vec<Recovered>,
    /// Other queued executions, oldest first, page by page; all are younger than those in `whole`.
    pub parked: Vec<Vec<RecoveredParked>>,
}

/// Reason why a start does not recover.
#[derive(Debug)]
pub enum RecoveryFault {
    /// The store does not read.
    Store(StoreFault),
    /// An execution that was accepted cannot be read again.
    Unrecoverable {
        /// Number in the store.
        number: u64,
        /// Reason.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Unsettled {
    /// Returns the number of executions.
    pub fn len(&self) -> usize {
        self.whole.len() + self.parked.iter().map(Vec::len).sum::<usize>()
    }

    /// Returns true if everything that was accepted is settled.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the executions that must no longer run: the effects of their steps are unknown.
    pub fn interrupted(&self) -> impl Iterator<Item = ExecutionId> {
        let interrupted = self.whole.iter().filter(|one| one.interruption.is_some());
        interrupted.map(|one| one.execution_id)
    }

    /// Returns the inputs of an engine about them, in this order, before any other.
    pub fn into_inputs(self) -> impl Iterator<Item = Input> {
        let actions = self.actions.into_iter().map(Input::RecoverAction);
        let parked = self.parked.into_iter().flatten().map(Input::RecoverParked);
        let whole = self.whole.into_iter().map(Input::Recover);
        actions.chain(whole).chain(parked)
    }
}

/// Returns everything that is not settled; of what is queued only so many requests are read, so that a long queue does not
/// hold up a start. What is damaged among the others shows when its turn comes.
///
/// # Errors
/// If the store does not read, or, unless the operator accepts the loss, one execution does not.
pub fn unsettled(
    reader: &dyn Reader,
    accept_loss: bool,
    in_memory_max: usize,
) -> Result<Unsettled, RecoveryFault> {
    let mut all = Unsettled {
        actions: remembered_actions(reader),
        ..Unsettled::default()
    };
    let mut after = None;
    while all.whole.len() < in_memory_max {
        let n_wanted = RECOVERY_PAGE.min(in_memory_max - all.whole.len());
        let page = reader.unsettled(after, n_wanted);
        let Some(page) = readable(page, &mut after, accept_loss)? else {
            continue;
        };
        let Some(last) = page.last() else { return Ok(all) };
        after = Some(last.summary.number);
        for stored in page {
            take_whole(stored, accept_loss, &mut all.whole)?;
        }
    }
    loop {
        let page = reader.unsettled_summaries(after, RECOVERY_SUMMARIES_PAGE);
        let Some(page) = readable(page, &mut after, accept_loss)? else {
            continue;
        };
        let Some(last) = page.last() else { return Ok(all) };
        after = Some(last.number);
        let mut parked = Vec::with_capacity(page.len());
        for summary in page {
            if summary.state == StoredState::Queued {
                parked.push(recovered_parked(&summary));
            } else {
                let mut nowhere = None;
                let stored = reader.execution(summary.execution_id);
                let stored = readable(stored, &mut nowhere, accept_loss)?.flatten();
                if let Some(stored) = stored {
                    take_whole(stored, accept_loss, &mut all.whole)?;
                }
            }
        }
        all.parked.push(parked);
    }
}

//
/// Returns the actions that the store remembers; none if it does not read: that holds up no start.
fn remembered_actions(reader: &dyn Reader) -> Vec<ActionMemory> {
    let memories = reader.remembered_actions().unwrap_or_else(|fault| {
        warn!(
            error = &fault as &dyn std::error::Error,
            "remembered actions cannot be read and are forgotten"
        );
        Vec::new()
    });
    let memory = |memory: escapement_store::ActionMemory| ActionMemory {
        name: memory.name.into(),
        left_ms: memory.left_ms,
    };
    memories.into_iter().map(memory).collect()
}

/// Returns the request of a queued execution, as the engine asks for it.
pub fn load(reader: &dyn Reader, execution_id: ExecutionId) -> LoadOutcome {
    let recovered = match reader.execution(execution_id) {
        Ok(Some(stored)) if stored.summary.state == StoredState::Queued => recovered(stored),
        Ok(_) => {
            error!(%execution_id, "queued execution is not queued in the store and stays as it is there");
            return LoadOutcome::Damaged;
        }
        Err(fault @ StoreFault::Corrupt { .. }) => {
            error!(
                %execution_id,
                error = &fault as &dyn std::error::Error,
                "queued execution cannot be read and stays unsettled"
            );
            return LoadOutcome::Damaged;
        }
        Err(fault) => {
            warn!(
                %execution_id,
                error = &fault as &dyn std::error::Error,
                "queued execution cannot be read now"
            );
            return LoadOutcome::Failed;
        }
    };
    match recovered {
        Ok(recovered) => LoadOutcome::Loaded(recovered),
        Err(unreadable) => {
            error!(
                %execution_id,
                error = &unreadable as &dyn std::error::Error,
                "queued execution cannot be read and stays unsettled"
            );
            LoadOutcome::Damaged
        }
    }
}

/// Returns the value, or `None` if it is damaged and skipped. Then `after` names it, so that reading continues after it.
fn readable<T>(
    read: Result<T, StoreFault>,
    after: &mut Option<u64>,
    accept_loss: bool,
) -> Result<Option<T>, RecoveryFault> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(fault @ StoreFault::Corrupt { number, .. }) => {
            leave_unsettled(number, Box::new(fault), accept_loss)?;
            *after = Some(number);
            Ok(None)
        }
        Err(fault) => Err(RecoveryFault::Store(fault)),
    }
}

fn take_whole(
    stored: StoredExecution,
    accept_loss: bool,
    whole: &mut Vec<Recovered>,
) -> Result<(), RecoveryFault> {
    let number = stored.summary.number;
    match recovered(stored) {
        Ok(recovered) => whole.push(recovered),
        Err(unreadable) => leave_unsettled(number, Box::new(unreadable), accept_loss)?,
    }
    Ok(())
}

fn recovered_parked(summary: &StoredSummary) -> RecoveredParked {
    RecoveredParked {
        execution_id: summary.execution_id,
        namespace: namespaces::key(&summary.namespace),
        request_digest: summary.request_digest,
        priority: summary.priority,
        deadline_ms: summary.deadline_ms,
    }
}

fn recovered(stored: StoredExecution) -> Result<Recovered, stored::Unreadable> {
    let request = stored::decode_accepted(&stored.record)?;
    let summary = stored.summary;
    if *request.digest() != summary.request_digest {
        // It runs all the same; only a repeat of the request would be taken for another one.
        warn!(
            execution_id = %summary.execution_id,
            "recorded request has another digest than the accepted one"
        );
    }
    let restarted = |started_at| Interruption::Restarted { started_at };
    let interruption = match summary.state {
        StoredState::Queued => None,
        StoredState::Running | StoredState::Settled => {
            Some(summary.started_at.map_or(Interruption::Restored, restarted))
        }
    };
    Ok(Recovered {
        execution_id: summary.execution_id,
        namespace: namespaces::key(&namespace_of(&request)),
        request: Arc::new(request),
        accepted_at: summary.accepted_at,
        deadline_ms: summary.deadline_ms,
        interruption,
    })
}

fn leave_unsettled(
    number: u64,
    source: Box<dyn std::error::Error + Send + Sync>,
    accept_loss: bool,
) -> Result<(), RecoveryFault> {
    if !accept_loss {
        return Err(RecoveryFault::Unrecoverable { number, source });
    }
    warn!(
        number,
        error = source.as_ref() as &dyn std::error::Error,
        "execution cannot be read and stays unsettled"
    );
    Ok(())
}

/// Executions in one read.
const RECOVERY_PAGE: usize = 512;
/// Index rows of executions in one read.
const RECOVERY_SUMMARIES_PAGE: usize = 4_096;
