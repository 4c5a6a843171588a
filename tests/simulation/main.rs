//! The whole system from one seed, in one thread and on one virtual clock: the real host of the engine, the real store on a disk in
//! memory, the real workers' machines on a lossy network, and callers that see what callers see.
//! Tests no shell: sockets and threads are other targets' business.
//!
//! `ESCAPEMENT_SEED=123` runs one seed and prints its events where it fails, `ESCAPEMENT_TRACE=file` writes all of them.
//! `ESCAPEMENT_WRITE=1` keeps the hashes of the traces anew, for a change of behaviour that is meant.
//! `ESCAPEMENT_SEEDS_FROM=1000 ESCAPEMENT_SEEDS=100000 ESCAPEMENT_THREADS=2 ESCAPEMENT_REPORT=file` runs a campaign.

mod callers;
mod dice;
mod disk;
mod edge;
mod faults;
mod judge;
mod last_restart;
mod machine_faults;
mod network;
mod orchestrator;
mod orchestrator_side;
mod plans;
mod replaying;
mod scenario;
mod seat;
mod seeds;
mod settle;
mod shares;
mod storage;
mod tally;
mod trace;
mod traces;
mod truth;
mod turns;
mod watching;
mod worker_side;
mod world;

use tally::Tally;

/// So many by default: about a minute on one core.
const SEEDS: u64 = 500;
/// So many on one thread, and the same on four.
const SEEDS_COMPARED: u64 = 16;
/// What the default seeds must amount to at least, or they prove nothing: about a third of what they do.
const FLOORS: [(&str, u64); 61] = [
    ("executions", 1_700),
    ("assignments", 5_500),
    ("bodies", 5_300),
    ("commits", 5_000),
    ("calls", 25_000),
    ("reads of the store", 18_000),
    ("records told again", 1_700),
    ("settlements told again", 1_700),
    ("records replayed", 400),
    ("accepted outcomes looked for in results", 4_000),
    ("history: entries", 120_000),
    ("history: pieces", 3_000),
    ("history: events", 1_700),
    ("results told", 400),
    ("turns judged between namespaces", 100),
    ("recovered", 250),
    ("requests loaded", 150),
    ("answers: queued", 2_000),
    ("answers: running", 1_000),
    ("answers: settled", 6_500),
    ("answers: absent", 600),
    ("answers: a list", 600),
    ("answers: entries to the last", 2_500),
    ("answers: EXECUTION_ID_IN_USE", 30),
    ("answers: PLAN_ID_USED", 20),
    ("answers: QUEUE_FULL", 500),
    ("answers: NAMESPACE_QUOTA", 100),
    ("answers: STORE_FULL", 200),
    ("answers: STORE_FAILED", 5),
    ("answers: DRAINING", 30),
    ("fault: answer lost", 400),
    ("fault: question lost", 500),
    ("fault: question doubled", 150),
    ("fault: silent caller", 50),
    ("fault: kill", 25),
    ("fault: power cut", 40),
    ("fault: end in a commit", 30),
    ("fault: failing commit", 50),
    ("ends with a failed store", 20),
    ("fault: full disk", 60),
    ("fault: slow disk", 30),
    ("fault: start fails", 60),
    ("fault: wall clock jumps", 25),
    ("fault: other shares", 10),
    ("fault: orchestrator drain", 30),
    ("fault: orchestrator stands still", 20),
    ("fault: worker crash", 40),
    ("fault: worker stands still", 50),
    ("fault: worker stops", 80),
    ("fault: break", 80),
    ("fault: black hole", 70),
    ("fault: mass disconnect", 40),
    ("resumes with attempts", 130),
    ("verdicts: keep", 70),
    ("verdicts: stop", 140),
    ("snapshots", 20),
    ("handed out again: rejected", 5),
    ("handed out again: resume_omits", 20),
    ("handed out again: lease_expired", 5),
    ("losses", 30),
    ("verdict Accepted of a call", 15),
];

#[test]
fn whatever_happens_every_execution_settles_once_and_no_rule_is_broken() {
    if let Some(seed) = number("ESCAPEMENT_SEED") {
        return show(&seeds::one(seed).tally);
    }
    let n_seeds = number("ESCAPEMENT_SEEDS").unwrap_or(SEEDS);
    let from = number("ESCAPEMENT_SEEDS_FROM").unwrap_or(1);
    let sum = seeds::run(from, n_seeds, number("ESCAPEMENT_THREADS").unwrap_or(1));
    show(&sum.tally);
    if n_seeds >= SEEDS {
        let too_few = FLOORS.iter().filter(|(what, floor)| sum.tally.of(what) < *floor);
        let too_few: Vec<String> = too_few
            .map(|(what, floor)| format!("{what}: {} and not {floor}", sum.tally.of(what)))
            .collect();
        assert!(
            too_few.is_empty(),
            "{n_seeds} seeds prove too little: {too_few:#?}"
        );
    }
    traces::expect_kept(from, n_seeds, sum.trace_hash);
    if let Ok(path) = std::env::var("ESCAPEMENT_REPORT") {
        std::fs::write(path, sum.report()).expect("the report can be written");
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in [1, 2, 3] {
        let (one, other) = (seeds::one(seed), seeds::one(seed));
        assert_eq!(one.trace_hash, other.trace_hash, "seed {seed}");
        assert_eq!(one.tally, other.tally, "seed {seed}");
    }
    assert_ne!(seeds::one(1).trace_hash, seeds::one(2).trace_hash);
}

#[test]
fn threads_change_nothing_of_any_seed() {
    let (one, four) = (seeds::run(1, SEEDS_COMPARED, 1), seeds::run(1, SEEDS_COMPARED, 4));
    assert_eq!(one.trace_hash, four.trace_hash);
    assert_eq!(one.tally, four.tally);
    traces::expect_kept(1, SEEDS_COMPARED, one.trace_hash);
}

#[test]
fn the_page_on_reliability_counts_as_this_file_does() {
    let page = include_str!("../RELIABILITY.md");
    let counts = format!("{SEEDS} seeds, {} floors", FLOORS.len());
    assert!(
        page.contains(&counts),
        "tests/RELIABILITY.md should say: {counts}"
    );
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("a number stands in each of these variables"))
}

fn show(tally: &Tally) {
    #[allow(
        clippy::print_stdout,
        reason = "a floor is set by somebody who has seen the figures"
    )]
    {
        println!("{tally}");
    }
}
