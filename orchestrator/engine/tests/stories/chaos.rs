//! Random workers, callers, stores and times: everything that was accepted settles once, and the invariants hold on the way.

use crate::dice::Dice;
use crate::explaining::Judge;
use crate::puppet::{CAPACITY, Held, Mood, Puppet};
use crate::world::{WaitFor, World, plan};
use escapement_contract::{Outcome, Reported, Request, Status};
use escapement_engine::{
    AckVerdict, CallerId, Ended, FromWorker, Input, LoadOutcome, Piece, RejectReason, Reply, StoreWrite,
    ToWorker, Watch, WorkerSelector, WriteFailure, WriteId, WriteOutcome,
};
use escapement_model::{AttemptToken, ExecutionId, InstanceId, Opaque};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

struct Run {
    world: World,
    dice: Dice,
    puppets: Vec<Puppet>,
    next_session: u64,
    next_caller: u64,
    n_plans: u64,
    /// Who waits for which execution's result.
    waiting: BTreeSet<u64>,
    unanswered: Vec<(WriteId, StoreWrite)>,
    /// Attempts whose outcome was accepted.
    accepted: BTreeSet<AttemptToken>,
    settled: BTreeSet<ExecutionId>,
    next_instance: u8,
    /// Attempts that some worker had, for whoever reports without a session.
    seen: Vec<AttemptToken>,
    n_forgotten: usize,
    /// Callers that watch.
    watching: Vec<u64>,
    n_loaded: usize,
    n_damaged: usize,
    judge: Judge,
    /// What is durable and has not started, with its place.
    queued: BTreeMap<ExecutionId, (Reverse<i32>, WriteId)>,
}

/// What a run came to, so that runs that do nothing are noticed.
#[derive(Debug, Default, PartialEq)]
struct Tally {
    accepted: usize,
    forgotten: usize,
    snapshots: usize,
    loaded: usize,
    damaged: usize,
}

const N_WORKERS: usize = 3;

impl Run {
    fn new(seed: u64) -> Self {
        let mut world = World::with(|config| {
            config.max_running_executions = 4;
            // Half of the runs park most of what waits.
            config.queued_in_memory_max = [1, 3, 10_000, 10_000][seed as usize % 4];
        });
        (world.store_answers, world.loader_answers) = (false, false);
        Self {
            world,
            dice: Dice(seed),
            puppets: (0..N_WORKERS).map(|n| Puppet::of(n as u8)).collect(),
            next_session: 0,
            next_caller: 0,
            n_plans: 0,
            waiting: BTreeSet::new(),
            unanswered: Vec::new(),
            accepted: BTreeSet::new(),
            settled: BTreeSet::new(),
            next_instance: N_WORKERS as u8,
            seen: Vec::new(),
            n_forgotten: 0,
            watching: Vec::new(),
            n_loaded: 0,
            n_damaged: 0,
            judge: Judge::default(),
            queued: BTreeMap::new(),
        }
    }

    fn step(&mut self) {
        match self.dice.roll(36) {
            0..=2 => self.submit(),
            32..=34 => self.loader_answers(),
            35 => self.look(),
            3..=9 => self.store_answers(),
            10 => self.connect(),
            11 => self.break_stream(),
            12 | 13 => self.heartbeat_all(),
            14 => self.world.pass(1),
            15 => {
                let ms = self.dice.roll(4_000);
                self.world.pass(ms);
            }
            16 => self.forget(),
            17 => self.report_without_session(),
            18 => self.operate(),
            19..=24 => self.read(),
            _ => self.work(),
        }
        self.observe();
    }

    fn submit(&mut self) {
        self.n_plans += 1;
        self.next_caller += 1;
        let request = self.random_request();
        self.waiting.insert(self.next_caller);
        let id = self.world.submit(self.next_caller, &request, WaitFor::Settled);
        self.judge.submitted(id);
    }

