//! Every fault of runs that can be planted is found by the judge. Tests the judge and the world around runs, not the runs.
//!
//! One test alone in its process, since a fault is the whole process's. Prints which invariant found which fault, and after how
//! many seeds. `ESCAPEMENT_PLANTED=run-gate-forgotten` plants that one alone.
#![cfg(debug_assertions)]

use escapement_model::planted::{Bug, plant};
use escapement_runs_simulation::simulate;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A fault that this many seeds do not show is not found.
const SEEDS: u64 = 800;

#[test]
fn every_planted_fault_of_runs_is_found() {
    let wanted = std::env::var("ESCAPEMENT_PLANTED").ok();
    let of_runs = Bug::ALL.iter().filter(|bug| bug.name().starts_with("run-"));
    let mut missed = Vec::new();
    for bug in of_runs.filter(|bug| wanted.as_deref().is_none_or(|wanted| wanted == bug.name())) {
        plant(*bug);
        let found = (1..=SEEDS).find_map(|seed| Some((seed, found_by(seed)?)));
        match found {
            Some((seed, (invariant, text))) => {
                let text: String = text.chars().take(110).collect();
                println!("{:<24} {invariant:<10} seed {seed:>4}: {text}", bug.name());
            }
            None => missed.push(bug.name()),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
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
