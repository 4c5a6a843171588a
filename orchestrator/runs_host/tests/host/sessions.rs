//! What a run does to its session, and what it tells its user, is there with its entries or not at all, whenever it is killed.

use std::sync::Arc;

use escapement_model::opaque::{ListBuilder, StructBuilder};
use escapement_model::{Namespace, Opaque, RunId};
use escapement_run::journal::OutcomeClass;
use escapement_run::outcome::{AttemptOutcome, value_of_object};
use escapement_run::plan;
use escapement_run::presets::Preset;
use escapement_run::session::Session;
use escapement_run::spec::{ActionProfile, EffectClass, Notices, Risk, Spec};
use escapement_run::{Effect, Input};
use escapement_runs::{Config, NewRun, Notice, NoticeKind, stream_of_session, stream_of_user};
use escapement_runs_host::{Create, NotCreated, RunsHost, SessionDeleted, stored_session};
use escapement_store::runs::{RunReader, RunStore};
use escapement_store_kit::MemoryFault;
use escapement_store_kit::runs::{MemoryRuns, MemoryRunsDisk};
use prost::Message;

use crate::asking::{START, names};

fn id() -> RunId {
    RunId::from_random([1; 16])
}

fn config() -> Config {
    Config {
        max_live_runs: 1,
        max_runs: 10,
    }
}

fn create() -> Create {
    let steps = ["a", "b"].into_iter().fold(ListBuilder::new(), |steps, key| {
        let config = StructBuilder::new().text("tool_name", "pure.work").build();
        let step = StructBuilder::new()
            .text("key", key)
            .text("type", "tool_call")
            .object("config", config.as_encoded());
        steps.object(step.build().as_encoded())
    });
    let document = StructBuilder::new()
        .text("schema", "escapement.plan/1")
        .text("name", "Story")
        .list("steps", steps);
    let profile = ActionProfile {
        action: "pure.work".to_owned(),
        effect: EffectClass::Pure.into(),
        risk: Risk::Safe.into(),
        ..ActionProfile::default()
    };
    Create {
        run: NewRun {
            run_id: id(),
            spec: Spec {
                limits: Preset::Standard.limits(1),
                policy: Preset::Standard.policy(),
                autonomy_level: 4,
                priority: 5,
                user_id: "ada".to_owned(),
                session_id: "s".to_owned(),
                notices: Notices::All.into(),
                ..Spec::default()
            },
            plan: Arc::new(plan::read(&document.build()).unwrap()),
            profiles: vec![profile],
        },
        request: None,
        saved_plan: None,
    }
}

/// Completes each attempt with a patch of its own until the run has ended; restarts after each fault of the disk.
fn run(disk: &MemoryRunsDisk) -> MemoryRuns {
    let mut store = disk.open();
    let (mut host, _) = RunsHost::open(&store, config(), START).unwrap();
    let mut now = START;
    loop {
        now += 1;
        match host.create(create(), now) {
            Ok(_) | Err(NotCreated::Exists(..)) => {}
            Err(why) => panic!("{why:?}"),
        }
        while let Some(batch) = host.poll_batch() {
            match store.commit(&batch) {
                Ok(outcome) => host.handle_committed(outcome),
                Err(_) => {
                    store = disk.crash();
                    host = RunsHost::open(&store, config(), now).unwrap().0;
                }
            }
            is_consistent(&*store.reader().unwrap());
        }
        for (run_id, effect) in host.poll_effects() {
            let Effect::Submit { execution_id, .. } = effect else {
                panic!("{effect:?}");
            };
            let patch = StructBuilder::new()
                .text(&execution_id.to_string(), "done")
                .build();
            let output = StructBuilder::new()
                .object("$state_patch", patch.as_encoded())
                .build();
            let outcome = AttemptOutcome {
                class: OutcomeClass::Completed,
                output: Some(value_of_object(&output)),
                code: String::new(),
                message: String::new(),
                pause: false,
                ..AttemptOutcome::default()
            };
            let input = Input::Settled {
                execution_id,
                outcome,
            };
            host.handle(run_id, input, now).unwrap();
        }
        let summary = store.reader().unwrap().summary(id()).unwrap();
        if summary.is_some_and(|run| run.progress.ended_at.is_some()) {
            return store;
        }
    }
}

