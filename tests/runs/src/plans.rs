//! The small plans: every kind of step alone, every pair, and all graphs of three steps over what leads from one to another.

use crate::reference::plan::{
    Action, Doubt, Expression, Fallback, Kind, Limits, OnDependencyFailure, OnFailure, Plan, Planner, Risk,
    Step,
};

/// A plan with its limits, and how far it is explored.
#[derive(Clone, Debug)]
pub struct Case {
    /// The plan.
    pub plan: Plan,
    /// The limits.
    pub limits: Limits,
    /// How many interventions and uncounted tries a walk may spend.
    pub budget: u32,
    /// True if only the plainest of what may happen is tried.
    pub is_brief: bool,
    /// True if steps are set back nevertheless.
    pub sets_back: bool,
}

/// An action whose effect is not repeated in doubt.
pub const EFFECT: Action = Action {
    repeatable: false,
    has_effect: true,
    risk: Risk::Unusual,
};
/// An action without effect.
pub const PURE: Action = Action {
    repeatable: true,
    has_effect: false,
    risk: Risk::Safe,
};

/// An action that may destroy something.
pub const DESTRUCTIVE: Action = Action {
    repeatable: false,
    has_effect: true,
    risk: Risk::Destructive,
};

/// An action that no plan names: what a fallback may call.
pub const INSTEAD: Action = Action {
    repeatable: true,
    has_effect: true,
    risk: Risk::Unusual,
};

/// Another one, which never asks.
pub const HARMLESS: Action = Action {
    repeatable: true,
    has_effect: true,
    risk: Risk::Safe,
};

/// Limits that ask nobody and retry nothing.
#[must_use]
pub fn limits() -> Limits {
    Limits {
        attempt_ms: 30_000,
        queue_wait_ms: 30_000,
        worker_wait_ms: 30_000,
        max_retries: 0,
        backoff_ms: 1_000,
        multiplier: 2.0,
        max_backoff_ms: 30_000,
        escalate: false,
        unknown: Doubt::Ask,
        timed_out: Doubt::Ask,
        on_failure: OnFailure::Abort,
        on_dependency_failure: OnDependencyFailure::Skip,
        max_concurrency: 2,
        async_by_default: false,
        watchdog_ms: Some(50_000),
        revision_ms: None,
        run_ms: 3_600_000,
        pause_ms: 604_800_000,
        lifetime_ms: 604_800_000,
        question_ms: 86_400_000,
        approval_ms: 86_400_000,
        autonomy: 4,
        checks: false,
        quorum: 1,
        four_eyes: false,
        approvers: Vec::new(),
        discards: false,
        planner: None,
        fallback: None,
        learns: false,
    }
}

/// A condition.
#[must_use]
pub fn condition(expression: Expression, true_step: Option<usize>, false_step: Option<usize>) -> Kind {
    Kind::Condition {
        expression,
        true_step,
        false_step,
    }
}

/// A parallel step with effects.
#[must_use]
pub fn parallel(n_items: usize, batch_size: usize, wait_all: bool) -> Kind {
    Kind::Parallel {
        n_items,
        batch_size,
        wait_all,
        action: EFFECT,
    }
}

/// A loop with effects.
#[must_use]
pub fn repeat(max_iterations: usize, condition: Option<Expression>) -> Kind {
    Kind::Loop {
        max_iterations,
        condition,
        action: EFFECT,
    }
}

/// Each kind of step, with what it may say.
#[must_use]
pub fn kinds() -> Vec<Kind> {
    vec![
        Kind::Call(EFFECT),
        Kind::Call(PURE),
        Kind::Decision(Vec::new()),
        Kind::Decision(vec!["yes".to_owned(), "no".to_owned()]),
        Kind::Question { has_default: false },
        Kind::Question { has_default: true },
        condition(Expression::Literal(true), None, None),
        condition(Expression::Outside, None, None),
        parallel(0, 1, true),
        parallel(3, 2, true),
        parallel(2, 2, false),
        repeat(0, None),
        repeat(2, None),
        repeat(2, Some(Expression::Outside)),
        repeat(2, Some(Expression::Literal(false))),
        Kind::Child,
    ]
}

