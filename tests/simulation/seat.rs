//! A place of a worker: the process that has it now, its machine, its bodies and its clock.
//! Moves no message: see `world`.

use crate::dice::Dice;
use crate::network::StreamId;
use crate::scenario::WorkerShape;
use crate::truth::ProcessKey;
use escapement_model::{AttemptToken, BootId, InstanceId};
use escapement_sdk::testing::machine::Machine;
use escapement_wire::worker::v1::{ActionSpec, Hello};
use std::collections::BTreeMap;
use std::time::Duration;

/// A place for a worker, with one process after another in it.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) shape: WorkerShape,
    pub(crate) process: Option<Process>,
    n_processes: u64,
    /// The process stands still until then.
    pub(crate) frozen_until_ms: u64,
    /// Nothing passes in this direction until then, on whatever stream.
    pub(crate) up_stalled_until_ms: u64,
    pub(crate) down_stalled_until_ms: u64,
}

/// A process.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) number: u64,
    began_at_ms: u64,
    /// What its clock counts in a second of the world, in milliseconds.
    clock_rate: u64,
    pub(crate) instance_id: InstanceId,
    pub(crate) machine: Machine,
    pub(crate) stream: Option<StreamId>,
    /// It sends nothing more on the stream.
    pub(crate) is_half_closed: bool,
    pub(crate) bodies: BTreeMap<AttemptToken, Body>,
    /// As the program has set it last.
    pub(crate) max_in_flight: u32,
    pub(crate) is_stopping: bool,
    pub(crate) seen_boot: Option<BootId>,
    /// An operator has drained it: nothing new starts.
    pub(crate) is_drained: bool,
}

/// A handler that runs.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) action: &'static str,
    pub(crate) waits: bool,
    pub(crate) manner: Manner,
    /// It is about to end, in one way or another.
    pub(crate) is_ending: bool,
}

/// What a handler is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Ends soon after it is told to.
    Obedient,
    /// Does not listen, and ends when its task is aborted.
    Deaf,
    /// Not even then, for a long time.
    Stubborn,
}

impl Seat {
    pub(crate) fn new(shape: WorkerShape) -> Self {
        Self {
            shape,
            process: None,
            n_processes: 0,
            frozen_until_ms: 0,
            up_stalled_until_ms: 0,
            down_stalled_until_ms: 0,
        }
    }

    pub(crate) fn begin_process(&mut self, now_ms: u64, dice: &mut Dice) {
        assert!(self.process.is_none(), "a seat has one process at a time");
        self.n_processes += 1;
        let actions = self.shape.actions.iter().map(|(name, level, waits)| ActionSpec {
            name: (*name).to_owned(),
            max_in_flight: *level,
            waits: *waits,
            ..ActionSpec::default()
        });
        let instance_id = InstanceId::new(dice.bytes());
        let hello = Hello {
            worker_id: self.shape.worker_id.clone(),
            instance_id: instance_id.as_bytes().to_vec().into(),
            actions: actions.collect(),
            max_in_flight: self.shape.max_in_flight,
            build: "simulated".to_owned(),
            ..Hello::default()
        };
        let grace = Duration::from_millis(*dice.pick(&[0, 1_000, 5_000]));
        self.process = Some(Process {
            number: self.n_processes,
            began_at_ms: now_ms,
            clock_rate: *dice.pick(&[1_000, 1_000, 990, 1_010]),
            instance_id,
            machine: Machine::new(0, "http://simulated:7400", hello, grace),
            stream: None,
            is_half_closed: false,
            bodies: BTreeMap::new(),
            max_in_flight: self.shape.max_in_flight,
            is_stopping: false,
            seen_boot: None,
            is_drained: false,
        });
    }

    pub(crate) fn is_frozen(&self, now_ms: u64) -> bool {
        now_ms < self.frozen_until_ms
    }

    /// Returns the time at which the process wants to be called, on the world's clock.
    pub(crate) fn due_at_ms(&self) -> Option<u64> {
        let process = self.process.as_ref()?;
        let due_ms = process.world_ms(process.machine.poll_timeout()?);
        Some(due_ms.max(self.frozen_until_ms))
    }

    pub(crate) fn key(&self, seat: usize) -> Option<ProcessKey> {
        let process = self.process.as_ref()?.number;
        Some(ProcessKey { seat, process })
    }
}

impl Process {
    /// Its own clock, which knows nothing of anybody else's.
    pub(crate) fn clock_ms(&self, now_ms: u64) -> u64 {
        (now_ms - self.began_at_ms) * self.clock_rate / 1_000
    }

    /// When its clock shows this, on the world's.
    fn world_ms(&self, clock_ms: u64) -> u64 {
        let since_ms = clock_ms.saturating_mul(1_000).div_ceil(self.clock_rate);
        since_ms.saturating_add(self.began_at_ms)
    }

    /// Within what the worker itself has said that it takes.
    pub(crate) fn check_capacity(&self, shape: &WorkerShape, started: &Body) {
        let ordinary = self.bodies.values().filter(|body| !body.waits).count();
        let limit = usize::try_from(self.max_in_flight).expect("it is small");
        assert!(
            started.waits || ordinary < limit,
            "{ordinary} bodies run, and another starts within {limit}"
        );
        let own = shape
            .actions
            .iter()
            .find(|(name, ..)| *name == started.action)
            .map_or(0, |(_, level, _)| *level);
        let of_action = self
            .bodies
            .values()
            .filter(|body| body.action == started.action)
            .count();
        // One that waits has a pool for each of nine depths.
        let own_limit = usize::try_from(own).expect("it is small") * if started.waits { 9 } else { 1 };
        assert!(
            own == 0 || of_action < own_limit,
            "{of_action} bodies of {:?} run within {own_limit}",
            started.action
        );
    }
}
