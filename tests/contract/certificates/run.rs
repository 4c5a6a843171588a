//! An execution on a virtual clock, with workers of which some wait, give attempts back, answer at the last instant or never.
//! Measures what of its time counts. Judges nothing.

use crate::documents::EXECUTION_ID;
use escapement_contract::{
    Effect, Evidence, Execution, Input, Moment, Outcome, Phase, Reported, Request, Settlement, StepIndex,
};
use escapement_model::opaque::StructBuilder;
use escapement_model::{Opaque, Severity};
use escapement_tests::Dice;
use std::sync::Arc;

/// What came of an execution.
pub(crate) struct Ran {
    pub(crate) settlement: Arc<Settlement>,
    /// From the start to the end.
    pub(crate) total_ms: u64,
    /// Of this, what counts.
    pub(crate) counted_ms: u64,
    /// By how much timers fired late, all together.
    pub(crate) late_ms: u64,
    /// By step, by the number of the last attempt that was handed out.
    pub(crate) n_attempts: Vec<u32>,
    pub(crate) n_given_back: u32,
}

impl Ran {
    pub(crate) fn attempts(&self) -> u64 {
        self.n_attempts.iter().map(|n| u64::from(*n)).sum()
    }

    pub(crate) fn hit_plan_limit(&self) -> bool {
        let error = self.settlement.result.error.as_ref();
        error.is_some_and(|error| error.code == "PLAN_TIMEOUT" && error.step_id.is_none())
    }
}

/// How the workers of one run behave, in percent.
struct Manner {
    waits: u64,
    gives_back: u64,
    is_late: u64,
    /// Takes all the time that there is and uses up all attempts.
    is_slow: u64,
    completes: u64,
    /// Outputs and diagnostic data are as large as they may be.
    is_large: bool,
}

/// What happens next with a step.
#[derive(Clone, Debug)]
struct Next {
    at: u64,
    attempt: u32,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    HandOut,
    NotFound,
    GiveBack,
    Answer(Outcome),
}

struct Run<'a> {
    dice: &'a mut Dice,
    manner: Manner,
    request: Arc<Request>,
    execution: Execution,
    now: u64,
    /// By step.
    next: Vec<Option<Next>>,
    /// By step: since when its attempt waits for a worker, or is with one.
    since: Vec<u64>,
    start_persisted_at: Option<u64>,
    /// Time that does not count.
    uncounted: Vec<(u64, u64)>,
    late_ms: u64,
    n_attempts: Vec<u32>,
    n_given_back: u32,
    settlement: Option<Arc<Settlement>>,
}

/// Runs an execution until its end is decided.
pub(crate) fn to_its_end(request: &Arc<Request>, dice: &mut Dice) -> Ran {
    let manner = manner(dice);
    let at = Moment {
        monotonic_ms: 0,
        unix_ms: UNIX_MS,
    };
    let n_steps = request.plan().steps().len();
    let execution = Execution::accept(
        Arc::clone(request),
        EXECUTION_ID.parse().unwrap(),
        UNIX_MS,
        i64::MAX,
        at,
    );
    let mut run = Run {
        dice,
        manner,
        request: Arc::clone(request),
        execution,
        now: 0,
        next: vec![None; n_steps],
        since: vec![0; n_steps],
        start_persisted_at: None,
        uncounted: Vec::new(),
        late_ms: 0,
        n_attempts: vec![0; n_steps],
        n_given_back: 0,
        settlement: None,
    };
    run.feed(Input::Start);
    while run.settlement.is_none() {
        run.step();
    }
    run.conclude()
}

fn manner(dice: &mut Dice) -> Manner {
    let is_slow = *dice.pick(&[100, 100, 100, 90, 10]);
    let completes = *dice.pick(&[100, 100, 90, 50]);
    let is_large = dice.roll(200) == 0;
    if dice.percent(40) {
        return Manner {
            waits: 0,
            gives_back: 0,
            is_late: 0,
            is_slow,
            completes,
            is_large,
        };
    }
    let (waits, gives_back) = (*dice.pick(&[0, 30, 90]), *dice.pick(&[0, 20, 60]));
    Manner {
        waits,
        gives_back,
        is_late: *dice.pick(&[0, 20]),
        is_slow,
        completes,
        is_large,
    }
}

