//! What a seed's world consists of before anything happens in it. Decides nothing of what happens.

use crate::dice::Dice;

/// The sizes and rates of one run.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) workers: Vec<WorkerShape>,
    /// How long things go wrong.
    pub(crate) fault_phase_ms: u64,
    /// Mean time between two faults.
    pub(crate) fault_every_ms: u64,
    /// Mean time between two plans.
    pub(crate) plan_every_ms: u64,
    pub(crate) latency_ms_max: u64,
    pub(crate) store_ms_max: u64,
    /// Writes that the store fails, of a thousand.
    pub(crate) store_failures: u64,
    pub(crate) max_running_executions: usize,
    /// Some payloads are so large that messages must be cut.
    pub(crate) large_payloads: bool,
    /// The wall clock is never set and the orchestrator never stands still, so that waits can be judged by the records.
    pub(crate) is_steady: bool,
}

/// What a worker is built with; each process of it is built alike.
#[derive(Clone, Debug)]
pub(crate) struct WorkerShape {
    pub(crate) worker_id: String,
    pub(crate) max_in_flight: u32,
    /// Name, level of its own (0: none), whether it only waits.
    pub(crate) actions: Vec<(&'static str, u32, bool)>,
}

/// Every action there is. Every worker has the first.
pub(crate) const ACTIONS: [&str; 4] = ["work", "slow", "rare", "wait"];

impl Scenario {
    pub(crate) fn of(dice: &mut Dice) -> Self {
        // Half of them are large enough for the rule about mass losses.
        let n_workers = if dice.percent(50) {
            dice.between(5, 6)
        } else {
            dice.between(2, 4)
        };
        Self {
            workers: (0..n_workers).map(|n| WorkerShape::of(dice, n)).collect(),
            fault_phase_ms: 120_000,
            fault_every_ms: *dice.pick(&[400, 1_200, 4_000]),
            plan_every_ms: *dice.pick(&[500, 1_000, 2_500]),
            latency_ms_max: *dice.pick(&[1, 20, 300]),
            store_ms_max: *dice.pick(&[1, 10, 200]),
            store_failures: *dice.pick(&[0, 0, 20]),
            max_running_executions: usize::try_from(dice.between(3, 24)).expect("it is small"),
            large_payloads: dice.percent(10),
            // Where five may fall silent together, they get no work for a while, and nothing but the engine knows how long.
            is_steady: n_workers < 5 && dice.percent(70),
        }
    }
}

impl WorkerShape {
    fn of(dice: &mut Dice, n: u64) -> Self {
        let mut actions = vec![("work", *dice.pick(&[0, 0, 1, 3]), false)];
        if n < 2 || dice.percent(60) {
            actions.push(("slow", *dice.pick(&[0, 1, 2]), false));
        }
        if n == 0 || dice.percent(20) {
            actions.push(("rare", 1, false));
        }
        if n < 2 || dice.percent(30) {
            actions.push(("wait", *dice.pick(&[1, 2]), true));
        }
        Self {
            // Two may share a label.
            worker_id: format!("worker-{}", if n == 3 { 2 } else { n }),
            max_in_flight: u32::try_from(dice.between(1, 6)).expect("it is small"),
            actions,
        }
    }
}
