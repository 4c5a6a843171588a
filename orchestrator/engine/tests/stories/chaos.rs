//! Random workers, callers, stores and times: everything that was accepted settles once, and the invariants hold on the way.

use crate::world::{World, action, plan, token_of};
use escapement_contract::{Outcome, Reported, Request, Status};
use escapement_engine::{
    AckVerdict, Assignment, CallerId, FromWorker, InFlight, InFlightPhase, Input, RejectReason, Reply,
    SessionKey, StoreWrite, ToWorker, WaitFor, WriteId, WriteOutcome,
};
use escapement_model::{AttemptToken, Opaque};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// SplitMix64: a seed is a whole run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }
}

/// What one worker process believes.
#[derive(Default)]
struct Puppet {
    session: Option<u64>,
    has: BTreeMap<AttemptToken, InFlightPhase>,
    heartbeats: u64,
}

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
    settled: BTreeSet<escapement_model::ExecutionId>,
}

const CAPACITY: u32 = 3;
const N_WORKERS: usize = 3;

impl Run {
    fn new(seed: u64) -> Self {
        let mut world = World::with(|config| config.max_running_executions = 4);
        world.store_answers = false;
        Self {
            world,
            dice: Dice(seed),
            puppets: (0..N_WORKERS).map(|_| Puppet::default()).collect(),
            next_session: 0,
            next_caller: 0,
            n_plans: 0,
            waiting: BTreeSet::new(),
            unanswered: Vec::new(),
            accepted: BTreeSet::new(),
            settled: BTreeSet::new(),
        }
    }

    fn step(&mut self) {
        match self.dice.roll(16) {
            0 | 1 => self.submit(),
            2..=5 => self.store_answers(),
            6 => self.connect(),
            7 => self.break_stream(),
            8 => self.heartbeat_all(),
            9 => self.world.pass(1),
            10 => {
                let ms = self.dice.roll(4_000);
                self.world.pass(ms);
            }
            _ => self.work(),
        }
        self.observe();
    }

    fn submit(&mut self) {
        self.n_plans += 1;
        self.next_caller += 1;
        let request = self.random_request();
        self.waiting.insert(self.next_caller);
        self.world.submit(self.next_caller, &request, WaitFor::Settled);
    }

    fn random_request(&mut self) -> Arc<Request> {
        let n_steps = 1 + self.dice.roll(5) as usize;
        let codes: &[&str] = if self.dice.roll(2) == 0 { &["*"] } else { &[] };
        let builder = plan(self.n_plans, &vec!["a"; n_steps])
            .priority(self.dice.roll(3) as i32)
            .retry(codes);
        let (concurrency, timeout) = (1 + self.dice.roll(3) as i32, self.dice.roll(2));
        builder
            .draft(|draft| draft.max_concurrent_steps = Some(concurrency))
            .plan(|plan| plan.steps[0].timeout_ms = (timeout == 0).then_some(700))
            .build()
    }

    /// The store answers the oldest write, now and then with a failure.
    fn store_answers(&mut self) {
        if self.unanswered.is_empty() {
            return;
        }
        let (write, content) = self.unanswered.remove(0);
        let outcome = if self.dice.roll(12) == 0 {
            WriteOutcome::Failed
        } else {
            WriteOutcome::Durable
        };
        if let (StoreWrite::Settle { settlement }, WriteOutcome::Durable) = (&content, outcome) {
            assert!(
                self.settled.insert(settlement.result.execution_id),
                "an execution settles once"
            );
        }
        self.world.input(Input::Stored { write, outcome });
    }

    fn connect(&mut self) {
        let worker = self.dice.roll(N_WORKERS as u64) as usize;
        self.next_session += 1;
        let session = self.next_session;
        self.puppets[worker].session = Some(session);
        let in_flight = self.puppets[worker].has.iter().map(|(token, phase)| InFlight {
            token: *token,
            phase: *phase,
        });
        let in_flight = in_flight.collect();
        self.world
            .hello(session, worker as u8, CAPACITY, vec![action("a")], in_flight);
        let verdicts = self
            .world
            .sent
            .iter()
            .rev()
            .find_map(|(to, message)| match message {
                ToWorker::Welcome(welcome) if *to == session => Some(welcome.verdicts.clone()),
                _ => None,
            });
        let stopped: Vec<AttemptToken> = verdicts
            .expect("every hello is answered")
            .into_iter()
            .filter(|(_, verdict)| *verdict == escapement_engine::KeepOrStop::Stop)
            .map(|(token, _)| token)
            .collect();
        for token in &stopped {
            self.puppets[worker].has.remove(token);
        }
        self.world.say(
            session,
            FromWorker::AttemptAcks {
                started: vec![],
                rejected: vec![],
                stopped,
            },
        );
    }

    fn break_stream(&mut self) {
        let worker = self.dice.roll(N_WORKERS as u64) as usize;
        if let Some(session) = self.puppets[worker].session.take() {
            self.world.input(Input::SessionClosed(SessionKey(session)));
            // Half of them lose everything, as a killed process does.
            if self.dice.roll(2) == 0 {
                self.puppets[worker].has.clear();
            }
        }
    }

    fn heartbeat_all(&mut self) {
        for worker in 0..N_WORKERS {
            if let Some(session) = self.puppets[worker].session {
                self.puppets[worker].heartbeats += 1;
                let n = self.puppets[worker].heartbeats;
                self.world.say(
                    session,
                    FromWorker::Heartbeat {
                        n,
                        in_flight_hash: None,
                    },
                );
            }
        }
    }