fn told(reader: &dyn RunReader, stream: &str) -> Vec<Notice> {
    let notices = reader.notices(stream, 0, 100).unwrap().into_iter();
    notices
        .map(|notice| Notice::decode(notice.record).unwrap())
        .collect()
}

/// The session has the patches of the journal, and the notices are those of its entries.
fn is_consistent(reader: &dyn RunReader) {
    let names = names(reader, id());
    let n = |wanted: &str| names.iter().filter(|name| **name == wanted).count();
    let session = stored_session(reader, "s").unwrap().unwrap_or_default();
    assert_eq!(session.state.entries().count(), n("state_patched"));
    let notices = told(reader, &stream_of_user(&Namespace::default(), "ada"));
    let n_told: usize = [
        "run_started",
        "step_started",
        "step_completed",
        "run_recovered",
        "run_completed",
    ]
    .map(n)
    .iter()
    .sum();
    assert_eq!(notices.len(), n_told, "{names:?}");
    assert_eq!(
        notices,
        told(reader, &stream_of_session(&Namespace::default(), "s"))
    );
}

// RUN-14.4, RUN-14.8
#[test]
fn session_and_notices_are_written_with_the_entries_that_they_follow_from() {
    let calm = MemoryRunsDisk::new();
    run(&calm);
    let n_writes = calm.n_commits();
    assert!(n_writes >= 3, "{n_writes}");
    for write in 0..n_writes {
        for fault in [MemoryFault::WrittenNotSynced, MemoryFault::SyncedNotAcknowledged] {
            let disk = MemoryRunsDisk::new();
            (0..write).for_each(|_| disk.pass_next_commit());
            disk.fail_next_commit(fault);
            let store = run(&disk);
            let reader = store.reader().unwrap();
            let session = stored_session(&*reader, "s").unwrap().unwrap();
            assert_eq!(session.state.entries().count(), 2, "write {write}, {fault:?}");
            let answers = told(&*reader, &stream_of_user(&Namespace::default(), "ada"));
            let answers = answers.iter().filter(|notice| notice.kind() == NoticeKind::Agent);
            assert_eq!(answers.count(), 1, "write {write}, {fault:?}");
        }
    }
}

// RUN-14.1
#[test]
fn a_session_is_as_it_was_put_last_and_stays_while_a_run_uses_it() {
    let disk = MemoryRunsDisk::new();
    let mut store = disk.open();
    let (mut host, _) = RunsHost::open(&store, config(), START).unwrap();
    let commit = |host: &mut RunsHost, store: &mut MemoryRuns| {
        if let Some(batch) = host.poll_batch() {
            host.handle_committed(store.commit(&batch).unwrap());
        }
    };
    let state = StructBuilder::new().text("a", "1").build();
    host.put_session("s", Session::new("ada", state.clone()));
    assert_eq!(
        host.session("s").unwrap().unwrap().state,
        state,
        "before it is durable"
    );
    commit(&mut host, &mut store);
    assert_eq!(host.session("s").unwrap().unwrap().state, state);
    host.create(create(), START).unwrap();
    assert_eq!(host.delete_session("s").unwrap(), SessionDeleted::InUse);
    let cancel = Input::Cancel {
        reason: "user".to_owned(),
    };
    host.handle(id(), cancel, START).unwrap();
    assert_eq!(host.delete_session("s").unwrap(), SessionDeleted::Done);
    assert_eq!(host.session("s").unwrap(), None, "before it is durable");
    assert_eq!(host.delete_session("s").unwrap(), SessionDeleted::NotFound);
    commit(&mut host, &mut store);
    assert_eq!(stored_session(&*store.reader().unwrap(), "s").unwrap(), None);
    host.put_session("s", Session::new("ada", Opaque::default()));
    commit(&mut host, &mut store);
    assert!(stored_session(&*store.reader().unwrap(), "s").unwrap().is_some());
}
