//! Records of random executions: what is stored replays, what is changed shows.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test fails by panicking and its name is its documentation"
)]

mod changes;
mod story;

use bytes::Bytes;
use escapement_codec::archive::Archive;
use escapement_codec::archive::check::{Part, Verdict, verify};
use escapement_codec::archive::file;
use escapement_codec::stored;
use escapement_codec::stored::input_log;
use escapement_codec::stored::seal::Seal;
use escapement_contract::{
    Effect, Execution, Input, Interruption, Moment, Outcome, Reported, StepDraft, validate_request,
};
use escapement_model::opaque::StructBuilder;
use escapement_model::{Opaque, limits};
use prost::Message;
use std::sync::Arc;
use story::{Dice, Story, draft, execution_id, random_story, step_id, stored};

fn assert_identical(record: &Archive) -> Verdict {
    let verdict = verify(record);
    assert_eq!(verdict.differences, []);
    assert!(verdict.is_identical() && verdict.chain_intact);
    assert!(verdict.decisions_identical && verdict.audit_identical && verdict.result_identical);
    verdict
}

//
#[test]
fn what_is_stored_of_a_random_execution_replays_byte_for_byte() {
    let mut n_by_code = std::collections::BTreeMap::new();
    for seed in 0..200 {
        let story = random_story(seed);
        let settlement = story.settlement.as_ref().unwrap();
        let record = story.record();
        let verdict = assert_identical(&record);
        let request = record.decode_request().unwrap();
        assert_eq!(stored::encode_accepted(&request, execution_id()), record.accepted);
        assert_eq!(
            verdict.n_inputs,
            settlement.inputs.inputs.len() as u64,
            "seed {seed}"
        );
        let bytes = record.inputs.as_ref().unwrap();
        let decoded = input_log::decode(bytes, story.request.plan(), &settlement.result.result_payload);
        assert_eq!(decoded.unwrap(), settlement.inputs, "seed {seed}");
        let written: Vec<Bytes> = file::pieces(record.clone()).collect();
        let read = file::read(&written.concat().into()).unwrap();
        assert_eq!((read.archive, read.faults), (record, vec![]));
        let code = settlement.result.error.as_ref().map_or("", |error| &error.code);
        *n_by_code.entry(code.to_owned()).or_insert(0) += 1;
    }
    for code in [
        "",
        "PLAN_TIMEOUT",
        "DEADLINE_EXCEEDED",
        "CONTEXT_MISSING",
        "RESOURCE_EXHAUSTED",
        "WORKER_LOST",
    ] {
        assert!(
            n_by_code.contains_key(code),
            "{code:?} is not among {n_by_code:?}"
        );
    }
}

//
#[test]
fn an_output_that_the_result_has_is_not_stored_again() {
    let mut dice = Dice(3);
    let mut request = draft(&mut dice);
    let plan = request.plan.as_mut().unwrap();
    plan.context_requirements = vec!["region".into()];
    plan.steps.truncate(1);
    plan.steps[0].timeout_ms = None;
    let mut story = Story::new(
        request,
        Moment {
            monotonic_ms: 5,
            unix_ms: 1_000,
        },
    );
    let step = story.request.plan().canonical_order()[0];
    story.feed(Input::Start);
    story.feed(Input::StartPersisted);
    story.feed(Input::Assigned {
        step,
        attempt: 1,
        worker: "worker".into(),
    });
    let output = StructBuilder::new().text("large", &"o".repeat(100_000)).build();
    let outcome = Outcome::Completed {
        output,
        warnings: Vec::new(),
    };
    story.feed(Input::AttemptEnded {
        step,
        attempt: 1,
        outcome,
    });
    let record = story.record();
    assert!(record.result.len() > 100_000);
    let inputs = record.inputs.as_ref().unwrap();
    assert!(inputs.len() < 100, "{} bytes", inputs.len());
    assert_identical(&record);
}

