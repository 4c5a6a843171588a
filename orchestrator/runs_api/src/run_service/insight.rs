//! `ReplayRun` and `DiffRevisions`: whether a journal replays, and how plans differ.

use super::Runs;
use super::discarding::purged;
use crate::caller::Caller;
use crate::errors::Rejection;
use crate::fields;
use crate::journal::absent;
use bytes::Bytes;
use escapement_model::RunId;
use escapement_runs_host::{StoredRunFault, look_at_stored};
use escapement_runs_insight::{diff, replay};
use escapement_runs_shell::CallError;
use escapement_store::StoreFault;
use escapement_store::runs::{JournalEntry, RunReader};
use escapement_transport::share::Tenant;
use escapement_wire::runs::v1;

impl Runs {
    pub(super) async fn diff_revisions(
        &self,
        request: v1::DiffRevisionsRequest,
        caller: &Caller,
    ) -> Result<v1::DiffRevisionsResponse, Rejection> {
        let (_, from) = self.revision_named("from", request.from, caller).await?;
        let (_, to) = self.revision_named("to", request.to, caller).await?;
        let compare = self.runs.readers().read(move |_| Ok(diff(&from, &to)));
        let found = compare.await?;
        let texts = |fields: &[&str]| fields.iter().map(|field| (*field).to_owned()).collect();
        let changed = found.changed.iter().map(|step| v1::StepDifference {
            step_key: step.key.clone(),
            changed_fields: texts(&step.fields),
        });
        Ok(v1::DiffRevisionsResponse {
            identical: found.is_empty(),
            changed_steps: changed.collect(),
            changed_fields: texts(&found.changed_fields),
            added_steps: found.added,
            removed_steps: found.removed,
        })
    }

    pub(super) async fn replay_run(
        &self,
        request: v1::ReplayRunRequest,
        tenant: &Tenant,
    ) -> Result<v1::ReplayRunResponse, Rejection> {
        let run_id: RunId = fields::id("run_id", &request.run_id)?;
        let _one_of_few = self.heavy_place(tenant).await?;
        let replayed = self.runs.readers().read(move |reader| replayed(reader, run_id));
        replayed.await.map_err(|error| Rejection::OfRun(run_id, error))?
    }
}

/// Reads the whole journal and decides it again.
fn replayed(
    reader: &dyn RunReader,
    run_id: RunId,
) -> Result<Result<v1::ReplayRunResponse, Rejection>, StoreFault> {
    let of_run = |error| Ok(Err(Rejection::OfRun(run_id, error)));
    let Some(journal) = whole_journal(reader, run_id)? else {
        return of_run(absent(reader, run_id)?);
    };
    let Some(journal) = journal else {
        let message = format!(
            "The journal of run {run_id} is too long to be replayed here; export it, and verify the file."
        );
        return Ok(Err(Rejection::failed("JOURNAL_TOO_LONG", message)));
    };
    if let Some(purged) = purged(reader, run_id)? {
        return Ok(Err(purged));
    }
    let entries: Vec<Bytes> = journal.iter().map(|entry| entry.bytes.clone()).collect();
    let last_link = journal.last().map(|entry| entry.link);
    let compared = look_at_stored(reader, run_id, |stored, blobs| {
        let n_entries = i64::try_from(entries.len()).unwrap_or(i64::MAX);
        match replay(&entries, blobs) {
            Ok(replayed) => {
                let chain_intact = Some(replayed.run.state().chain_hash()) == last_link;
                // The run may have gone on since its journal was read.
                let is_same = stored.state().sequence != replayed.run.state().sequence
                    || stored.state() == replayed.run.state();
                v1::ReplayRunResponse {
                    identical: chain_intact && is_same,
                    entries: n_entries,
                    chain_intact,
                    state_identical: is_same,
                    first_difference: None,
                }
            }
            Err(difference) => v1::ReplayRunResponse {
                identical: false,
                entries: n_entries,
                chain_intact: true,
                state_identical: false,
                first_difference: Some(v1::RunDifference {
                    part: "entry".to_owned(),
                    sequence: i64::try_from(difference.sequence).unwrap_or(i64::MAX),
                    recorded: String::new(),
                    replayed: difference.what,
                }),
            },
        }
    });
    match compared {
        Ok(Some(response)) => Ok(Ok(response)),
        Ok(None) => of_run(absent(reader, run_id)?),
        Err(StoredRunFault::Damaged(why)) => of_run(CallError::Damaged(why)),
        Err(StoredRunFault::Store(fault)) => Err(fault),
    }
}

/// The outer `None`: no such run. The inner one: more than may be held.
#[allow(clippy::option_option, reason = "both are said above")]
fn whole_journal(
    reader: &dyn RunReader,
    run_id: RunId,
) -> Result<Option<Option<Vec<JournalEntry>>>, StoreFault> {
    let (mut journal, mut bytes): (Vec<JournalEntry>, usize) = (Vec::new(), 0);
    loop {
        let next = journal.last().map_or(1, |last| last.seq + 1);
        let Some(page) = reader.journal(run_id, next, PAGE_BYTES)? else {
            return Ok(None);
        };
        if page.entries.is_empty() {
            return Ok(Some(Some(journal)));
        }
        bytes += page.entries.iter().map(|entry| entry.bytes.len()).sum::<usize>();
        journal.extend(page.entries);
        if bytes > JOURNAL_BYTES_MAX {
            return Ok(Some(None));
        }
    }
}

/// Bytes of entries that are read at a time.
const PAGE_BYTES: usize = 4 << 20;
/// Bytes of a journal that is replayed while a caller waits: 64 MiB.
const JOURNAL_BYTES_MAX: usize = 64 << 20;
