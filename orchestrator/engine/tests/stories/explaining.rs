//! Why executions and steps wait: their places among others, and nothing that is not durable.

use crate::world::{WaitFor, World, action, plan};
use escapement_contract::{
    AdmissionFacts, COUNTED_MAX, ExecutionReason, QueueFacts, StepFacts, StepReason, StepState, WorkerFacts,
};
use escapement_engine::{ExplainAnswer, Explained, FromWorker, Input, WriteFailure, WriteOutcome};
use escapement_model::ExecutionId;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// The rules that there are.
static RULES: LazyLock<BTreeSet<&str>> = LazyLock::new(|| {
    let lines = include_str!("../../../contract/CONTRACT.md").lines();
    lines
        .filter_map(|line| Some(line.strip_prefix("**")?.split_once("**")?.0))
        .collect()
});

pub fn ask(world: &mut World, execution_id: ExecutionId) -> ExplainAnswer {
    let answer = world.ask(|caller| Input::Explain { caller, execution_id });
    world.log.pop();
    answer
}

fn explain(world: &mut World, execution_id: ExecutionId) -> Explained {
    match ask(world, execution_id) {
        ExplainAnswer::Live(explained) => *explained,
        other => panic!("what is live is explained, not {other:?}"),
    }
}

fn step(world: &mut World, execution_id: ExecutionId, position: usize) -> StepFacts {
    explain(world, execution_id)
        .explanation
        .steps
        .swap_remove(position)
}

fn words(world: &mut World, execution_id: ExecutionId, position: usize) -> String {
    let explained = explain(world, execution_id);
    explained.explanation.steps[position].describe(explained.request.plan())
}

fn execution_words(world: &mut World, execution_id: ExecutionId) -> String {
    explain(world, execution_id).explanation.execution.describe()
}

fn queue(facts: &StepFacts) -> QueueFacts {
    match &facts.why {
        StepReason::Waiting {
            queue: Some(queue), ..
        } => *queue,
        other => panic!("it waits for a worker: {other:?}"),
    }
}

/// Judges explanations against a model of the queues that knows nothing of the engine, and counts what they show.
#[derive(Default)]
pub struct Judge {
    /// In the order of submission.
    live: Vec<ExecutionId>,
    seen: BTreeMap<&'static str, usize>,
}

impl Judge {
    pub fn submitted(&mut self, execution_id: ExecutionId) {
        self.live.push(execution_id);
    }

    /// Explains everything that is live. `queued`: what waits for its admission, by place.
    pub fn look<P: Ord>(
        &mut self,
        world: &mut World,
        queued: &BTreeMap<ExecutionId, P>,
        settled: &BTreeSet<ExecutionId>,
    ) {
        self.live.retain(|id| !settled.contains(id));
        let mut waiting = Vec::new();
        let ids = std::mem::take(&mut self.live);
        for (age, execution_id) in ids.into_iter().enumerate() {
            let before = queued
                .get(&execution_id)
                .map(|place| queued.values().filter(|other| *other < place).count() as u64);
            let facts = match ask(world, execution_id) {
                ExplainAnswer::Live(explained) => {
                    self.judge_steps(&explained, age, &mut waiting);
                    explained.explanation.execution
                }
                ExplainAnswer::Parked(parked) => {
                    self.note("parked");
                    parked.execution
                }
                ExplainAnswer::NotLive => {
                    self.note("not live");
                    // It may be about to be accepted; what has settled is explained by the store.
                    if queued.contains_key(&execution_id) {
                        panic!("what waits is explained");
                    }
                    self.live.push(execution_id);
                    continue;
                }
            };
            check_words(&facts.describe(), &facts.rules());
            match (&facts.why, before) {
                (ExecutionReason::Queued(Some(admission)), Some(before)) => {
                    assert_eq!(admission.n_before, before, "its place in the queue");
                    self.note("queued");
                }
                (ExecutionReason::Starting(_), None) => self.note("starting"),
                (ExecutionReason::Running { .. }, None) => self.note("running"),
                (ExecutionReason::Settling { .. }, None) => self.note("settling"),
                (why, before) => panic!("{why:?} and {before:?} do not fit"),
            }
            self.live.push(execution_id);
        }
        // one queue for the one action, by priority, age and canonical order.
        waiting.sort();
        for (expected, (_, n_before)) in waiting.iter().enumerate() {
            assert_eq!(*n_before, expected as u64, "its place in the queue of the action");
        }
    }

