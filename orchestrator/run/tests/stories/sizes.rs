//! Runs as large as they may be, and larger: what they carry, what they keep, and how they end.

use std::sync::Arc;

use bytes::Bytes;
use escapement_model::ExecutionId;
use escapement_run::bounds::{ENTRY_BYTES_MAX, STATE_BYTES_MANY, STATE_BYTES_MAX};
use escapement_run::ids::RunId;
use escapement_run::journal::{Decision, Doubt, Entry, Event, OutcomeClass, PlanCreated};
use escapement_run::outcome::AttemptOutcome;
use escapement_run::plan;
use escapement_run::presets::Preset;
use escapement_run::spec::{ActionProfile, Fallback, FallbackAction, FallbackKind, Spec};
use escapement_run::state::RunState;
use escapement_run::{Commit, Effect, Input, RefusedReason, Run, ShownState};
use prost::Message;
use serde_json::{Value, json};

use crate::disk::Disk;
use crate::world::{RUN_ID, START, World, call, completed, encoded, failed, opaque, spec, tool};

/// Items of a parallel step.
const ITEMS: usize = 256;

/// Run that is driven without a check of all of it after each input.
struct Large {
    run: Run,
    disk: Disk,
    entries: Vec<Bytes>,
    waiting: Vec<ExecutionId>,
    /// Contents that the last commit brought.
    n_blobs: usize,
}

impl Large {
    fn of(steps: Value, spec: Spec) -> Self {
        let document = json!({"schema": "escapement.plan/1", "name": "Large", "steps": steps});
        let plan = plan::read(&opaque(&document)).unwrap_or_else(|why| panic!("{why}"));
        let disk = Disk::default();
        let run_id = RunId::from_bytes(RUN_ID).unwrap();
        let (run, commit) = Run::create(run_id, spec, Arc::new(plan), Vec::new(), START, &disk);
        let mut large = Self {
            run,
            disk,
            entries: Vec::new(),
            waiting: Vec::new(),
            n_blobs: 0,
        };
        large.keep(commit);
        large.input(Input::Admit);
        large
    }

    fn keep(&mut self, commit: Commit) {
        self.n_blobs = commit.blobs.len();
        for (digest, bytes) in &commit.blobs {
            self.disk.keep(*digest, bytes.clone());
        }
        commit.events.iter().for_each(crate::entries::check);
        for entry in &commit.entries {
            assert!(entry.bytes.len() <= ENTRY_BYTES_MAX, "RUN-9.6");
            self.entries.push(entry.bytes.clone());
        }
        let submitted = commit.persisted().into_iter().filter_map(|effect| match effect {
            Effect::Submit { execution_id, .. } => Some(execution_id),
            _ => None,
        });
        self.waiting.extend(submitted);
    }

    fn input(&mut self, input: Input) {
        let commit = self.run.handle(input, START, &self.disk).unwrap();
        self.keep(commit);
    }

    /// Settles attempts, the oldest first, until none is left or the run has ended.
    fn settle(&mut self, outcome: &dyn Fn(usize) -> AttemptOutcome) -> usize {
        let mut n = 0;
        while !self.waiting.is_empty() && self.run.due_at().is_some() {
            for execution_id in std::mem::take(&mut self.waiting) {
                let outcome = outcome(n);
                self.input(Input::Settled {
                    execution_id,
                    outcome,
                });
                n += 1;
            }
        }
        n
    }

    /// Returns the newest revision.
    fn created(&self) -> PlanCreated {
        let entries = self.entries.iter().rev();
        let created = entries.filter_map(|bytes| match Entry::decode(bytes.clone()).unwrap().event {
            Some(Event::PlanCreated(created)) => Some(created),
            _ => None,
        });
        created.into_iter().next().unwrap()
    }
}

fn parallel(step: usize) -> Value {
    let items: Vec<Value> = (0..ITEMS)
        .map(|n| json!({"tool_name": "x.do", "tool_args": {"n": ITEMS * step + n}}))
        .collect();
    json!({"key": format!("s{step}"), "type": "parallel", "config": {"steps": items, "batch_size": ITEMS},
        "retry": {"max_retries": 0}})
}

