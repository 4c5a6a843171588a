//! Whose turn it is among namespaces, and what each may take.

use crate::dice::Dice;
use crate::plans::PlanBuilder;
use crate::world::{WaitFor, World, plan};
use escapement_engine::{ExplainAnswer, Input, NamespaceKey, NamespaceShare, Refusal, StoreWrite};
use escapement_model::{AttemptToken, ExecutionId};
use std::collections::BTreeMap;

const BUSY: u64 = 999_999;

/// Returns the namespace of a plan by its number: the thousands.
fn namespace_of(n: u64) -> NamespaceKey {
    NamespaceKey(n / 1_000)
}

fn share(namespace: u64, weight: u32) -> NamespaceShare {
    NamespaceShare {
        weight,
        ..NamespaceShare::of(NamespaceKey(namespace))
    }
}

fn run(world: &mut World, n: u64) -> ExecutionId {
    run_as(world, n, plan(n, &["a"]))
}

fn run_as(world: &mut World, n: u64, plan: PlanBuilder) -> ExecutionId {
    world.namespace = namespace_of(n);
    world.run(n, plan)
}

/// One slot, which is busy, and a worker; `queued_in_memory_max` requests wait in memory.
fn busy(queued_in_memory_max: usize, shares: Vec<NamespaceShare>) -> World {
    let mut world = World::with(|config| {
        config.max_running_executions = 1;
        config.queued_in_memory_max = queued_in_memory_max;
    });
    world.input(Input::ShareOut(shares));
    world.worker(1, 64, &["a"]);
    world.namespace = NamespaceKey(BUSY);
    world.run(BUSY, plan(BUSY, &["a"]));
    world
}

/// Returns the numbers of the plans that are served next, one after the other.
fn serve(world: &mut World, n: usize) -> Vec<u64> {
    let number = |name: String| name["plan ".len()..].parse().unwrap();
    world.serve(n).into_iter().map(number).collect()
}

fn count_of(served: &[u64], namespace: u64) -> usize {
    served
        .iter()
        .filter(|n| namespace_of(**n) == NamespaceKey(namespace))
        .count()
}

//
#[test]
fn under_backlog_namespaces_start_by_their_weights_wherever_they_wait() {
    let mut orders = Vec::new();
    for in_memory_max in [1, 2, 7, 10_000] {
        let mut world = busy(in_memory_max, vec![share(1, 1), share(2, 3)]);
        for n in 0..80 {
            run(&mut world, 1_000 + n);
        }
        for n in 0..80 {
            run(&mut world, 2_000 + n);
        }
        let served = serve(&mut world, 81);
        for (from, until) in [(1, 41), (41, 81), (5, 25)] {
            let (light, heavy) = (
                count_of(&served[from..until], 1),
                count_of(&served[from..until], 2),
            );
            let third = (until - from) / 4;
            assert!(
                light.abs_diff(third) <= 1,
                "{in_memory_max} in memory: {light} to {heavy}"
            );
        }
        for namespace in [1, 2] {
            let own: Vec<_> = served.iter().filter(|n| **n / 1_000 == namespace).collect();
            assert!(own.is_sorted(), "first come, first served within a namespace");
        }
        orders.push(served);
    }
    assert!(
        orders.windows(2).all(|pair| pair[0] == pair[1]),
        "what waits in the store alone has its turn as if it waited in memory"
    );
}

//
#[test]
fn a_namespace_whose_next_request_is_still_being_read_keeps_its_turn() {
    let mut world = busy(1, vec![]);
    world.loader_answers = false;
    run(&mut world, 1_000);
    let parked = run(&mut world, 2_000);
    serve(&mut world, 1);
    assert_eq!(
        world.loads,
        [parked],
        "the other one starts, and this one is read"
    );
    run(&mut world, 3_000);
    assert_eq!(serve(&mut world, 1), [1_000]);
    assert!(
        world.assignments(1).is_empty(),
        "the third waits in memory, and does not pass"
    );
    let loaded = world.loaded(parked);
    world.loader_answers = true;
    world.input(loaded);
    assert_eq!(serve(&mut world, 2), [2_000, 3_000]);
}

