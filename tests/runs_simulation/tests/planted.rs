//! Every fault of runs that can be planted is found by the judge. Tests the judge and the world around runs, not the runs.
//!
//! A fault is the whole process's, so each has a process of its own: this program, with the fault in a variable. Prints which
//! invariant found which fault, and after how many seeds. `ESCAPEMENT_PLANTED=run-gate-forgotten` plants that one alone.
#![cfg(debug_assertions)]
#![allow(clippy::print_stdout, reason = "the table is what somebody runs this for")]

use escapement_model::planted::{Bug, plant};
use escapement_runs_simulation::simulate;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

/// A fault that this many seeds do not show is not found.
const SEEDS: u64 = 1_600;
/// Seeds that show what few seeds do. They are tried first, and any other one will do.
const RARE: [(&str, u64); 4] = [
    ("run-child-doubt-forgotten", 1_290),
    ("run-completed-repeated", 189),
    ("run-doubt-forgotten", 349),
    ("run-late-counts", 381),
];
/// Invariants that alone count as the finder of a fault.
const FINDERS: [(&str, &str); 4] = [
    ("run-accept-early", "J1"),
    ("run-outcome-early", "J2"),
    ("run-shown-early", "J3"),
    ("run-time-first", "J4"),
];
/// Names the fault for the process that plants it.
const WANTED: &str = "ESCAPEMENT_PLANTED";

#[test]
fn every_planted_fault_of_runs_is_found() {
    let mut of_runs = Bug::ALL.iter().filter(|bug| bug.name().starts_with("run-"));
    if let Ok(wanted) = std::env::var(WANTED) {
        let bug = of_runs.find(|bug| bug.name() == wanted);
        return is_found(*bug.expect("a fault of runs"));
    }
    let (left, missed) = (Mutex::new(of_runs), Mutex::new(Vec::new()));
    let n_threads = thread::available_parallelism().map_or(1, |cores| cores.get());
    thread::scope(|scope| {
        for _ in 0..n_threads {
            scope.spawn(|| {
                while let Some(bug) = left.lock().map_or(None, |mut left| left.next()) {
                    if !is_found_by_another(*bug) {
                        missed
                            .lock()
                            .expect("nobody panics while holding it")
                            .push(bug.name());
                    }
                }
            });
        }
    });
    let missed = missed.into_inner().expect("nobody panics while holding it");
    assert!(missed.is_empty(), "not found: {missed:?}");
}

/// Starts this program once more, with the fault.
fn is_found_by_another(bug: Bug) -> bool {
    let program = std::env::current_exe().expect("this program has a path");
    let output = Command::new(program)
        .args(["every_planted_fault_of_runs_is_found", "--exact", "--nocapture"])
        .env(WANTED, bug.name())
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let output = output.expect("this program starts");
    let told = String::from_utf8_lossy(&output.stdout);
    for line in told.lines().filter(|line| line.starts_with(bug.name())) {
        println!("{line}");
    }
    output.status.success()
}

fn is_found(bug: Bug) {
    plant(bug);
    let rare = RARE.iter().find(|(name, _)| *name == bug.name());
    let mut seeds = rare.map(|(_, seed)| *seed).into_iter().chain(1..=SEEDS);
    let finder = FINDERS.iter().find(|(name, _)| *name == bug.name());
    let counts = |by: &str| finder.is_none_or(|(_, invariant)| *invariant == by);
    let found = seeds.find_map(|seed| Some((seed, found_by(seed).filter(|(by, _)| counts(by))?)));
    let (seed, (invariant, text)) = found.expect("a seed that shows the fault");
    let text: String = text.chars().take(110).collect();
    println!("\n{:<24} {invariant:<10} seed {seed:>4}: {text}", bug.name());
}

/// What finds something wrong in a seed: an invariant, or an assertion of what is judged.
fn found_by(seed: u64) -> Option<(&'static str, String)> {
    match catch_unwind(AssertUnwindSafe(|| simulate(seed))) {
        Ok(Ok(_)) => None,
        Ok(Err(broken)) => Some((broken.finding.invariant, broken.finding.text)),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Some(("assertion", text.unwrap_or_default()))
        }
    }
}