/// Every set of limits that changes what happens to one step.
#[must_use]
pub fn policies() -> Vec<Limits> {
    let with = |change: &dyn Fn(&mut Limits)| {
        let mut limits = limits();
        change(&mut limits);
        limits
    };
    vec![
        with(&|_| {}),
        with(&|limits| limits.max_retries = 2),
        with(&|limits| (limits.max_retries, limits.escalate) = (1, true)),
        with(&|limits| (limits.unknown, limits.timed_out) = (Doubt::Fail, Doubt::Retry)),
        with(&|limits| {
            (limits.unknown, limits.timed_out, limits.max_retries) = (Doubt::Retry, Doubt::Fail, 1);
        }),
        with(&|limits| limits.autonomy = 0),
        with(&|limits| limits.autonomy = 1),
        with(&|limits| (limits.autonomy, limits.quorum, limits.four_eyes) = (2, 2, true)),
        with(&|limits| (limits.autonomy, limits.approvers) = (0, vec![2])),
        with(&|limits| (limits.on_failure, limits.max_retries) = (OnFailure::Skip, 1)),
        with(&|limits| limits.on_failure = OnFailure::Drain),
        with(&|limits| {
            (limits.watchdog_ms, limits.max_retries) = (None, 1);
            limits.max_backoff_ms = limits.backoff_ms;
        }),
        with(&|limits| (limits.revision_ms, limits.max_retries) = (Some(1_030), 2)),
        with(&|limits| (limits.run_ms, limits.max_retries) = (1_000, 1)),
        with(&|limits| limits.run_ms = 1_000),
        with(&|limits| limits.discards = true),
    ]
}

/// The empty plan, and each kind alone under every policy.
#[must_use]
pub fn of_one_step(budget: u32) -> Vec<Case> {
    let mut all = vec![case(Plan::default(), limits(), 2, false)];
    for kind in kinds() {
        for (index, limits) in policies().into_iter().enumerate() {
            let plan = |required| Plan {
                parallel: false,
                steps: vec![Step {
                    required,
                    ..Step::new(kind.clone())
                }],
            };
            all.push(case(plan(None), limits.clone(), budget, false));
            if index < 2 {
                all.push(case(plan(Some(false)), limits.clone(), 0, false));
                all.push(case(plan(Some(true)), limits, 0, false));
            }
        }
    }
    all.extend(of_safety_checks(budget));
    all.extend(of_learning());
    all
}

/// Calls of actions that are not known at first.
fn of_learning() -> Vec<Case> {
    let with = |kind, autonomy| {
        let plan = Plan {
            parallel: false,
            steps: vec![Step::new(kind)],
        };
        let limits = Limits {
            autonomy,
            learns: true,
            ..limits()
        };
        case(plan, limits, 2, false)
    };
    let kinds = [Kind::Call(PURE), Kind::Call(DESTRUCTIVE)];
    let each = kinds.into_iter();
    each.flat_map(|kind| [with(kind.clone(), 2), with(kind, 4)])
        .collect()
}

/// Destructive calls at level 3, with a safety action and without one.
fn of_safety_checks(budget: u32) -> Vec<Case> {
    let kinds = [
        Kind::Call(DESTRUCTIVE),
        Kind::Parallel {
            n_items: 2,
            batch_size: 2,
            wait_all: false,
            action: DESTRUCTIVE,
        },
        Kind::Loop {
            max_iterations: 2,
            condition: None,
            action: DESTRUCTIVE,
        },
    ];
    let mut all = Vec::new();
    for kind in kinds {
        for (checks, max_retries) in [(false, 0), (true, 0), (true, 1)] {
            let limits = Limits {
                autonomy: 3,
                checks,
                max_retries,
                ..limits()
            };
            let plan = Plan {
                parallel: false,
                steps: vec![Step::new(kind.clone())],
            };
            all.push(case(plan, limits, budget.min(1), false));
        }
    }
    all
}

fn case(plan: Plan, limits: Limits, budget: u32, is_brief: bool) -> Case {
    Case {
        plan,
        limits,
        budget,
        is_brief,
        sets_back: false,
    }
}

/// Reason why steps overlap, or do not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    /// They do not.
    Not,
    /// All are marked in a parallel plan.
    Marked,
    /// None is marked in a parallel plan, and the limits make up for it.
    Unmarked,
    /// None is marked in a parallel plan, and nothing makes up for it.
    Ignored,
    /// The first two are marked in a parallel plan, which the limits do not change.
    SomeMarked,
}

impl Beside {
    const ALL: [Self; 5] = [
        Self::Not,
        Self::Marked,
        Self::Unmarked,
        Self::Ignored,
        Self::SomeMarked,
    ];

    /// Returns a plan of these steps, and the limits that belong to it.
    fn of(self, mut steps: Vec<Step>, limits: Limits) -> (Plan, Limits) {
        let n_marked = match self {
            Self::Not | Self::Unmarked | Self::Ignored => 0,
            Self::Marked => steps.len(),
            Self::SomeMarked => 2,
        };
        steps
            .iter_mut()
            .take(n_marked)
            .for_each(|step| step.is_async = true);
        let limits = Limits {
            async_by_default: matches!(self, Self::Not | Self::Unmarked | Self::SomeMarked),
            ..limits
        };
        let parallel = self != Self::Not;
        (Plan { parallel, steps }, limits)
    }
}