//
#[test]
fn who_had_nothing_to_start_has_saved_up_nothing_and_owes_nothing() {
    let mut world = busy(2, vec![]);
    for n in 0..40 {
        run(&mut world, 1_000 + n);
    }
    serve(&mut world, 21);
    for n in 0..10 {
        run(&mut world, 2_000 + n);
    }
    // One of the first has the slot already.
    let served = serve(&mut world, 11);
    assert_eq!(count_of(&served[1..], 2), 5, "{served:?}");
    // Handing in one at a time is no way around one's share.
    serve(&mut world, 10);
    let mut served = Vec::new();
    for n in 0..5 {
        run(&mut world, 3_000 + n);
        served.extend(serve(&mut world, 1));
    }
    assert!(count_of(&served, 3) <= 3, "{served:?}");
}

//
#[test]
fn a_higher_priority_goes_first_within_its_namespace_alone() {
    let mut world = busy(10, vec![]);
    for n in [1_000, 1_001, 2_000, 2_001] {
        run(&mut world, n);
    }
    run_as(&mut world, 2_002, plan(2_002, &["a"]).priority(9));
    assert_eq!(
        serve(&mut world, 6)[1..],
        [2_002, 1_000, 1_001, 2_000, 2_001],
        "the first places decide who is first among namespaces whose turns are equal"
    );
}

//
#[test]
fn a_namespace_at_its_limit_of_running_executions_waits_and_others_pass() {
    for in_memory_max in [1, 10_000] {
        let mut world = World::with(|config| {
            config.max_running_executions = 4;
            config.queued_in_memory_max = in_memory_max;
        });
        let quota = NamespaceShare {
            max_running_executions: Some(2),
            ..share(1, 1000)
        };
        world.input(Input::ShareOut(vec![quota]));
        world.worker(1, 64, &["a"]);
        let ids: Vec<_> = (0..6).map(|n| run(&mut world, 1_000 + n)).collect();
        let started = world.assignments(1);
        assert_eq!(started.len(), 2, "the others wait, though there are slots");
        let ExplainAnswer::Live(explained) = world.ask(|caller| Input::Explain {
            caller,
            execution_id: ids[2],
        }) else {
            panic!("the next is kept in memory");
        };
        let facts = &explained.explanation.execution;
        assert_eq!(facts.rules(), ["R-2.17", "R-3.2"]);
        assert!(
            facts
                .describe()
                .starts_with("Waits for its namespace: 2 of 2 of its executions run"),
            "{}",
            facts.describe()
        );
        run(&mut world, 2_000);
        run(&mut world, 2_001);
        run(&mut world, 2_002);
        let others = world.assignments(1);
        let names: Vec<_> = others.iter().map(|one| one.request.plan().name()).collect();
        assert_eq!(
            names,
            ["plan 2000", "plan 2001"],
            "they pass, up to the limit of all"
        );
        world.complete(1, others[0].token);
        assert_eq!(world.one_assignment(1).request.plan().name(), "plan 2002");
        world.complete(1, started[0].token);
        assert_eq!(world.one_assignment(1).request.plan().name(), "plan 1002");
        // Without a limit of its own it takes what there is.
        world.input(Input::ShareOut(vec![]));
        world.complete(1, others[1].token);
        assert_eq!(world.one_assignment(1).request.plan().name(), "plan 1003");
    }
}