impl Run<'_> {
    /// Goes on to the next thing that happens.
    fn step(&mut self) {
        let due = self
            .execution
            .next_due_ms()
            .expect("what has not ended has a limit");
        let late = if self.dice.percent(self.manner.is_late) {
            self.dice.roll(20)
        } else {
            0
        };
        let persisted = self.start_persisted_at.map(|at| (at, None));
        let steps = self.next.iter().enumerate();
        let steps = steps.filter_map(|(step, next)| Some((next.as_ref()?.at, Some(step))));
        let first = steps.chain(persisted).min_by_key(|(at, _)| *at);
        match first {
            // What comes at the instant of a timer comes before the tick as often as not.
            Some((at, step)) if at < due + late || at == due && self.dice.percent(50) => {
                self.now = self.now.max(at);
                match step {
                    None => {
                        self.start_persisted_at = None;
                        self.uncounted.push((0, self.now));
                        self.feed(Input::StartPersisted);
                    }
                    Some(step) => {
                        let next = self.next[step].take().expect("it was found there");
                        self.happens(step, next);
                    }
                }
            }
            Some(_) | None => {
                self.now = self.now.max(due + late);
                self.feed(Input::Tick);
            }
        }
    }

    fn happens(&mut self, number: usize, Next { attempt, what, .. }: Next) {
        let step = self.index(number);
        match what {
            What::HandOut => self.hand_out(step, attempt),
            What::NotFound => {
                self.uncounted.push((self.since[number], self.now));
                self.feed(Input::ActionNotFound { step, attempt });
            }
            What::GiveBack => {
                // A timer may be before it: then it is not given back.
                let since = self.since[number];
                let evidence =
                    *self
                        .dice
                        .pick(&[Evidence::Rejected, Evidence::Released, Evidence::LeaseExpired]);
                if self.feed(Input::AttemptReturned {
                    step,
                    attempt,
                    evidence,
                }) {
                    self.uncounted.push((since, self.now));
                    self.n_given_back += 1;
                }
            }
            What::Answer(outcome) => {
                self.feed(Input::AttemptEnded {
                    step,
                    attempt,
                    outcome,
                });
            }
        }
    }

    fn hand_out(&mut self, step: StepIndex, attempt: u32) {
        let number = step.as_usize();
        // It waited until now, whether it is still wanted or the plan's limit comes first.
        self.uncounted.push((self.since[number], self.now));
        let worker = "worker".into();
        if !self.feed(Input::Assigned {
            step,
            attempt,
            worker,
        }) {
            return;
        }
        self.since[number] = self.now;
        self.n_attempts[number] = self.n_attempts[number].max(attempt);
        let limit_ms = self.request.plan().step(step).timeout_ms();
        if self.dice.percent(self.manner.gives_back) {
            let at = self.now + self.dice.roll(limit_ms.unwrap_or(50) + 2);
            self.next[number] = Some(Next {
                at,
                attempt,
                what: What::GiveBack,
            });
            return;
        }
        if self.dice.percent(80) {
            self.feed(Input::AttemptStarted { step, attempt });
        }
        self.next[number] = self.answer(step, attempt, limit_ms);
    }

    /// What comes of an attempt that was handed out, and when. `None`: nothing ever.
    fn answer(&mut self, step: StepIndex, attempt: u32, limit_ms: Option<u64>) -> Option<Next> {
        let (plan, dice) = (self.request.plan(), &mut *self.dice);
        let is_slow = dice.percent(self.manner.is_slow);
        let policy = plan.retry_policy();
        let is_last = attempt >= policy.max_attempts() || plan.step(step).on_failure().as_str() != "retry";
        let may_fail = !is_last || plan.step(step).on_failure().as_str() != "halt" && dice.percent(50);
        if is_slow && policy.lists("STEP_TIMEOUT") && may_fail {
            return None;
        }
        let takes_ms = match limit_ms {
            Some(limit_ms) if is_slow => limit_ms - 1,
            // Late or in time, more or less.
            Some(limit_ms) => dice.roll(limit_ms + limit_ms / 4 + 1),
            None => dice.roll(200),
        };
        let outcome = if is_slow && !is_last && policy.lists("BUSY") {
            failed(dice, "BUSY", Some(Severity::Error), self.manner.is_large)
        } else if dice.percent(self.manner.completes) {
            completed(dice, self.manner.is_large)
        } else if is_slow && dice.percent(30) {
            return None;
        } else {
            trouble(dice, self.manner.is_large)
        };
        Some(Next {
            at: self.now + takes_ms,
            attempt,
            what: What::Answer(outcome),
        })
    }

    /// Returns false if the input is refused.
    fn feed(&mut self, input: Input) -> bool {
        if let Some(due) = self.execution.next_due_ms().filter(|due| *due < self.now) {
            self.uncounted.push((due, self.now));
            self.late_ms += self.now - due;
        }
        let at = Moment {
            monotonic_ms: self.now,
            unix_ms: UNIX_MS + i64::try_from(self.now).unwrap(),
        };
        let is_accepted = self.execution.handle(at, input).is_ok();
        while let Some(effect) = self.execution.poll_effect() {
            match effect {
                Effect::PersistStart { .. } => {
                    let takes_ms = if self.dice.percent(self.manner.waits) {
                        self.dice.roll(30)
                    } else {
                        0
                    };
                    self.start_persisted_at = Some(self.now + takes_ms);
                }
                Effect::Dispatch { step, attempt } => {
                    let waits_ms = if self.dice.percent(self.manner.waits) {
                        self.dice.roll(60)
                    } else {
                        0
                    };
                    let is_unknown = self.dice.roll(400) == 0;
                    let what = if is_unknown { What::NotFound } else { What::HandOut };
                    self.since[step.as_usize()] = self.now;
                    self.next[step.as_usize()] = Some(Next {
                        at: self.now + waits_ms,
                        attempt,
                        what,
                    });
                }
                Effect::Withdraw { step, .. } => {
                    let next = self.next[step.as_usize()].take();
                    // What still waits at the end waited until then.
                    if next.is_some_and(|next| matches!(next.what, What::HandOut | What::NotFound)) {
                        self.uncounted.push((self.since[step.as_usize()], self.now));
                    }
                }
                Effect::PersistResult(settlement) => self.settlement = Some(settlement),
                Effect::Deliver(_) => unreachable!("nothing is durable here"),
            }
        }
        is_accepted
    }

    fn conclude(mut self) -> Ran {
        assert_eq!(self.execution.phase(), Phase::Settling);
        let total_ms = self.now;
        let mut uncounted_ms = 0;
        let mut reached = 0;
        self.uncounted
            .extend(self.start_persisted_at.map(|_| (0, total_ms)));
        self.uncounted.sort_unstable();
        for (from, to) in &self.uncounted {
            uncounted_ms += to.saturating_sub(reached.max(*from));
            reached = reached.max(*to);
        }
        Ran {
            settlement: self.settlement.expect("it ended"),
            total_ms,
            counted_ms: total_ms - uncounted_ms,
            late_ms: self.late_ms,
            n_attempts: self.n_attempts,
            n_given_back: self.n_given_back,
        }
    }

    fn index(&self, number: usize) -> StepIndex {
        let canonical = self.request.plan().canonical_order().iter();
        *canonical
            .into_iter()
            .find(|step| step.as_usize() == number)
            .expect("a plan orders all its steps")
    }
}

