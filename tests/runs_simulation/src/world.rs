//! Everything that there is in a simulation, and what happens next in it. Judges nothing itself.

use crate::artifacts::Files;
use crate::callers::Job;
use crate::contract::Contract;
use crate::dice::Dice;
use crate::disk::Disk;
use crate::plans;
use crate::process::Process;
use crate::specs;
use crate::triggers::Trigger;
use crate::worker::Worker;
use escapement_model::{AttemptToken, ExecutionId, Opaque, RunId};
use escapement_run::spec::Constraints;
use escapement_run::{Input, plan};
use escapement_runs_judge::{Judge, Told};
use escapement_store_kit::MemoryDisk;
use std::collections::BTreeMap;

/// What happens.
#[derive(Debug)]
pub(crate) enum Happening {
    RunsBoot,
    ContractBoots,
    /// The next fault.
    Fault,
    /// Stall of the process of the runs.
    StandsStill,
    /// Full disk of the runs.
    DiskFills,
    /// Jump of the wall clock.
    ClockIsSet,
    /// Correction of the wall clock.
    ClockIsRight,
    Asks {
        job: usize,
    },
    NewJob,
    Meddles,
    LooksAtInbox,
    LooksAtTriggers,
    Publishes,
    Sends {
        boot: u64,
        execution_id: ExecutionId,
    },
    Reaches {
        boot: u64,
        run_id: RunId,
        input: Box<Input>,
    },
    WorkerConnects {
        place: usize,
    },
    Heartbeat {
        place: usize,
    },
    BodyBegins {
        place: usize,
        process: u64,
        token: AttemptToken,
    },
    BodyEnds {
        place: usize,
        process: u64,
        token: AttemptToken,
    },
}

