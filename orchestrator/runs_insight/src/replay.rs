//! Decides a run again from its journal alone: each input is told from the first entries that it led to, handed to the law, and
//! what comes out is compared with the journal, byte for byte.

use crate::told::{self, Reader};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use core::fmt;
use escapement_model::Opaque;
use escapement_model::chain::chain_begin;
use escapement_run::ids::RunId;
use escapement_run::journal::{Entry, Event, PlanCreated, RunCreated, SkipReason};
use escapement_run::plan::{self, Plan};
use escapement_run::state::RunState;
use escapement_run::{Blobs, EncodedEntry, Input, Run};
use prost::Message;

/// Where a journal is not what the law decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The number of the first entry that differs, from 1.
    pub sequence: u64,
    /// A sentence.
    pub what: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "entry {}: {}", self.sequence, self.what)
    }
}

impl core::error::Error for Difference {}

/// A journal that replayed.
#[derive(Debug)]
pub struct Replayed {
    /// The run as it is after the last entry.
    pub run: Run,
    /// How many inputs led to the entries, the making of the run included.
    pub n_inputs: u64,
}

/// Makes the plan of a revision from its document.
pub type ReadPlan<'a> = &'a dyn Fn(&Opaque) -> Result<Arc<Plan>, String>;

/// Decides a run again. `journal` are the encoded entries from the first one on; the last may be any.
///
/// Says nothing about the hashes beside the entries: the state of what replayed has the last one.
///
/// # Errors
/// [`Difference`]: the first entry that the law would not have written.
pub fn replay(journal: &[Bytes], blobs: &dyn Blobs) -> Result<Replayed, Difference> {
    replay_with(journal, blobs, &|document| match plan::read(document) {
        Ok(plan) => Ok(Arc::new(plan)),
        Err(violations) => Err(violations.to_string()),
    })
}

/// As [`replay`], with plans that are made in another way.
///
/// # Errors
/// As [`replay`].
pub fn replay_with(
    journal: &[Bytes],
    blobs: &dyn Blobs,
    read_plan: ReadPlan<'_>,
) -> Result<Replayed, Difference> {
    let entries = decoded(journal)?;
    let (mut run, mut at) = made(&entries, journal, blobs, read_plan)?;
    let mut n_inputs = 1;
    while at < entries.len() {
        let differs = |what: &str| difference(at, what);
        let rest = &entries[at..];
        let now = clock_at(&run, &rest[0]);
        let input = told::input(&Reader { run: &run, blobs }, rest).map_err(|what| differs(&what))?;
        if rest[0].at < run.state().updated_at {
            return Err(differs("is older than the entry before"));
        }
        let of_time = matches!(
            input,
            Input::Time | Input::Recovered | Input::Restarted | Input::Session(_) | Input::Stalled { .. }
        );
        if run.due_at().is_none_or(|due| due <= now) && !of_time {
            return Err(differs("comes after a time at which something else was due"));
        }
        let handled = run.handle(input, now, blobs);
        let commit = handled.map_err(|refused| differs(&format!("its input is refused: {refused}")))?;
        if commit.entries.is_empty() {
            return Err(differs("nothing in the run leads to it"));
        }
        at = compared(journal, at, &commit.entries)?;
        n_inputs += 1;
    }
    Ok(Replayed { run, n_inputs })
}

// RUN-7.8
/// Returns the time of the clock at the arrival of the input that leads to an entry.
fn clock_at(run: &Run, entry: &Entry) -> i64 {
    match &entry.event {
        Some(Event::RunRecovered(recovered)) => entry.at.saturating_sub_unsigned(recovered.ahead_ms),
        _ => run.clock_time(entry.at),
    }
}

fn difference(at: usize, what: &str) -> Difference {
    Difference {
        sequence: at as u64 + 1,
        what: what.to_string(),
    }
}

fn decoded(journal: &[Bytes]) -> Result<Vec<Entry>, Difference> {
    let entry = |(at, bytes): (usize, &Bytes)| {
        let entry = Entry::decode(bytes.clone()).map_err(|_| difference(at, "is not an entry"))?;
        if entry.sequence != at as u64 + 1 || entry.event.is_none() {
            return Err(difference(at, "is not the next entry"));
        }
        Ok(entry)
    };
    journal.iter().enumerate().map(entry).collect()
}

