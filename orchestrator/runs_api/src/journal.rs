//! Reads stretches of a journal, within bounds of entries and bytes. Knows no message of the API.

use crate::errors::Rejection;
use escapement_model::RunId;
use escapement_run::journal::{Entry, Event};
use escapement_run::spec::Spec;
use escapement_runs_shell::{CallError, RunsHandle};
use escapement_store::StoreFault;
use escapement_store::runs::{JournalEntry, RunReader};
use prost::Message;

/// An entry with its link in the chain.
pub(crate) type Linked = (Entry, [u8; 32]);

/// A stretch of a journal.
#[derive(Debug, Default)]
pub(crate) struct Stretch {
    /// In the order of the stretch.
    pub entries: Vec<Linked>,
    /// The number of the last entry.
    pub last_sequence: u64,
}

/// Reads entries from that number on: at most `n_max`, and about `bytes_max`, but one in any case.
///
/// # Errors
/// [`Rejection::OfRun`].
pub(crate) async fn forward(
    runs: &RunsHandle,
    run_id: RunId,
    from: u64,
    n_max: usize,
    bytes_max: usize,
) -> Result<Stretch, Rejection> {
    read(runs, run_id, move |reader| {
        let Some(page) = reader.journal(run_id, from, bytes_max)? else {
            return Ok(None);
        };
        let mut stretch = Stretch {
            entries: Vec::new(),
            last_sequence: page.next_seq.saturating_sub(1),
        };
        stretch
            .entries
            .extend(page.entries.iter().take(n_max).filter_map(decoded));
        Ok(Some(stretch))
    })
    .await
}

/// Reads entries from that number back to the first, in this order: at most `n_max`, and about `bytes_max`, but one in any case.
///
/// # Errors
/// [`Rejection::OfRun`].
pub(crate) async fn backward(
    runs: &RunsHandle,
    run_id: RunId,
    from: u64,
    n_max: usize,
    bytes_max: usize,
) -> Result<Stretch, Rejection> {
    read(runs, run_id, move |reader| {
        let Some(summary) = reader.summary(run_id)? else {
            return Ok(None);
        };
        let last = summary.next_seq.saturating_sub(1);
        let mut stretch = Stretch {
            entries: Vec::new(),
            last_sequence: last,
        };
        let (mut behind, mut bytes) = (from.min(last) + 1, 0);
        while behind > FIRST_SEQUENCE && stretch.entries.len() < n_max && bytes < bytes_max {
            let begin = behind.saturating_sub(WINDOW).max(FIRST_SEQUENCE);
            let window = window(reader, run_id, begin, behind)?;
            for stored in window.iter().rev() {
                if stretch.entries.len() >= n_max || bytes >= bytes_max {
                    break;
                }
                bytes += stored.bytes.len();
                stretch.entries.extend(decoded(stored));
            }
            behind = begin;
        }
        Ok(Some(stretch))
    })
    .await
}

/// The entries from `begin` up to `behind`, exclusive.
fn window(
    reader: &dyn RunReader,
    run_id: RunId,
    begin: u64,
    behind: u64,
) -> Result<Vec<JournalEntry>, StoreFault> {
    let mut found = Vec::new();
    let mut next = begin;
    while next < behind {
        let page = reader.journal(run_id, next, WINDOW_BYTES)?;
        let entries = page.map(|page| page.entries).unwrap_or_default();
        let Some(last) = entries.last().map(|entry| entry.seq) else {
            break;
        };
        found.extend(entries.into_iter().filter(|entry| entry.seq < behind));
        next = last + 1;
    }
    Ok(found)
}

fn decoded(stored: &JournalEntry) -> Option<Linked> {
    Entry::decode(stored.bytes.clone())
        .ok()
        .map(|entry| (entry, stored.link))
}

/// Reads; `None` if there is no such run.
async fn read<T: Send + 'static>(
    runs: &RunsHandle,
    run_id: RunId,
    read: impl FnOnce(&dyn RunReader) -> Result<Option<T>, StoreFault> + Send + 'static,
) -> Result<T, Rejection> {
    let found = runs.readers().read(move |reader| {
        Ok(match read(reader)? {
            Some(found) => Ok(found),
            None => Err(Rejection::OfRun(run_id, absent(reader, run_id)?)),
        })
    });
    found.await.map_err(|error| Rejection::OfRun(run_id, error))?
}

/// What a run was made from, as the first entry has it; `None` if that cannot be read.
///
/// # Errors
/// [`StoreFault`] if the store as a whole cannot be read.
pub(crate) fn spec_of(reader: &dyn RunReader, run_id: RunId) -> Result<Option<Spec>, StoreFault> {
    let first = stored_entry(reader, run_id, 1)?;
    Ok(first.and_then(|first| match first.event {
        Some(Event::RunCreated(created)) => Some(created.spec),
        _ => None,
    }))
}

/// One entry of a run; `None` if there is none or it cannot be read.
///
/// # Errors
/// [`StoreFault`] if the store as a whole cannot be read.
pub(crate) fn stored_entry(
    reader: &dyn RunReader,
    run_id: RunId,
    sequence: u64,
) -> Result<Option<Entry>, StoreFault> {
    let page = match reader.journal(run_id, sequence, 1) {
        Ok(page) => page,
        // A damaged run is listed with what its index says.
        Err(StoreFault::CorruptRun { .. }) => None,
        Err(fault) => return Err(fault),
    };
    let entry = page.and_then(|page| page.entries.into_iter().next());
    Ok(entry
        .filter(|entry| entry.seq == sequence)
        .and_then(|entry| Entry::decode(entry.bytes).ok()))
}

/// Why there is no run of this id.
///
/// # Errors
/// [`StoreFault`] if the store cannot be read.
pub(crate) fn absent(reader: &dyn RunReader, run_id: RunId) -> Result<CallError, StoreFault> {
    Ok(match reader.removed(run_id)? {
        Some(removed) => CallError::Removed(Box::new(removed)),
        None => CallError::NotFound,
    })
}

// RUN-9.2
/// The number of the first entry. No entry is dropped as long as the run is kept.
pub(crate) const FIRST_SEQUENCE: u64 = 1;
/// Entries that are read at a time when a journal is read backwards.
const WINDOW: u64 = 32;
/// Bytes of these that are read at a time.
const WINDOW_BYTES: usize = 1 << 20;