    fn random_request(&mut self) -> Arc<Request> {
        let n_steps = 1 + self.dice.roll(5) as usize;
        let codes: &[&str] = if self.dice.roll(2) == 0 { &["*"] } else { &[] };
        let builder = plan(self.n_plans, &vec!["a"; n_steps])
            .priority(self.dice.roll(3) as i32)
            .retry(codes);
        let (concurrency, timeout) = (1 + self.dice.roll(3) as i32, self.dice.roll(2));
        builder
            .at_a_time(concurrency)
            // No limit of the plan comes to the rescue of an attempt that is never settled..plan_limit(36_000_000)
            .plan(|plan| plan.steps[0].timeout_ms = (timeout == 0).then_some(700))
            .build()
    }

    /// The store answers the oldest write, now and then with a failure.
    fn store_answers(&mut self) {
        if self.unanswered.is_empty() {
            return;
        }
        let (write, content) = self.unanswered.remove(0);
        let outcome = match self.dice.roll(24) {
            0 => WriteOutcome::Failed(WriteFailure::Busy),
            1 => WriteOutcome::Failed(WriteFailure::Full),
            _ => WriteOutcome::Durable,
        };
        self.answer(write, &content, outcome);
    }

    fn answer(&mut self, write: WriteId, content: &StoreWrite, outcome: WriteOutcome) {
        match (content, outcome) {
            (StoreWrite::Settle { settlement, .. }, WriteOutcome::Durable) => assert!(
                self.settled.insert(settlement.result.execution_id),
                "an execution settles once"
            ),
            (
                StoreWrite::Accept {
                    execution_id,
                    request,
                    started_at: None,
                    ..
                },
                WriteOutcome::Durable,
            ) => {
                let place = (Reverse(request.plan().priority()), write);
                self.queued.insert(*execution_id, place);
            }
            _ => {}
        }
        self.world.input(Input::Stored { write, outcome });
    }

    /// Whoever starts is the first of all that wait, wherever their requests are.
    //
    fn audit_order(&mut self) {
        for (_, content) in &self.world.writes {
            match content {
                StoreWrite::Start { execution_id, .. } => {
                    // A start that is tried again has left the queue before.
                    if let Some(place) = self.queued.remove(execution_id) {
                        let first = self.queued.values().min();
                        assert!(first.is_none_or(|first| place < *first), "the first starts first");
                    }
                }
                StoreWrite::Accept { started_at, .. } => assert!(
                    started_at.is_none() || self.queued.is_empty(),
                    "nobody is overtaken by who comes last"
                ),
                StoreWrite::Settle { settlement, .. } => {
                    self.queued.remove(&settlement.result.execution_id);
                }
                StoreWrite::RememberActions { .. } => {}
            }
        }
    }

    /// Requests come from the disk in any order, now and then not this time, rarely never.
    fn loader_answers(&mut self) {
        for _ in 0..=self.dice.roll(3) {
            let n_loads = self.world.loads.len() as u64;
            if n_loads == 0 {
                return;
            }
            let which = self.dice.roll(n_loads) as usize;
            let execution_id = self.world.loads.remove(which);
            let outcome = match self.dice.roll(40) {
                0 => {
                    self.n_damaged += 1;
                    self.queued.remove(&execution_id);
                    LoadOutcome::Damaged
                }
                1..=3 => LoadOutcome::Failed,
                _ => LoadOutcome::Loaded(self.world.recovered(execution_id)),
            };
            self.n_loaded += 1;
            self.world.input(Input::Loaded {
                execution_id,
                outcome,
            });
        }
    }

    /// Somebody watches an execution for a while, or goes.
    fn look(&mut self) {
        if let Some(caller) = self.watching.pop().filter(|_| self.dice.roll(2) == 0) {
            return self.world.input(Input::CallerGone(CallerId(caller)));
        }
        let Some(execution_id) = self.world.any_accepted(self.dice.roll(1 << 20)) else {
            return;
        };
        self.next_caller += 1;
        self.watching.push(self.next_caller);
        let watch = Watch {
            caller: CallerId(self.next_caller).into(),
            execution_id,
            // Some entries are there at once, others are waited for.
            from_sequence: 1 + self.dice.roll(8),
            after_hash: None,
            piece: Piece {
                entries_max: 3,
                bytes_max: 1 << 10,
            },
            waits: true,
        };
        self.world.input(Input::Watch(watch));
    }