    fn work(&mut self) {
        let worker = self.dice.roll(N_WORKERS as u64) as usize;
        let Some(session) = self.puppets[worker].session else {
            return;
        };
        let tokens: Vec<AttemptToken> = self.puppets[worker].has.keys().copied().collect();
        if tokens.is_empty() {
            return;
        }
        let token = tokens[self.dice.roll(tokens.len() as u64) as usize];
        match (self.puppets[worker].has[&token], self.dice.roll(8)) {
            (InFlightPhase::Received, 0) => {
                let rejected = vec![(token, RejectReason::NoCapacity)];
                self.world.say(
                    session,
                    FromWorker::AttemptAcks {
                        started: vec![],
                        rejected,
                        stopped: vec![],
                    },
                );
                self.puppets[worker].has.remove(&token);
            }
            (InFlightPhase::Received, _) => {
                self.world.started(session, token);
                self.puppets[worker].has.insert(token, InFlightPhase::Running);
            }
            (_, dice) => {
                let outcome = match dice {
                    0 => Outcome::Failed(Reported {
                        code: "FLAKY".into(),
                        message: "now and then".into(),
                        severity: None,
                        context: Opaque::default(),
                    }),
                    _ => Outcome::Completed {
                        output: Opaque::default(),
                        warnings: Vec::new(),
                    },
                };
                self.world.report(session, token, outcome.clone());
                self.puppets[worker].has.remove(&token);
                if dice == 1 {
                    self.world.report(session, token, outcome);
                }
            }
        }
    }

    /// Takes in what was sent, and checks what must hold whenever anything is sent.
    fn observe(&mut self) {
        self.unanswered.append(&mut self.world.writes);
        let closed: Vec<u64> = self.world.closed.drain(..).collect();
        for (session, message) in std::mem::take(&mut self.world.sent) {
            let worker = self
                .puppets
                .iter_mut()
                .find(|puppet| puppet.session == Some(session));
            match message {
                ToWorker::Assignments(items) => {
                    let Some(worker) = worker else { continue };
                    Self::take_work(worker, items);
                }
                ToWorker::Cancels(items) => {
                    let Some(worker) = worker else { continue };
                    let stopped: Vec<AttemptToken> = items.iter().map(|item| item.token).collect();
                    worker.has.retain(|token, _| !stopped.contains(token));
                    self.world.say(
                        session,
                        FromWorker::AttemptAcks {
                            started: vec![],
                            rejected: vec![],
                            stopped,
                        },
                    );
                }
                ToWorker::OutcomeAcks(items) => {
                    for (token, verdict) in items {
                        if verdict == AckVerdict::Accepted {
                            assert!(self.accepted.insert(token), "an outcome is accepted once");
                        }
                    }
                }
                _ => {}
            }
        }
        for session in closed {
            for puppet in self
                .puppets
                .iter_mut()
                .filter(|puppet| puppet.session == Some(session))
            {
                puppet.session = None;
                puppet.has.clear();
            }
        }
        let settled = &self.settled;
        self.waiting
            .retain(|caller| match self.world.replies.get(caller) {
                Some(Reply::Settled(persisted)) => {
                    assert!(
                        settled.contains(&persisted.result.execution_id),
                        "nothing is told before it is durable"
                    );
                    false
                }
                Some(Reply::Refused(_)) => false,
                Some(other) => panic!("a submission is settled or refused, not {other:?}"),
                None => true,
            });
    }

    fn take_work(worker: &mut Puppet, items: Vec<Assignment>) {
        for token in token_of(&items) {
            assert!(
                worker.has.insert(token, InFlightPhase::Received).is_none(),
                "each token is handed out once"
            );
        }
        assert!(
            worker.has.len() <= CAPACITY as usize,
            "in flight never exceeds the credits"
        );
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
                if let StoreWrite::Settle { settlement } = content {
                    assert!(
                        self.settled.insert(settlement.result.execution_id),
                        "an execution settles once"
                    );
                }
                self.world.input(Input::Stored {
                    write,
                    outcome: WriteOutcome::Durable,
                });
                self.observe();
            }
            if self.puppets.iter().all(|puppet| puppet.session.is_none()) {
                self.connect();
            }
            self.heartbeat_all();
            for _ in 0..8 {
                self.work();
                self.observe();
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

/// What left, and how many outcomes were accepted.
fn run(seed: u64) -> (Vec<String>, usize) {
    let mut run = Run::new(seed);
    for _ in 0..300 {
        run.step();
    }
    run.settle_everything();
    let mut log = std::mem::take(&mut run.world.log);
    for (caller, reply) in &run.world.replies {
        if let Reply::Settled(persisted) = reply {
            assert_eq!(
                persisted.result.status == Status::Success,
                persisted.result.error.is_none()
            );
            log.push(format!("{caller}: {persisted:?}"));
        }
    }
    run.world.input(Input::CallerGone(CallerId(u64::MAX)));
    assert_eq!(run.world.engine.live_executions(), 0);
    (log, run.accepted.len())
}

//
#[test]
fn everything_settles_once_whatever_happens() {
    // ESCAPEMENT_SEEDS=100000 for a campaign.
    let n_seeds = std::env::var("ESCAPEMENT_SEEDS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(150);
    let mut n_accepted = 0;
    for seed in 0..n_seeds {
        let outcome = std::panic::catch_unwind(|| run(seed));
        n_accepted += outcome.unwrap_or_else(|_| panic!("seed {seed} fails")).1;
    }
    assert!(
        n_accepted > 20 * n_seeds as usize,
        "runs that do nothing prove nothing: {n_accepted} outcomes"
    );
}

//
#[test]
fn the_same_inputs_give_the_same_effects() {
    for seed in 0..10 {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
}
