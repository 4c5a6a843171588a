//! Stories of runs that share a session: what one of them sees of the other, what is to be written, what users are told.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use escapement_model::opaque::{ListBuilder, StructBuilder, ValueView, value_of};
use escapement_model::{ExecutionId, Opaque};
use escapement_run::ids::RunId;
use escapement_run::journal::{Entry, Event, OutcomeClass, Responder};
use escapement_run::outcome::{AttemptOutcome, value_of_object};
use escapement_run::plan::{self, Plan};
use escapement_run::presets::Preset;
use escapement_run::session::{CHANGES_MAX, Health, Session};
use escapement_run::spec::{
    ActionProfile, EffectClass, Fallback, FallbackAction, FallbackKind, Notices, Risk, Spec,
};
use escapement_run::{Blobs, Effect, Input, Run};
use escapement_runs::{Config, Durable, NewRun, Notice, NoticeKind, Runs, Work};
use prost::Message;

/// What was written down by its hash.
#[derive(Default)]
struct Disk(RefCell<BTreeMap<[u8; 32], Bytes>>);

/// Nothing is parked.
impl Durable for Disk {
    fn blobs(&self) -> &dyn Blobs {
        self
    }

    fn fold(&self, run_id: RunId) -> Result<Run, String> {
        panic!("nothing is parked: {run_id}")
    }
}

impl Blobs for Disk {
    fn blob(&self, digest: &[u8; 32]) -> Bytes {
        self.0.borrow()[digest].clone()
    }
}

const START: i64 = 1_763_700_000_000;

fn id(n: u8) -> RunId {
    RunId::from_random([n; 16])
}

/// Two calls, one after the other; the second one has the state of the session.
fn plan() -> Arc<Plan> {
    let step = |key: &str, args: Opaque| {
        let config = StructBuilder::new()
            .text("tool_name", "pure.work")
            .object("tool_args", args.as_encoded())
            .build();
        StructBuilder::new()
            .text("key", key)
            .text("type", "tool_call")
            .text("description", &"ä".repeat(61))
            .object("config", config.as_encoded())
            .build()
    };
    let steps = ListBuilder::new()
        .object(step("first", Opaque::default()).as_encoded())
        .object(step("second", StructBuilder::new().text("state", "${session}").build()).as_encoded());
    let document = StructBuilder::new()
        .text("schema", "escapement.plan/1")
        .text("name", "Story")
        .list("steps", steps);
    Arc::new(plan::read(&document.build()).unwrap())
}

struct World {
    runs: Runs,
    disk: Disk,
    now: i64,
}

impl World {
    fn new() -> Self {
        let runs = Runs::new(Config {
            max_live_runs: 100,
            max_runs: 100,
        });
        Self {
            runs,
            disk: Disk::default(),
            now: START,
        }
    }

    /// Makes a run and admits it.
    fn begin(&mut self, n: u8, session: &str, change: impl FnOnce(&mut Spec)) -> Work {
        let profile = ActionProfile {
            action: "pure.work".to_owned(),
            effect: EffectClass::Pure.into(),
            risk: Risk::Safe.into(),
            ..ActionProfile::default()
        };
        let mut spec = Spec {
            limits: Preset::Standard.limits(1),
            policy: Preset::Standard.policy(),
            autonomy_level: 4,
            priority: 5,
            user_id: "ada".to_owned(),
            session_id: session.to_owned(),
            ..Spec::default()
        };
        change(&mut spec);
        let new = NewRun {
            run_id: id(n),
            spec,
            plan: plan(),
            profiles: vec![profile],
        };
        self.runs.create(new, self.now, &self.disk).unwrap();
        let work = self.runs.admit(self.now, 10, &self.disk).remove(0);
        self.keep(&work);
        work
    }

    fn keep(&self, work: &Work) {
        self.disk.0.borrow_mut().extend(work.blobs.iter().cloned());
    }

    fn live(&self, n: u8) -> ExecutionId {
        let state = self.runs.in_memory(id(n)).unwrap().state();
        let units = state.steps.iter().flat_map(|step| &step.units);
        let live = units.filter_map(|unit| unit.live.as_ref()).next().unwrap();
        let key = ["first", "second"][live.unit.step as usize];
        let name = escapement_run::ids::AttemptName {
            run_id: id(n),
            seed: None,
            step: key,
            index: 0,
            epoch: live.unit.epoch,
            attempt: live.attempt,
        };
        name.execution_id()
    }

