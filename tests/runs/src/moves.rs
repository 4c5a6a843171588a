//! Everything that may happen to a run as it stands, and much that may not.

use crate::plans::Case;
use crate::reference::plan::{Kind, Plan};
use crate::reference::run::{Evaluation, RequestState, Run, UnitState};
use crate::reference::words::{
    Answer, AttemptId, Input, Outcome, RequestKind, Responder, SAFETY_INDEX, Scope, StepState, Value, Word,
};

/// An input, when it comes, and what it costs of what a walk may spend.
#[derive(Clone, Debug)]
pub struct Move {
    /// Milliseconds from now.
    pub wait_ms: u64,
    /// What happens.
    pub input: Input,
    /// 0 for what comes to an end by itself.
    pub cost: u32,
}

/// A person, another one, the user of the run, and a program that acts for a model.
pub const RESPONDERS: [Responder; 4] = [
    Responder {
        id: 1,
        is_agent: false,
        is_user: false,
    },
    Responder {
        id: 2,
        is_agent: false,
        is_user: false,
    },
    Responder {
        id: 3,
        is_agent: false,
        is_user: true,
    },
    Responder {
        id: 4,
        is_agent: true,
        is_user: false,
    },
];

/// What may happen.
#[must_use]
pub fn moves(run: &Run, case: &Case) -> Vec<Move> {
    let is_brief = case.is_brief;
    let mut all = Vec::new();
    if !run.is_admitted {
        all.push(now(Input::Admit, 0));
        if !run.knows_actions {
            all.push(now(Input::Known, 0));
        }
    }
    of_planner(run, &mut all);
    for step in 0..run.steps.len() {
        of_step(run, step, is_brief, &mut all);
    }
    for request in 0..run.requests.len() {
        of_request(run, request, is_brief, &mut all);
    }
    if let Some(at) = run.due_at() {
        let wait_ms = at - run.now;
        all.push(Move {
            wait_ms,
            input: Input::Tick,
            cost: u32::from(wait_ms > 60_000),
        });
        if run.is_active() && !is_brief {
            all.push(Move {
                wait_ms,
                input: Input::StoodStill(wait_ms),
                cost: 1,
            });
        }
    }
    of_callers(run, is_brief, &mut all);
    if case.sets_back {
        of_setting_back(run, &[true], &mut all);
    }
    all
}

fn now(input: Input, cost: u32) -> Move {
    Move {
        wait_ms: 0,
        input,
        cost,
    }
}

/// What a planner may say, late answers among it.
fn of_planner(run: &Run, all: &mut Vec<Move>) {
    let (planning, Some(planner)) = (&run.planning, &run.limits.planner) else {
        return;
    };
    let generation = planning.n_generations;
    let Some(open) = planning.open else {
        return;
    };
    if !open.knows_actions {
        all.push(now(Input::Listed(generation), 0));
        return;
    }
    if !open.is_asked {
        return;
    }
    all.push(now(Input::Listed(generation), 0));
    let planned = |attempt, outcome| Input::Planned(generation, attempt, outcome);
    let mut outcomes = vec![(Outcome::Completed(Value::Null), 0)];
    for number in 0..planner.plans.len() {
        let number = i64::try_from(number).expect("few plans");
        outcomes.push((Outcome::Completed(Value::Number(number)), 0));
    }
    outcomes.push((Outcome::Failed("E_ONCE"), 0));
    outcomes.push((Outcome::NeverRan("DEADLINE_EXCEEDED"), 1));
    let (code, of_restart) = ("UNKNOWN_ERROR", true);
    outcomes.push((Outcome::Unknown { code, of_restart }, 1));
    for (outcome, cost) in outcomes {
        all.push(now(planned(open.n_attempts, outcome), cost));
    }
    let late = planned(open.n_attempts + 1, Outcome::Completed(Value::Number(0)));
    all.push(now(late, 0));
}

fn of_step(run: &Run, step: usize, is_brief: bool, all: &mut Vec<Move>) {
    let it = &run.steps[step];
    if it.state != StepState::Running {
        return;
    }
    let epoch = it.epoch;
    if it.question == Evaluation::Asked {
        for value in [Some(true), Some(false), None] {
            all.push(now(Input::Evaluated { step, epoch, value }, 0));
        }
        return;
    }
    for (index, unit) in it.units.iter().enumerate() {
        if unit.state != UnitState::InFlight {
            continue;
        }
        let (unit_id, number) = match unit.is_checked_now {
            true => ((step, SAFETY_INDEX + index), unit.n_checks),
            false => ((step, index), unit.n_attempts),
        };
        let attempt = AttemptId {
            unit: unit_id,
            epoch,
            number,
        };
        if unit.is_checked_now {
            for outcome in verdicts(is_brief) {
                all.push(now(Input::Settled(attempt, outcome), 0));
            }
            continue;
        }
        if run.plan.steps[step].kind == Kind::Child {
            for output in [Some(Value::Null), None] {
                all.push(now(Input::ChildEnded(attempt, output), 0));
            }
            continue;
        }
        for (outcome, cost) in outcomes(&run.plan, step, is_brief) {
            all.push(now(Input::Settled(attempt, outcome), cost));
        }
        let late = AttemptId {
            number: unit.n_attempts + 1,
            ..attempt
        };
        all.push(now(Input::Settled(late, Outcome::Completed(Value::Null)), 0));
    }
}

