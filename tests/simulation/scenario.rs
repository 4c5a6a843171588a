//! What a seed's world consists of before anything happens in it. Decides nothing of what happens.

use crate::dice::Dice;
use crate::shares::Shares;

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
    /// The store in memory in place of the embedded one.
    pub(crate) has_quick_store: bool,
    pub(crate) max_running_executions: usize,
    pub(crate) max_live_executions: usize,
    pub(crate) queued_in_memory_max: usize,
    /// What namespaces may take, at first.
    pub(crate) shares: Shares,
    /// What goes wrong, at most.
    pub(crate) n_faults: u64,
    /// Plans that are handed in while things go wrong, those of workers not counted.
    pub(crate) n_plans_max: usize,
    pub(crate) n_steps_max: u64,
    pub(crate) n_callers: usize,
    /// Mean time between two looks at something.
    pub(crate) look_every_ms: u64,
    pub(crate) caller_latency_ms_max: u64,
    /// Questions and answers that are lost.
    pub(crate) lost_percent: u64,
    /// Callers that go away for good where a connection breaks.
    pub(crate) abandon_percent: u64,
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
    /// Most worlds are small, so that many can be run; rules about many of something need the large ones.
    pub(crate) fn of(dice: &mut Dice) -> Self {
        match dice.roll(100) {
            0..=84 => Self::small(dice),
            85..=95 => Self::medium(dice),
            _ => Self::large(dice),
        }
    }

    fn small(dice: &mut Dice) -> Self {
        let n_faults = dice.between(1, 4);
        let fault_phase_ms = *dice.pick(&[3_000, 8_000, 20_000]);
        Self {
            fault_phase_ms,
            fault_every_ms: fault_phase_ms / (n_faults + 1),
            n_faults,
            n_plans_max: dice.index(4) + 1,
            n_steps_max: *dice.pick(&[1, 3, 6]),
            ..Self::sized(dice, 1, 3)
        }
    }

    fn medium(dice: &mut Dice) -> Self {
        Self {
            fault_phase_ms: 40_000,
            n_faults: 20,
            n_plans_max: 25,
            ..Self::sized(dice, 2, 4)
        }
    }

    /// Half of them are large enough for the rule about mass losses.
    fn large(dice: &mut Dice) -> Self {
        let (least, most) = if dice.percent(50) { (5, 6) } else { (2, 4) };
        Self::sized(dice, least, most)
    }

    fn sized(dice: &mut Dice, least: u64, most: u64) -> Self {
        let n_workers = dice.between(least, most);
        Self {
            workers: (0..n_workers).map(|n| WorkerShape::of(dice, n)).collect(),
            fault_phase_ms: 120_000,
            fault_every_ms: *dice.pick(&[400, 1_200, 4_000]),
            plan_every_ms: *dice.pick(&[500, 1_000, 2_500]),
            latency_ms_max: *dice.pick(&[1, 20, 300]),
            has_quick_store: dice.percent(20),
            store_ms_max: *dice.pick(&[1, 10, 200]),
            max_running_executions: usize::try_from(*dice.pick(&[1, 3, 8, 24])).expect("it is small"),
            max_live_executions: *dice.pick(&[3, 200, 200, 200]),
            queued_in_memory_max: *dice.pick(&[1, 3, 10_000]),
            shares: Shares::of(dice),
            n_faults: u64::MAX,
            n_plans_max: 200,
            n_steps_max: 12,
            n_callers: dice.index(3) + 1,
            look_every_ms: *dice.pick(&[300, 1_000, 3_000]),
            caller_latency_ms_max: *dice.pick(&[1, 50, 1_500]),
            lost_percent: *dice.pick(&[0, 3, 15]),
            abandon_percent: *dice.pick(&[0, 10]),
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