/// Steps of that many items in all.
fn many(n_steps: usize) -> Vec<Value> {
    (0..n_steps).map(parallel).collect()
}

fn with_fallback(spec: Spec) -> Spec {
    let action = FallbackAction {
        action: "mail.send".to_owned(),
        payload: opaque(&json!({})),
    };
    Spec {
        fallback: Some(Fallback {
            kind: Some(FallbackKind::Action(action)),
        }),
        ..spec
    }
}

// RUN-12.6, RUN-9.6
#[test]
fn a_revision_carries_the_newest_results_and_stores_no_others() {
    let mut steps = many(6);
    steps.push(call("z"));
    let mut large = Large::of(json!(steps), with_fallback(spec(Preset::Standard)));
    let n_completed = 6 * ITEMS;
    let output = |n: usize| match n < n_completed {
        true => completed(json!({"n": n, "text": "x".repeat(64)})),
        false => failed(OutcomeClass::FailedForGood),
    };
    for _ in 0..n_completed {
        assert!(!large.waiting.is_empty());
        let execution_id = large.waiting.remove(0);
        let n = large.entries.len();
        large.input(Input::Settled {
            execution_id,
            outcome: output(0),
        });
        assert!(large.entries.len() > n, "an attempt that lives is known");
    }
    let execution_id = large.waiting.remove(0);
    large.input(Input::Settled {
        execution_id,
        outcome: output(n_completed),
    });
    let created = large.created();
    assert_eq!(
        (created.cause.as_str(), created.results.len()),
        ("fallback", 1024)
    );
    assert!(large.n_blobs <= 1024 + 8, "{} contents", large.n_blobs);
    assert_eq!(large.run.state().results, created.results);
    assert_eq!(large.run.shown(), ShownState::Running);
}

// RUN-9.13
#[test]
fn a_run_that_keeps_too_much_fails_and_its_journal_can_be_folded() {
    let skipping = {
        let mut spec = spec(Preset::Standard);
        spec.policy
            .set_on_failure(escapement_run::spec::FailureDefault::Skip);
        spec
    };
    let mut large = Large::of(json!(many(60)), skipping);
    let outcome = |_| AttemptOutcome {
        message: "\u{10348}".repeat(1_000),
        ..failed(OutcomeClass::FailedForGood)
    };
    let n_settled = large.settle(&outcome);
    assert!(n_settled < 60 * ITEMS, "it ended before");
    let state = large.run.state();
    let error = state.end.as_ref().unwrap().error.clone().unwrap();
    assert_eq!(
        (large.run.shown(), error.code.as_str()),
        (ShownState::Failed, "RUN_TOO_LARGE")
    );
    assert_eq!(large.run.size(), state.size());
    assert!(
        state.encoded_len() < STATE_BYTES_MAX + (16 << 20),
        "a snapshot holds it"
    );
    let mut folded = RunState {
        chain: Bytes::copy_from_slice(&escapement_model::chain::chain_begin(
            &RunId::from_bytes(RUN_ID).unwrap(),
        )),
        ..RunState::default()
    };
    for bytes in &large.entries {
        let entry = Entry::decode(bytes.clone()).unwrap();
        let before = folded.chain_hash();
        folded.apply(&entry);
        folded.chain = Bytes::copy_from_slice(&escapement_model::chain::chain_next(
            &before,
            entry.sequence,
            bytes,
        ));
    }
    assert_eq!(folded, *state);
}

// RUN-9.13
#[test]
fn a_run_that_keeps_much_keeps_less_in_place() {
    let mut large = Large::of(json!(many(4)), spec(Preset::Standard));
    let output = |_| completed(json!({"text": "x".repeat(32_000)}));
    assert_eq!(large.settle(&output), 4 * ITEMS);
    assert_eq!(large.run.shown(), ShownState::Completed);
    let size = large.run.size();
    assert!(
        (STATE_BYTES_MANY..STATE_BYTES_MANY + (2 << 20)).contains(&size),
        "{size}"
    );
}