    fn settle(&mut self, n: u8, class: OutcomeClass, output: Opaque) -> Work {
        let failed = class != OutcomeClass::Completed;
        let outcome = AttemptOutcome {
            class,
            output: (!failed).then(|| value_of_object(&output)),
            code: if failed { "BROKEN" } else { "" }.to_owned(),
            message: String::new(),
            pause: false,
            ..AttemptOutcome::default()
        };
        let input = Input::Settled {
            execution_id: self.live(n),
            outcome,
        };
        self.now += 1;
        let work = self
            .runs
            .handle(id(n), input, self.now, &self.disk)
            .unwrap()
            .unwrap();
        self.keep(&work);
        work
    }

    fn session(&self) -> Session {
        self.runs.sessions().get("s").unwrap().clone()
    }
}

fn names(work: &Work) -> Vec<&'static str> {
    let entries = work
        .entries
        .iter()
        .map(|entry| Entry::decode(entry.bytes.clone()).unwrap());
    entries.map(|entry| entry.event.unwrap().name()).collect()
}

fn patch(key: &str, text: &str) -> Opaque {
    let patch = StructBuilder::new().text(key, text).build();
    StructBuilder::new()
        .object("$state_patch", patch.as_encoded())
        .build()
}

fn text<'a>(state: &'a Opaque, key: &str) -> Option<&'a str> {
    match value_of(state.as_encoded(), key) {
        Some(ValueView::Text(text)) => Some(text),
        _ => None,
    }
}

// RUN-14.1, RUN-14.4
#[test]
fn a_run_sees_what_another_run_of_its_session_changed_and_says_so_first() {
    let mut world = World::new();
    world.begin(1, "s", |_| {});
    world.begin(2, "s", |_| {});
    world.begin(3, "other", |_| {});
    let first = world.settle(1, OutcomeClass::Completed, patch("a", "1"));
    assert_eq!(names(&first)[1], "state_patched");
    let changed = world.runs.sessions_mut().changed();
    assert_eq!((changed.len(), changed[0].0.as_str()), (1, "s"));
    assert!(world.runs.sessions_mut().changed().is_empty(), "once");
    let second = world.settle(2, OutcomeClass::Completed, patch("b", "2"));
    assert_eq!(
        names(&second)[..3],
        ["session_read", "tool_output", "state_patched"]
    );
    let state = world.session().state;
    assert_eq!((text(&state, "a"), text(&state, "b")), (Some("1"), Some("2")));
    let other = world.settle(3, OutcomeClass::Completed, Opaque::default());
    assert_eq!(names(&other)[0], "tool_output", "another session is another one");
}

// RUN-14.4
#[test]
fn a_state_that_is_too_large_for_an_entry_is_seen_all_the_same() {
    let mut world = World::new();
    world.begin(1, "s", |_| {});
    world.begin(2, "s", |_| {});
    world.settle(1, OutcomeClass::Completed, patch("a", &"x".repeat(100_000)));
    world.settle(2, OutcomeClass::Completed, patch("b", "2"));
    let state = world.session().state;
    assert_eq!(text(&state, "a").map(str::len), Some(100_000));
    assert_eq!(text(&state, "b"), Some("2"));
}

// RUN-14.4
#[test]
fn an_input_that_is_refused_or_changes_nothing_leaves_no_entry() {
    let mut world = World::new();
    world.begin(1, "s", |_| {});
    world.begin(2, "s", |_| {});
    world.settle(1, OutcomeClass::Completed, patch("a", "1"));
    let before = world.runs.in_memory(id(2)).unwrap().state().clone();
    let resume = Input::Resume {
        reason: String::new(),
    };
    assert!(world.runs.handle(id(2), resume, world.now, &world.disk).is_err());
    let nobodys = Input::Evaluated {
        evaluation: 7,
        result: Ok(true),
    };
    let nothing = world.runs.handle(id(2), nobodys, world.now, &world.disk);
    assert!(nothing.unwrap().is_none());
    assert_eq!(*world.runs.in_memory(id(2)).unwrap().state(), before);
}