    fn any_worker(&mut self) -> usize {
        self.dice.roll(N_WORKERS as u64) as usize
    }

    fn connect(&mut self) {
        let worker = self.any_worker();
        self.next_session += 1;
        let session = self.next_session;
        if self.dice.roll(4) == 0 && self.puppets[worker].n_hellos > 1 {
            return self.puppets[worker].late_hello(&mut self.world, session);
        }
        let is_numbered = self.dice.roll(8) > 0;
        self.puppets[worker].connect(&mut self.world, session, is_numbered);
        if self.dice.roll(8) == 0 {
            self.deafen(worker);
        }
    }

    /// A partition one way: the worker says hello again and again, and reads nothing.
    fn deafen(&mut self, worker: usize) {
        self.puppets[worker].expire(&outcome_of(1));
        for _ in 0..=self.dice.roll(4) {
            let ms = self.dice.roll(8_000);
            self.world.pass(ms);
            self.observe();
            self.next_session += 1;
            self.puppets[worker].connect(&mut self.world, self.next_session, true);
            self.observe();
        }
        let is_assigned = |message: &ToWorker| matches!(message, ToWorker::Assignments(_));
        assert!(
            !self.puppets[worker].inbox.iter().any(is_assigned),
            "nothing is handed to a worker that hears nothing"
        );
    }

    fn break_stream(&mut self) {
        let worker = self.any_worker();
        let puppet = &mut self.puppets[worker];
        if let Some(session) = puppet.session.take() {
            puppet.is_welcome = false;
            self.world.close(session);
        }
        // Half of them lose everything, as a killed process does.
        if self.dice.roll(2) == 0 {
            self.replace(worker);
        }
    }

    /// Another process takes the place of one that has ended.
    fn replace(&mut self, worker: usize) {
        let instance = self.next_instance;
        self.next_instance = self.next_instance.checked_add(1).unwrap();
        self.puppets[worker] = Puppet::of(instance);
    }

    fn heartbeat_all(&mut self) {
        for worker in 0..N_WORKERS {
            let has_hash = self.dice.roll(4) > 0;
            self.puppets[worker].heartbeat(&mut self.world, has_hash);
        }
    }

    fn read(&mut self) {
        let worker = self.any_worker();
        let mood = if self.dice.roll(8) == 0 {
            Mood::Deaf
        } else {
            Mood::Willing
        };
        for _ in 0..=self.dice.roll(4) {
            self.read_one(worker, mood);
        }
    }

    fn read_one(&mut self, worker: usize, mood: Mood) {
        let verdicts = self.puppets[worker].read(&mut self.world, mood);
        self.count(&verdicts);
        self.seen.extend(self.puppets[worker].has.keys());
    }

    fn count(&mut self, verdicts: &[(AttemptToken, AckVerdict)]) {
        for (token, verdict) in verdicts {
            if *verdict == AckVerdict::Accepted {
                assert!(self.accepted.insert(*token), "an outcome is accepted once");
            }
        }
    }

    /// An attempt falls out of a worker's memory, in whatever state it is.
    fn forget(&mut self) {
        let worker = self.any_worker();
        if let Some(token) = self.any_token(worker) {
            self.puppets[worker].has.remove(&token);
            self.n_forgotten += 1;
        }
    }

    fn any_token(&mut self, worker: usize) -> Option<AttemptToken> {
        let tokens: Vec<AttemptToken> = self.puppets[worker].has.keys().copied().collect();
        let dice = self.dice.roll(tokens.len().max(1) as u64) as usize;
        tokens.get(dice).copied()
    }

