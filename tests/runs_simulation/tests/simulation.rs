//! Whatever happens, no invariant of runs is broken, and the same seed always comes to the same.
//!
//! `ESCAPEMENT_SEED=7` runs one seed. A campaign: `ESCAPEMENT_SEEDS_FROM=1000 ESCAPEMENT_SEEDS=100000 cargo test --release
//! -p escapement-runs-simulation --test simulation`.

use escapement_runs_simulation::{Tally, simulate};

/// So many by default.
const SEEDS: u64 = 400;

/// What the default seeds must amount to at least, or they prove nothing: about a third of what they do.
const FLOORS: [(&str, u64); 25] = [
    ("acknowledgements", 4_500),
    ("answers", 700),
    ("attempts", 1_300),
    ("attempts behind a gate", 270),
    ("boots of the contract", 350),
    ("boots of the runs", 390),
    ("children made", 280),
    ("ends", 770),
    ("entries", 15_000),
    ("executions that ended", 1_300),
    ("fault: answer lost", 60),
    ("fault: contract dies in a commit", 45),
    ("fault: contract killed", 95),
    ("fault: input told twice", 200),
    ("fault: runs die in a commit", 100),
    ("fault: runs killed", 90),
    ("fault: submission doubled", 100),
    ("fault: submission lost", 70),
    ("fault: worker crash", 95),
    ("forks", 85),
    ("outcomes", 1_200),
    ("retries", 380),
    ("runs parked", 1_100),
    ("steps that were kept", 80),
    ("steps that were set back", 280),
];

#[test]
fn whatever_happens_no_invariant_of_runs_is_broken() {
    let (from, n_seeds) = match number("ESCAPEMENT_SEED") {
        Some(seed) => (seed, 1),
        None => (
            number("ESCAPEMENT_SEEDS_FROM").unwrap_or(1),
            number("ESCAPEMENT_SEEDS").unwrap_or(SEEDS),
        ),
    };
    let mut sum = Tally::new();
    for seed in from..from + n_seeds {
        match simulate(seed) {
            Ok(tally) => tally
                .into_iter()
                .for_each(|(what, n)| *sum.entry(what).or_default() += n),
            Err(broken) => panic!(
                "seed {}: {}: {}\n\nits journal:\n{}\n\nthe last events:\n{}\n\nagain: ESCAPEMENT_SEED={} cargo test -p \
                 escapement-runs-simulation --test simulation",
                broken.seed,
                broken.finding.invariant,
                broken.finding.text,
                broken.journal[broken.journal.len().saturating_sub(30)..].join("\n"),
                broken.trace[broken.trace.len().saturating_sub(40)..].join("\n"),
                broken.seed,
            ),
        }
    }
    for (what, n) in &sum {
        println!("{n:>8} {what}");
    }
    if n_seeds >= SEEDS {
        let n_of = |what: &str| sum.get(what).copied().unwrap_or(0);
        let too_few = FLOORS.iter().filter(|(what, floor)| n_of(what) < *floor);
        let too_few: Vec<_> = too_few
            .map(|(what, floor)| format!("{what}: {} and not {floor}", n_of(what)))
            .collect();
        assert!(too_few.is_empty(), "the seeds prove nothing: {too_few:?}");
    }
}

#[test]
fn a_seed_always_comes_to_the_same() {
    for seed in 1..=12 {
        let (one, other) = (simulate(seed), simulate(seed));
        assert_eq!(one.ok(), other.ok(), "seed {seed}");
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}