//
#[test]
fn a_namespace_at_its_limit_of_live_executions_is_refused_more_and_no_other_is() {
    let mut world = World::with(|config| {
        config.max_running_executions = 1;
        config.queued_in_memory_max = 1;
    });
    let quota = NamespaceShare {
        max_live_executions: Some(4),
        ..share(1, 1)
    };
    world.input(Input::ShareOut(vec![quota]));
    world.worker(1, 64, &["a"]);
    let parent = run(&mut world, 1_000);
    for n in 1..=2 {
        run_as(&mut world, 1_000 + n, plan(1_000 + n, &["a"]).id(n));
    }
    // What is nested counts, and passes the queue.
    let assignment = world.one_assignment(1);
    world.started(1, assignment.token);
    run_as(&mut world, 1_003, plan(1_003, &["a"]).parent(parent));
    assert_eq!(world.one_assignment(1).request.plan().name(), "plan 1003");
    run(&mut world, 1_004);
    let refused = Refusal::NamespaceQuota {
        max_live_executions: 4,
    };
    assert_eq!(world.refusal(1_004), Some(refused));
    // The same request attaches, in memory and parked.
    for (caller, n) in [(11, 1), (12, 2)] {
        let same = plan(1_000 + n, &["a"]).id(n).build();
        world.submit(caller, &same, WaitFor::Settled);
        assert!(!world.replies.contains_key(&caller));
    }
    run(&mut world, 2_000);
    assert!(!world.replies.contains_key(&2_000), "another namespace has room");
    // A lower limit takes back nothing that was accepted.
    world.input(Input::ShareOut(vec![NamespaceShare {
        max_live_executions: Some(1),
        ..quota
    }]));
    world.complete(1, assignment.token);
    let mut served = serve(&mut world, 3);
    served.sort_unstable();
    assert_eq!(served, [1_001, 1_002, 2_000]);
}

//
#[test]
fn other_weights_hold_from_the_next_start_on_and_nothing_is_lost() {
    let mut world = busy(3, vec![share(1, 1), share(2, 3)]);
    for n in 0..100 {
        run(&mut world, 1_000 + n);
        run(&mut world, 2_000 + n);
    }
    let before = serve(&mut world, 41);
    assert!(count_of(&before[1..], 1).abs_diff(10) <= 1);
    world.input(Input::ShareOut(vec![share(1, 3)]));
    let after = serve(&mut world, 40);
    assert!(
        count_of(&after, 1).abs_diff(30) <= 1,
        "the second has weight 1 now, since nothing is said of it: {after:?}"
    );
    let rest = serve(&mut world, 120);
    assert_eq!(
        count_of(&rest, 1) + count_of(&after, 1) + count_of(&before, 1),
        100
    );
}

//
#[test]
fn in_any_world_shares_and_limits_are_kept() {
    for seed in 0..60 {
        Judged::new(seed).live();
    }
}

/// A world of some namespaces and what an onlooker knows of it.
struct Judged {
    dice: Dice,
    world: World,
    shares: BTreeMap<u64, (u32, usize)>,
    waiting: BTreeMap<u64, Vec<(i32, u64)>>,
    /// The number of each plan that was handed in.
    numbers: BTreeMap<ExecutionId, u64>,
    running: Vec<u64>,
    tokens: BTreeMap<u64, AttemptToken>,
    /// Of each pair of namespaces: how far the first is ahead since both began to wait, and the least and the most of that.
    ahead: BTreeMap<(u64, u64), [i64; 3]>,
    n_slots: usize,
    /// The store takes its time to read.
    reads_slowly: bool,
    last: u64,
}

