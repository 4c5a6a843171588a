//! Random orchestrators, handler tasks and networks. What must hold in every one of them.

use super::spoken::{Dice, drain_started, snapshot_request, success};
use super::story::{Story, token};
use crate::StepError;
use crate::session::TaskEnd;
use crate::session::stream::StreamState;
use escapement_model::AttemptToken;
use std::collections::{BTreeMap, BTreeSet};

const SEEDS: u64 = 300;
const STEPS: usize = 400;

#[test]
fn whatever_happens_bodies_start_once_stay_within_capacity_and_everything_is_settled_in_the_end() {
    for seed in 1..=SEEDS {
        let mut chaos = Chaos::new(seed);
        for _ in 0..STEPS {
            chaos.step();
            chaos.check();
        }
        chaos.settle();
    }
}

struct Chaos {
    story: Story,
    seed: u64,
    dice: Dice,
    next_name: u8,
    /// Handler tasks that run, with their actions.
    tasks: BTreeMap<AttemptToken, String>,
    ever: BTreeSet<AttemptToken>,
}

impl Chaos {
    fn new(seed: u64) -> Self {
        let story = Story::begin();
        Self {
            story,
            seed,
            dice: Dice(seed),
            next_name: 0,
            tasks: BTreeMap::new(),
            ever: BTreeSet::new(),
        }
    }

    fn step(&mut self) {
        let name = u8::try_from(self.draw(u64::from(self.next_name) + 1)).unwrap();
        let is_up = matches!(self.story.session.stream, StreamState::Up { .. });
        let is_greeting = matches!(self.story.session.stream, StreamState::Greeting { .. });
        match self.draw(14) {
            0..=2 if is_up && self.next_name < 250 => {
                self.next_name += 1;
                let action = ["work", "single", "wait", "missing"][usize::try_from(self.draw(4)).unwrap()];
                let timeout_ms = i64::try_from(self.draw(20_000)).unwrap();
                self.story.assign(self.next_name, action, timeout_ms);
            }
            3 if is_up => {
                let grace_ms = i64::try_from(self.draw(2_000)).unwrap();
                self.story.cancel(name, grace_ms);
            }
            4 | 5 if is_up => self.story.acknowledge(name),
            6 if is_up => self.story.say(snapshot_request(1)),
            0..=6 if is_greeting => {
                if self.draw(20) == 0 {
                    self.story.boot = self.story.boot.wrapping_add(1);
                }
                self.story.welcome();
            }
            7..=9 => self.end_a_body(),
            10 if self.draw(4) == 0 => self.story.disconnect(),
            11 if self.draw(4) == 0 => {
                self.story.acknowledges_heartbeats = !self.story.acknowledges_heartbeats;
            }
            13 if self.draw(4) == 0 => {
                let (level, enabled) = (u32::try_from(self.draw(3)).unwrap(), self.draw(4) > 0);
                self.story
                    .change(|worker_state| worker_state.set_max_in_flight(level));
                self.story
                    .change(|worker_state| worker_state.set_enabled("single", enabled));
            }
            12 if self.draw(20) == 0 => self.story.now_ms += self.draw(30_000),
            _ => {
                let ms = self.draw(700);
                self.story.pass(ms);
            }
        }
    }

    fn end_a_body(&mut self) {
        let Some(&token) = self.tasks.keys().next() else {
            return;
        };
        self.tasks.remove(&token);
        let end = match self.draw(3) {
            0 => success(),
            1 => TaskEnd::Failure(StepError::new("BUSY", "later")),
            _ => TaskEnd::Aborted,
        };
        self.story.body_ends(token.as_bytes()[0], end);
    }

    fn check(&mut self) {
        let seed = self.seed;
        for job in std::mem::take(&mut self.story.started) {
            assert!(
                self.ever.insert(job.token),
                "seed {seed}: {} was started twice",
                job.token
            );
            self.tasks.insert(job.token, job.assignment.action);
        }
        let count = |wanted: &[&str]| {
            self.tasks
                .values()
                .filter(|action| wanted.contains(&action.as_str()))
                .count()
        };
        assert!(
            count(&["work", "single"]) <= 2,
            "seed {seed}: over the worker's capacity"
        );
        assert!(count(&["single"]) <= 1, "seed {seed}: over the action's capacity");
        let attempts = &self.story.session.attempts;
        assert!(
            self.tasks.keys().all(|token| attempts.contains(*token)),
            "seed {seed}: a body was forgotten"
        );
        let hash = attempts
            .in_flight()
            .iter()
            .fold([0; 16], |mut sum: [u8; 16], entry| {
                sum.iter_mut()
                    .zip(&entry.attempt_token)
                    .for_each(|(sum, byte)| *sum ^= byte);
                sum
            });
        assert_eq!(hash, attempts.hash(), "seed {seed}");
    }

    /// From now on everybody behaves, and the worker is asked to stop: nothing may be left.
    fn settle(&mut self) {
        self.story.acknowledges_heartbeats = true;
        while !self.tasks.is_empty() {
            self.end_a_body();
        }
        self.story.stop();
        for _ in 0..20 {
            match self.story.session.stream {
                StreamState::Greeting { .. } => self.story.welcome(),
                StreamState::Up { .. } => self.story.say(drain_started()),
                StreamState::Waiting { .. } | StreamState::Leaving { .. } | StreamState::Closing => {
                    self.story.pass(5_000)
                }
            }
            for name in 1..=self.next_name {
                let is_up = matches!(self.story.session.stream, StreamState::Up { .. });
                if is_up && self.story.session.attempts.contains(token(name)) {
                    self.story.cancel(name, 0);
                    self.story.acknowledge(name);
                }
            }
        }
        assert_eq!(self.story.session.attempts.len(), 0, "seed {}", self.seed);
        assert!(
            matches!(self.story.end, Some(Ok(()))),
            "seed {}: {:?}",
            self.seed,
            self.story.end
        );
    }

    fn draw(&mut self, bound: u64) -> u64 {
        self.dice.roll(bound)
    }
}