    fn judge_steps(&mut self, explained: &Explained, age: usize, waiting: &mut Vec<(WaitingPlace, u64)>) {
        let plan = explained.request.plan();
        for (position, facts) in explained.explanation.steps.iter().enumerate() {
            check_words(&facts.describe(plan), &facts.rules());
            let mut has_end = facts.ends_in_ms.is_some();
            let kind = match &facts.why {
                StepReason::Waiting { queue, .. } => {
                    let queue = queue.expect("its place is known");
                    assert_eq!(queue.n_slots_free, 0, "a free slot is taken at once");
                    waiting.push(((Reverse(plan.priority()), age, position), queue.n_before));
                    match queue.expires_in_ms {
                        None => "waiting, offered",
                        Some(left_ms) => {
                            assert!(queue.n_workers == 0 && facts.ends_in_ms.unwrap() <= left_ms);
                            "waiting, not offered"
                        }
                    }
                }
                StepReason::Assigned { worker, .. } => labelled("assigned", worker.as_ref()),
                StepReason::Started { worker, .. } => labelled("started", worker.as_ref()),
                StepReason::Held(_) => {
                    has_end = true;
                    "held"
                }
                StepReason::Completed { .. } | StepReason::NotCompleted { .. } => {
                    has_end = true;
                    "ended"
                }
                StepReason::AwaitsExecution { .. } => "awaits execution",
                StepReason::AwaitsDependencies { .. } => "awaits dependencies",
                StepReason::AwaitsTurn { .. } => "awaits turn",
                StepReason::BackingOff { .. } => "backing off",
                StepReason::Stopped { .. } => {
                    panic!("a live execution has stopped no step that may be shown")
                }
            };
            assert!(has_end, "no limit ends {facts:?}");
            self.note(kind);
        }
    }

    fn note(&mut self, kind: &'static str) {
        *self.seen.entry(kind).or_default() += 1;
    }

    fn add(&mut self, other: &Self) {
        for (kind, n) in &other.seen {
            *self.seen.entry(kind).or_default() += n;
        }
    }
}

type WaitingPlace = (Reverse<i32>, usize, usize);

