//! Random plans and random inputs: the invariants of every result, and that the same inputs give the same
//! bytes.

use crate::story::{Spec, Story, completed, failed, plan};
use escapement_contract::{AuditKind, Evidence, Input, Outcome, Phase, Settlement, Status, StepState};
use escapement_model::Severity;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A small generator with a seed, so that a failure is a number.
pub struct Dice(pub u64);

impl Dice {
    /// 0 to `n - 1`.
    pub fn roll(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

pub fn random_plan(dice: &mut Dice) -> Spec {
    let n_steps = 1 + dice.roll(12);
    let mut spec = plan();
    for n in 0..n_steps {
        spec = spec.step(&format!("s{n}"));
        for earlier in 0..n {
            if dice.roll(4) == 0 {
                spec = spec.after(&[&format!("s{earlier}")]);
            }
        }
        spec = match dice.roll(4) {
            0 => spec,
            1 => spec.retry(),
            _ => spec.skip(),
        };
        if dice.roll(3) == 0 {
            spec = spec.limit(1 + i64::try_from(dice.roll(60)).unwrap());
        }
    }
    // A list in another order than the dependencies.
    let turn = dice.roll(n_steps);
    spec.plan().steps.rotate_left(usize::try_from(turn).unwrap());
    let codes: &[&str] =
        [&["*"][..], &["X"], &["STEP_TIMEOUT", "WORKER_LOST"]][usize::try_from(dice.roll(3)).unwrap()];
    let backoff = [0, 3, 40][usize::try_from(dice.roll(3)).unwrap()];
    let attempts = 1 + i32::try_from(dice.roll(3)).unwrap();
    let n_slots = 1 + i32::try_from(dice.roll(5)).unwrap();
    spec.attempts(attempts, backoff, codes).at_a_time(n_slots)
}

fn random_outcome(dice: &mut Dice, name: &str) -> Outcome {
    match dice.roll(24) {
        0 => failed("X", Some(Severity::Fatal)),
        1..4 => failed("X", None),
        4 => failed("Y", Some(Severity::Warn)),
        5 => Outcome::Lost,
        6 => failed("STEP_TIMEOUT", None),
        _ => completed(name),
    }
}

/// One input that may or may not fit.
pub fn random_input(dice: &mut Dice, story: &Story) -> Input {
    let names: Vec<String> = (0..story.execution.request().plan().steps().len())
        .map(|n| format!("s{n}"))
        .collect();
    let name = &names[usize::try_from(dice.roll(names.len() as u64)).unwrap()];
    let step = story.index(name);
    let attempt = match story.state(name) {
        StepState::Waiting { attempt } | StepState::Assigned { attempt } | StepState::Started { attempt } => {
            attempt
        }
        StepState::Pending | StepState::BackingOff { .. } | StepState::Completed => 1,
        StepState::NotCompleted | StepState::Stopped => 1,
    };
    match dice.roll(40) {
        0 => Input::AttemptReturned {
            step,
            attempt,
            evidence: Evidence::Rejected,
        },
        1 => Input::Start,
        2 => Input::SettlePersisted,
        3 => story.ended(name, attempt + 1, completed(name)),
        4..8 => Input::Tick,
        8..18 => Input::Assigned {
            step,
            attempt,
            worker: "w".into(),
        },
        18..24 => Input::AttemptStarted { step, attempt },
        _ => story.ended(name, attempt, random_outcome(dice, name)),
    }
}

/// Runs one execution to its end.
fn walk(seed: u64, check_refusals: bool) -> (Story, Vec<String>) {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut story = random_plan(&mut dice).running();
    let mut answers = Vec::new();
    let mut ms = 0;
    while story.execution.phase() < Phase::Settling {
        ms += dice.roll(4) * dice.roll(4);
        story.at(ms);
        let input = random_input(&mut dice, &story);
        if check_refusals {
            story.tick();
            //
            let before = format!("{:?}", story.execution);
            if story.feed(input).is_err() {
                assert_eq!(format!("{:?}", story.execution), before, "seed {seed}");
            }
        } else {
            answers.push(format!("{:?}", story.feed(input)));
        }
        assert_slots(&story);
    }
    (story, answers)
}

/// no more steps than slots are under way.
fn assert_slots(story: &Story) {
    let progress = story.execution.progress();
    let n_under_way = progress.steps_waiting + progress.steps_running + progress.steps_backing_off;
    assert!(n_under_way <= story.execution.request().max_concurrent_steps());
    let n_steps =
        n_under_way + progress.steps_pending + progress.steps_completed + progress.steps_not_completed;
    assert_eq!(n_steps, progress.steps_total);
}

//
#[test]
fn every_walk_ends_in_a_result_that_keeps_the_invariants() {
    let mut seen = BTreeMap::new();
    for seed in 1..3000 {
        let (mut story, _) = walk(seed, false);
        let settlement = story.persisted.clone().unwrap();
        let result = &settlement.result;
        let severity = result.error.as_ref().map(|error| error.severity);
        assert!(result.duration_ms >= 0);
        match result.status {
            Status::Success => assert!(severity.is_none() && result.steps_executed == result.steps_total),
            Status::Partial => {
                assert!(severity.unwrap() < Severity::Fatal, "seed {seed}");
                assert!(
                    (1..result.steps_total).contains(&result.steps_executed),
                    "seed {seed}"
                );
            }
            Status::Failure => {
                assert_eq!(severity, Some(Severity::Fatal), "seed {seed}");
                assert!(result.steps_executed < result.steps_total, "seed {seed}");
            }
        }
        assert_record(&story, &settlement, seed);
        // The walk itself may have said that the settlement is durable.
        if story.execution.phase() == Phase::Settling {
            story.settle();
        }
        assert_eq!(story.execution.result(), Some(result));
        *seen.entry(result.status.as_str()).or_insert(0) += 1;
    }
    assert!(seen.len() == 3 && seen.values().all(|n| *n > 50), "{seen:?}");
}

/// What the record says must fit the plan and the result.
fn assert_record(story: &Story, settlement: &Settlement, seed: u64) {
    let plan = story.execution.request().plan();
    let mut completed = BTreeSet::new();
    let mut open = BTreeSet::new();
    for entry in &settlement.audit {
        match &entry.kind {
            AuditKind::StepWaiting { step_id, .. } => {
                let step = plan.steps().iter().find(|step| step.id() == *step_id).unwrap();
                for dependency in step.depends_on() {
                    let dependency = plan.step(*dependency).id();
                    assert!(
                        completed.contains(&dependency),
                        "seed {seed}: {step_id} ran before {dependency}"
                    );
                }
            }
            AuditKind::AttemptAssigned { step_id, .. } => {
                assert!(
                    open.insert(*step_id),
                    "seed {seed}: two live attempts of {step_id}"
                );
            }
            AuditKind::AttemptReturned { step_id, .. } | AuditKind::AttemptFailed { step_id, .. } => {
                assert!(open.remove(step_id), "seed {seed}: {step_id} was not under way");
            }
            AuditKind::StepCompleted { step_id, .. } => {
                assert!(
                    open.remove(step_id) && completed.insert(*step_id),
                    "seed {seed}: {step_id}"
                );
            }
            _ => {}
        }
    }
    let keys: BTreeSet<String> = settlement
        .result
        .result_payload
        .entries()
        .map(|entry| entry.unwrap().0.into())
        .collect();
    assert_eq!(keys, completed.iter().map(ToString::to_string).collect());
    assert_eq!(completed.len(), settlement.result.steps_executed as usize);
}

//
#[test]
fn the_same_inputs_give_the_same_bytes() {
    for seed in 1..300 {
        let (one, answers) = walk(seed, false);
        let (other, same_answers) = walk(seed, false);
        assert_eq!(answers, same_answers);
        assert_eq!(one.persisted, other.persisted);
        assert_eq!(format!("{:?}", one.execution), format!("{:?}", other.execution));
    }
}

//
#[test]
fn a_refused_input_changes_nothing_anywhere() {
    for seed in 1..200 {
        walk(seed, true);
    }
}

//
#[test]
fn time_alone_moves_nothing_but_timers() {
    let mut story = plan().step("a").running();
    story.says(&["dispatch a#1"]);
    for ms in 1..1000 {
        story.at(ms).tick().says(&[]);
    }
    assert_eq!(Arc::strong_count(story.execution.request()), 1);
}
