//! The real engine and the real workers' machines on a lossy network, on one virtual clock, from one seed.
//! Tests no shell: sockets, threads and files are other targets' business.
//!
//! `ESCAPEMENT_SEED=123` runs one seed and prints its events where it fails; `ESCAPEMENT_SEEDS=100000` runs a campaign.

mod dice;
mod faults;
mod judge;
mod network;
mod orchestrator;
mod orchestrator_side;
mod plans;
mod scenario;
mod seat;
mod settle;
mod store;
mod tally;
mod trace;
mod truth;
mod worker_side;
mod world;

use tally::Tally;

/// So many by default: about 20 s.
const SEEDS: u64 = 50;
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
/// Events that are shown of a run that fails.
const SHOWN: usize = 60;

#[test]
fn whatever_happens_every_execution_settles_once_and_no_rule_is_broken() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = number("ESCAPEMENT_SEED") {
        show(&run(seed).tally);
        return;
    }
    let n_seeds = number("ESCAPEMENT_SEEDS").unwrap_or(SEEDS);
    let mut tally = Tally::default();
    for seed in 1..=n_seeds {
        tally.absorb(&run(seed).tally);
    }
    show(&tally);
    if n_seeds >= SEEDS {
        for (what, floor) in FLOORS {
            let n = tally.of(what);
            assert!(
                n >= floor,
                "{what}: {n} in {n_seeds} seeds, and {floor} at least prove something"
            );
        }
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in [1, 2, 3] {
        let (one, other) = (run(seed), run(seed));
        assert_eq!(one.trace_hash, other.trace_hash, "seed {seed}");
        assert_eq!(one.tally, other.tally, "seed {seed}");
    }
    assert_ne!(run(1).trace_hash, run(2).trace_hash);
}

/// Runs a seed; one that fails is run once more for its events.
fn run(seed: u64) -> settle::Outcome {
    escapement_tests::planted::arm();
    settle::run(seed, false).unwrap_or_else(|(broken, _)| {
        let lines = settle::run(seed, true).map_or_else(|(_, lines)| lines, |_| Vec::new());
        if let Ok(path) = std::env::var("ESCAPEMENT_TRACE") {
            std::fs::write(path, lines.join("\n")).expect("the trace can be written");
        }
        let from = lines.len().saturating_sub(SHOWN);
        panic!(
            "seed {seed}: {broken}\n\nthe last events:\n{}\n\nagain: ESCAPEMENT_SEED={seed} cargo test -p escapement-tests \
             --test simulation -- --nocapture",
            lines[from..].join("\n")
        );
    })
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
