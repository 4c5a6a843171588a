//! Runs children side by side until the time is over: one lane for kill rounds, all other cores for seeds, in turn those of
//! executions and those of runs. Judges nothing.

use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::Fault;
use crate::child::{Outcome, run as run_child};
use crate::programs::Programs;
use crate::state::{Kind, State, Totals, Work};

/// What a campaign amounts to.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Of this run.
    pub(crate) totals: Totals,
    /// A text for each violation.
    pub(crate) violations: Vec<String>,
    /// With the sums since the campaign began.
    pub(crate) state: State,
}

struct Shared {
    state: State,
    under_way: Vec<Work>,
    totals: Totals,
    violations: Vec<String>,
    fault: Option<Fault>,
}

/// Begins new work until `duration` is over or a rule is broken; what was begun ends.
///
/// # Errors
/// A child cannot be started, or the state cannot be written.
pub(crate) fn run(
    programs: &Programs,
    folder: &Path,
    state: State,
    duration: Duration,
    n_cores: usize,
) -> Result<Ended, Fault> {
    let began = Instant::now();
    let shared = Mutex::new(Shared {
        state,
        under_way: Vec::new(),
        totals: Totals::default(),
        violations: Vec::new(),
        fault: None,
    });
    let n_seed_lanes = n_cores.saturating_sub(1).max(1);
    let seeds: &[Kind] = &[Kind::Seeds, Kind::Runs];
    let lanes = std::iter::once(&[Kind::Kills][..]).chain(std::iter::repeat_n(seeds, n_seed_lanes));
    std::thread::scope(|scope| {
        let (ended, lanes_ended) = channel::<()>();
        for kinds in lanes {
            let (shared, ended) = (&shared, ended.clone());
            scope.spawn(move || {
                let _until_the_end = ended;
                let mut kinds = kinds.iter().cycle();
                let mut goes_on = || {
                    kinds
                        .next()
                        .is_some_and(|kind| step(programs, folder, *kind, shared))
                };
                while began.elapsed() < duration && goes_on() {}
            });
        }
        drop(ended);
        // A line each minute, until the last lane has hung up.
        while lanes_ended.recv_timeout(Duration::from_secs(60)) == Err(RecvTimeoutError::Timeout) {
            let minutes = began.elapsed().as_secs() / 60;
            println!("{minutes} min: {}", lock(&shared).totals);
        }
    });
    let shared = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    match shared.fault {
        Some(fault) => Err(fault),
        None => Ok(Ended {
            totals: shared.totals,
            violations: shared.violations,
            state: shared.state,
        }),
    }
}

/// One piece of work. False if the campaign is over.
fn step(programs: &Programs, folder: &Path, kind: Kind, shared: &Mutex<Shared>) -> bool {
    match try_step(programs, folder, kind, shared) {
        Ok(goes_on) => goes_on,
        Err(fault) => {
            lock(shared).fault.get_or_insert(fault);
            false
        }
    }
}

fn try_step(programs: &Programs, folder: &Path, kind: Kind, shared: &Mutex<Shared>) -> Result<bool, Fault> {
    let work = {
        let mut shared = lock(shared);
        if !shared.violations.is_empty() || shared.fault.is_some() {
            return Ok(false);
        }
        let under_way = shared.under_way.clone();
        let work = shared.state.take(kind, &under_way)?;
        shared.under_way.push(work);
        work
    };
    let outcome = run_child(programs, folder, work)?;
    let mut shared = lock(shared);
    shared.under_way.retain(|other| *other != work);
    match outcome {
        Outcome::Done(totals) => {
            shared.totals.add(&totals);
            shared.state.done(work, &totals)?;
            Ok(true)
        }
        Outcome::Broken(text) => {
            shared.totals.violations += 1;
            shared.violations.push(text);
            shared.state.broken()?;
            Ok(false)
        }
    }
}

/// Returns a lane that panicked has left whole books: they change under the lock only, and nothing there panics.
fn lock(shared: &Mutex<Shared>) -> std::sync::MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