/// Compares what was decided with the journal from an entry on; gives where the next input begins.
fn compared(journal: &[Bytes], at: usize, decided: &[EncodedEntry]) -> Result<usize, Difference> {
    for (at, decided) in (at..).zip(decided) {
        match journal.get(at) {
            Some(bytes) if *bytes == decided.bytes => {}
            Some(_) => return Err(difference(at, "is not what the law decides")),
            None => {
                return Err(difference(
                    at,
                    "is missing: the entries of one input are written together",
                ));
            }
        }
    }
    Ok(at + decided.len())
}

/// Returns the run as it was made, and where its first input begins.
fn made(
    entries: &[Entry],
    journal: &[Bytes],
    blobs: &dyn Blobs,
    read_plan: ReadPlan<'_>,
) -> Result<(Run, usize), Difference> {
    let event = |at: usize| entries.get(at).and_then(|entry| entry.event.as_ref());
    let Some(Event::RunCreated(created)) = event(0) else {
        return Err(difference(0, "does not make a run"));
    };
    let Some(Event::PlanCreated(revision)) = event(1) else {
        return Err(difference(1, "is not a plan"));
    };
    let now = entries[0].at;
    let run_id: Option<[u8; 16]> = created.run_id[..].try_into().ok();
    let run_id = run_id.and_then(RunId::from_bytes);
    let run_id = run_id.ok_or_else(|| difference(0, "has no id of a run"))?;
    let document =
        Opaque::from_encoded(told::load(&revision.document, blobs).map_err(|what| difference(1, &what))?);
    let plan = read_plan(&document).map_err(|what| difference(1, &what))?;
    if revision.cause == "fork" {
        return forked(run_id, plan, revision, entries, journal);
    }
    let mut spec = spec_of(created, blobs).map_err(|what| difference(0, &what))?;
    spec.doubts = revision.doubts.clone();
    let (run, commit) = Run::create(run_id, spec, plan, revision.profiles.clone(), now, blobs);
    let at = compared(journal, 0, &commit.entries)?;
    Ok((run, at))
}

fn spec_of(created: &RunCreated, blobs: &dyn Blobs) -> Result<escapement_run::spec::Spec, String> {
    let mut spec = created.spec.clone();
    spec.input = Opaque::from_encoded(told::load(&created.input, blobs)?);
    spec.environment = Opaque::from_encoded(told::load(&created.environment, blobs)?);
    Ok(spec)
}

/// A fork begins with what it keeps of the other run. That is taken as it is: the other run's journal has its reasons.
fn forked(
    run_id: RunId,
    plan: Arc<Plan>,
    revision: &PlanCreated,
    entries: &[Entry],
    journal: &[Bytes],
) -> Result<(Run, usize), Difference> {
    let n_steps = plan.steps.len();
    if revision.digest[..] != plan.digest[..] || revision.n_steps as usize != n_steps {
        return Err(difference(1, "is not the plan of its document"));
    }
    let first = RunState {
        chain: Bytes::copy_from_slice(&chain_begin(&run_id)),
        revision: revision.digest.clone(),
        updated_at: entries[0].at,
        ..RunState::default()
    };
    let mut run = Run::from_snapshot(first, plan);
    let n_kept = entries[2..].iter().take_while(|entry| is_kept(entry)).count();
    for (at, (entry, bytes)) in entries.iter().zip(journal).enumerate().take(2 + n_kept) {
        let is_sound =
            entry.at == entries[0].at && kept_step(entry).is_none_or(|step| (step as usize) < n_steps);
        if !is_sound || entry.encode_to_vec() != bytes[..] {
            return Err(difference(at, "is not what a fork begins with"));
        }
        run.fold(bytes, entry);
    }
    Ok((run, 2 + n_kept))
}

/// Returns true for an entry with which a fork keeps something of the other run.
fn is_kept(entry: &Entry) -> bool {
    match &entry.event {
        Some(Event::SessionRead(read)) => read.state_version == 0,
        Some(Event::StepMemoized(_) | Event::StepFailed(_)) => true,
        Some(Event::ArtifactCreated(artifact)) => artifact.unit.is_some(),
        Some(Event::StepSkipped(skipped)) => {
            matches!(skipped.reason(), SkipReason::Branch | SkipReason::Override)
        }
        _ => false,
    }
}

fn kept_step(entry: &Entry) -> Option<u32> {
    match entry.event.as_ref()? {
        Event::StepMemoized(memo) => Some(memo.step),
        Event::StepFailed(failed) => Some(failed.step),
        Event::ArtifactCreated(artifact) => Some(artifact.unit?.step),
        Event::StepSkipped(skipped) => Some(skipped.step),
        _ => None,
    }
}