fn completed(dice: &mut Dice, is_large: bool) -> Outcome {
    let n_letters = if is_large { (1 << 20) - 64 } else { dice.index(200) };
    Outcome::Completed {
        output: StructBuilder::new()
            .text("output", &"x".repeat(n_letters))
            .build(),
        warnings: vec![],
    }
}

fn failed(dice: &mut Dice, code: &str, severity: Option<Severity>, is_large: bool) -> Outcome {
    let n_letters = if is_large || dice.percent(2) {
        1_000
    } else {
        dice.index(20)
    };
    let n_bytes = if is_large {
        (16 << 10) - 64
    } else {
        dice.index(100)
    };
    Outcome::Failed(Reported {
        code: code.into(),
        message: "\u{10ffff}".repeat(n_letters),
        severity,
        context: StructBuilder::new().text("context", &"x".repeat(n_bytes)).build(),
    })
}

fn trouble(dice: &mut Dice, is_large: bool) -> Outcome {
    match dice.roll(20) {
        0 => Outcome::Undecodable {
            detail: "\u{10ffff}".repeat(if is_large { 1_000 } else { 1 }),
        },
        1 => Outcome::Lost,
        2 => Outcome::Completed {
            output: Opaque::from_encoded(vec![0xff].into()),
            warnings: vec![],
        },
        3 => failed(
            dice,
            &"\u{10ffff}".repeat(if is_large { 1_000 } else { 51 }),
            None,
            is_large,
        ),
        _ => {
            let code = *dice.pick(&[
                "BUSY",
                "BUSY",
                "OTHER",
                "STEP_TIMEOUT",
                "EXECUTION_HALTED",
                "STEP_SKIPPED",
            ]);
            let severity = *dice.pick(&[
                None,
                Some(Severity::Error),
                Some(Severity::Error),
                Some(Severity::Warn),
                Some(Severity::Fatal),
            ]);
            failed(dice, code, severity, is_large)
        }
    }
}

/// When every execution starts.
const UNIX_MS: i64 = crate::documents::UNIX_MS;
