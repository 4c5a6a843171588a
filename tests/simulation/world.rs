//! The one thread, the one clock and the order of everything. Decides no protocol: both sides of it are the real ones.

use crate::dice::Dice;
use crate::judge::Judge;
use crate::network::{Network, Server, StreamId};
use crate::orchestrator::Orchestrator;
use crate::scenario::Scenario;
use crate::seat::Seat;
use crate::store::Store;
use crate::tally::Tally;
use crate::trace::Trace;
use crate::truth::Truth;
use escapement_contract::Request;
use escapement_engine::Input;
use escapement_model::AttemptToken;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Everything.
pub(crate) struct World {
    pub(crate) now_ms: u64,
    pub(crate) dice: Dice,
    pub(crate) scenario: Scenario,
    agenda: BTreeMap<(u64, u64), Happening>,
    n_planned: u64,
    pub(crate) seats: Vec<Seat>,
    pub(crate) network: Network,
    /// `None` while no process of it runs.
    pub(crate) orchestrator: Option<Orchestrator>,
    pub(crate) boots: u64,
    pub(crate) store: Store,
    /// How far the wall clock is from where it should be.
    pub(crate) wall_offset_ms: i64,
    /// Things go wrong.
    pub(crate) is_stormy: bool,
    pub(crate) truth: Truth,
    pub(crate) judge: Judge,
    pub(crate) trace: Trace,
    pub(crate) requests: Vec<Arc<Request>>,
    /// What the orchestrator said last of its workers, and of its actions.
    pub(crate) workers_at_rest: Option<bool>,
    pub(crate) actions_at_rest: Option<bool>,
}

/// What is planned for a time.
#[derive(Debug)]
pub(crate) enum Happening {
    /// A caller hands in a plan.
    Submit,
    /// Something goes wrong.
    Fault,
    WorkerBoots {
        seat: usize,
    },
    WorkerStops {
        seat: usize,
    },
    OrchestratorBoots,
    /// The process that said that it may exit does.
    OrchestratorExits {
        boot: u64,
    },
    BodyEnds {
        seat: usize,
        process: u64,
        token: AttemptToken,
        end: Ending,
    },
    /// The worker learns that nobody answered its connection.
    Refused {
        stream: StreamId,
    },
    /// A direction of a worker's network is cut after it was silent.
    CutStream {
        stream: StreamId,
    },
}

/// How a body comes to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Success,
    Failure,
    Aborted,
}

pub(crate) const START_UNIX_MS: i64 = 1_700_000_000_000;

impl World {
    pub(crate) fn new(seed: u64, keeps_trace: bool) -> Self {
        let mut dice = Dice::new(seed);
        let scenario = Scenario::of(&mut dice);
        let mut world = Self {
            now_ms: 0,
            seats: scenario.workers.iter().cloned().map(Seat::new).collect(),
            dice,
            scenario,
            agenda: BTreeMap::new(),
            n_planned: 0,
            network: Network::default(),
            orchestrator: None,
            boots: 0,
            store: Store::default(),
            wall_offset_ms: 0,
            is_stormy: true,
            truth: Truth::default(),
            judge: Judge::new(),
            trace: Trace::new(keeps_trace),
            requests: Vec::new(),
            workers_at_rest: None,
            actions_at_rest: None,
        };
        world.plan(0, Happening::OrchestratorBoots);
        for seat in 0..world.seats.len() {
            let at_ms = world.dice.roll(2_000);
            world.plan(at_ms, Happening::WorkerBoots { seat });
        }
        world.plan(1_000, Happening::Submit);
        world.plan(3_000, Happening::Fault);
        world
    }

    pub(crate) fn plan(&mut self, after_ms: u64, happening: Happening) {
        self.n_planned += 1;
        self.agenda
            .insert((self.now_ms + after_ms, self.n_planned), happening);
    }

    pub(crate) fn unix_ms(&self) -> i64 {
        START_UNIX_MS + i64::try_from(self.now_ms).expect("a run is short") + self.wall_offset_ms
    }

    pub(crate) fn tally(&mut self) -> &mut Tally {
        &mut self.truth.tally
    }

    /// Lets time pass up to and with this moment.
    pub(crate) fn run_until(&mut self, end_ms: u64) {
        while let Some(at_ms) = self.next_at_ms().filter(|at_ms| *at_ms <= end_ms) {
            self.now_ms = self.now_ms.max(at_ms);
            self.step();
        }
        self.now_ms = self.now_ms.max(end_ms);
    }

