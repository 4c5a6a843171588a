//! Runs with the contract below them, from one seed, in one thread and on one virtual clock: the real host of the runs on a
//! disk that fails, the real host of the contract's engine on another one, workers that crash, messages that come late, twice or
//! only after a repetition, planners and models that are wrong, hostile or lie, and callers who make runs, meddle with them, answer
//! what they ask, and answer again. Triggers start runs by schedules and after events. In some seeds the process of the runs
//! stalls, its disk is full for minutes, and its wall clock jumps.
//! Tests no shell, and judges nothing: see `escapement_runs_judge`.

mod artifacts;
mod callers;
mod contract;
mod dice;
mod disk;
mod forks;
mod models;
mod plans;
mod port;
mod process;
mod specs;
mod stores;
mod time;
mod triggers;
mod worker;
mod world;

use escapement_runs_judge::Finding;
use std::collections::BTreeMap;
use world::World;

/// How often what happened.
pub type Tally = BTreeMap<&'static str, u64>;

/// A seed in which something must not be.
#[derive(Clone, Debug)]
pub struct Broken {
    /// The seed.
    pub seed: u64,
    /// What.
    pub finding: Finding,
    /// The last events before it.
    pub trace: Vec<String>,
    /// The journal of the run that it is about.
    pub journal: Vec<String>,
}

/// Simulates a seed: a storm of faults, then calm until every run has ended.
///
/// # Errors
/// [`Broken`] with what was found first.
///
/// # Panics
/// If an assertion of what is simulated fails.
pub fn simulate(seed: u64) -> Result<Tally, Broken> {
    let mut world = World::new(seed);
    let storm_ms = world.dice.between(10_000, STORM_MS_MAX);
    world.run_until(storm_ms, false);
    world.is_stormy = false;
    world.run_until(storm_ms + CALM_MS, true);
    if world.judge.finding().is_none() && !world.is_over() {
        world.judge.finds("RI8", "a run does not end".to_owned());
    }
    world.judge.all_fired();
    match world.judge.finding() {
        None => {
            let mut tally = world.tally;
            for (what, n) in world.judge.counts() {
                *tally.entry(what).or_default() += n;
            }
            Ok(tally)
        }
        Some(finding) => Err(Broken {
            seed,
            finding: finding.clone(),
            journal: world.judge.story(),
            trace: world.trace,
        }),
    }
}

/// Milliseconds of faults.
const STORM_MS_MAX: u64 = 90_000;
/// Milliseconds within which every run ends: longer than any may live.
const CALM_MS: u64 = 3_600_000;
