//! Many seeds, on as many threads as are wanted: what they come to does not depend on the threads.
//! Knows nothing of what a seed does.

use crate::settle::{self, Outcome};
use crate::tally::Tally;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What all of them came to.
#[derive(Debug, Default)]
pub(crate) struct Sum {
    pub(crate) n_seeds: u64,
    /// Of the hashes of all, in the order of the seeds.
    pub(crate) trace_hash: u64,
    pub(crate) tally: Tally,
}

impl Sum {
    /// What a campaign adds up.
    pub(crate) fn report(&self) -> String {
        let operations = ["calls", "assignments", "commits"]
            .iter()
            .map(|what| self.tally.of(what));
        format!(
            "{{\"seeds\":{},\"operations\":{},\"faults\":{},\"trace_hash\":\"{:016x}\"}}\n",
            self.n_seeds,
            operations.sum::<u64>(),
            self.tally.of_all("fault: "),
            self.trace_hash
        )
    }
}

/// Runs the seeds `from..from + n_seeds`.
///
/// # Panics
/// If one fails: with the first of those that did, and how to repeat it.
pub(crate) fn run(from: u64, n_seeds: u64, n_threads: u64) -> Sum {
    let next = AtomicU64::new(from);
    let failed = AtomicBool::new(false);
    let done: Mutex<(Vec<(u64, u64)>, Tally)> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..n_threads.max(1) {
            scope.spawn(|| {
                let (mut hashes, mut tally) = (Vec::new(), Tally::default());
                while !failed.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= from + n_seeds {
                        break;
                    }
                    match settle::run(seed, false) {
                        Ok(outcome) => {
                            hashes.push((seed, outcome.trace_hash));
                            tally.absorb(&outcome.tally);
                        }
                        Err(_) => failed.store(true, Ordering::Relaxed),
                    }
                }
                let mut done = done.lock().expect("no thread panics while it adds up");
                done.0.extend(hashes);
                done.1.absorb(&tally);
            });
        }
    });
    let (mut hashes, tally) = done.into_inner().expect("no thread panics while it adds up");
    hashes.sort_unstable();
    if failed.into_inner() {
        // The first that has no hash has failed: it is run once more, for its events.
        let is_missing = |seed: &u64| hashes.binary_search_by_key(seed, |(seed, _)| *seed).is_err();
        let first = (from..from + n_seeds).find(is_missing);
        one(first.expect("one of them has failed"));
        panic!("a seed fails now and then, and must not");
    }
    let mix = |sum: u64, (seed, hash): &(u64, u64)| (sum ^ seed ^ hash).wrapping_mul(0x0000_0100_0000_01b3);
    Sum {
        n_seeds,
        trace_hash: hashes.iter().fold(0xcbf2_9ce4_8422_2325, mix),
        tally,
    }
}

/// Runs one seed, and says everything that can be said of it where it fails.
///
/// # Panics
/// If it fails.
pub(crate) fn one(seed: u64) -> Outcome {
    settle::run(seed, true).unwrap_or_else(|(broken, lines)| {
        if let Ok(path) = std::env::var("ESCAPEMENT_TRACE") {
            std::fs::write(path, lines.join("\n")).expect("the trace can be written");
        }
        let from = lines.len().saturating_sub(SHOWN);
        panic!(
            "seed {seed}: {broken}\n\nthe last events:\n{}\n\nagain: ESCAPEMENT_SEED={seed} cargo test{} -p escapement-tests \
             --test simulation -- --nocapture",
            lines[from..].join("\n"),
            if cfg!(debug_assertions) { "" } else { " --release" },
        );
    })
}

/// Events that are shown of a run that fails.
const SHOWN: usize = 60;