fn labelled(kind: &'static str, worker: Option<&WorkerFacts>) -> &'static str {
    let worker = worker.expect("its worker is known");
    assert!(!worker.label.is_empty());
    match worker.vanishes_in_ms {
        None => kind,
        Some(_) if kind == "started" => "started, stream broken",
        Some(_) => "assigned, stream broken",
    }
}

fn check_words(words: &str, rules: &[&str]) {
    assert!(words.len() > 10 && words.ends_with('.'), "{words:?}");
    assert!(!rules.is_empty(), "{words:?} has no rule");
    assert!(rules.iter().all(|rule| RULES.contains(rule)), "{rules:?}");
}

//
#[test]
fn every_live_execution_is_explained_whatever_happens() {
    let mut all = Judge::default();
    for seed in 0..40 {
        let judge = std::panic::catch_unwind(|| crate::chaos::explained(seed));
        all.add(&judge.unwrap_or_else(|_| panic!("seed {seed} fails")));
    }
    let kinds = "not live; queued; parked; starting; running; settling; waiting, offered; \
        waiting, not offered; assigned; assigned, stream broken; started; \
        started, stream broken; held; ended; awaits execution; awaits turn";
    for kind in kinds.split("; ") {
        assert!(
            all.seen.get(kind).is_some_and(|n| *n > 10),
            "{kind} in {:?}",
            all.seen
        );
    }
}

//
#[test]
fn what_is_queued_says_who_is_before_it_whether_it_is_in_memory_or_not() {
    let mut world = World::with(|config| {
        config.max_running_executions = 1;
        config.queued_in_memory_max = 2;
    });
    world.worker(1, 0, &["a"]);
    let first = world.run(100, plan(100, &["a"]));
    let ids: Vec<ExecutionId> = (1..=5)
        .map(|n| {
            let request = plan(n, &["a"]).priority(if n == 5 { 1 } else { 0 }).build();
            world.submit(n, &request, WaitFor::Settled)
        })
        .collect();
    assert!(explain(&mut world, first).has_started);
    let mut parked = 0;
    for (id, n_before) in ids.iter().zip([1, 2, 3, 4, 0]) {
        let execution = match ask(&mut world, *id) {
            ExplainAnswer::Live(explained) => {
                assert!(!explained.has_started);
                assert!(explained.explanation.steps.iter().all(|facts| {
                    matches!(facts.why, StepReason::AwaitsExecution { .. }) && facts.rules() == ["R-9.3"]
                }));
                explained.explanation.execution
            }
            ExplainAnswer::Parked(facts) => {
                parked += 1;
                facts.execution
            }
            other => panic!("{other:?}"),
        };
        let expected = AdmissionFacts {
            held_back: None,
            n_before,
            n_running: 1,
            n_running_max: 1,
            quota: None,
            is_draining: false,
        };
        assert_eq!(execution.why, ExecutionReason::Queued(Some(expected)));
        assert_eq!(execution.ends_in_ms, Some(3_660_000));
        assert_eq!(execution.rules(), ["R-2.17", "R-3.2"]);
    }
    assert_eq!(parked, 3);
    assert_eq!(
        execution_words(&mut world, ids[0]),
        "Waits for its admission: 1 execution starts before it, 1 of 1 run. Its deadline ends it in 61 min at the \
         latest."
    );
    world.input(Input::Drain { grace_ms: 1_000 });
    assert_eq!(
        explain(&mut world, ids[0]).explanation.execution.rules(),
        ["R-9.7", "R-3.2"]
    );
}

//
#[test]
fn what_is_held_back_says_for_want_of_which_action_and_until_when() {
    let mut world = World::with(|config| config.queued_in_memory_max = 1);
    world.worker(1, 1, &["a", "b"]);
    world.run(8, plan(8, &["a", "b"]));
    let assignment = world.one_assignment(1);
    world.complete(1, assignment.token);
    world.close(1);
    world.pass(20_000);
    let first = world.run(1, plan(1, &["a"]));
    let second = world.run(2, plan(2, &["a"]));
    let both = plan(3, &["a", "b"]).at_a_time(2);
    let both = world.run(3, both);
    let words = |world: &mut World, id| match ask(world, id) {
        ExplainAnswer::Live(explained) => explained.explanation.execution.describe(),
        ExplainAnswer::Parked(facts) => facts.execution.describe(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        words(&mut world, first),
        "Held back: no live worker offers a since 20 s; it starts once one does. The action stays registered for 59 min, \
         and without a worker it ends with ACTION_NOT_FOUND then. Its deadline ends it in 61 min at the latest."
    );
    assert!(words(&mut world, second).contains(" 1 execution starts before it. "));
    assert!(words(&mut world, both).contains("offers a, or one of 1 other action since"));
    let held = explain(&mut world, first).explanation.execution;
    assert_eq!(held.rules(), ["R-2.17", "R-2.15", "R-3.2"]);
}

//
#[test]
fn what_is_not_accepted_yet_is_not_explained_and_what_starts_says_that_it_is_written() {
    let mut world = World::with(|config| config.max_running_executions = 1);
    world.worker(1, 1, &["a"]);
    world.run(1, plan(1, &["a"]));
    let next = world.run(2, plan(2, &["a"]));
    world.store_answers = false;
    world.writes.clear();
    let unknown = world.run(3, plan(3, &["a"]));
    assert!(matches!(ask(&mut world, unknown), ExplainAnswer::NotLive));
    let assignment = world.one_assignment(1);
    world.complete(1, assignment.token);
    world.answer_last(WriteOutcome::Durable);
    let explained = explain(&mut world, next);
    assert!(!explained.has_started, "its start is not durable");
    assert_eq!(
        explained.explanation.execution.describe(),
        "Its turn has come; no step is handed out before its start is durable. The plan's limit ends it in 60 s at \
         the latest."
    );
    assert_eq!(explained.explanation.execution.rules(), ["R-9.3", "R-3.3"]);
    world.answer_last(WriteOutcome::Failed(WriteFailure::Busy));
    let execution = explain(&mut world, next).explanation.execution;
    assert!(
        execution
            .describe()
            .contains("The write failed 1 time and is repeated.")
    );
    assert_eq!(execution.rules(), ["R-9.3", "R-3.3", "R-9.5"]);
}

//
#[test]
fn an_end_that_finds_no_space_is_not_told_and_the_want_of_space_is() {
    let mut world = World::new();
    world.worker(1, 2, &["a", "b"]);
    let request = plan(1, &["a", "b"]).at_a_time(2);
    let id = world.run(1, request);
    let assignments = world.assignments(1);
    world.started(1, assignments[0].token);
    world.store_answers = false;
    world.writes.clear();
    let failed = escapement_contract::Outcome::Failed(escapement_contract::Reported {
        code: "SECRET".into(),
        ..Default::default()
    });
    world.report(1, assignments[0].token, failed);
    world.answer_last(WriteOutcome::Failed(WriteFailure::Full));
    let explained = explain(&mut world, id);
    assert!(explained.has_started);
    let states: Vec<_> = explained
        .explanation
        .steps
        .iter()
        .map(|facts| facts.why.state())
        .collect();
    let [first, second] = [
        StepState::Started { attempt: 1 },
        StepState::Assigned { attempt: 1 },
    ];
    assert_eq!(states, [first, second], "as they were before the end");
    assert!(!format!("{:?}", explained.explanation).contains("SECRET"));
    assert_eq!(
        explained.explanation.execution.describe(),
        "Its end is being written; how it ends is told once that is durable. The store has no space for it; the write is \
         repeated until there is some."
    );
}

//
#[test]
fn a_step_whose_action_nobody_offers_says_how_long_it_waits_for_somebody() {
    let mut world = World::with(|config| config.registration_memory_ms = 10_000);
    world.worker(1, 0, &["fetch"]);
    let id = world.run(1, plan(1, &["fetch"]));
    world.close(1);
    world.pass(4_000);
    let facts = step(&mut world, id, 0);
    assert_eq!(
        (queue(&facts).expires_in_ms, facts.ends_in_ms),
        (Some(6_000), Some(6_000))
    );
    assert_eq!(facts.rules(), ["R-2.15", "R-2.14"]);
    assert_eq!(
        words(&mut world, id, 0),
        "No live worker offers fetch; once one does, this step comes first. Without one it ends with \
         ACTION_NOT_FOUND in 6000 ms."
    );
    world.worker(2, 0, &["fetch"]);
    let facts = step(&mut world, id, 0);
    assert_eq!(
        (queue(&facts).expires_in_ms, facts.ends_in_ms),
        (None, Some(56_000))
    );
    assert_eq!(
        words(&mut world, id, 0),
        "Waits for a free slot of fetch: 1 worker offers it with 0 slots free; this step comes first."
    );
    world.close(2);
    assert_eq!(queue(&step(&mut world, id, 0)).expires_in_ms, Some(10_000));
    world.pass(9_999);
    assert_eq!(step(&mut world, id, 0).ends_in_ms, Some(1));
    world.pass(1);
    assert_eq!(world.code(1), "ACTION_NOT_FOUND");
}

//
#[test]
fn a_step_that_runs_names_its_worker_and_when_that_counts_as_vanished() {
    let mut world = World::new();
    world.worker(1, 1, &["a"]);
    let id = world.run(1, plan(1, &["a"]));
    let assignment = world.one_assignment(1);
    assert_eq!(
        words(&mut world, id, 0),
        "Handed to worker worker-1, which has not said yet that the handler runs. A limit ends the attempt in 60 s \
         at the latest."
    );
    world.started(1, assignment.token);
    world.close(1);
    world.pass(1_000);
    assert_eq!(
        words(&mut world, id, 0),
        "Its handler runs at worker worker-1. A limit ends the attempt in 59 s at the latest. The worker's stream is \
         broken; it counts as vanished in 10 s unless it comes back."
    );
    world.pass(9_999);
    let StepReason::Started {
        worker: Some(worker), ..
    } = step(&mut world, id, 0).why
    else {
        panic!("it counts as running until then");
    };
    assert_eq!(worker.vanishes_in_ms, Some(1));
    world.pass(1);
    assert_eq!(world.code(1), "WORKER_LOST");
}

/// Who is served next, by the explanations of all.
fn served_next(world: &mut World, ids: &[ExecutionId], action: &str) -> Vec<(ExecutionId, usize)> {
    let mut next = Vec::new();
    for id in ids {
        let ExplainAnswer::Live(explained) = ask(world, *id) else {
            continue;
        };
        let plan = explained.request.plan();
        for facts in &explained.explanation.steps {
            let StepReason::Waiting {
                queue: Some(queue), ..
            } = facts.why
            else {
                continue;
            };
            if queue.n_before == 0 && plan.step(facts.step).action() == action {
                next.push((*id, facts.step.as_usize()));
            }
        }
    }
    next
}

//
#[test]
fn the_step_that_is_told_to_be_served_next_is_served_next() {
    let mut world = World::new();
    let mut ids = Vec::new();
    world.worker(1_000, 3, &["hold"]);
    let parent = plan(100, &["hold"; 3]).at_a_time(3);
    let parent = world.run(100, parent);
    for n in 1..=12 {
        let request = plan(n, &["a", "b", "a", "a"])
            .priority((n * 5 % 3) as i32)
            .draft(|draft| {
                draft.max_concurrent_steps = Some(1 + (n % 3) as i32);
                // Some are asked for by others, and wait at another depth.
                draft.parent_execution_id = (n % 4 == 0).then(|| parent.to_string());
            });
        ids.push(world.run(n, request));
    }
    let mut served = BTreeSet::new();
    let mut session = 0;
    while world.engine.live_executions() > 1 {
        assert!(session < 200, "everybody is served");
        for name in ["a", "b"] {
            let next = served_next(&mut world, &ids, name);
            assert!(next.len() <= 1, "one is the first: {next:?}");
            session += 1;
            world.worker(session, 1, &[name]);
            let assignments = world.assignments(session);
            let given: Vec<_> = assignments
                .iter()
                .map(|assignment| (assignment.execution_id, assignment.step.as_usize()))
                .collect();
            assert_eq!(given, next);
            served.extend(given);
            // It takes no other step.
            world.say(session, FromWorker::Drain);
            for assignment in assignments {
                world.complete(session, assignment.token);
            }
        }
    }
    assert_eq!(served.len(), 48);
}

//
#[test]
fn where_attempts_only_wait_each_depth_has_a_queue_of_its_own() {
    let mut world = World::new();
    let waiting = escapement_engine::ActionSpec {
        waits: true,
        max_in_flight: 1,
        ..action("run_plan")
    };
    world.hello(1, 1, 0, vec![waiting], Vec::new());
    world.worker(2, 1, &["call_plan"]);
    let steps = plan(1, &["run_plan", "call_plan"]).at_a_time(2);
    let parent = world.run(1, steps);
    let other = world.run(2, plan(2, &["run_plan"]));
    world.one_assignment(1);
    assert_eq!(queue(&step(&mut world, other, 0)).n_before, 0);
    let child = |n| plan(n, &["run_plan"]).parent(parent).build();
    world.submit(3, &child(3), WaitFor::Settled);
    let second_child = world.submit(4, &child(4), WaitFor::Settled);
    world.one_assignment(1);
    assert_eq!(
        queue(&step(&mut world, second_child, 0)).n_before,
        0,
        "other waits at another depth"
    );
}

#[test]
fn positions_are_counted_up_to_a_bound() {
    let mut world = World::with(|config| config.max_running_executions = 1_000);
    world.worker(1, 0, &["a"]);
    let actions = vec!["a"; 1_000];
    let mut last = None;
    for n in 1..=3 {
        let request = plan(n, &actions).at_a_time(1_000);
        last = Some(world.run(n, request));
    }
    let explained = explain(&mut world, last.unwrap());
    let places: Vec<u64> = explained
        .explanation
        .steps
        .iter()
        .map(|facts| queue(facts).n_before)
        .collect();
    assert!(places.iter().all(|n_before| *n_before == COUNTED_MAX));
    let words = explained.explanation.steps[7].describe(explained.request.plan());
    assert!(
        words.contains("1000 or more steps come before this one"),
        "{words}"
    );
}
