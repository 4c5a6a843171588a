//! Random plans and random scripts of what happens to them.
//! Every number is small, so that instants often coincide.

use crate::documents::{UNIX_MS, environment, object_of, request, step, step_id};
use bytes::Bytes;
use escapement_contract::{Outcome, Reported, RequestDraft, RetryPolicyDraft};
use escapement_model::opaque::StructBuilder;
use escapement_model::{Opaque, Severity};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use std::fmt;

/// An execution and everything that happens to it.
#[derive(Clone)]
pub(crate) struct Scenario {
    pub(crate) request: RequestDraft,
    pub(crate) deadline_ms: i64,
    pub(crate) script: Vec<Event>,
    pub(crate) finish: Finish,
    /// Pauses hold before the steps run as well: deadlines pass in the queue, limits during
    /// the write of the start.
    pub(crate) dawdles: bool,
}

// A failure is read by people: one line for each step and each event.
impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = self.request.plan.as_ref().unwrap();
        writeln!(
            f,
            "timeout {:?}, slots {:?}, deadline in {} ms, environment {:?}, policy {:?}",
            plan.timeout_ms.unwrap_or(300_000),
            self.request.max_concurrent_steps.unwrap_or(1),
            self.deadline_ms - UNIX_MS,
            self.request.environment.is_some(),
            plan.retry_policy,
        )?;
        for (n, step) in plan.steps.iter().enumerate() {
            let on_failure = ["halt", "skip", "retry"][step.on_failure as usize];
            let after: Vec<_> = step
                .depends_on
                .iter()
                .map(|id| u32::from_str_radix(&id[..8], 16).unwrap())
                .collect();
            writeln!(
                f,
                "steps[{n}] after {after:?}, {on_failure}, timeout {:?}",
                step.timeout_ms
            )?;
        }
        for event in &self.script {
            writeln!(
                f,
                "{:?}, wall {:+}, {:?}",
                event.pause, event.wall_jump_ms, event.act
            )?;
        }
        writeln!(f, "then {:?}, dawdles {:?}", self.finish, self.dawdles)
    }
}

/// What happens after the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    /// Writes are answered and time passes, nothing else.
    Silence,
    /// Every attempt is taken and completes.
    Diligence,
    /// Every attempt is taken and fails.
    Trouble,
}

/// One line of a script.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) pause: Pause,
    /// Milliseconds by which the wall clock jumps beforehand.
    pub(crate) wall_jump_ms: i64,
    pub(crate) act: Act,
}

/// How long nothing happens before a line.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pause {
    Ms(u64),
    /// Until the instant at which the next timer of a step fires.
    UntilDue,
    /// One millisecond less.
    UntilJustBeforeDue,
    /// One millisecond more.
    UntilJustAfterDue,
    /// Until the instant at which the plan's limit ends.
    UntilPlanLimit,
}

/// What happens. Numbers pick one of those that are there.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// The next thing that is expected: a start, the answer to a write, the next stage of an attempt.
    Advance {
        pick: usize,
        skips_started: bool,
        outcome: Outcome,
    },
    /// An attempt comes back unstarted.
    Return {
        pick: usize,
    },
    /// Nobody has a handler for a step that waits.
    NotFound {
        pick: usize,
    },
    Tick,
    /// Whatever came last, again.
    Repeat,
    /// Something that fits by chance at best.
    Stray {
        step: usize,
        attempt: u32,
        kind: u8,
        outcome: Outcome,
    },
}

pub(crate) fn scenarios() -> impl Strategy<Value = Scenario> {
    let finish =
        prop_oneof![2 => Just(Finish::Silence), 5 => Just(Finish::Diligence), 3 => Just(Finish::Trouble)];
    let dawdles = prop_oneof![15 => Just(false), 1 => Just(true)];
    (requests(), deadlines(), vec(events(), 0..90), finish, dawdles).prop_map(
        |(request, slack_ms, script, finish, dawdles)| {
            let timeout_ms = request.plan.as_ref().unwrap().timeout_ms.unwrap();
            Scenario {
                request,
                deadline_ms: UNIX_MS + timeout_ms + slack_ms,
                script,
                finish,
                dawdles,
            }
        },
    )
}

