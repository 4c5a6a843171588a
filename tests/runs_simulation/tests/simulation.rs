//! Whatever happens, no invariant of runs is broken, and the same seed always comes to the same.
//!
//! `ESCAPEMENT_SEED=7` runs one seed. A campaign: `ESCAPEMENT_SEEDS_FROM=1000 ESCAPEMENT_SEEDS=100000 cargo test --release
//! -p escapement-runs-simulation --test simulation`; `ESCAPEMENT_REPORT` names a file for the figures.

use escapement_runs_simulation::{Tally, simulate};

/// So many by default.
const SEEDS: u64 = 400;

/// What the default seeds must amount to at least, or they prove nothing: about a third of what they do.
const FLOORS: [(&str, u64); 81] = [
    ("acknowledgements", 4_500),
    ("answers", 500),
    ("artifacts declared", 300),
    ("artifacts that a run must make", 12),
    ("artifacts that are right", 24),
    ("artifacts that are wrong", 24),
    ("attempts", 1_300),
    ("attempts behind a gate", 240),
    ("attempts behind a safety check", 13),
    ("attempts within a budget", 450),
    ("attempts within a certificate", 700),
    ("attempts within constraints", 130),
    ("boots of the contract", 350),
    ("boots of the runs", 390),
    ("children made", 110),
    ("children that leave doubts", 1),
    ("children within a budget", 10),
    ("deeds within a budget", 300),
    ("doings within a certificate", 900),
    ("effects of steps that were set back", 10),
    ("effects that handlers began", 300),
    ("ends", 590),
    ("entries", 15_000),
    ("events that fire", 75),
    ("executions beside their intents", 100_000),
    ("executions that ended", 1_300),
    ("fallbacks that are called", 70),
    ("fault: answer lost", 60),
    ("fault: clock is set", 150),
    ("fault: contract dies in a commit", 45),
    ("fault: contract killed", 95),
    ("fault: disk is full", 150),
    ("fault: input told twice", 200),
    ("fault: process stands still", 150),
    ("fault: runs die in a commit", 100),
    ("fault: runs killed", 85),
    ("fault: submission doubled", 100),
    ("fault: submission lost", 70),
    ("fault: worker crash", 89),
    ("firings that overlap", 17),
    ("firings that wait", 40),
    ("forks", 30),
    ("forks that may repeat effects", 15),
    ("forks with another plan", 30),
    ("generations", 240),
    ("generations within a budget", 130),
    ("inputs that wait for a process that stands still", 13),
    ("instants that are missed", 38),
    ("instants that fire", 125),
    ("limits that ended runs", 70),
    ("looks again", 2),
    ("looks at artifacts", 35),
    ("outcomes", 1_200),
    ("patches of sessions", 70),
    ("plans accepted", 100),
    ("plans of a bounded size", 3),
    ("plans refused", 130),
    ("plans that break their constraints", 10),
    ("questions about earlier effects", 1),
    ("questions within a certificate", 300),
    ("removals", 29),
    ("replans", 38),
    ("retries", 320),
    ("revisions within constraints", 180),
    ("rows shown", 140_000),
    ("runs parked", 950),
    ("runs that verify", 60),
    ("starts that find what was shown", 400),
    ("states of sessions that were read", 25),
    ("steps set back by those who allow no repetition", 50),
    ("steps that overlap", 30),
    ("steps that overlap without marks", 30),
    ("steps that were kept", 75),
    ("steps that were set back", 210),
    ("substitutions", 9),
    ("times that do not count", 7),
    ("times within a certificate", 2_000),
    ("tools that models call", 30),
    ("turns that ask for tools", 30),
    ("units that take a result over", 1),
    ("uploads", 115),
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
    if let Ok(path) = std::env::var("ESCAPEMENT_REPORT") {
        std::fs::write(path, report(n_seeds, &sum)).expect("the report can be written");
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

/// What a campaign adds up.
fn report(n_seeds: u64, sum: &Tally) -> String {
    let operations = ["submissions", "assignments", "commits", "acknowledgements"];
    let operations = operations.iter().filter_map(|what| sum.get(what));
    let faults = sum.iter().filter(|(what, _)| what.starts_with("fault: "));
    format!(
        "{{\"seeds\":{n_seeds},\"operations\":{},\"faults\":{}}}\n",
        operations.sum::<u64>(),
        faults.map(|(_, n)| n).sum::<u64>()
    )
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}
