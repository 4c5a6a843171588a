//! Readable part of a damaged run. Repairs nothing.

use bytes::Bytes;
use escapement_model::RunId;
use escapement_model::chain::{chain_begin, chain_next};
use escapement_run::journal::Stored;
use escapement_run::state::RunState;
use escapement_runs::notice_of_damaged;
use escapement_store::StoreFault;
use escapement_store::runs::{RunReader, RunSummary, RunWrite};

use crate::plans::SharedPlans;
use crate::recovery::{apply, fold, require_contents};
use crate::writes::told;

/// Readable part of a damaged run.
#[derive(Debug)]
pub struct Remains {
    /// Index columns; `None` if they are damaged.
    pub summary: Option<RunSummary>,
    /// State after the last readable entry, without a gap from the first one on.
    pub state: RunState,
    /// Damage.
    pub why: String,
}

impl Remains {
    /// Reads what there is. `None` if the store has no such run.
    ///
    /// # Errors
    /// [`StoreFault`] if the store as a whole cannot be read.
    pub fn read(reader: &dyn RunReader, run_id: RunId) -> Result<Option<Self>, StoreFault> {
        let summary = match reader.summary(run_id) {
            Ok(Some(summary)) => summary,
            Ok(None) => return Ok(None),
            Err(fault @ StoreFault::CorruptRun { .. }) => {
                return Ok(Some(Self {
                    summary: None,
                    state: readable(reader, run_id)?,
                    why: fault.to_string(),
                }));
            }
            Err(fault) => return Err(fault),
        };
        let folded = fold(reader, &summary, &SharedPlans::default());
        let whole = folded.and_then(|run| require_contents(reader, run));
        Ok(Some(Self {
            state: readable(reader, run_id)?,
            why: match whole {
                Ok(_) => "it could not be taken up".to_owned(),
                Err(why) => why,
            },
            summary: Some(summary),
        }))
    }

    /// Returns the encoded requests of the attempts that were in flight, as far as can be read.
    pub fn in_flight<'a>(&'a self, reader: &'a dyn RunReader) -> impl Iterator<Item = Bytes> + 'a {
        let requests = self.state.live_attempts().map(|called| &called.request);
        requests.filter_map(move |request| loaded(reader, request))
    }

    /// Returns the notice for the run's user, to be written before the run is discarded; `None` without notices.
    pub fn last_word(&self, now: i64) -> Option<RunWrite> {
        let summary = self.summary.as_ref()?;
        let row = notice_of_damaged(&self.state, now)?;
        Some(RunWrite {
            notices: told(&row).collect(),
            ..RunWrite::new(summary.run_id, summary.next_seq, summary.progress)
        })
    }
}

fn loaded(reader: &dyn RunReader, stored: &Stored) -> Option<Bytes> {
    match stored.content() {
        Some(digest) => reader.content(&digest).ok().flatten(),
        None => Some(stored.inline.clone()),
    }
}

/// Returns the state after the last entry that is as it was written.
fn readable(reader: &dyn RunReader, run_id: RunId) -> Result<RunState, StoreFault> {
    let mut state = RunState {
        chain: Bytes::copy_from_slice(&chain_begin(&run_id)),
        ..RunState::default()
    };
    loop {
        let page = match reader.journal(run_id, state.sequence + 1, PAGE_BYTES) {
            Ok(page) => page.map(|page| page.entries).unwrap_or_default(),
            Err(StoreFault::CorruptRun { .. }) => return Ok(state),
            Err(fault) => return Err(fault),
        };
        if page.is_empty() {
            return Ok(state);
        }
        for entry in page {
            let link = chain_next(&state.chain_hash(), entry.seq, &entry.bytes);
            if link != entry.link || apply(&mut state, &[entry]).is_err() {
                return Ok(state);
            }
        }
    }
}

/// Bytes of entries in one read.
const PAGE_BYTES: usize = 4 << 20;
