//! `DiscardRun`, and what is left of a run that was discarded.

use super::Runs;
use super::verbs::{Head, Verb};
use crate::errors::Rejection;
use crate::fields::Fields;
use crate::views::listed;
use escapement_model::RunId;
use escapement_run::journal::{Entry, Event};
use escapement_run::{DISCARDED, Input};
use escapement_runs_shell::{CallError, Discarded};
use escapement_store::StoreFault;
use escapement_store::runs::RunReader;
use escapement_wire::runs::v1;
use prost::Message;

impl Runs {
    pub(super) async fn discard_run(
        &self,
        request: v1::DiscardRunRequest,
    ) -> Result<v1::DiscardRunResponse, Rejection> {
        let head = Head {
            name: "discard",
            run_id: &request.run_id,
            etag: &request.etag,
            request_id: &request.request_id,
        };
        let input = Input::Cancel {
            reason: DISCARDED.to_owned(),
        };
        let verb = head.verb(&request, input, Fields::default())?;
        let Verb {
            run_id, condition, ..
        } = &verb;
        let (run_id, last_sequence) = (*run_id, condition.last_sequence);
        let run = match self.end(verb, |run| run.reason == DISCARDED).await {
            Err(Rejection::OfRun(_, CallError::Damaged(_))) => {
                let discarded = self.runs.discard_damaged(run_id, last_sequence).await;
                remains_view(
                    run_id,
                    discarded.map_err(|error| Rejection::OfRun(run_id, error))?,
                )
            }
            ended => ended?,
        };
        Ok(v1::DiscardRunResponse { run: Some(run) })
    }
}

/// What is told once of a damaged run that is gone.
fn remains_view(run_id: RunId, discarded: Discarded) -> v1::Run {
    let Discarded {
        remains,
        executions,
        at,
    } = discarded;
    let n_read = remains.state.sequence;
    let read = match &remains.summary {
        Some(summary) => format!("{n_read} of its {} entries", summary.next_seq - 1),
        None => format!("{n_read} of its entries"),
    };
    let message = format!(
        "The run was damaged ({}) and is removed; {read} could be read, by which {} executions were in flight.",
        remains.why,
        executions.len()
    );
    let known = remains.summary.as_ref().map(|summary| {
        let spec = (n_read > 0).then_some(&remains.state.spec);
        listed(summary, spec, None, v1::run::State::Cancelled)
    });
    v1::Run {
        run_id: run_id.to_string(),
        state: v1::run::State::Cancelled.into(),
        plan_status: "cancelled".to_owned(),
        error_type: v1::run::ErrorType::Cancelled.into(),
        reason: DISCARDED.to_owned(),
        error: Some(v1::RunError {
            code: "RUN_DAMAGED".to_owned(),
            message,
            step_key: String::new(),
        }),
        orphans: executions,
        updated_at: at,
        completed_at: Some(at),
        ..known.unwrap_or_default()
    }
}

// RUN-8.9
/// Refuses what needs everything that a run refers to, if that is gone because the run was discarded.
///
/// # Errors
/// [`StoreFault`] if the store cannot be read.
pub(super) fn purged(reader: &dyn RunReader, run_id: RunId) -> Result<Option<Rejection>, StoreFault> {
    let Some(summary) = reader.summary(run_id)? else {
        return Ok(None);
    };
    let last = crate::journal::stored_entry(reader, run_id, summary.next_seq - 1)?;
    match last.and_then(|last| last.event) {
        Some(Event::RunCancelled(end)) if end.reason == DISCARDED => {}
        _ => return Ok(None),
    }
    let mut next = 1;
    while let Some(page) = reader.journal(run_id, next, PAGE_BYTES)?
        && let Some(last) = page.entries.last()
    {
        next = last.seq + 1;
        for stored in &page.entries {
            let entry = Entry::decode(stored.bytes.clone()).unwrap_or_default();
            for digest in entry.contents() {
                if reader.content(&digest)?.is_none() {
                    let message = format!("Run {run_id} was discarded; a part of what it refers to is gone.");
                    return Ok(Some(Rejection::failed("RUN_DISCARDED", message)));
                }
            }
        }
    }
    Ok(None)
}

/// Bytes of entries that are read at a time.
const PAGE_BYTES: usize = 1 << 20;
