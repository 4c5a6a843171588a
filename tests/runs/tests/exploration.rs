//! Every run of every small plan: the core and the second interpreter side by side.
//!
//! `ESCAPEMENT_LONG=1 cargo test -p escapement-run-tests --test exploration -- --nocapture` takes all plans of two and three
//! steps; otherwise it is a share of them.

#![allow(clippy::print_stdout, reason = "the counts are what somebody runs this for")]

use escapement_run_tests::explore::{Counts, Pair, START_MS, explore};
use escapement_run_tests::moves::Move;
use escapement_run_tests::plans::{
    Case, of_branches, of_fallbacks, of_one_step, of_planners, of_three_steps, of_two_steps,
};
use escapement_run_tests::product::Product;
use escapement_run_tests::reference::misreading::Misreading;
use escapement_run_tests::reference::words::Input;
use escapement_run_tests::subject::{Misread, Subject};
use escapement_run_tests::transitions::Transitions;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::thread;

/// All plans of one step, those with a fallback, a branch or a planner, and a share of those of two and three.
fn families() -> [(&'static str, Vec<Case>); 6] {
    [
        ("fallbacks", of_fallbacks(1)),
        ("branches", of_branches(2)),
        ("planners", of_planners(1)),
        ("one step", of_one_step(2)),
        ("two steps", of_two_steps().into_iter().step_by(5).collect()),
        ("three steps", of_three_steps().into_iter().step_by(89).collect()),
    ]
}

/// Explores the cases on all cores.
fn explore_all(name: &str, cases: &[Case], transitions: &mut Transitions) {
    let n_threads = thread::available_parallelism().map_or(1, NonZero::get);
    let explore_some = |first| {
        let (mut counts, mut seen) = (Counts::default(), Transitions::default());
        for case in cases.iter().skip(first).step_by(n_threads) {
            let subject = Product::make(&case.plan, &case.limits, START_MS);
            let found = explore(case, subject, &mut seen);
            counts.add(found.unwrap_or_else(|disagreement| panic!("{disagreement}")));
        }
        (counts, seen)
    };
    let mut counts = Counts::default();
    thread::scope(|scope| {
        let spawn = |first| scope.spawn(move || explore_some(first));
        let threads: Vec<_> = (0..n_threads).map(spawn).collect();
        for thread in threads {
            let (some, seen) = thread.join().unwrap_or_else(|panic| resume_unwind(panic));
            counts.add(some);
            transitions.add(seen);
        }
    });
    println!("{name}: {counts}");
}

#[test]
fn core_and_interpreter_agree_and_the_tables_of_transitions_are_fresh() {
    let mut transitions = Transitions::default();
    for (name, cases) in families() {
        explore_all(name, &cases, &mut transitions);
    }
    let page = transitions.page();
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../orchestrator/run/TRANSITIONS.md"
    );
    if std::env::var_os("ESCAPEMENT_WRITE").is_some() {
        std::fs::write(path, &page).expect("the page can be written");
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(written == page, "{path} is stale: ESCAPEMENT_WRITE=1 writes it");
    if std::env::var_os("ESCAPEMENT_LONG").is_some() {
        for (name, cases) in [
            ("branches", of_branches(3)),
            ("planners", of_planners(2)),
            ("two steps", of_two_steps()),
            ("three steps", of_three_steps()),
        ] {
            explore_all(name, &cases, &mut transitions);
        }
    }
}

/// Gives both the same inputs, and returns the last answer.
fn walk(pair: &mut Pair<Product>, inputs: &[Input]) -> bool {
    let mut is_accepted = true;
    for input in inputs {
        let it = Move {
            input: input.clone(),
            wait_ms: 0,
            cost: 0,
        };
        is_accepted = pair
            .feed(&it)
            .unwrap_or_else(|disagreement| panic!("{disagreement}"));
    }
    is_accepted
}

// RUN-8.10
#[test]
fn both_refuse_the_same_once_callers_have_made_a_run_large() {
    let case = &of_one_step(1)[0];
    let fresh = || Pair::new(case, Product::make(&case.plan, &case.limits, START_MS));
    let mut pair = fresh();
    let large = 500_000;
    for _ in 0..(64 << 20) / large {
        assert!(walk(&mut pair, &[Input::Checkpoint(large)]));
    }
    assert!(!walk(&mut pair, &[Input::Checkpoint(large)]));
    let mut pair = fresh();
    for _ in 0..1_000 {
        assert!(walk(&mut pair, &[Input::Checkpoint(8)]));
    }
    assert!(!walk(&mut pair, &[Input::Checkpoint(8)]));
    for _ in 0..10_000 {
        assert!(walk(&mut pair, &[Input::Pause, Input::Resume]));
        // What led here is only for those who disagree.
        pair.path.clear();
    }
    assert!(!walk(&mut pair, &[Input::Pause]));
    assert!(
        walk(&mut pair, &[Input::Cancel]),
        "an end is never refused for this"
    );
}

#[test]
fn every_misreading_is_noticed() {
    let cases = families().map(|(_, cases)| cases).concat();
    let is_noticed = |misreading: Misreading| {
        cases.iter().any(|case| {
            let subject = Misread::make(&case.plan, &case.limits, START_MS).reading(misreading);
            explore(case, subject, &mut Transitions::default()).is_err()
        })
    };
    let missed: Vec<Misreading> = Misreading::ALL
        .into_iter()
        .filter(|one| !is_noticed(*one))
        .collect();
    assert!(missed.is_empty(), "nobody noticed {missed:?}");
}