// RUN-9.6, RUN-6.7
#[test]
fn a_request_with_the_largest_subject_and_the_largest_data_fits_an_inbox() {
    let large = |n: usize| json!({"text": "x".repeat(n)});
    let args = large(32_700);
    let step =
        json!({"key": "a", "type": "tool_call", "config": {"tool_name": "mail.send", "tool_args": args}});
    let mut world = World::of(json!([step]));
    let outcome = AttemptOutcome {
        class: OutcomeClass::ApprovalRequired,
        output: Some(encoded(&large(32_700))),
        code: "APPROVAL_REQUIRED".to_owned(),
        message: "\u{10348}".repeat(1_000),
        ..AttemptOutcome::default()
    };
    world.settle(world.live("a"), outcome);
    let request = world.asked();
    assert!(request.encoded_len() <= 64 << 10, "{}", request.encoded_len());
    let subject = world.request_of(request.subject.as_ref().unwrap());
    assert!(subject.len() > 32_700, "it is kept by its hash");
    world.answer(Decision::Approve, Value::Null);
    assert_eq!(world.payload("a"), args);
}

// RUN-12.14
#[test]
fn what_a_child_tells_of_its_doubts_is_bounded() {
    let sub = json!({"key": "sub", "type": "sub_plan", "config": {"plan_id": "6f1d3c52-8a4e-4b7f-9c21-5e0d7a9b4c10"},
        "retry": {"max_retries": 0}});
    let mut world = World::of(json!([sub, call("a")]));
    let child = world.run.state().children().next().unwrap();
    let doubt = |n: u32| Doubt {
        key: Bytes::copy_from_slice(&[7; 32]),
        execution_id: Bytes::copy_from_slice(&u128::from(n).to_be_bytes()),
        timed_out: false,
    };
    world.input(Input::ChildEnded {
        run_id: child,
        result: Err("it broke".to_owned()),
        used: None,
        doubts: Some((0..50_000).map(doubt).collect()),
    });
    let told = world.journal.iter().find_map(|entry| match &entry.event {
        Some(Event::ChildRunEnded(ended)) => Some(ended.doubts.clone()),
        _ => None,
    });
    let told = told.unwrap();
    assert_eq!((told.len(), &told[1023]), (1024, &doubt(49_999)));
}

// RUN-9.6
#[test]
fn another_plan_of_whose_actions_too_much_is_known_is_not_approved() {
    let mut world = World::with(
        json!([call("a")]),
        Spec {
            autonomy_level: 1,
            ..spec(Preset::Standard)
        },
    );
    let profile = |n: usize| ActionProfile {
        action: format!("x.{n:04}"),
        produces: vec!["\u{10348}".repeat(255); 16],
        ..ActionProfile::default()
    };
    let other = json!({"schema": "escapement.plan/1", "name": "Other", "steps": [tool("b", "x.0001", &[])]});
    let answer = world.answer_of(&world.asked(), "bob", Decision::ApproveWithEdits, other);
    let approved = |n: usize| Input::ApproveEdited {
        answer: answer.clone(),
        profiles: (0..n).map(profile).collect(),
    };
    assert_eq!(world.refusal(approved(80)), RefusedReason::AnswerInvalid);
    world.input(approved(10));
    assert_eq!(world.shows(), "waiting: b running");
}

// RUN-8.10
#[test]
fn a_run_has_so_many_checkpoints_and_is_paused_so_often() {
    let mut large = Large::of(json!([call("a")]), spec(Preset::Standard));
    let checkpoint = || Input::Checkpoint {
        data: opaque(&json!({})),
    };
    let pause = || Input::Pause {
        reason: String::new(),
    };
    let resume = || Input::Resume {
        reason: String::new(),
    };
    for _ in 0..1_000 {
        large.input(checkpoint());
    }
    for _ in 0..10_000 {
        large.input(pause());
        large.input(resume());
    }
    let before = large.run.state().clone();
    for input in [checkpoint(), pause()] {
        let refused = large.run.handle(input, START, &large.disk).unwrap_err();
        assert_eq!(refused.reason, RefusedReason::RunTooLarge);
    }
    assert_eq!(*large.run.state(), before);
    large.input(Input::Cancel {
        reason: String::new(),
    });
    assert_eq!(large.run.shown(), ShownState::Cancelled);
}
