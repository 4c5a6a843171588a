//! Recovery at a start: each run that has not ended, folded from its snapshot and the entries after it.

use bytes::Bytes;
use escapement_model::chain::{chain_begin, chain_next};
use escapement_model::{Opaque, RunId};
use escapement_run::session::Session;
use escapement_run::spec::Spec;
use escapement_run::state::RunState;
use escapement_run::{Blobs, Run};
use escapement_runs::Runs;
use escapement_store::StoreFault;
use escapement_store::runs::{DefinitionKind, JournalEntry, RunReader, RunSummary};
use prost::Message;

use crate::limits::{RESTING_BYTES_MAX, RESTING_MAX};
use crate::lost::{guarded, kept};
use crate::plans::SharedPlans;
use crate::writes::entry_of;

/// A run that cannot be resumed, and the reason. No other run is affected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// The run; `None` if its id is not readable, and then its number is in the sentence.
    pub run_id: Option<RunId>,
    /// The run that waits for it, if one does and that is known.
    pub parent: Option<RunId>,
    /// Reason.
    pub why: String,
}

/// Resumes every run that has not ended, with its session, and parks most of them. Returns those that cannot be resumed.
///
/// # Errors
/// [`StoreFault`] if the store as a whole cannot be read.
pub(crate) fn recover(
    reader: &dyn RunReader,
    plans: &SharedPlans,
    runs: &mut Runs,
) -> Result<Vec<Damaged>, StoreFault> {
    let mut damaged = Vec::new();
    let mut after = None;
    loop {
        let page = match reader.live(after, PAGE_RUNS) {
            Ok(page) if page.is_empty() => return Ok(damaged),
            Ok(page) => page,
            Err(fault @ StoreFault::CorruptRun { number, .. }) => {
                damaged.push(Damaged {
                    run_id: None,
                    parent: None,
                    why: fault.to_string(),
                });
                after = Some(number);
                continue;
            }
            Err(fault) => return Err(fault),
        };
        after = page.last().map(|run| run.number);
        for summary in page {
            let folded = fold(reader, &summary, plans).and_then(|run| require_contents(reader, run));
            match folded {
                Ok(run) => {
                    hold_session(reader, runs, &run.state().spec);
                    runs.recover(summary.run_id, run);
                }
                Err(why) => damaged.push(Damaged {
                    run_id: Some(summary.run_id),
                    parent: summary.created.parent,
                    why,
                }),
            }
        }
        // Nothing is decided yet, so all of it is durable.
        runs.park(RESTING_MAX, RESTING_BYTES_MAX);
    }
}

/// Returns the stored session; `None` if it does not exist.
///
/// # Errors
/// As the store fails; [`StoreFault::CorruptDefinition`] if it cannot be read.
pub fn stored_session(reader: &dyn RunReader, id: &str) -> Result<Option<Session>, StoreFault> {
    let Some(definition) = reader.definition(DefinitionKind::Session, id)? else {
        return Ok(None);
    };
    let number = definition.number;
    let session = Session::decode(definition.record);
    session
        .map(Some)
        .map_err(|_| StoreFault::CorruptDefinition { number })
}

/// Loads the session of a resumed run. One that is missing or damaged begins anew.
fn hold_session(reader: &dyn RunReader, runs: &mut Runs, spec: &Spec) {
    let id = &*spec.session_key();
    if id.is_empty() || runs.sessions().get(id).is_some() {
        return;
    }
    let stored = stored_session(reader, id).ok().flatten();
    let session = stored.unwrap_or_else(|| Session::new(&spec.user_id, Opaque::default()));
    runs.sessions_mut().hold(id, || session);
}