    fn report_without_session(&mut self) {
        if self.seen.is_empty() {
            return;
        }
        // Mostly one that may still run.
        let back = self.dice.roll(8).min(self.seen.len() as u64 - 1) as usize;
        let token = self.seen[self.seen.len() - 1 - back];
        let dice = self.dice.roll(3);
        let report = Puppet::report_of(outcome_of(dice));
        let items = vec![(token, report.clone()), (token, report)];
        let verdicts = self.world.ask(|caller| Input::ReportOutcomes { caller, items });
        assert_ne!(verdicts[1].1, AckVerdict::Accepted, "the second changes nothing");
        self.count(&verdicts);
    }

    /// An operator, or the worker itself, ends the service of a worker; or an operator gives it up.
    fn operate(&mut self) {
        let worker = self.any_worker();
        let instance_id = InstanceId::new([self.puppets[worker].instance; 16]);
        match self.dice.roll(4) {
            0 => {
                let worker = WorkerSelector::Instance(instance_id);
                self.world.ask(|caller| Input::DrainWorker { caller, worker });
            }
            1 => {
                self.world
                    .ask(|caller| Input::DeclareWorkerDead { caller, instance_id });
            }
            2 if self.puppets[worker].is_welcome => {
                self.puppets[worker].is_leaving = true;
                let session = self.puppets[worker].session.expect("a welcome worker has one");
                self.world.say(session, FromWorker::Drain);
            }
            _ => {}
        }
    }

    fn work(&mut self) {
        let worker = self.any_worker();
        if self.puppets[worker].leave(&mut self.world) {
            return self.replace(worker);
        }
        let Some(token) = self.any_token(worker) else {
            return;
        };
        let dice = self.dice.roll(8);
        let puppet = &mut self.puppets[worker];
        let Some(session) = puppet.session.filter(|_| puppet.is_welcome) else {
            return;
        };
        match (puppet.has[&token].clone(), dice) {
            (Held::Received, 0) => puppet.reject(&mut self.world, token, RejectReason::NoCapacity),
            (Held::Received, _) => puppet.start(&mut self.world, token),
            (Held::Running, _) => puppet.finish(&mut self.world, token, outcome_of(dice)),
            // Said twice.
            (Held::Finished(outcome), 0) => self.world.report(session, token, outcome),
            (Held::Finished(_), _) => {}
        }
    }

    /// Takes in what was sent, and checks what must hold whenever anything is sent.
    fn observe(&mut self) {
        self.audit_order();
        self.unanswered.append(&mut self.world.writes);
        for (session, message) in std::mem::take(&mut self.world.sent) {
            let mut puppets = self.puppets.iter_mut();
            if let Some(puppet) = puppets.find(|puppet| puppet.session == Some(session)) {
                puppet.inbox.push_back(message);
            }
        }
        for worker in self.world.workers() {
            assert!(
                worker.in_flight <= CAPACITY,
                "in flight never exceeds the credits"
            );
        }
        for action in self.world.actions() {
            let is_idle = action.waiting > 0 && action.free_slots > 0;
            assert!(!is_idle, "a step waits beside a free slot: {action:?}");
        }
        // What was asked here is no part of the story.
        self.world.log.truncate(self.world.log.len() - 2);
        let settled = &self.settled;
        self.waiting
            .retain(|caller| match self.world.replies.get(caller) {
                Some(Reply::Ended(Ended::Settled(persisted))) => {
                    assert!(
                        settled.contains(&persisted.result.execution_id),
                        "nothing is told before it is durable"
                    );
                    false
                }
                // Not live: its record is damaged.
                Some(Reply::Ended(Ended::Refused(_) | Ended::NotLive)) => false,
                Some(other) => panic!("a submission is settled or refused, not {other:?}"),
                None => true,
            });
    }

