//! Random plans and random inputs for stories that take any of them.

use crate::story::{Spec, Story, assigned, completed, failed, plan, returned, steps};
use escapement_contract::{Evidence, Input, Outcome, StepState};
use escapement_model::Severity;
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
        0 => returned(step, attempt, Evidence::Rejected),
        1 => Input::Start,
        2 => Input::SettlePersisted,
        3 => story.ended(name, attempt + 1, completed(name)),
        4..8 => Input::Tick,
        8..18 => assigned(step, attempt),
        18..24 => Input::AttemptStarted { step, attempt },
        _ => story.ended(name, attempt, random_outcome(dice, name)),
    }
}

//
#[test]
fn time_alone_moves_nothing_but_timers() {
    let mut story = steps("a").running();
    story.says("dispatch a#1");
    for ms in 1..1000 {
        story.at(ms).tick().says("");
    }
    assert_eq!(Arc::strong_count(story.execution.request()), 1);
}