/// Milliseconds of the deadline beyond the plan's limit.
fn deadlines() -> impl Strategy<Value = i64> {
    prop_oneof![40 => Just(100_000i64), 1 => -3i64..=3, 1 => Just(20i64), 1 => Just(-1_000_000i64)]
}

#[derive(Clone, Debug)]
struct StepShape {
    /// Decides the order in which references may go.
    rank: u8,
    /// One bit for each step that it may refer to.
    references: u16,
    on_failure: i32,
    timeout_ms: Option<i64>,
}

/// Plans that dice seldom throw.
#[derive(Clone, Copy, Debug)]
enum Special {
    None,
    /// One after another, so that a failure cascades far.
    ChainOfSkips,
    /// Nothing halts.
    AllRetry,
}

pub(crate) fn requests() -> impl Strategy<Value = RequestDraft> {
    let references = prop_oneof![3 => (0u16..12).prop_map(|n| 1 << n), 3 => Just(0u16), 1 => any::<u16>()];
    let on_failure = prop_oneof![1 => Just(0), 5 => Just(1), 6 => Just(2)];
    let timeout_ms = prop_oneof![3 => Just(None), 1 => select(vec![1i64, 5, 10, 20, 40]).prop_map(Some)];
    let shape = (any::<u8>(), references, on_failure, timeout_ms).prop_map(
        |(rank, references, on_failure, timeout_ms)| StepShape {
            rank,
            references,
            on_failure,
            timeout_ms,
        },
    );
    let plan_timeout_ms = prop_oneof![1 => Just(30i64), 2 => Just(100), 3 => Just(1_000), 6 => Just(300_000)];
    let has_context = prop_oneof![40 => Just(true), 1 => Just(false)];
    let special =
        prop_oneof![8 => Just(Special::None), 1 => Just(Special::ChainOfSkips), 1 => Just(Special::AllRetry)];
    (
        vec(shape, 1..=12),
        policies(),
        plan_timeout_ms,
        1i32..=4,
        has_context,
        special,
    )
        .prop_map(|(shapes, policy, timeout_ms, n_slots, has_context, special)| {
            let mut draft = request();
            let plan = draft.plan.as_mut().unwrap();
            plan.steps = steps(&shapes);
            for n in 0..plan.steps.len() {
                match special {
                    Special::None => {}
                    Special::AllRetry => plan.steps[n].on_failure = 2,
                    Special::ChainOfSkips => {
                        plan.steps[n].on_failure = 1;
                        plan.steps[n].depends_on = (n % 8 > 0).then(|| step_id(n - 1)).into_iter().collect();
                    }
                }
            }
            plan.retry_policy = policy;
            plan.timeout_ms = Some(timeout_ms);
            draft.deadline_ms = None;
            draft.max_concurrent_steps = Some(n_slots);
            draft.environment = if has_context { Some(environment()) } else { None };
            draft
        })
}

fn steps(shapes: &[StepShape]) -> Vec<escapement_contract::StepDraft> {
    let is_before = |a: usize, b: usize| (shapes[a].rank, a) < (shapes[b].rank, b);
    let mut steps: Vec<_> = (0..shapes.len()).map(step).collect();
    for (n, shape) in shapes.iter().enumerate() {
        steps[n].on_failure = shape.on_failure;
        steps[n].timeout_ms = shape.timeout_ms;
        steps[n].depends_on = (0..shapes.len())
            .filter(|other| shape.references >> other & 1 == 1 && is_before(*other, n))
            .map(step_id)
            .collect();
    }
    steps
}

fn policies() -> impl Strategy<Value = Option<RetryPolicyDraft>> {
    let codes = select(vec![
        vec!["*"],
        vec!["STEP_TIMEOUT", "*"],
        vec!["BUSY"],
        vec!["BUSY", "STEP_TIMEOUT"],
        vec!["FLAKY", "STEP_TIMEOUT", "BUSY"],
        vec!["WORKER_LOST", "STEP_TIMEOUT"],
        vec!["UNKNOWN_ERROR", "STEP_SKIPPED", "EXECUTION_HALTED"],
        vec![],
    ]);
    let policy = (
        1i32..=4,
        select(vec![0i64, 0, 5, 10, 20]),
        select(vec![1.0, 1.5, 2.0, 10.0]),
        select(vec![60_000i64, 15, 0]),
        codes,
    )
        .prop_map(
            |(attempts, backoff_ms, multiplier, max_backoff_ms, codes)| RetryPolicyDraft {
                max_attempts: Some(attempts),
                backoff_ms: Some(backoff_ms),
                backoff_multiplier: Some(multiplier),
                max_backoff_ms: Some(max_backoff_ms),
                retryable_error_codes: codes.into_iter().map(str::to_owned).collect(),
            },
        );
    prop_oneof![1 => Just(None), 9 => policy.prop_map(Some)]
}

