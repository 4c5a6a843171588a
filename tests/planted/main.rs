//! Every fault that can be planted is caught by a suite. Tests the suites, not the product: that they are green without a
//! fault is seen where all tests run. Faults of runs are left to the simulation of runs, which plants them in its own process.
//!
//! Prints the table: which test catches which fault, and after how long. `ESCAPEMENT_PLANTED=name` runs one fault.

mod suites;
mod table;

use escapement_model::planted::Bug;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};
use suites::{Suite, Verdict};
use table::{CATCHERS, misread};

/// How the names of the faults begin that `escapement-runs-simulation` plants.
const OF_RUNS: &str = "run-";
/// A suite that takes longer than this with a fault in it has not caught it.
const PATIENCE: Duration = Duration::from_secs(300);

#[test]
fn every_fault_has_a_suite_that_is_to_catch_it() {
    let listed: BTreeSet<Bug> = CATCHERS.iter().map(|(bug, _)| *bug).collect();
    let missing: Vec<&str> = Bug::ALL
        .iter()
        .filter(|bug| !listed.contains(bug) && !bug.name().starts_with(OF_RUNS))
        .map(|bug| bug.name())
        .collect();
    assert_eq!(missing, Vec::<&str>::new(), "no suite is named for these");
    assert_eq!(listed.len(), CATCHERS.len(), "a fault is listed twice");
    assert!(Bug::ALL.len() + misread().count() >= 45);
}

#[test]
fn every_planted_fault_is_caught() {
    if !cfg!(debug_assertions) {
        return;
    }
    let wanted = std::env::var("ESCAPEMENT_PLANTED").ok();
    let is_wanted = |name: &str| wanted.as_deref().is_none_or(|wanted| wanted == name);
    suites::build();
    let of_product = CATCHERS.iter().map(|(bug, suite)| (bug.name(), *suite));
    let faults = of_product.chain(misread()).filter(|(name, _)| is_wanted(name));
    let (left, escaped) = (Mutex::new(faults), Mutex::new(Vec::new()));
    // Each fault has a process of its own.
    let n_threads = thread::available_parallelism().map_or(1, |cores| cores.get());
    thread::scope(|scope| {
        for _ in 0..n_threads {
            scope.spawn(|| {
                let next = || left.lock().expect("nobody panics while holding it").next();
                while let Some((fault, suite)) = next() {
                    let began = Instant::now();
                    let verdict = suite.run(fault, PATIENCE);
                    show(fault, &suite, &verdict, began.elapsed());
                    if !matches!(verdict, Verdict::Failed { .. }) {
                        let mut escaped = escaped.lock().expect("nobody panics while holding it");
                        escaped.push((fault, suite.target, verdict));
                    }
                }
            });
        }
    });
    let escaped = escaped.into_inner().expect("nobody panics while holding it");
    assert!(escaped.is_empty(), "not caught: {escaped:#?}");
}

fn show(fault: &str, suite: &Suite, verdict: &Verdict, took: Duration) {
    let caught_by = match verdict {
        Verdict::Failed { first, .. } => first.as_str(),
        Verdict::Passed => "NOT CAUGHT",
        Verdict::RanNothing => "NO SUCH TEST",
        Verdict::Endless => "TOO SLOW",
    };
    #[allow(clippy::print_stdout, reason = "the table is what somebody runs this for")]
    {
        println!(
            "{:<26} {:>7.2} s  {} {caught_by}",
            fault,
            took.as_secs_f32(),
            suite.target
        );
    }
}