//
#[test]
fn what_a_restart_or_a_restore_interrupted_replays() {
    let mut dice = Dice(5);
    let request = Arc::new(validate_request(draft(&mut dice), 1_000).unwrap());
    // The wall clock was set back while the orchestrator was down.
    let now = Moment {
        monotonic_ms: 12,
        unix_ms: 5_000,
    };
    for interruption in [
        Interruption::Restarted { started_at: 9_000 },
        Interruption::Restored,
    ] {
        let mut execution = Execution::recover(
            Arc::clone(&request),
            execution_id(),
            8_000,
            90_000,
            interruption,
            now,
        );
        let Some(Effect::PersistResult(settlement)) = execution.poll_effect() else {
            panic!("what is recovered ends at once")
        };
        let verdict = assert_identical(&stored(&request, &settlement));
        assert_eq!(verdict.n_inputs, 0);
    }
}

//
#[test]
fn a_limit_that_runs_out_while_the_start_is_written_replays() {
    let mut dice = Dice(5);
    let mut request = draft(&mut dice);
    request.plan.as_mut().unwrap().context_requirements = vec!["region".into()];
    let now = Moment {
        monotonic_ms: 1,
        unix_ms: 1_000,
    };
    let mut story = Story::new(request, now);
    story.feed(Input::Start);
    story.pass(10_000);
    story.feed(Input::StartPersisted);
    let record = story.record();
    let verdict = assert_identical(&record);
    // The late answer changed nothing and is left out.
    assert_eq!(verdict.n_inputs, 2);
    let result = record.decode_result().unwrap();
    assert_eq!(result.error.unwrap().error_code, "PLAN_TIMEOUT");
}

/// An execution with more inputs than are kept.
fn long_story() -> Story {
    let mut dice = Dice(8);
    let mut request = draft(&mut dice);
    let plan = request.plan.as_mut().unwrap();
    plan.context_requirements = vec!["region".into()];
    plan.steps = (0..12)
        .map(|n| StepDraft {
            id: step_id(n),
            action: "act".into(),
            payload: Some(Opaque::default()),
            ..StepDraft::default()
        })
        .collect();
    let mut story = Story::new(
        request,
        Moment {
            monotonic_ms: 0,
            unix_ms: 1_000,
        },
    );
    story.feed(Input::Start);
    story.feed(Input::StartPersisted);
    let context = StructBuilder::new().text("long", &"c".repeat(16_000)).build();
    let warning = Reported {
        code: "SLOW".into(),
        context,
        ..Reported::default()
    };
    for step in story.request.plan().canonical_order().to_vec() {
        story.feed(Input::Assigned {
            step,
            attempt: 1,
            worker: "worker".into(),
        });
        let warnings = vec![warning.clone(); limits::WARNINGS_MAX];
        let outcome = Outcome::Completed {
            output: Opaque::default(),
            warnings,
        };
        story.feed(Input::AttemptEnded {
            step,
            attempt: 1,
            outcome,
        });
    }
    story
}

//
#[test]
fn of_more_inputs_than_are_kept_the_first_are_compared() {
    let story = long_story();
    let record = story.record();
    let verdict = verify(&record);
    assert_eq!(verdict.differences, []);
    assert!(verdict.is_good() && !verdict.is_identical() && !verdict.is_complete);
    assert!(verdict.decisions_identical && verdict.audit_identical && verdict.chain_intact);
    assert!(!verdict.result_identical, "it is not compared");
    assert!(verdict.n_inputs > 10);
    // What lies behind the inputs is covered by the chain and the seal still.
    let mut changed = record.clone();
    changed.result = Bytes::from([&record.result[..], b"\x28\x01"].concat());
    assert_eq!(parts(&verify(&changed)), [(Part::Result, 0)]);
    // Sealed anew, a result of another execution is found as well.
    let mut another = record.decode_result().unwrap();
    another.execution_id = record.decode_result().unwrap().plan_id;
    let mut changed = record.clone();
    changed.result = another.encode_to_vec().into();
    let entries = record.decode_entries().unwrap();
    let head = entries.last().unwrap().hash.as_slice().try_into().unwrap();
    let inputs = record.inputs.as_deref().unwrap();
    changed.seal = Some(Seal::over(&head, &changed.result, inputs).encode().into());
    assert_eq!(parts(&verify(&changed)), [(Part::Result, 0)]);
}

fn parts(verdict: &Verdict) -> Vec<(Part, u64)> {
    let differences = verdict.differences.iter();
    differences
        .map(|difference| (difference.part, difference.sequence))
        .collect()
}