fn events() -> impl Strategy<Value = Event> {
    let pause = prop_oneof![
        10 => Just(Pause::Ms(0)),
        4 => select(vec![1u64, 4, 5, 10, 20]).prop_map(Pause::Ms),
        2 => Just(Pause::UntilDue),
        1 => Just(Pause::UntilJustBeforeDue),
        1 => Just(Pause::UntilJustAfterDue),
        1 => (0u8..60).prop_map(|n| if n == 0 { Pause::UntilPlanLimit } else { Pause::Ms(1) }),
    ];
    let wall_jump_ms = prop_oneof![15 => Just(0i64), 1 => -5_000i64..5_000];
    let picks = || 0usize..6;
    let act = prop_oneof![
        30 => (picks(), any::<bool>(), outcomes())
            .prop_map(|(pick, skips_started, outcome)| Act::Advance { pick, skips_started, outcome }),
        2 => picks().prop_map(|pick| Act::Return { pick }),
        1 => (picks(), 0u8..12).prop_map(|(pick, n)| if n == 0 { Act::NotFound { pick } } else { Act::Tick }),
        2 => Just(Act::Repeat),
        3 => (0usize..14, 0u32..5, any::<u8>(), outcomes())
            .prop_map(|(step, attempt, kind, outcome)| Act::Stray { step, attempt, kind, outcome }),
    ];
    (pause, wall_jump_ms, act).prop_map(|(pause, wall_jump_ms, act)| Event {
        pause,
        wall_jump_ms,
        act,
    })
}

fn outcomes() -> impl Strategy<Value = Outcome> {
    let completed = (0u8..4, vec(reports(), 0..3)).prop_map(|(form, warnings)| Outcome::Completed {
        output: if form == 0 {
            Opaque::default()
        } else {
            StructBuilder::new().number("n", f64::from(form)).build()
        },
        warnings,
    });
    let wrong_output = (0u8..2).prop_map(|form| Outcome::Completed {
        output: if form == 0 {
            object_of((1 << 20) + 1)
        } else {
            Opaque::from_encoded(Bytes::from_static(&[0x0a, 0x09]))
        },
        warnings: vec![],
    });
    let busy = Just(Outcome::Failed(Reported {
        code: "BUSY".into(),
        ..Reported::default()
    }));
    prop_oneof![
        120 => completed,
        60 => busy,
        40 => reports().prop_map(Outcome::Failed),
        8 => Just(Outcome::Lost),
        1 => Just(Outcome::Undecodable { detail: "no message".into() }),
        2 => wrong_output,
    ]
}

fn reports() -> impl Strategy<Value = Reported> {
    let often = select(vec![
        "BUSY",
        "FLAKY",
        "EXECUTION_HALTED",
        "STEP_SKIPPED",
        "WORKER_LOST",
        "*",
    ]);
    let seldom = select(vec![
        "STEP_TIMEOUT",
        "UNKNOWN_ERROR",
        "INVALID_PAYLOAD",
        "RESOURCE_EXHAUSTED",
        "CONTEXT_MISSING",
        "PLAN_TIMEOUT",
        "DEADLINE_EXCEEDED",
        "DEPENDENCY_UNRESOLVED",
        "ACTION_NOT_FOUND",
        "",
        "A_CODE_OF_FIFTY_ONE_LETTERS_IS_ONE_LETTER_TOO_LONG_",
    ]);
    let code = prop_oneof![20 => often, 1 => seldom];
    let severity = prop_oneof![
        6 => Just(None),
        6 => Just(Some(Severity::Error)),
        4 => Just(Some(Severity::Warn)),
        1 => Just(Some(Severity::Fatal)),
    ];
    (code, severity).prop_map(|(code, severity)| Reported {
        code: code.into(),
        message: "it did not work".into(),
        severity,
        context: Opaque::default(),
    })
}
