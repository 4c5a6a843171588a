//! The one thread, the one clock and the order of everything. Decides no protocol: both sides of it are the real ones.

use crate::callers::{Asked, CallNumber, Caller, Job, Question, Told};
use crate::dice::Dice;
use crate::disk::{Disk, End};
use crate::edge::Read;
use crate::judge::Judge;
use crate::network::{Network, Server, StreamId};
use crate::orchestrator::Orchestrator;
use crate::scenario::Scenario;
use crate::seat::Seat;
use crate::storage::{Progress, Storage};
use crate::tally::Tally;
use crate::trace::Trace;
use crate::truth::Truth;
use escapement_model::{AttemptToken, ExecutionId};
use escapement_tests::history::Checker;
use escapement_tests::session_checker::Records;
use std::collections::BTreeMap;

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
    pub(crate) storage: Storage,
    /// How far the wall clock is from where it should be.
    pub(crate) wall_offset_ms: i64,
    /// Things go wrong.
    pub(crate) is_stormy: bool,
    pub(crate) truth: Truth,
    pub(crate) judge: Judge,
    pub(crate) trace: Trace,
    pub(crate) history: Checker,
    pub(crate) callers: Vec<Caller>,
    pub(crate) jobs: Vec<Job>,
    /// What was asked and is not answered.
    pub(crate) calls: BTreeMap<CallNumber, Asked>,
    pub(crate) n_calls: CallNumber,
    pub(crate) n_faults_left: u64,
    /// The records of everything, once all is over.
    pub(crate) finals: Records,
    /// What the orchestrator said last of its workers, and of its actions.
    pub(crate) workers_at_rest: Option<bool>,
    pub(crate) actions_at_rest: Option<bool>,
}

/// What is planned for a time.
#[derive(Debug)]
pub(crate) enum Happening {
    /// A caller hands in a plan.
    Submit,
    /// A caller goes on with a plan that it handed in.
    GoOn {
        job: usize,
    },
    /// Somebody looks at something.
    Look,
    QuestionArrives {
        call: CallNumber,
    },
    AnswerArrives {
        call: CallNumber,
        told: Told,
    },
    CallerGivesUp {
        call: CallNumber,
    },
    /// The orchestrator hears that nobody waits any more.
    CallerLeaves {
        call: CallNumber,
    },
    WaitIsOver {
        boot: u64,
        call: CallNumber,
    },
    /// A watcher has read what it got.
    WatchesOn {
        boot: u64,
        call: CallNumber,
        question: Question,
    },
    /// A request is read that the engine has asked for.
    Loads {
        boot: u64,
        execution_id: ExecutionId,
    },
    Reads {
        boot: u64,
        call: CallNumber,
        read: Read,
    },
    /// Something goes wrong.
    Fault,
    WorkerBoots {
        seat: usize,
    },
    WorkerStops {
        seat: usize,
    },
    OrchestratorBoots,
    /// At a time that was chosen before.
    OrchestratorDies,
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
    /// The worker may not do it.
    NotHere,
    Aborted,
}

pub(crate) const START_UNIX_MS: i64 = 1_700_000_000_000;

impl World {
    pub(crate) fn new(seed: u64, keeps_trace: bool) -> Self {
        let mut dice = Dice::new(seed);
        let scenario = Scenario::of(&mut dice);
        let disk = Disk::new(&mut dice, scenario.has_quick_store);
        let storage = Storage::new(disk, scenario.store_ms_max, scenario.shares.clone());
        let seats = scenario.workers.iter().cloned().map(Seat::new).collect();
        let mut world = Self {
            now_ms: 0,
            seats,
            dice,
            agenda: BTreeMap::new(),
            n_planned: 0,
            network: Network::default(),
            orchestrator: None,
            boots: 0,
            storage,
            wall_offset_ms: 0,
            is_stormy: true,
            truth: Truth::default(),
            judge: Judge::new(),
            trace: Trace::new(keeps_trace),
            history: Checker::new(),
            callers: (0..scenario.n_callers).map(|_| Caller::default()).collect(),
            jobs: Vec::new(),
            calls: BTreeMap::new(),
            n_calls: 0,
            n_faults_left: scenario.n_faults,
            finals: Records::new(),
            scenario,
            workers_at_rest: None,
            actions_at_rest: None,
        };
        world.plan(0, Happening::OrchestratorBoots);
        for seat in 0..world.seats.len() {
            let at_ms = world.dice.roll(2_000);
            world.plan(at_ms, Happening::WorkerBoots { seat });
        }
        let first_ms = world.dice.roll(world.scenario.plan_every_ms.min(1_000) + 1);
        world.plan(first_ms, Happening::Submit);
        world.plan(first_ms, Happening::Look);
        let first_ms = world.dice.between(1, world.scenario.fault_every_ms * 2);
        world.plan(first_ms, Happening::Fault);
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
        let store = self
            .orchestrator
            .as_ref()
            .and(self.storage.next_at_ms(self.now_ms));
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
        if is_due && process.batch.is_empty() {
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
        loop {
            match self.storage.progress(now_ms, &mut self.dice) {
                Progress::Nothing => return,
                Progress::Answers(answers) => process.batch.stored.push(answers),
                Progress::Ended(end) => {
                    self.truth.tally.count("fault: end in a commit");
                    return self.end_orchestrator(end);
                }
                Progress::Died(why) => {
                    self.trace
                        .note(now_ms, format_args!("the store has failed: {why}"));
                    self.truth.tally.count("ends with a failed store");
                    return self.end_orchestrator(End::Killed);
                }
            }
        }
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Submit => self.submit_some(),
            Happening::GoOn { job } => self.go_on(job),
            Happening::Look => self.look_around(),
            Happening::QuestionArrives { call } => self.question_arrives(call),
            Happening::AnswerArrives { call, told } => self.answer_arrives(call, told),
            Happening::CallerGivesUp { call } => self.caller_gives_up(call),
            Happening::CallerLeaves { call } => self.caller_leaves(call),
            Happening::WaitIsOver { boot, call } => self.wait_is_over(boot, call),
            Happening::WatchesOn { boot, call, question } => self.watch_on(boot, call, question),
            Happening::Loads { boot, execution_id } => self.load(boot, execution_id),
            Happening::Reads { boot, call, read } => self.reads(boot, call, read),
            Happening::Fault => self.next_fault(),
            Happening::WorkerBoots { seat } => self.boot_worker(seat),
            Happening::WorkerStops { seat } => self.drain_process(seat),
            Happening::OrchestratorBoots => self.boot_orchestrator(),
            Happening::OrchestratorDies => {
                let end = *self.dice.pick(&[End::Killed, End::PowerCut]);
                self.end_orchestrator(end);
            }
            Happening::OrchestratorExits { boot } => {
                if self
                    .orchestrator
                    .as_ref()
                    .is_some_and(|process| process.boot == boot)
                {
                    self.end_orchestrator(End::Exits);
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
