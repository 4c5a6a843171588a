//! Processor time of the threads that everybody shares, thread by thread. Judges nothing.

use crate::den::LIMIT;
use escapement_tests::{let_pass, usage};
use std::num::NonZero;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

/// What each of them took, from the start of the process or between two moments.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shares {
    /// The thread that owns the engine.
    pub(crate) engine: Duration,
    /// The thread that writes to the store.
    pub(crate) writer: Duration,
    /// The threads that serve connections, workers and operators.
    pub(crate) edge: Duration,
    /// The threads that serve calls of callers.
    pub(crate) callers: Duration,
    /// The thread that owns runs and their store.
    pub(crate) runs: Duration,
    /// All others: readers of the store and what is done aside, each bounded in number.
    pub(crate) aside: Duration,
}

impl Shares {
    /// So far.
    pub(crate) fn of(process: u32) -> Self {
        // A runtime's workers have their threads first; what blocks is done on others of the same name.
        let n_threads = available_parallelism().map_or(1, NonZero::get).div_ceil(2);
        let (mut n_edge, mut n_callers) = (0, 0);
        let mut shares = Self::default();
        for thread in usage::cpu_of_threads(process).unwrap().into_values() {
            let share = match thread.name.as_str() {
                "engine" => &mut shares.engine,
                "writer" => &mut shares.writer,
                "edge" if n_edge < n_threads => {
                    n_edge += 1;
                    &mut shares.edge
                }
                "callers" if n_callers < n_threads => {
                    n_callers += 1;
                    &mut shares.callers
                }
                "runs" => &mut shares.runs,
                _ => &mut shares.aside,
            };
            *share += thread.cpu;
        }
        shares
    }

    /// Waits until nothing is done any more, and gives what was done since.
    pub(crate) async fn since(before: Self, process: u32) -> Self {
        let begin = Instant::now();
        let mut last = Self::of(process);
        loop {
            let_pass(QUIET).await;
            let now = Self::of(process);
            if now.minus(last).total() < NOISE {
                return now.minus(before);
            }
            assert!(begin.elapsed() < LIMIT, "it works on for ever");
            last = now;
        }
    }

    /// All of them, in the order of the fields.
    pub(crate) fn all(self) -> [Duration; 6] {
        [
            self.engine,
            self.writer,
            self.edge,
            self.callers,
            self.runs,
            self.aside,
        ]
    }

    fn of_all([engine, writer, edge, callers, runs, aside]: [Duration; 6]) -> Self {
        Self {
            engine,
            writer,
            edge,
            callers,
            runs,
            aside,
        }
    }

    /// What each took of `n` in all.
    pub(crate) fn each_of(self, n: u32) -> Self {
        Self::of_all(self.all().map(|share| share / n))
    }

    fn minus(self, before: Self) -> Self {
        let (now, before) = (self.all(), before.all());
        Self::of_all(std::array::from_fn(|n| now[n].saturating_sub(before[n])))
    }

    fn total(self) -> Duration {
        self.all().into_iter().sum()
    }
}

/// A process that does next to nothing for so long is done.
const QUIET: Duration = Duration::from_millis(15);
const NOISE: Duration = Duration::from_micros(500);