    /// From now on nothing goes wrong: everything must end.
    fn settle_everything(&mut self) {
        for _ in 0..3_000 {
            self.observe();
            if self.waiting.is_empty()
                && self.unanswered.is_empty()
                && self.world.engine.live_executions() == 0
            {
                return;
            }
            while !self.unanswered.is_empty() {
                let (write, content) = self.unanswered.remove(0);
                self.answer(write, &content, WriteOutcome::Durable);
                self.observe();
            }
            for worker in 0..N_WORKERS {
                if self.puppets[worker].is_drained {
                    let session = self.puppets[worker].session.take();
                    self.replace(worker);
                    self.world.close(session.unwrap_or(0));
                }
            }
            if self.puppets.iter().all(|puppet| puppet.session.is_none()) {
                self.next_session += 1;
                self.puppets[0].connect(&mut self.world, self.next_session, true);
            }
            for execution_id in std::mem::take(&mut self.world.loads) {
                let loaded = self.world.loaded(execution_id);
                self.world.input(loaded);
                self.n_loaded += 1;
            }
            self.heartbeat_all();
            for _ in 0..8 {
                self.work();
                self.observe();
                for worker in 0..N_WORKERS {
                    for _ in 0..self.puppets[worker].inbox.len() {
                        self.read_one(worker, Mood::Willing);
                    }
                }
            }
            self.world.pass(500);
        }
        panic!(
            "not settled: callers {:?}, log tail {:#?}",
            self.waiting,
            self.world.log.iter().rev().take(30).collect::<Vec<_>>()
        );
    }
}

fn outcome_of(dice: u64) -> Outcome {
    match dice {
        0 => Outcome::Failed(Reported {
            code: "FLAKY".into(),
            message: "now and then".into(),
            severity: None,
            context: Opaque::default(),
        }),
        _ => Outcome::completed(Opaque::default()),
    }
}

/// What left, and what it came to.
fn run(seed: u64) -> (Vec<String>, Tally) {
    let mut run = Run::new(seed);
    for _ in 0..400 {
        run.step();
    }
    run.settle_everything();
    let mut log = std::mem::take(&mut run.world.log);
    for (caller, reply) in &run.world.replies {
        if let Reply::Ended(Ended::Settled(persisted)) = reply {
            assert_eq!(
                persisted.result.status == Status::Success,
                persisted.result.error.is_none()
            );
            log.push(format!("{caller}: {persisted:?}"));
        }
    }
    run.world.input(Input::CallerGone(CallerId(u64::MAX)));
    assert_eq!(run.world.engine.live_executions(), 0);
    let snapshots = log.iter().filter(|line| line.contains("snapshot_request"));
    let tally = Tally {
        accepted: run.accepted.len(),
        forgotten: run.n_forgotten,
        snapshots: snapshots.count(),
        loaded: run.n_loaded,
        damaged: run.n_damaged,
    };
    (log, tally)
}

/// Returns a run in which everything that is live is explained again and again.
pub fn explained(seed: u64) -> Judge {
    let mut run = Run::new(seed);
    for n in 0..400 {
        run.step();
        if n % 4 == 0 {
            run.judge.look(&mut run.world, &run.queued, &run.settled);
        }
    }
    run.judge
}

//
#[test]
fn everything_settles_once_whatever_happens() {
    // ESCAPEMENT_SEEDS=100000 for a campaign.
    let n_seeds = std::env::var("ESCAPEMENT_SEEDS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(150);
    let mut sum = Tally::default();
    for seed in 0..n_seeds {
        let outcome = std::panic::catch_unwind(|| run(seed));
        let tally = outcome.unwrap_or_else(|_| panic!("seed {seed} fails")).1;
        sum.accepted += tally.accepted;
        sum.forgotten += tally.forgotten;
        sum.snapshots += tally.snapshots;
        sum.loaded += tally.loaded;
        sum.damaged += tally.damaged;
    }
    let n_seeds = n_seeds as usize;
    assert!(
        sum.accepted > 20 * n_seeds
            && sum.forgotten > 2 * n_seeds
            && sum.snapshots > 2 * n_seeds
            && sum.loaded > n_seeds
            && sum.damaged > n_seeds / 50,
        "runs that do nothing prove nothing: {sum:?}"
    );
}

//
#[test]
fn the_same_inputs_give_the_same_effects() {
    for seed in 0..10 {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
}
