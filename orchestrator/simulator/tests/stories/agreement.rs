//! Random plans and stubs: the simulator against a driver so simple that it can only be right.
//!
//! That driver passes every millisecond, never asks when the next timer is due, keeps what was withdrawn, and tells
//! the core all of it.

use crate::scene::{Scene, T0, ends, execution_id, failed, plan};
use crate::timelines::assert_agrees;
use escapement_contract::{
    Effect, Evidence, Execution, Input, Moment, Outcome, Phase, Reported, Settlement, StepIndex,
};
use escapement_model::Severity;
use escapement_simulator::{AttemptStub, End, WORKER};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Random scenes. Each takes some milliseconds.
const N_SCENES: u64 = 1_000;

#[test]
fn a_driver_that_passes_every_millisecond_comes_to_the_same() {
    let mut endings: BTreeMap<String, u32> = BTreeMap::new();
    for seed in 0..N_SCENES {
        let (scene, stubs) = random_scene(seed);
        let played = scene.play();
        let naive = Naive::play(&scene, &stubs);
        assert_eq!(played.0.settlement.result, naive.result, "seed {seed}");
        assert_eq!(played.0.settlement.audit, naive.audit, "seed {seed}");
        assert_agrees(&scene, &played);
        let error = naive.result.error.as_ref();
        let ending = error.map_or("success", |error| error.code.as_str());
        *endings.entry(ending.to_owned()).or_default() += 1;
    }
    // What is never reached is not compared.
    for ending in [
        "success",
        "PLAN_TIMEOUT",
        "STEP_TIMEOUT",
        "WORKER_LOST",
        "ACTION_NOT_FOUND",
        "BUSY",
        "DEADLINE_EXCEEDED",
        "DEPENDENCY_UNRESOLVED",
    ] {
        assert!(endings.contains_key(ending), "{ending} is not in {endings:?}");
    }
}

/// What is to come of an attempt, in the order in which it became known.
struct Pending {
    at_ms: u64,
    step: StepIndex,
    attempt: u32,
    end: bool,
    stub: AttemptStub,
}

struct Naive {
    execution: Execution,
    now_ms: u64,
    stubs: BTreeMap<usize, Vec<AttemptStub>>,
    n_dispatched: BTreeMap<usize, usize>,
    pending: Vec<Pending>,
    written: Vec<Input>,
    settlement: Option<Arc<Settlement>>,
}

impl Naive {
    fn play(scene: &Scene, stubs: &BTreeMap<usize, Vec<AttemptStub>>) -> Arc<Settlement> {
        let request = scene.request();
        let deadline = scene.deadline(&request);
        let now = Moment {
            monotonic_ms: 0,
            unix_ms: T0,
        };
        let mut naive = Self {
            execution: Execution::accept(request, execution_id(), T0, deadline, now),
            now_ms: 0,
            stubs: stubs.clone(),
            n_dispatched: BTreeMap::new(),
            pending: Vec::new(),
            written: vec![Input::Start],
            settlement: None,
        };
        while naive.execution.phase() != Phase::Settled {
            naive.tell(Input::Tick);
            while naive.step_at_this_instant() {}
            naive.now_ms += 1;
        }
        naive.settlement.unwrap()
    }

    /// Writes are answered first; then whatever became known first. False if nothing happens now any more.
    fn step_at_this_instant(&mut self) -> bool {
        if let Some(input) = self.written.pop() {
            self.tell(input);
            return true;
        }
        // The earliest time, then the first that became known.
        let due = (0..self.pending.len()).filter(|n| self.pending[*n].at_ms <= self.now_ms);
        let Some(next) = due.min_by_key(|n| (self.pending[*n].at_ms, *n)) else {
            return false;
        };
        let Pending {
            step,
            attempt,
            end,
            stub,
            ..
        } = self.pending.remove(next);
        if end {
            self.tell(match stub.end {
                End::Completed(output) => ended(step, attempt, Outcome::completed(output)),
                End::Failed(reported) => ended(step, attempt, Outcome::Failed(reported)),
                End::Lost => ended(step, attempt, Outcome::Lost),
                End::Returned => Input::AttemptReturned {
                    step,
                    attempt,
                    evidence: Evidence::Released,
                },
                End::Silent | End::ActionNotFound => return true,
            });
            return true;
        }
        if stub.end == End::ActionNotFound {
            self.tell(Input::ActionNotFound { step, attempt });
            return true;
        }
        self.tell(Input::Assigned {
            step,
            attempt,
            worker: WORKER.into(),
        });
        if stub.end != End::Returned {
            self.tell(Input::AttemptStarted { step, attempt });
        }
        let at_ms = self.now_ms.saturating_add(stub.takes_ms);
        self.pending.push(Pending {
            at_ms,
            step,
            attempt,
            end: true,
            stub,
        });
        true
    }