    fn next_at_ms(&self) -> Option<u64> {
        let agenda = self.agenda.keys().next().map(|(at_ms, _)| *at_ms);
        let seats = self.seats.iter().filter_map(Seat::due_at_ms);
        let streams = self.network.streams.values().flat_map(|stream| {
            let down = stream
                .down
                .next_at_ms()
                .map(|at_ms| at_ms.max(self.seats[stream.seat].frozen_until_ms));
            [
                stream
                    .up
                    .next_at_ms()
                    .map(|at_ms| at_ms.max(self.orchestrator_frozen_until_ms())),
                down,
            ]
        });
        let orchestrator = self
            .orchestrator
            .as_ref()
            .and_then(|process| process.due_at_ms(self.now_ms));
        let store = self.orchestrator.as_ref().and(self.store.next_at_ms());
        let store = store.map(|at_ms| at_ms.max(self.orchestrator_frozen_until_ms()));
        seats
            .chain(streams.flatten())
            .chain(agenda)
            .chain(orchestrator)
            .chain(store)
            .min()
    }

    pub(crate) fn orchestrator_frozen_until_ms(&self) -> u64 {
        self.orchestrator
            .as_ref()
            .map_or(0, |process| process.frozen_until_ms)
    }

    /// Everything that is due now, once.
    fn step(&mut self) {
        while let Some(entry) = self
            .agenda
            .first_entry()
            .filter(|entry| entry.key().0 <= self.now_ms)
        {
            let happening = entry.remove();
            self.happen(happening);
        }
        // A process that wakes up may look at its clock or at its messages first.
        let timers_first = self.dice.percent(50);
        if timers_first {
            self.wake_workers();
            self.wake_orchestrator_early();
        }
        let streams: Vec<StreamId> = self.network.streams.keys().copied().collect();
        for stream in streams {
            self.deliver(stream);
        }
        self.wake_workers();
        self.hear_store();
        self.run_engine();
        self.network.tidy_up();
    }

    /// The engine's thread may run before those that read its sockets.
    fn wake_orchestrator_early(&mut self) {
        let Some(process) = &self.orchestrator else { return };
        let is_due = process
            .due_at_ms(self.now_ms)
            .is_some_and(|due_ms| due_ms <= self.now_ms);
        if is_due && process.inbox.is_empty() {
            self.run_engine();
        }
    }

    fn wake_workers(&mut self) {
        for seat in 0..self.seats.len() {
            if self.seats[seat]
                .due_at_ms()
                .is_some_and(|due_ms| due_ms <= self.now_ms)
            {
                self.with_machine(seat, |machine, clock_ms| machine.handle_timeout(clock_ms));
            }
        }
    }

    fn hear_store(&mut self) {
        let now_ms = self.now_ms;
        let Some(process) = self
            .orchestrator
            .as_mut()
            .filter(|process| process.frozen_until_ms <= now_ms)
        else {
            return;
        };
        while self.store.next_at_ms().is_some_and(|at_ms| at_ms <= now_ms) {
            let fails = self.is_stormy && self.dice.roll(1_000) < self.scenario.store_failures;
            if let Some((write, outcome)) = self.store.apply_due(now_ms, process.boot, fails) {
                process.inbox.push(Input::Stored { write, outcome });
            }
        }
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Submit => self.submit_some(),
            Happening::Fault => self.next_fault(),
            Happening::WorkerBoots { seat } => self.boot_worker(seat),
            Happening::WorkerStops { seat } => self.drain_process(seat),
            Happening::OrchestratorBoots => self.boot_orchestrator(),
            Happening::OrchestratorExits { boot } => {
                if self
                    .orchestrator
                    .as_ref()
                    .is_some_and(|process| process.boot == boot)
                {
                    self.end_orchestrator(false);
                }
            }
            Happening::BodyEnds {
                seat,
                process,
                token,
                end,
            } => self.body_ends(seat, process, token, end),
            Happening::Refused { stream } => {
                if let Some(stream) = self.network.streams.get_mut(&stream)
                    && stream.server == Server::Unseen
                {
                    stream.server = Server::Over;
                    stream.up.cut(true);
                    stream.down.end_after_cut(self.now_ms);
                }
            }
            Happening::CutStream { stream } => {
                let now_ms = self.now_ms;
                self.network.break_stream(stream, now_ms, &mut self.dice);
            }
        }
    }
}