/// A simulation.
pub(crate) struct World {
    pub(crate) now_ms: u64,
    pub(crate) dice: Dice,
    /// What children are made from: the same for each of them, whenever it is made.
    pub(crate) child_dice: Dice,
    pub(crate) child_plan: Opaque,
    agenda: BTreeMap<(u64, u64), Happening>,
    n_planned: u64,
    /// Faults happen, and callers meddle.
    pub(crate) is_stormy: bool,
    /// Runs and contract die together.
    together: bool,
    jumps: bool,
    /// True if the process stalls, its disk fills, and its clock jumps.
    pub(crate) times_are_hard: bool,
    /// Random numbers for these faults.
    pub(crate) time_dice: Dice,
    pub(crate) wall_off_ms: i64,
    /// Error of the clock of the last process.
    last_off_ms: i64,
    pub(crate) full_until_ms: u64,
    /// Deadlines by the clock of the contract, as sent first.
    pub(crate) deadlines: BTreeMap<ExecutionId, i64>,
    n_jobs: u64,
    disk: Disk,
    /// The process dies while the next commit does its writes.
    next_commit_breaks: bool,
    contract_disk: MemoryDisk,
    pub(crate) process: Option<Process>,
    pub(crate) contract: Option<Contract>,
    pub(crate) workers: Vec<Worker>,
    /// Where all workers write.
    pub(crate) files: Files,
    pub(crate) boots: u64,
    pub(crate) triggers: Vec<Trigger>,
    /// No schedule is looked at after this.
    pub(crate) triggers_until_ms: u64,
    /// The start of the process since which schedules were looked at.
    pub(crate) triggers_looked_in: u64,
    pub(crate) jobs: Vec<Job>,
    pub(crate) judge: Judge,
    pub(crate) tally: BTreeMap<&'static str, u64>,
    pub(crate) trace: Vec<String>,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let child_plan = loop {
            let document = match dice.percent(40) {
                true => plans::errand(),
                false => plans::document(&mut dice, true),
            };
            if plan::read(&document).is_ok_and(|plan| specs::keeps(&plan, &Constraints::default())) {
                break document;
            }
        };
        let is_quick = !dice.percent(10);
        let mut world = Self {
            now_ms: 0,
            child_dice: Dice::new(dice.any()),
            child_plan,
            agenda: BTreeMap::new(),
            n_planned: 0,
            is_stormy: true,
            together: dice.percent(50),
            jumps: dice.percent(50),
            times_are_hard: seed.is_multiple_of(4),
            time_dice: Dice::new(!seed),
            wall_off_ms: 0,
            last_off_ms: 0,
            full_until_ms: 0,
            deadlines: BTreeMap::new(),
            n_jobs: dice.between(1, 5),
            disk: Disk::new(is_quick),
            next_commit_breaks: false,
            contract_disk: MemoryDisk::new(),
            process: None,
            contract: None,
            workers: (0..2).map(|_| Worker::new(1, &mut dice)).collect(),
            files: Files::default(),
            boots: 0,
            triggers: Vec::new(),
            triggers_until_ms: 0,
            triggers_looked_in: 0,
            jobs: Vec::new(),
            judge: Judge::default(),
            tally: BTreeMap::new(),
            trace: Vec::new(),
            dice,
        };
        world.plan(0, Happening::ContractBoots);
        world.plan(0, Happening::RunsBoot);
        world.plan(10, Happening::NewJob);
        world.plan(500, Happening::Meddles);
        world.plan(800, Happening::LooksAtInbox);
        for place in 0..world.workers.len() {
            world.plan(1_000, Happening::Heartbeat { place });
        }
        let first_ms = world.dice.between(50, 8_000);
        world.plan(first_ms, Happening::Fault);
        match world.times_are_hard {
            true => world.draw_hard_times(),
            false => world.draw_triggers(),
        }
        world
    }

    pub(crate) fn plan(&mut self, after_ms: u64, happening: Happening) {
        self.n_planned += 1;
        self.agenda
            .insert((self.now_ms + after_ms, self.n_planned), happening);
    }

    pub(crate) fn count(&mut self, what: &'static str) {
        *self.tally.entry(what).or_default() += 1;
    }

    pub(crate) fn process(&mut self) -> &mut Process {
        self.process.as_mut().expect("it runs")
    }

    /// Lets everything happen until every run has ended, or for this long; false if something is wrong.
    pub(crate) fn run_until(&mut self, end_ms: u64, until_over: bool) {
        while self.judge.finding().is_none() && !(until_over && self.is_over()) {
            let Some(next_ms) = self.next_at_ms().filter(|next_ms| *next_ms <= end_ms) else {
                break;
            };
            self.now_ms = self.now_ms.max(next_ms);
            while let Some(entry) = self
                .agenda
                .first_entry()
                .filter(|entry| entry.key().0 <= self.now_ms)
            {
                let happening = entry.remove();
                self.note(&happening);
                self.happen(happening);
            }
            self.run_contract();
            self.run_process();
        }
        if self.judge.finding().is_none() {
            self.now_ms = self.now_ms.max(if until_over { 0 } else { end_ms });
        }
    }

    /// True if all callers have their runs, and all of these have ended.
    pub(crate) fn is_over(&self) -> bool {
        let is_idle = self
            .process
            .as_ref()
            .is_some_and(|process| process.host.runs().is_empty());
        let told = self.jobs.iter().all(|job| job.is_told);
        let all = self.judge.runs().iter().all(|run| self.judge.has_ended(run));
        is_idle
            && told
            && all
            && self.triggers_rest()
            && self.process.as_ref().is_some_and(Process::is_at_rest)
    }

    fn next_at_ms(&self) -> Option<u64> {
        let agenda = self.agenda.keys().next().map(|(at_ms, _)| *at_ms);
        let process = self
            .process
            .as_ref()
            .and_then(|process| process.due_at_ms(self.now_ms));
        let contract = self
            .contract
            .as_ref()
            .and_then(|contract| contract.due_at_ms(self.now_ms));
        [agenda, process, contract].into_iter().flatten().min()
    }

    fn note(&mut self, happening: &Happening) {
        if matches!(happening, Happening::Heartbeat { .. }) {
            return;
        }
        if self.trace.len() >= TRACE_MAX {
            self.trace.drain(..TRACE_MAX / 2);
        }
        let text = format!("{happening:?}");
        let text: String = text.chars().take(300).collect();
        self.trace.push(format!("{:>9} {text}", self.now_ms));
    }

    fn happen(&mut self, happening: Happening) {
        let stands_still = self.process.as_ref().is_some_and(Process::stands_still);
        if stands_still && happening.is_a_call() {
            return self.plan(CALLS_AGAIN_MS, happening);
        }
        match happening {
            Happening::RunsBoot => self.boot_process(),
            Happening::ContractBoots => self.boot_contract(),
            Happening::Fault => self.fault(),
            Happening::StandsStill => self.stands_still(),
            Happening::DiskFills => self.disk_fills(),
            Happening::ClockIsSet => self.clock_is_set(),
            Happening::ClockIsRight => self.sets_clock(0),
            Happening::NewJob => {
                self.new_job();
                if (self.jobs.len() as u64) < self.n_jobs {
                    let after_ms = self.dice.roll(5_000);
                    self.plan(after_ms, Happening::NewJob);
                }
            }
            Happening::Asks { job } => self.asks(job),
            Happening::Meddles => self.meddle(),
            Happening::LooksAtInbox => self.looks_at_inbox(),
            Happening::LooksAtTriggers => self.looks_at_triggers(),
            Happening::Publishes => self.publishes(),
            Happening::Sends { boot, execution_id } => self.sends(boot, execution_id),
            Happening::Reaches { boot, run_id, input } => self.reaches(boot, run_id, *input),
            Happening::WorkerConnects { place } => self.worker_connects(place),
            Happening::Heartbeat { place } => self.heartbeat(place),
            Happening::BodyBegins {
                place,
                process,
                token,
            } => self.body_begins(place, process, token),
            Happening::BodyEnds {
                place,
                process,
                token,
            } => self.body_ends(place, process, token),
        }
    }

    fn run_contract(&mut self) {
        for _ in 0..ROUNDS_MAX {
            let now_ms = self.now_ms;
            let Some(contract) = &mut self.contract else {
                return;
            };
            if contract.due_at_ms(now_ms).is_none_or(|due_ms| due_ms > now_ms) {
                return;
            }
            let before = contract.n_commits();
            let ran = contract.run(now_ms);
            if contract.n_commits() != before {
                self.compare_stores();
            }
            match ran {
                Ok(wants) => wants.into_iter().for_each(|wants| self.carry_out(wants)),
                Err(()) => {
                    self.count("fault: contract dies in a commit");
                    return self.end_contract();
                }
            }
        }
        panic!("the contract does not come to rest");
    }

    fn run_process(&mut self) {
        for _ in 0..ROUNDS_MAX {
            let now_ms = self.now_ms;
            // Most commits are quick; on a slow disk much is decided behind one.
            let slowest_ms = if self.dice.percent(10) { 300 } else { 5 };
            let takes_ms = self.dice.roll(slowest_ms);
            let Some(process) = &mut self.process else { return };
            if !process.goes_on(now_ms, &mut self.judge) {
                return;
            }
            process.begin(now_ms, takes_ms, self.full_until_ms);
            if self.full_until_ms > now_ms && process.ends_now(now_ms) {
                process.finds_no_space(now_ms, self.full_until_ms);
            }
            if process.stands_still() {
                return;
            }
            self.show_rows();
            self.effects_leave();
            if self.dice.percent(20) {
                self.parks();
            }
            let Some(process) = &mut self.process else { return };
            let breaks = self.next_commit_breaks && process.ends_now(now_ms);
            if breaks {
                self.next_commit_breaks = false;
                self.disk.break_off_next_commit(&mut self.dice);
            }
            let ended = process.end(now_ms);
            let has_stopped = breaks && self.disk.has_stopped();
            if breaks && !has_stopped && ended.is_ok() {
                self.disk.heal();
            }
            let has_ended = match ended {
                Ok(has_ended) if !has_stopped => has_ended,
                Ok(_) | Err(_) => {
                    self.count("fault: runs die in a commit");
                    return self.end_process();
                }
            };
            if has_ended {
                self.committed();
            }
            let Some(process) = &mut self.process else { return };
            for told in process.told() {
                match &told {
                    Told::Created { key, run } => self.job_is_told(key, *run),
                    Told::Trigger { trigger, .. } => self.trigger_is_saved(trigger),
                    _ => {}
                }
                self.judge.told(told);
            }
            if !has_ended {
                break;
            }
        }
    }

    fn effects_leave(&mut self) {
        let Some(process) = &mut self.process else { return };
        for (run_id, effect) in process.host.poll_effects() {
            self.perform(run_id, effect);
        }
    }

    fn committed(&mut self) {
        self.count("commits");
        let Some(process) = &mut self.process else { return };
        let before: Vec<[u8; 16]> = self.judge.runs();
        let ended: Vec<[u8; 16]> = before
            .into_iter()
            .filter(|run| self.judge.has_ended(run))
            .collect();
        process.show(&mut self.judge);
        // In other seeds the judge does not know the jumps between two processes.
        if !self.jumps || self.times_are_hard {
            self.judge.clock(self.now_ms, PATIENCE_MS);
        }
        if !self.triggers.is_empty() {
            self.judge.fired(&process.firings());
        }
        process.check_timer(&mut self.judge);
        self.compare_stores();
        self.effects_leave();
        let newly = self
            .judge
            .runs()
            .into_iter()
            .filter(|run| self.judge.has_ended(run) && !ended.contains(run));
        for run in newly.collect::<Vec<_>>() {
            self.child_may_have_ended(RunId::from_bytes(run).expect("it was an id"));
        }
        self.judge.settled_in();
        if self.dice.percent(5) {
            self.removes();
        }
        let folds = self.dice.percent(10);
        let Some(process) = &mut self.process else { return };
        if folds && process.is_at_rest() && !process.begin(self.now_ms, 1, self.full_until_ms) {
            process.fold(&mut self.judge);
        }
    }

    /// The host parks what it may at any moment.
    fn parks(&mut self) {
        let kept = self.dice.roll(3) as usize;
        let Some(process) = &mut self.process else { return };
        let n_parked = process.park(kept);
        *self.tally.entry("runs parked").or_default() += n_parked;
    }

    /// The store removes what ended long enough ago.
    fn removes(&mut self) {
        let (now_ms, keep_ms) = (self.now_ms, self.dice.between(1_000, 100_000));
        let Some(process) = &mut self.process else { return };
        if process.is_at_rest() && process.remove(now_ms, keep_ms, &mut self.judge) {
            self.count("removals");
        }
    }

    fn boot_process(&mut self) {
        if self.process.is_some() {
            return;
        }
        self.boots += 1;
        self.judge.booted();
        let offset_ms = self.offset_ms();
        match Process::open(&self.disk, self.boots, self.now_ms, offset_ms) {
            Ok(process) => {
                process.show_found(&mut self.judge);
                process.show(&mut self.judge);
                self.find_rows_again(&process);
                self.compare_stores();
                if !self.triggers.is_empty() {
                    self.judge.fired(&process.firings());
                }
                self.process = Some(process);
                self.judge.clock_begins();
                if self.times_are_hard {
                    self.judge.clock_is_off(self.now_ms, offset_ms - self.last_off_ms);
                    self.last_off_ms = offset_ms;
                }
                self.count("boots of the runs");
            }
            Err(fault) => panic!("the store of the runs does not open: {fault:?}"),
        }
    }

    fn boot_contract(&mut self) {
        if self.contract.is_some() {
            return;
        }
        let offset_ms = self.offset_ms();
        let contract = Contract::open(&self.contract_disk, self.now_ms, offset_ms, &mut self.dice);
        self.contract = Some(contract);
        self.compare_stores();
        self.count("boots of the contract");
        for place in 0..self.workers.len() {
            let after_ms = self.dice.roll(500);
            self.plan(after_ms, Happening::WorkerConnects { place });
        }
        // What waited for an answer of the process before asks again.
        if let Some(process) = &self.process {
            let (boot, waiting) = (process.boot, process.port.keys().copied().collect::<Vec<_>>());
            for execution_id in waiting {
                let after_ms = self.dice.roll(500);
                self.plan(after_ms, Happening::Sends { boot, execution_id });
            }
        }
    }

    /// What a clock says that was set while nothing looked at it.
    fn offset_ms(&mut self) -> i64 {
        if self.times_are_hard {
            return self.wall_off_ms;
        }
        if !self.jumps {
            return 0;
        }
        let most_ms = *self.dice.pick(&[0, 500, 20_000, 300_000]);
        let offset_ms = i64::try_from(self.dice.roll(most_ms + 1)).expect("it is small");
        if self.dice.percent(50) {
            offset_ms
        } else {
            -offset_ms
        }
    }

    pub(crate) fn end_process(&mut self) {
        if self.process.take().is_none() {
            return;
        }
        let is_power_cut = self.dice.percent(50);
        self.disk.crash(is_power_cut, &mut self.dice);
        let after_ms = self.dice.between(10, 3_000);
        self.plan(after_ms, Happening::RunsBoot);
        if self.together {
            self.end_contract();
        }
    }

    pub(crate) fn end_contract(&mut self) {
        if self.contract.take().is_none() {
            return;
        }
        drop(self.contract_disk.crash());
        let after_ms = self.dice.between(10, 3_000);
        self.plan(after_ms, Happening::ContractBoots);
        if self.together {
            self.end_process();
        }
    }

    fn fault(&mut self) {
        if !self.is_stormy {
            return;
        }
        let after_ms = self.dice.between(500, 25_000);
        self.plan(after_ms, Happening::Fault);
        match self.dice.roll(6) {
            0 => {
                self.count("fault: runs killed");
                self.end_process();
            }
            1 => {
                self.count("fault: contract killed");
                self.end_contract();
            }
            2 | 3 => self.next_commit_breaks = true,
            4 => {
                let faults = [
                    escapement_store_kit::MemoryFault::WrittenNotSynced,
                    escapement_store_kit::MemoryFault::SyncedNotAcknowledged,
                ];
                self.contract_disk.fail_next_commit(*self.dice.pick(&faults));
            }
            _ => {
                let place = usize::try_from(self.dice.roll(2)).expect("it is small");
                self.worker_crashes(place);
            }
        }
    }
}

impl Happening {
    /// Returns true for a call of the process of the runs.
    fn is_a_call(&self) -> bool {
        matches!(
            self,
            Self::Asks { .. } | Self::Meddles | Self::LooksAtInbox | Self::LooksAtTriggers | Self::Publishes
        )
    }
}

/// Where time begins.
pub(crate) const START_UNIX_MS: i64 = 1_763_700_000_000;
/// A process is away for 3 s at most, and its commits take less than 1 s.
const PATIENCE_MS: u64 = 10_000;
/// Pause before a call is repeated that met a stall.
const CALLS_AGAIN_MS: u64 = 300;
/// Rounds at one instant after which something goes in circles.
const ROUNDS_MAX: usize = 10_000;
/// Events that a failure can show.
const TRACE_MAX: usize = 400;