/// Each kind before each kind, independent and not, side by side and not.
#[must_use]
pub fn of_two_steps() -> Vec<Case> {
    let mut all = Vec::new();
    for first in kinds() {
        for second in kinds() {
            for (depends_on, beside) in [
                (vec![0], Beside::Not),
                (vec![], Beside::Not),
                (vec![], Beside::Marked),
                (vec![], Beside::Unmarked),
            ] {
                let second = Step {
                    depends_on,
                    ..Step::new(second.clone())
                };
                let steps = vec![Step::new(first.clone()), second];
                let (plan, limits) = beside.of(steps, limits());
                all.push(case(plan, limits, u32::from(beside == Beside::Not), true));
            }
        }
    }
    all
}

/// Every branch before a question and a call, set back from everywhere and to every checkpoint.
#[must_use]
pub fn of_branches(budget: u32) -> Vec<Case> {
    let calls = [(Some(OnFailure::Jump(2)), None), (None, Some(2))].map(|(on_failure, on_success)| Step {
        on_failure,
        on_success,
        ..Step::new(Kind::Call(PURE))
    });
    let conditions =
        targets().map(|(on_true, on_false)| Step::new(condition(Expression::Outside, on_true, on_false)));
    let mut all = Vec::new();
    // A condition that asks for a result and does not depend on it.
    for on_true in [None, Some(2)] {
        let asks = Step::new(condition(Expression::ResultOf(0), on_true, None));
        let plan = Plan {
            parallel: false,
            steps: vec![
                Step::new(Kind::Call(PURE)),
                asks,
                Step::new(Kind::Question { has_default: false }),
            ],
        };
        all.push(Case {
            sets_back: true,
            ..case(plan, limits(), budget, true)
        });
    }
    for first in conditions.chain(calls) {
        for depends_on in [vec![], vec![1]] {
            let last = Step {
                depends_on,
                ..Step::new(Kind::Call(PURE))
            };
            let question = Step::new(Kind::Question { has_default: false });
            let plan = Plan {
                parallel: false,
                steps: vec![first.clone(), question, last],
            };
            let sets_back = true;
            all.push(Case {
                sets_back,
                ..case(plan, limits(), budget, true)
            });
        }
    }
    all
}

/// Where a first step of three may lead, by its value.
fn targets() -> impl Iterator<Item = (Option<usize>, Option<usize>)> {
    let all = [None, Some(1), Some(2)];
    all.into_iter().flat_map(move |one| all.map(|other| (one, other)))
}

/// Runs of a goal, and runs whose plan fails with a planner that may make another one: the same, one with another action, and one
/// that may not run any more.
#[must_use]
pub fn of_planners(budget: u32) -> Vec<Case> {
    let calls = |action| Plan {
        parallel: false,
        steps: vec![Step::new(Kind::Call(action))],
    };
    let with = |change: &dyn Fn(&mut Limits)| {
        let mut limits = limits();
        change(&mut limits);
        limits
    };
    let all_limits = [
        with(&|_| {}),
        with(&|limits| limits.autonomy = 1),
        with(&|limits| (limits.autonomy, limits.max_retries) = (2, 1)),
        with(&|limits| (limits.revision_ms, limits.max_retries) = (Some(1_500), 1)),
        with(&|limits| limits.revision_ms = Some(1_500)),
        with(&|limits| limits.run_ms = 5_030),
        with(&|limits| limits.fallback = Some(Fallback::Output)),
        with(&|limits| limits.fallback = Some(Fallback::Call(INSTEAD))),
        with(&|limits| limits.discards = true),
    ];
    let mut all = Vec::new();
    for (number, limits) in all_limits.into_iter().enumerate() {
        for (is_goal, max_generations) in [(true, 1), (true, 2), (false, 1), (false, 2)] {
            let planner = Planner {
                is_goal,
                limit_ms: 5_000,
                max_generations,
                plans: vec![calls(INSTEAD), calls(HARMLESS)],
            };
            let plan = match is_goal {
                true => Plan::default(),
                false => calls(INSTEAD),
            };
            let limits = Limits {
                planner: Some(planner),
                ..limits.clone()
            };
            all.push(Case {
                sets_back: number == 0,
                ..case(plan, limits, budget, true)
            });
        }
    }
    all
}

