//! Stories of many runs: who leaves the queue, whose time comes, what is written down together.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use escapement_model::opaque::{ListBuilder, StructBuilder};
use escapement_model::{ExecutionId, Opaque};
use escapement_run::ids::RunId;
use escapement_run::journal::OutcomeClass;
use escapement_run::outcome::{AttemptOutcome, value_of_object};
use escapement_run::plan::{self, Plan};
use escapement_run::presets::Preset;
use escapement_run::spec::{ActionProfile, EffectClass, Risk, Spec};
use escapement_run::{Blobs, Effect, Input, Run, ShownState};
use escapement_runs::{Config, Durable, NewRun, NotCreated, NotHandled, Runs, SNAPSHOT_BYTES_MAX, Work};

struct NoBlobs;

impl Blobs for NoBlobs {
    fn blob(&self, digest: &[u8; 32]) -> Bytes {
        panic!("nothing is that large: {digest:?}")
    }
}

/// Nothing is parked but by a test that says what is durable.
impl Durable for NoBlobs {
    fn blobs(&self) -> &dyn Blobs {
        self
    }

    fn fold(&self, run_id: RunId) -> Result<Run, String> {
        panic!("nothing is parked: {run_id}")
    }
}

const START: i64 = 1_763_700_000_000;

fn id(n: u8) -> RunId {
    RunId::from_random([n; 16])
}

/// Returns a plan of so many calls, one after another.
fn plan(n_calls: usize) -> Arc<Plan> {
    let mut steps = ListBuilder::new();
    for n in 0..n_calls {
        let config = StructBuilder::new().text("tool_name", "pure.work").build();
        let step = StructBuilder::new()
            .text("key", &format!("s{n}"))
            .text("type", "tool_call")
            .object("config", config.as_encoded());
        steps = steps.object(step.build().as_encoded());
    }
    let document = StructBuilder::new()
        .text("schema", "escapement.plan/1")
        .text("name", "Story")
        .list("steps", steps);
    Arc::new(plan::read(&document.build()).unwrap())
}

fn new(n: u8, priority: u32) -> NewRun {
    let profile = ActionProfile {
        action: "pure.work".to_owned(),
        effect: EffectClass::Pure.into(),
        risk: Risk::Safe.into(),
        ..ActionProfile::default()
    };
    NewRun {
        run_id: id(n),
        spec: Spec {
            limits: Preset::Standard.limits(1),
            policy: Preset::Standard.policy(),
            autonomy_level: 4,
            priority,
            user_id: "ada".to_owned(),
            ..Spec::default()
        },
        plan: plan(2),
        profiles: vec![profile],
    }
}

fn runs(max_live_runs: usize) -> Runs {
    Runs::new(Config {
        max_live_runs,
        max_runs: 100,
    })
}

fn names(works: &[Work]) -> Vec<RunId> {
    works.iter().map(|work| work.run_id).collect()
}

/// Returns the only attempt of the run completes.
fn complete(runs: &mut Runs, effects: Vec<Effect>, n: u8, now: i64) -> Work {
    let [Effect::Submit { execution_id, .. }] = &effects[..] else {
        panic!("{effects:?}");
    };
    complete_with(runs, *execution_id, &Opaque::default(), n, now)
}

fn complete_with(runs: &mut Runs, execution_id: ExecutionId, output: &Opaque, n: u8, now: i64) -> Work {
    let outcome = AttemptOutcome {
        class: OutcomeClass::Completed,
        output: Some(value_of_object(output)),
        code: String::new(),
        message: String::new(),
        pause: false,
        ..AttemptOutcome::default()
    };
    let input = Input::Settled {
        execution_id,
        outcome,
    };
    runs.handle(id(n), input, now, &NoBlobs).unwrap().unwrap()
}

// RUN-2.4
#[test]
fn the_highest_priority_is_admitted_first_then_the_oldest() {
    let mut runs = runs(2);
    for (n, priority, at) in [(1, 5, 0), (2, 5, 1), (3, 9, 2), (4, 5, 3)] {
        runs.create(new(n, priority), START + at, &NoBlobs).unwrap();
    }
    let admitted = runs.admit(START + 10, 10, &NoBlobs);
    assert_eq!(names(&admitted), [id(3), id(1)]);
    assert_eq!((runs.n_under_way(), runs.n_queued()), (2, 2));
    assert!(runs.admit(START + 10, 10, &NoBlobs).is_empty());
    let mut effects = admitted.into_iter().map(Work::persisted);
    let first = complete(&mut runs, effects.next().unwrap(), 3, START + 11);
    complete(&mut runs, first.persisted(), 3, START + 12);
    assert_eq!(names(&runs.admit(START + 13, 10, &NoBlobs)), [id(2)]);
}