impl Judged {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let n_slots = 1 + dice.roll(4) as usize;
        let in_memory_max = [1, 2, 5, 1_000][dice.roll(4) as usize];
        let mut world = World::with(|config| {
            config.max_running_executions = n_slots;
            config.queued_in_memory_max = in_memory_max;
        });
        world.worker(1, 64, &["a"]);
        let reads_slowly = dice.roll(2) == 0;
        world.loader_answers = !reads_slowly;
        let mut judged = Self {
            dice,
            world,
            shares: BTreeMap::new(),
            waiting: BTreeMap::new(),
            numbers: BTreeMap::new(),
            running: Vec::new(),
            tokens: BTreeMap::new(),
            ahead: BTreeMap::new(),
            n_slots,
            reads_slowly,
            last: 0,
        };
        judged.share_out();
        judged
    }

    fn share_out(&mut self) {
        let mut shares = Vec::new();
        for namespace in 1..=4 {
            let weight = [1, 1, 2, 3, 10][self.dice.roll(5) as usize];
            let limit = [1, 2, 99, 99][self.dice.roll(4) as usize];
            self.shares.insert(namespace, (weight, limit));
            shares.push(NamespaceShare {
                max_running_executions: (limit < 99).then_some(limit as u32),
                ..share(namespace, weight)
            });
        }
        self.ahead.clear();
        self.world.input(Input::ShareOut(shares));
        self.look();
    }

    fn live(mut self) {
        for _ in 0..300 {
            match self.dice.roll(40) {
                0 => self.share_out(),
                1..=20 => self.hand_in(),
                21..=25 => self.read_some(),
                _ => self.end_one(),
            }
        }
        while !self.running.is_empty() || self.is_reading() {
            self.read_some();
            self.end_one();
        }
        assert!(
            self.waiting.values().all(Vec::is_empty),
            "everything had its turn"
        );
    }

    fn hand_in(&mut self) {
        let namespace = 1 + self.dice.roll(4);
        self.last += 1;
        let (n, priority) = (namespace * 1_000 + self.last, self.dice.roll(3) as i32);
        let place = (-priority, n);
        self.waiting.entry(namespace).or_default().push(place);
        let id = run_as(&mut self.world, n, plan(n, &["a"]).priority(priority).id(n));
        self.numbers.insert(id, n);
        self.look();
    }

    fn is_reading(&self) -> bool {
        self.reads_slowly && !self.world.loads.is_empty()
    }

    /// The store answers one that it was asked for, not always the first.
    fn read_some(&mut self) {
        if self.is_reading() {
            let at = self.dice.roll(self.world.loads.len() as u64) as usize;
            let execution_id = self.world.loads.remove(at);
            let loaded = self.world.loaded(execution_id);
            self.world.input(loaded);
            self.look();
        }
    }

    fn end_one(&mut self) {
        if self.running.is_empty() {
            return;
        }
        let at = self.dice.roll(self.running.len() as u64) as usize;
        let token = self.tokens.remove(&self.running.remove(at));
        self.world.complete(1, token.unwrap());
        self.look();
    }

    /// Judges what has started, and what did not though it could.
    fn look(&mut self) {
        for assignment in self.world.assignments(1) {
            let n = self.numbers[&assignment.execution_id];
            self.tokens.insert(n, assignment.token);
        }
        for (_, write) in std::mem::take(&mut self.world.writes) {
            let execution_id = match write {
                StoreWrite::Start { execution_id, .. } => execution_id,
                StoreWrite::Accept {
                    execution_id,
                    started_at: Some(_),
                    ..
                } => execution_id,
                _ => continue,
            };
            let n = self.numbers[&execution_id];
            let namespace = n / 1_000;
            self.note_waiting();
            let waiting = self.waiting.get_mut(&namespace).unwrap();
            waiting.sort_unstable();
            let (_, first) = waiting.remove(0);
            assert_eq!(first, n, "within a namespace by priority, then age");
            self.running.push(n);
            assert!(
                self.n_running(namespace) <= self.shares[&namespace].1,
                "more run than may"
            );
            self.note_start(namespace);
        }
        self.note_waiting();
        let could = (1..=4).find(|namespace| self.could_start(*namespace));
        assert!(
            self.running.len() == self.n_slots || could.is_none() || self.is_reading(),
            "a slot is free and {could:?} could use it"
        );
    }

    fn n_running(&self, namespace: u64) -> usize {
        self.running.iter().filter(|n| **n / 1_000 == namespace).count()
    }

    fn could_start(&self, namespace: u64) -> bool {
        let waits = self
            .waiting
            .get(&namespace)
            .is_some_and(|waiting| !waiting.is_empty());
        waits && self.n_running(namespace) < self.shares[&namespace].1
    }

    fn note_waiting(&mut self) {
        let could: Vec<u64> = (1..=4).filter(|one| self.could_start(*one)).collect();
        let both = |one: &u64, other: &u64| could.contains(one) && could.contains(other);
        self.ahead.retain(|(one, other), _| both(one, other));
        for one in &could {
            for other in could.iter().filter(|other| *other > one) {
                self.ahead.entry((*one, *other)).or_default();
            }
        }
    }

    fn note_start(&mut self, namespace: u64) {
        let weight = |namespace: &u64| i64::from(self.shares[namespace].0);
        for ((one, other), [ahead, least, most]) in &mut self.ahead {
            *ahead += match namespace {
                by if by == *one => weight(other),
                by if by == *other => -weight(one),
                _ => 0,
            };
            (*least, *most) = ((*least).min(*ahead), (*most).max(*ahead));
            assert!(
                *most - *least <= weight(one) + weight(other),
                "{one} and {other} are further apart than one start of each"
            );
        }
    }
}