/// Plans that fail with a fallback: an output, an action of its own, one that failed, and one that has completed. No planner can
/// make another plan, as after the last generation.
#[must_use]
pub fn of_fallbacks(budget: u32) -> Vec<Case> {
    let mut all = Vec::new();
    let short = Limits {
        revision_ms: Some(1_500),
        max_retries: 1,
        ..limits()
    };
    for limits in policies().into_iter().chain([short]) {
        for fallback in [Fallback::Output, Fallback::Call(INSTEAD)] {
            let plan = Plan {
                parallel: false,
                steps: vec![Step::new(Kind::Call(EFFECT))],
            };
            let fallback = Some(fallback);
            let limits = Limits {
                fallback,
                ..limits.clone()
            };
            all.push(case(plan, limits, budget, false));
        }
    }
    let firsts = [
        Kind::Call(PURE),
        Kind::Decision(Vec::new()),
        Kind::Question { has_default: false },
        parallel(2, 2, false),
        Kind::Child,
    ];
    for first in firsts {
        for (depends_on, parallel) in [(vec![0], false), (vec![], false), (vec![], true)] {
            for fallback in [
                Fallback::Output,
                Fallback::Call(INSTEAD),
                Fallback::Call(EFFECT),
                Fallback::Call(PURE),
            ] {
                let both = [Step::new(first.clone()), Step::new(Kind::Call(EFFECT))];
                let mut steps = both
                    .map(|step| Step {
                        is_async: parallel,
                        ..step
                    })
                    .to_vec();
                steps[1].depends_on.clone_from(&depends_on);
                let limits = Limits {
                    fallback: Some(fallback),
                    ..limits()
                };
                all.push(case(Plan { parallel, steps }, limits, 1, true));
            }
        }
    }
    all
}

/// All graphs of three steps, over what failure leads to, who depends how, jumps and branches.
#[must_use]
pub fn of_three_steps() -> Vec<Case> {
    let mut all = Vec::new();
    for first in firsts() {
        for second in seconds() {
            for graph in 0..8_u32 {
                for word in WORDS {
                    for beside in Beside::ALL {
                        let steps = three(&first, &second, graph, word);
                        let (plan, mut limits) = beside.of(steps, limits());
                        limits.on_dependency_failure = word;
                        all.push(case(plan, limits, 0, true));
                    }
                }
            }
        }
    }
    all
}

const WORDS: [OnDependencyFailure; 4] = [
    OnDependencyFailure::Skip,
    OnDependencyFailure::Null,
    OnDependencyFailure::Block,
    OnDependencyFailure::ByRequired,
];

fn three(first: &Step, second: &Step, graph: u32, word: OnDependencyFailure) -> Vec<Step> {
    let mut steps = [first.clone(), second.clone(), Step::new(Kind::Call(PURE))];
    steps[1].depends_on = (0..1).filter(|_| graph & 1 != 0).collect();
    steps[2].depends_on = (0..2).filter(|on| graph & (2 << on) != 0).collect();
    for step in &mut steps {
        // `ByRequired` is a word of policies alone.
        step.on_dependency_failure = Some(word).filter(|word| *word != OnDependencyFailure::ByRequired);
    }
    steps.into()
}

fn firsts() -> Vec<Step> {
    let mut all = Vec::new();
    for on_failure in [
        OnFailure::Abort,
        OnFailure::Drain,
        OnFailure::Skip,
        OnFailure::Jump(1),
        OnFailure::Jump(2),
    ] {
        for on_success in [None, Some(2)] {
            all.push(Step {
                on_failure: Some(on_failure),
                on_success,
                ..Step::new(Kind::Call(EFFECT))
            });
        }
    }
    all.push(Step {
        required: Some(false),
        ..Step::new(Kind::Call(PURE))
    });
    all.extend(
        targets().map(|(on_true, on_false)| Step::new(condition(Expression::Outside, on_true, on_false))),
    );
    all
}

fn seconds() -> Vec<Step> {
    let call = || Step::new(Kind::Call(EFFECT));
    vec![
        call(),
        Step {
            on_failure: Some(OnFailure::Drain),
            ..call()
        },
        Step {
            on_failure: Some(OnFailure::Skip),
            ..call()
        },
        Step {
            on_failure: Some(OnFailure::Jump(2)),
            ..call()
        },
        Step {
            on_success: Some(2),
            ..call()
        },
        Step::new(Kind::Question { has_default: false }),
        Step::new(condition(Expression::ResultOf(0), Some(2), None)),
        Step::new(condition(Expression::ResultOf(0), None, Some(2))),
        Step::new(parallel(2, 2, false)),
    ]
}
