//! The real engine and the real workers' machines on a lossy network, on one virtual clock, from one seed.
//! Tests no shell: sockets, threads and files are other targets' business.
//!
//! `ESCAPEMENT_SEED=123` runs one seed and prints its events where it fails; `ESCAPEMENT_SEEDS=100000` runs a campaign.

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
mod scenario;
mod seat;
mod seeds;
mod settle;
mod storage;
mod tally;
mod trace;
mod truth;
mod watching;
mod worker_side;
mod world;

use tally::Tally;

/// So many by default: about 20 s.
const SEEDS: u64 = 50;
/// So many on one thread, and the same on four.
const SEEDS_COMPARED: u64 = 16;
/// What the default seeds must amount to at least, or they prove nothing: about half of what they do.
const FLOORS: [(&str, u64); 28] = [
    ("assignments", 9_000),
    ("bodies", 9_000),
    ("executions", 2_500),
    ("accepted outcomes found in the record", 7_000),
    ("results told", 1_500),
    ("fault: break", 400),
    ("fault: black hole", 350),
    ("fault: mass disconnect", 90),
    ("fault: worker crash", 100),
    ("fault: worker stands still", 150),
    ("fault: worker stops", 120),
    ("fault: orchestrator stands still", 60),
    ("resumes with attempts", 350),
    ("verdicts: keep", 350),
    ("verdicts: stop", 400),
    ("snapshots", 50),
    ("handed out again: rejected", 35),
    ("handed out again: resume_omits", 50),
    ("handed out again: snapshot_omits", 3),
    ("handed out again: lease_expired", 45),
    ("handed out again: declared_dead", 10),
    ("handed out again: goodbye", 2),
    ("losses", 90),
    ("cancels", 3_500),
    ("session error Superseded", 90),
    ("hellos refused as held up", 10),
    ("verdict Accepted of a call", 50),
    ("restarts", 30),
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
        for (what, floor) in FLOORS {
            let n = sum.tally.of(what);
            assert!(
                n >= floor,
                "{what}: {n} in {n_seeds} seeds, and {floor} at least prove something"
            );
        }
    }
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