    /// What does not fit is refused and changes nothing.
    fn tell(&mut self, input: Input) {
        let now = Moment {
            monotonic_ms: self.now_ms,
            unix_ms: T0 + i64::try_from(self.now_ms).unwrap(),
        };
        let _ = self.execution.handle(now, input);
        while let Some(effect) = self.execution.poll_effect() {
            match effect {
                Effect::PersistStart { .. } => self.written.push(Input::StartPersisted),
                Effect::PersistResult(settlement) => {
                    self.settlement = Some(settlement);
                    self.written.push(Input::SettlePersisted);
                }
                Effect::Dispatch { step, attempt } => {
                    let list = &self.stubs[&step.as_usize()];
                    let n = self.n_dispatched.entry(step.as_usize()).or_default();
                    let stub = list.get(*n).or(list.last()).unwrap().clone();
                    *n += 1;
                    self.pending.push(Pending {
                        at_ms: self.now_ms.saturating_add(stub.waits_ms),
                        step,
                        attempt,
                        end: false,
                        stub,
                    });
                }
                Effect::Withdraw { .. } | Effect::Deliver(_) => {}
            }
        }
    }
}

fn ended(step: StepIndex, attempt: u32, outcome: Outcome) -> Input {
    Input::AttemptEnded {
        step,
        attempt,
        outcome,
    }
}

/// Numbers are small, so that instants coincide. The stubs by the index of their step as well.
fn random_scene(seed: u64) -> (Scene, BTreeMap<usize, Vec<AttemptStub>>) {
    let mut dice = Dice(seed);
    let n_steps = 1 + dice.roll(6) as usize;
    let codes: &[&str] = [&["BUSY"][..], &["*"], &["STEP_TIMEOUT", "WORKER_LOST"], &[]][dice.index(4)];
    let mut scene = plan()
        .plan_limit(1 + dice.roll(60) as i64)
        .attempts(1 + dice.roll(4) as i32, dice.roll(4) as i64, codes)
        .at_a_time(1 + dice.roll(3) as i32);
    if dice.roll(20) == 0 {
        scene.draft.deadline_ms = Some(T0 + dice.roll(60) as i64);
    }
    let names = ["a", "b", "c", "d", "e", "f"];
    let mut all = BTreeMap::new();
    for n in 0..n_steps {
        scene = scene.step(names[n]).on_failure(dice.roll(3) as i32);
        for earlier in &names[..n] {
            if dice.roll(4) == 0 {
                scene = scene.after(earlier);
            }
        }
        if dice.roll(2) == 0 {
            scene = scene.limit(1 + dice.roll(12) as i64);
        }
        let n_stubs = 1 + dice.roll(3);
        let stubs: Vec<_> = (0..n_stubs).map(|_| random_stub(&mut dice)).collect();
        scene = scene.stub(stubs.clone());
        all.insert(n, stubs);
    }
    (scene, all)
}

fn random_stub(dice: &mut Dice) -> AttemptStub {
    let waits_ms = dice.roll(6);
    let end = match dice.roll(12) {
        0..=4 => End::default(),
        5..=6 => failed("BUSY"),
        7 => End::Failed(Reported {
            code: "ODD".into(),
            severity: Some([Severity::Warn, Severity::Fatal][dice.index(2)]),
            ..Reported::default()
        }),
        8 => End::Lost,
        9 => End::Silent,
        10 => End::ActionNotFound,
        // Of no time it would come again without end.
        _ => return ends(waits_ms, 1 + dice.roll(6), End::Returned),
    };
    ends(waits_ms, dice.roll(10), end)
}

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }

    fn index(&mut self, len: usize) -> usize {
        self.roll(len as u64) as usize
    }
}