// RUN-14.5, RUN-14.6
#[test]
fn a_skill_that_is_out_is_out_for_all_runs_of_the_session_and_for_no_other() {
    let mut world = World::new();
    let once = |spec: &mut Spec| spec.limits.max_retries = 0;
    world.begin(1, "s", |_| {});
    world.begin(9, "other", |_| {});
    for n in 2..8 {
        world.begin(n, "s", once);
        world.settle(n, OutcomeClass::Failed, Opaque::default());
    }
    let session = world.session();
    assert_eq!(session.skills[0].health(), Health::PermanentFailure);
    world.settle(1, OutcomeClass::Completed, Opaque::default());
    let disabled = |n: u8| {
        let run = world.runs.in_memory(id(n)).unwrap();
        run.state().actions_that_are_out().count()
    };
    assert_eq!((disabled(1), disabled(9)), (1, 0));
}

// RUN-14.4
#[test]
fn a_session_is_let_go_of_when_no_run_uses_it_and_it_is_written() {
    let mut world = World::new();
    world.begin(1, "s", |spec| spec.limits.max_retries = 0);
    world.settle(1, OutcomeClass::Failed, Opaque::default());
    assert_eq!(world.runs.sessions().n_runs("s"), 0);
    world.runs.sessions_mut().let_go();
    assert!(world.runs.sessions().get("s").is_some(), "it is to be written");
    world.runs.sessions_mut().changed();
    world.runs.sessions_mut().let_go();
    assert!(world.runs.sessions().get("s").is_none());
}

fn told(work: &Work) -> Vec<(NoticeKind, String)> {
    let rows = work
        .notices
        .iter()
        .map(|row| Notice::decode(row.record.clone()).unwrap());
    rows.map(|notice| (notice.kind(), notice.text)).collect()
}

// RUN-14.8, RUN-14.9
#[test]
fn a_run_tells_all_steps_first_then_each_and_its_output_last() {
    let mut world = World::new();
    let all = |spec: &mut Spec| spec.notices = Notices::All.into();
    let begun = world.begin(1, "s", all);
    let described = "ä".repeat(60);
    assert_eq!(
        told(&begun),
        [
            (
                NoticeKind::Status,
                format!("plan: Story\n1. {described}\n2. {described}")
            ),
            (NoticeKind::Status, format!("plan step 1/2: {described}")),
        ]
    );
    assert_eq!(begun.notices[0].streams, ["u ada", "s s"]);
    let retried = world.settle(1, OutcomeClass::Failed, Opaque::default());
    assert_eq!(
        told(&retried),
        [(NoticeKind::Status, format!("retry 1/3: {described}"))]
    );
    world.now += 60_000;
    let again = world.runs.time(world.now, 10, &world.disk);
    assert_eq!(again.len(), 1);
    world.settle(1, OutcomeClass::Completed, Opaque::default());
    let output = StructBuilder::new().text("decision", "the answer").build();
    let ended = world.settle(1, OutcomeClass::Completed, output);
    assert_eq!(
        told(&ended),
        [
            (NoticeKind::Status, format!("plan step 2/2: {described} → done")),
            (NoticeKind::Agent, "the answer".to_owned()),
        ]
    );
}

// RUN-14.9
#[test]
fn what_ended_is_told_with_the_plan_that_it_is_of() {
    let mut world = World::new();
    world.begin(1, "s", |spec| {
        spec.notices = Notices::All.into();
        spec.limits.max_retries = 0;
        let action = FallbackAction {
            action: "pure.other".to_owned(),
            payload: Opaque::default(),
        };
        let kind = Some(FallbackKind::Action(action));
        spec.fallback = Some(Fallback { kind });
    });
    let fell_back = told(&world.settle(1, OutcomeClass::FailedForGood, Opaque::default()));
    let texts: Vec<&str> = fell_back.iter().map(|(_, text)| text.as_str()).collect();
    let described = "ä".repeat(60);
    assert!(
        texts[0].starts_with(&format!("plan step 1/2: {described} → failed")),
        "{texts:?}"
    );
    assert_eq!(
        texts[1..],
        ["plan: Fallback\n1. fallback", "plan step 1/1: fallback"]
    );
}