/// Returns the run as its journal has it.
pub(crate) fn fold(reader: &dyn RunReader, summary: &RunSummary, plans: &SharedPlans) -> Result<Run, String> {
    let mut state = RunState {
        chain: Bytes::copy_from_slice(&chain_begin(&summary.run_id)),
        ..RunState::default()
    };
    let stored = reader
        .run(summary.run_id, PAGE_BYTES)
        .map_err(|fault| fault.to_string())?;
    let stored = stored.ok_or("the run is not there any more")?;
    if let Some(snapshot) = &stored.snapshot {
        state = RunState::decode(snapshot.bytes.clone())
            .map_err(|why| format!("the snapshot is unreadable: {why}"))?;
    }
    let mut page = stored.tail;
    loop {
        apply(&mut state, &page)?;
        if state.sequence + 1 >= summary.next_seq {
            break;
        }
        let next = reader.journal(summary.run_id, state.sequence + 1, PAGE_BYTES);
        let next = next.map_err(|fault| fault.to_string())?;
        page = next.ok_or("the run is not there any more")?.entries;
        if page.is_empty() {
            return Err(format!("the journal ends at entry {}", state.sequence));
        }
    }
    if state.chain[..] != summary.last_link[..] {
        return Err("the journal is not the one that was written".to_owned());
    }
    let document = match <[u8; 32]>::try_from(&state.document.digest[..]) {
        Ok(digest) => content(reader, &digest)?,
        Err(_) => state.document.inline.clone(),
    };
    let plan = plans.read(&state.revision, &Opaque::from_encoded(document));
    let plan = plan.map_err(|why| format!("the plan is unreadable: {why}"))?;
    if plan.digest[..] != state.revision[..] {
        return Err("the plan is not that of the revision".to_owned());
    }
    Ok(Run::from_snapshot(state, plan))
}

/// Returns the run, if everything that it refers to is there: what it meets later on must not end the others.
pub(crate) fn require_contents(reader: &dyn RunReader, run: Run) -> Result<Run, String> {
    for digest in run.state().contents() {
        content(reader, &digest)?;
    }
    Ok(run)
}

fn content(reader: &dyn RunReader, digest: &[u8; 32]) -> Result<Bytes, String> {
    let found = reader.content(digest).map_err(|fault| fault.to_string())?;
    found.ok_or_else(|| "a content that the run refers to is not there any more".to_owned())
}

/// Reason why a stored run cannot be looked at.
#[derive(Debug)]
pub enum StoredRunFault {
    /// The store as a whole cannot be read.
    Store(StoreFault),
    /// This run is damaged: what is wrong with it.
    Damaged(String),
}

/// Folds a run from its durable entries and reads it. `None` if the store has no such run. What was purged with a discarded run
/// is shown as a value that says nothing.
///
/// # Errors
/// [`StoredRunFault`].
pub fn look_at_stored<T>(
    reader: &dyn RunReader,
    run_id: RunId,
    look: impl FnOnce(&Run, &dyn Blobs) -> T,
) -> Result<Option<T>, StoredRunFault> {
    let summary = match reader.summary(run_id) {
        Ok(Some(summary)) => summary,
        Ok(None) => return Ok(None),
        Err(fault @ StoreFault::CorruptRun { .. }) => return Err(StoredRunFault::Damaged(fault.to_string())),
        Err(fault) => return Err(StoredRunFault::Store(fault)),
    };
    let run = fold(reader, &summary, &SharedPlans::default()).map_err(StoredRunFault::Damaged)?;
    let contents = DurableContents {
        reader,
        are_purged: run.state().is_discarded(),
    };
    let looked = guarded(|| look(&run, &contents)).map_err(StoredRunFault::Damaged)?;
    Ok(Some(looked))
}

/// Contents that are durable, read when they are asked for.
struct DurableContents<'a> {
    reader: &'a dyn RunReader,
    /// True if the run does not keep them: then one that is not there is empty.
    are_purged: bool,
}

impl Blobs for DurableContents<'_> {
    /// # Panics
    /// As the contents of runs that live.
    fn blob(&self, digest: &[u8; 32]) -> Bytes {
        match self.are_purged {
            true => self.reader.content(digest).ok().flatten().unwrap_or_default(),
            false => kept(self.reader, digest),
        }
    }
}

pub(crate) fn apply(state: &mut RunState, page: &[JournalEntry]) -> Result<(), String> {
    for stored in page {
        if stored.seq <= state.sequence {
            continue;
        }
        let entry = entry_of(&stored.bytes).filter(|entry| entry.sequence == state.sequence + 1);
        let entry = entry.ok_or_else(|| format!("entry {} is unreadable", stored.seq))?;
        let link = chain_next(&state.chain_hash(), entry.sequence, &stored.bytes);
        state.apply(&entry);
        state.chain = Bytes::copy_from_slice(&link);
    }
    Ok(())
}

/// Runs in one list.
const PAGE_RUNS: usize = 256;
/// Bytes of entries in one read.
const PAGE_BYTES: usize = 4 << 20;