// RUN-2.3
#[test]
fn a_run_that_ended_is_let_go_of() {
    let mut runs = runs(1);
    runs.create(new(1, 5), START, &NoBlobs).unwrap();
    let admitted = runs.admit(START, 10, &NoBlobs).remove(0);
    let first = complete(&mut runs, admitted.persisted(), 1, START + 1);
    assert_eq!(first.index.state, ShownState::Running);
    let last = complete(&mut runs, first.persisted(), 1, START + 2);
    assert_eq!(
        (last.index.state, last.index.due_at),
        (ShownState::Completed, None)
    );
    assert_eq!((runs.len(), runs.due_at(), runs.n_under_way()), (0, None, 0));
    let late = runs.handle(id(1), Input::Time, START + 3, &NoBlobs).unwrap_err();
    assert_eq!(late, NotHandled::NotLive);
}

#[test]
fn a_run_is_made_once_and_there_are_not_too_many() {
    let mut runs = Runs::new(Config {
        max_live_runs: 1,
        max_runs: 2,
    });
    runs.create(new(1, 5), START, &NoBlobs).unwrap();
    assert_eq!(
        runs.create(new(1, 5), START, &NoBlobs).unwrap_err(),
        NotCreated::Exists
    );
    runs.create(new(2, 5), START, &NoBlobs).unwrap();
    assert_eq!(
        runs.create(new(3, 5), START, &NoBlobs).unwrap_err(),
        NotCreated::Full
    );
}

// RUN-7.5
#[test]
fn times_come_in_order_and_a_bounded_number_at_once() {
    let mut runs = runs(10);
    for n in 1..=3 {
        let mut run = new(n, 5);
        run.spec.limits.lifetime_ms = u64::from(10 - n) * 1000;
        runs.create(run, START, &NoBlobs).unwrap();
    }
    assert_eq!(runs.due_at(), Some(START + 7000));
    assert!(runs.time(START + 6999, 10, &NoBlobs).is_empty());
    assert_eq!(names(&runs.time(START + 9000, 2, &NoBlobs)), [id(3), id(2)]);
    assert_eq!(names(&runs.time(START + 9000, 2, &NoBlobs)), [id(1)]);
    assert!(runs.is_empty());
}

// RUN-2.4, RUN-7.5
#[test]
fn a_queued_run_whose_life_is_over_ends_and_is_not_admitted() {
    let mut runs = runs(1);
    let mut short = new(1, 9);
    short.spec.limits.lifetime_ms = 1;
    runs.create(short, START, &NoBlobs).unwrap();
    runs.create(new(2, 5), START, &NoBlobs).unwrap();
    let works = runs.admit(START + 1, 10, &NoBlobs);
    assert_eq!(names(&works), [id(1), id(2)]);
    assert_eq!((runs.n_under_way(), runs.n_queued()), (1, 0));
}

// RUN-8.1
#[test]
fn a_run_that_is_held_paused_or_waits_for_a_child_takes_no_place() {
    let mut runs = runs(1);
    runs.create(new(1, 9), START, &NoBlobs).unwrap();
    runs.create(new(2, 5), START, &NoBlobs).unwrap();
    let pause = Input::Pause {
        reason: String::new(),
    };
    runs.handle(id(1), pause, START, &NoBlobs).unwrap();
    assert_eq!(names(&runs.admit(START, 10, &NoBlobs)), [id(2)]);
    let resume = Input::Resume {
        reason: String::new(),
    };
    runs.handle(id(1), resume, START, &NoBlobs).unwrap();
    assert_eq!((runs.n_queued(), runs.n_under_way()), (1, 1));
    let cancel = Input::Cancel {
        reason: "user".to_owned(),
    };
    runs.handle(id(2), cancel, START, &NoBlobs).unwrap();
    assert_eq!(names(&runs.admit(START, 10, &NoBlobs)), [id(1)]);
}

// RUN-9.3, RUN-9.4
#[test]
fn what_is_written_down_is_enough_to_go_on_elsewhere() {
    let mut runs_before = runs(1);
    let created = runs_before.create(new(1, 5), START, &NoBlobs).unwrap();
    assert_eq!((created.first_sequence, created.entries.len()), (1, 2));
    let admitted = runs_before.admit(START, 10, &NoBlobs).remove(0);
    assert_eq!(admitted.first_sequence, 3);
    let sent = admitted.persisted();
    let state = runs_before.get(id(1), &NoBlobs).unwrap().state().clone();
    let mut runs_after = runs(1);
    runs_after.recover(id(1), Run::from_snapshot(state, plan(2)));
    let recovered = runs_after
        .handle(id(1), Input::Recovered, START + 5, &NoBlobs)
        .unwrap()
        .unwrap();
    assert_eq!(recovered.persisted(), sent);
    assert_eq!(runs_after.n_under_way(), 1);
}

/// Runs as their journals have them; one that is not here is damaged.
struct Folded(BTreeMap<RunId, Run>);

impl Durable for Folded {
    fn blobs(&self) -> &dyn Blobs {
        &NoBlobs
    }

    fn fold(&self, run_id: RunId) -> Result<Run, String> {
        self.0.get(&run_id).cloned().ok_or("it is damaged".to_owned())
    }
}