/// What a safety check may come to.
fn verdicts(is_brief: bool) -> Vec<Outcome> {
    let mut all: Vec<_> = [true, false]
        .map(|safe| Outcome::Completed(Value::Bool(safe)))
        .into();
    if !is_brief {
        all.extend([
            Outcome::Failed("E_ONCE"),
            Outcome::NeverRan("DEADLINE_EXCEEDED"),
            Outcome::ApprovalRequired,
            Outcome::TimedOut,
        ]);
    }
    all
}

/// What may become of an attempt, with its cost: what is not counted could go on for ever.
#[must_use]
pub fn outcomes(plan: &Plan, step: usize, is_brief: bool) -> Vec<(Outcome, u32)> {
    let texts: &[&str] = match &plan.steps[step].kind {
        Kind::Decision(choices) if !choices.is_empty() => &["yes", " YES ", "maybe"],
        _ => &["done"],
    };
    let text = |text: &&str| (Outcome::Completed(Value::Text((*text).to_owned())), 0);
    let mut all: Vec<_> = texts.iter().map(text).collect();
    all.push((Outcome::Failed("E_ONCE"), 0));
    if is_brief {
        return all;
    }
    if !matches!(plan.steps[step].kind, Kind::Decision(_)) {
        all.push((Outcome::Completed(Value::Pause), 1));
        all.push((Outcome::Completed(Value::Number(0)), 0));
    }
    all.push((Outcome::NeverRan("DEADLINE_EXCEEDED"), 1));
    all.push((Outcome::ForGood("INVALID_PAYLOAD"), 0));
    all.push((Outcome::ApprovalRequired, 1));
    all.push((Outcome::TimedOut, 0));
    all.push((
        Outcome::Unknown {
            code: "WORKER_LOST",
            of_restart: false,
        },
        0,
    ));
    all.push((
        Outcome::Unknown {
            code: "UNKNOWN_ERROR",
            of_restart: true,
        },
        1,
    ));
    all
}

fn of_request(run: &Run, number: usize, is_brief: bool, all: &mut Vec<Move>) {
    let request = &run.requests[number];
    let is_open = request.state == RequestState::Open;
    if !is_open && is_brief {
        return;
    }
    let text = || Answer::Value(Value::Text("sure".to_owned()));
    let [person, other, user, agent] = RESPONDERS;
    let mut answers = match request.kind {
        RequestKind::Question => vec![(text(), person), (Answer::Invalid, person)],
        RequestKind::PlanApproval | RequestKind::HandlerApproval => {
            vec![(Answer::Approve, person), (Answer::Deny, person)]
        }
        RequestKind::Gate => {
            vec![
                (Answer::Approve, person),
                (Answer::Deny, agent),
                (Answer::ApproveEdited, person),
            ]
        }
        RequestKind::Extension => vec![
            (Answer::Extend, person),
            (Answer::Deny, person),
            (Answer::Extend, agent),
        ],
        RequestKind::Effect => vec![
            (Answer::Happened(Value::Null), person),
            (Answer::DidNot, person),
            (Answer::Fail, person),
            (Answer::Fail, agent),
        ],
    };
    if request.kind == RequestKind::PlanApproval && run.limits.planner.is_some() {
        answers.push((Answer::Revise, person));
    }
    if !is_brief
        && !matches!(
            request.kind,
            RequestKind::Question | RequestKind::Effect | RequestKind::Extension
        )
    {
        answers.extend([(Answer::Approve, other), (Answer::Approve, user)]);
        answers.push((Answer::Approve, agent));
        if is_open {
            answers.push((Answer::ApproveAnother, person));
        }
    }
    for (answer, responder) in answers {
        // What opens the way to one more try without a count could go on for ever.
        let cost = u32::from(matches!(answer, Answer::DidNot | Answer::Extend));
        all.push(now(Input::Answered(number, answer, responder), cost));
    }
}

fn of_callers(run: &Run, is_brief: bool, all: &mut Vec<Move>) {
    for input in [
        Input::Pause,
        Input::Resume,
        Input::Recovered,
        Input::Restarted,
        Input::Checkpoint(8),
    ] {
        all.push(now(input, 1));
    }
    all.push(now(Input::Cancel, 0));
    if is_brief {
        return;
    }
    all.push(now(Input::Checkpoint(512_001), 1));
    of_setting_back(run, &[false, true], all);
    for step in 0..run.steps.len() {
        for word in [Word::Complete(Value::Number(1)), Word::Fail, Word::Skip] {
            all.push(now(Input::Override(step, word), 1));
        }
    }
}

/// With each of these words on whether effects may be repeated.
fn of_setting_back(run: &Run, may_repeat: &[bool], all: &mut Vec<Move>) {
    for repeats in may_repeat.iter().copied() {
        for restores in [false, true] {
            all.push(now(Input::Rollback { restores, repeats }, 1));
        }
        for step in 0..run.steps.len() {
            for scope in [Scope::Later, Scope::Dependents] {
                all.push(now(Input::Rewind { step, scope, repeats }, 1));
            }
        }
    }
}