// RUN-14.8, RUN-14.9
#[test]
fn what_is_told_depends_on_the_spec_and_the_language() {
    let mut world = World::new();
    let run = |world: &mut World, n: u8, notices: Notices, locale: &str| {
        world.begin(n, "", |spec| {
            spec.notices = notices.into();
            spec.locale = locale.to_owned();
        });
        let cancel = Input::Cancel {
            reason: "discarded".to_owned(),
        };
        let work = world
            .runs
            .handle(id(n), cancel, world.now, &world.disk)
            .unwrap()
            .unwrap();
        told(&work)
    };
    assert!(run(&mut world, 1, Notices::None, "").is_empty());
    let discarded = |text: &str| vec![(NoticeKind::System, format!("Story → {text}"))];
    assert_eq!(
        run(&mut world, 2, Notices::End, "xx"),
        discarded("discarded; please ask again")
    );
    assert_eq!(
        run(&mut world, 3, Notices::End, "ja-JP"),
        discarded("破棄されました。もう一度ご依頼ください")
    );
}

// RUN-14.8
#[test]
fn a_child_run_tells_nothing() {
    let mut world = World::new();
    let work = world.begin(1, "", |spec| {
        spec.notices = Notices::All.into();
        spec.parent_run_id = Bytes::copy_from_slice(id(7).as_bytes());
    });
    assert!(work.notices.is_empty());
}

// RUN-14.4
#[test]
fn what_a_run_saw_is_in_its_journal() {
    let mut world = World::new();
    world.begin(1, "s", |_| {});
    let mut session = world.session();
    session
        .patch(&StructBuilder::new().text("a", "1").build())
        .unwrap();
    world.runs.sessions_mut().put("s", session);
    let work = world.settle(1, OutcomeClass::Completed, Opaque::default());
    let entry = Entry::decode(work.entries[0].bytes.clone()).unwrap();
    let Some(Event::SessionRead(read)) = entry.event else {
        panic!("{entry:?}");
    };
    assert_eq!(
        text(&Opaque::from_encoded(read.state.unwrap().inline), "a"),
        Some("1")
    );
    let effects = work.persisted();
    assert!(matches!(&effects[..], [Effect::Submit { .. }]), "{effects:?}");
}

// RUN-6.8
#[test]
fn a_session_records_the_starters_of_the_runs_that_changed_it() {
    let mut world = World::new();
    world.begin(1, "s", |_| {});
    world.begin(2, "s", |spec| {
        spec.fired_by = Some(Box::new(Responder {
            id: "eve".to_owned(),
            verified: true,
            ..Responder::default()
        }));
    });
    world.begin(3, "s", |spec| spec.user_id = "ben".to_owned());
    world.settle(1, OutcomeClass::Completed, patch("a", "1"));
    let before = world.session().changed_at();
    world.settle(2, OutcomeClass::Completed, patch("a", "2"));
    world.settle(3, OutcomeClass::Failed, patch("a", "3"));
    let changers = |world: &World| {
        let changed = world.session().changed_after(before).unwrap();
        changed.names().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(changers(&world), ["eve", "ada"]);
    world.settle(1, OutcomeClass::Completed, patch("a", "4"));
    assert_eq!(changers(&world), ["ada", "eve"]);
    let now = world.session().changed_at();
    assert_eq!(world.session().changed_after(now), None);
}

// RUN-6.8
#[test]
fn times_of_changes_increase_while_the_clock_goes_back() {
    let mut session = Session::default();
    for n in 0..=CHANGES_MAX {
        let by = Responder {
            id: n.to_string(),
            ..Responder::default()
        };
        session.record_change(Some(&by), START - n as i64);
    }
    session.record_change(None, START + 1);
    assert_eq!(session.changes.len(), CHANGES_MAX, "the first is dropped");
    let second_last = session.changes[CHANGES_MAX - 2].at;
    let latest = session.changed_after(second_last).unwrap();
    assert_eq!(latest.names().collect::<Vec<_>>(), [CHANGES_MAX.to_string()]);
}