/// Three runs, of which the second is under way.
fn three_runs() -> (Runs, Folded) {
    let mut runs = runs(1);
    for (n, priority) in [(1, 5), (2, 9), (3, 5)] {
        runs.create(new(n, priority), START, &NoBlobs).unwrap();
    }
    runs.admit(START, 10, &NoBlobs);
    let folded = |n| (id(n), runs.in_memory(id(n)).unwrap().clone());
    let folded = Folded([1, 2, 3].map(folded).into());
    (runs, folded)
}

// RUN-9.9
#[test]
fn what_rests_is_parked_the_longest_first_and_what_is_under_way_never() {
    let (mut runs, durable) = three_runs();
    let in_memory = |runs: &Runs| [1, 2, 3].map(|n| runs.in_memory(id(n)).is_some());
    assert_eq!(runs.park(1, usize::MAX), 1);
    assert_eq!(in_memory(&runs), [false, true, true]);
    assert_eq!(runs.park(1, usize::MAX), 0);
    // What is needed rests anew.
    runs.get(id(1), &durable).unwrap();
    assert_eq!(runs.park(1, usize::MAX), 1);
    assert_eq!(in_memory(&runs), [true, true, false]);
    assert_eq!(runs.park(usize::MAX, 0), 1);
    assert_eq!(in_memory(&runs), [false, true, false]);
}

// RUN-9.9
#[test]
fn a_run_that_was_parked_goes_on_as_one_that_was_not() {
    let ((mut parked, durable), (mut other, _)) = (three_runs(), three_runs());
    parked.park(0, 0);
    assert_eq!(
        (parked.len(), parked.n_queued(), parked.due_at()),
        (other.len(), other.n_queued(), other.due_at())
    );
    let pause = || Input::Pause {
        reason: "later".to_owned(),
    };
    let mut went_on = Vec::new();
    for runs in [&mut parked, &mut other] {
        let cancel = Input::Cancel {
            reason: "user".to_owned(),
        };
        let cancelled = runs.handle(id(2), cancel, START + 1, &durable).unwrap().unwrap();
        let paused = runs.handle(id(3), pause(), START + 2, &durable).unwrap().unwrap();
        let mut works = vec![cancelled, paused];
        works.extend(runs.admit(START + 3, 10, &durable));
        works.extend(runs.time(i64::MAX, 1, &durable));
        went_on.push(format!("{works:?}"));
    }
    assert_eq!(went_on[0], went_on[1]);
}

// RUN-9.9
#[test]
fn a_parked_run_that_cannot_be_folded_is_set_aside_and_harms_no_other() {
    let (mut runs, mut durable) = three_runs();
    durable.0.remove(&id(1));
    runs.park(0, 0);
    let cancel = Input::Cancel {
        reason: "user".to_owned(),
    };
    runs.handle(id(2), cancel, START + 1, &durable).unwrap();
    assert_eq!(names(&runs.admit(START + 2, 10, &durable)), [id(3)]);
    let [lost] = &runs.take_lost()[..] else {
        panic!("one is lost")
    };
    assert_eq!((lost.run_id, lost.why.as_str()), (id(1), "it is damaged"));
    assert_eq!((runs.len(), runs.n_queued()), (1, 0));
}

#[test]
fn a_snapshot_is_due_after_256_entries() {
    let mut runs = runs(1);
    let mut run = new(1, 5);
    run.spec.limits.run_ms = u64::MAX;
    runs.create(run, START, &NoBlobs).unwrap();
    let mut snapshots = Vec::new();
    for n in 0..300 {
        let data = StructBuilder::new().number("n", f64::from(n)).build();
        let work = runs
            .handle(id(1), Input::Checkpoint { data }, START, &NoBlobs)
            .unwrap()
            .unwrap();
        snapshots.extend(work.snapshot.map(|_| work.first_sequence));
    }
    assert_eq!(snapshots, [256]);
}

#[test]
fn a_run_goes_on_although_its_state_is_too_large_for_a_snapshot() {
    let mut runs = runs(1);
    let mut run = new(1, 5);
    run.plan = plan(600);
    run.spec.limits.run_ms = u64::MAX;
    runs.create(run, START, &NoBlobs).unwrap();
    // Each is kept in place.
    let output = StructBuilder::new().text("text", &"x".repeat(32_000)).build();
    let mut effects = runs.admit(START, 10, &NoBlobs).remove(0).persisted();
    let mut snapshots = Vec::new();
    while let [Effect::Submit { execution_id, .. }] = &effects[..] {
        let mut work = complete_with(&mut runs, *execution_id, &output, 1, START);
        snapshots.extend(work.snapshot.take().map(|bytes| bytes.len()));
        let is_end = work.index.due_at.is_none();
        effects = work.persisted();
        assert_eq!(is_end, effects.is_empty());
    }
    assert!(runs.is_empty(), "it completed");
    assert!(snapshots.len() > 1);
    assert!(
        snapshots.iter().all(|n_bytes| *n_bytes <= SNAPSHOT_BYTES_MAX),
        "{snapshots:?}"
    );
}
