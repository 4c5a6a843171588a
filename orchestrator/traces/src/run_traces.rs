//! The way in for runs: takes those that have ended, if they are sampled. Reads their journals on the thread that exports.

use crate::run_ids as ids;
use crate::run_spans::RunSpans;
use escapement_codec::trace::{Sampling, Trace};
use escapement_model::{ExecutionId, Opaque, RunId};
use escapement_otlp::{Encoded, Export};
use escapement_run::journal::{Entry, Event, PlanCreated};
use escapement_run::plan::{self, Plan};
use escapement_run::spec::{Spec, TraceContext};
use escapement_runs_shell::TraceRuns;
use escapement_store::runs::RunReader;
use prost::Message;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Where runs that have ended are handed in to be exported.
pub(crate) struct RunTraces {
    sampling: Sampling,
    export: Export,
    /// Of the thread that exports.
    reader: Arc<Mutex<Box<dyn RunReader>>>,
}

impl RunTraces {
    pub(crate) fn new(sampling: Sampling, export: Export, reader: Box<dyn RunReader>) -> Self {
        Self {
            sampling,
            export,
            reader: Arc::new(Mutex::new(reader)),
        }
    }
}

impl fmt::Debug for RunTraces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunTraces").finish_non_exhaustive()
    }
}

impl TraceRuns for RunTraces {
    fn attempt(&self, run_id: RunId, spec: &Spec, execution_id: ExecutionId) -> Option<Box<TraceContext>> {
        let trace = ids::trace_of(run_id, spec, self.sampling);
        ids::context(&trace, ids::attempt(execution_id))
    }

    fn child(&self, run_id: RunId, spec: &Spec, child: RunId) -> Option<Box<TraceContext>> {
        let trace = ids::trace_of(run_id, spec, self.sampling);
        ids::context(&trace, ids::child(child))
    }

    fn ended(&self, run_id: RunId, spec: &Spec) {
        let trace = ids::trace_of(run_id, spec, self.sampling);
        if !trace.is_sampled {
            return;
        }
        let reader = Arc::clone(&self.reader);
        self.export.hand_in(WAITING_BYTES, move || {
            let reader = reader.lock().unwrap_or_else(PoisonError::into_inner);
            run_spans(&**reader, run_id, &trace)
        });
    }
}

/// Returns the spans of a run as its journal has it, a page at a time.
///
/// # Errors
/// Why the journal is not there as a whole.
fn run_spans(reader: &dyn RunReader, run_id: RunId, trace: &Trace) -> Result<Vec<Encoded>, String> {
    let gone = || format!("a part of the journal of run {run_id} is not there any more");
    let mut spans: Option<RunSpans<'_>> = None;
    let (mut next, mut ended_at) = (1, 0);
    loop {
        let page = reader.journal(run_id, next, PAGE_BYTES);
        let page = page.map_err(|fault| fault.to_string())?.ok_or_else(gone)?;
        if page.entries.is_empty() {
            return Err(gone());
        }
        for stored in page.entries {
            let entry = Entry::decode(stored.bytes).ok();
            let entry = entry.filter(|entry| entry.sequence == next).ok_or_else(gone)?;
            match (&entry.event, &mut spans) {
                (Some(Event::RunCreated(created)), spans @ None) => {
                    *spans = Some(RunSpans::begin(run_id, trace, entry.at, created));
                }
                (Some(Event::PlanCreated(revision)), Some(spans)) => {
                    spans.revise(plan_of(reader, revision)?);
                    spans.take(&entry);
                }
                (_, Some(spans)) => spans.take(&entry),
                (_, None) => return Err(gone()),
            }
            (next, ended_at) = (next + 1, entry.at);
        }
        if next >= page.next_seq {
            return spans.map(|spans| spans.finish(ended_at)).ok_or_else(gone);
        }
    }
}

/// Returns the plan of a revision; `None` if it is not readable as one, or stands for a goal whose plan is still to be made.
fn plan_of(reader: &dyn RunReader, revision: &PlanCreated) -> Result<Option<Plan>, String> {
    if revision.number == 0 {
        return Ok(None);
    }
    let document = match revision.document.content() {
        None => Some(revision.document.inline.clone()),
        Some(digest) => reader.content(&digest).map_err(|fault| fault.to_string())?,
    };
    Ok(document.and_then(|document| plan::read(&Opaque::from_encoded(document)).ok()))
}

/// Bytes of entries that are read at a time.
const PAGE_BYTES: usize = 1 << 20;
/// About the bytes of a run that waits: its trace, and none of its journal.
const WAITING_BYTES: usize = 2_048;
