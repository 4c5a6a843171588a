//! Tokens, attempts and outcomes. Knows nothing of states and answers.

use std::collections::BTreeMap;

use escapement_model::{AttemptToken, ExecutionId, StepId};

use super::report::{Report, Rule};
use super::vocabulary::Mark;

/// An attempt on its way to a worker.
#[derive(Clone, Copy, Debug)]
pub(super) struct HandOut {
    pub(super) execution: ExecutionId,
    pub(super) step: StepId,
    pub(super) attempt: u32,
    pub(super) token: AttemptToken,
    pub(super) since: Mark,
    pub(super) at: u64,
    /// It was seen as it left, so hand-outs are seen in their order and none is missed.
    pub(super) is_exact: bool,
}

#[derive(Debug, Default)]
pub(super) struct HandOuts {
    tokens: BTreeMap<AttemptToken, Token>,
    executions: BTreeMap<ExecutionId, Attempts>,
}

#[derive(Debug)]
struct Token {
    execution: ExecutionId,
    step: StepId,
    attempt: u32,
    at: u64,
    accepted_at: Option<u64>,
}

#[derive(Debug)]
struct Attempts {
    /// The life in which it was first handed out, where that is certain, and when.
    life: Option<(u64, u64)>,
    steps: BTreeMap<StepId, Step>,
}

#[derive(Debug, Default)]
struct Step {
    /// The highest attempt that was handed out, and when.
    highest: Option<(u32, u64)>,
    /// By attempt: the token whose outcome was accepted, and when.
    accepted: BTreeMap<u32, (AttemptToken, u64)>,
}

impl HandOuts {
    pub(super) fn take(&mut self, hand_out: &HandOut, report: &mut Report) {
        let HandOut {
            execution,
            step,
            attempt,
            token,
            since,
            at,
            is_exact,
        } = *hand_out;
        let name =
            format!("{execution}: step {step} attempt {attempt}, handed out at {at} with token {token:?}");
        let before = Token {
            execution,
            step,
            attempt,
            at,
            accepted_at: None,
        };
        if let Some(other) = self.tokens.get(&token) {
            let (other_step, other_attempt, other_at) = (other.step, other.attempt, other.at);
            report.accuse(
                Rule::Outcome,
                format!(
                    "{name}: the token was handed out before, at {other_at} for {} step {other_step} attempt {other_attempt}",
                    other.execution
                ),
            );
            return;
        }
        self.tokens.insert(token, before);
        let attempts = self.executions.entry(execution).or_insert_with(|| Attempts {
            life: None,
            steps: BTreeMap::new(),
        });
        match attempts.life {
            Some((life, first_at)) if life < since.life => report.accuse(
                Rule::HandOut,
                format!(
                    "{name} in life {}; it was handed out in life {life} at {first_at}, and is never resumed",
                    since.life
                ),
            ),
            Some(_) => {}
            None => attempts.life = Some((since.life, at)),
        }
        let step = attempts.steps.entry(step).or_default();
        if let Some((_, accepted_at)) = step.accepted.get(&attempt).filter(|(_, at)| *at <= since.at) {
            report.accuse(
                Rule::HandOut,
                format!("{name}, after its outcome was accepted at {accepted_at}"),
            );
        }
        if is_exact {
            let (highest, highest_at) = step.highest.unwrap_or((0, 0));
            let is_next = attempt == highest + 1 || (attempt == highest && highest > 0);
            if !is_next {
                report.accuse(
                    Rule::Outcome,
                    format!("{name}; the attempt before it was {highest}, handed out at {highest_at}"),
                );
            }
        }
        if step.highest.is_none_or(|(highest, _)| attempt >= highest) {
            step.highest = Some((attempt, at));
        }
    }

    pub(super) fn accepted(&mut self, token: AttemptToken, at: u64, report: &mut Report) {
        let Some(known) = self.tokens.get_mut(&token) else {
            report.accuse(
                Rule::Outcome,
                format!(
                    "token {token:?}: an outcome was accepted at {at}, and no worker was given that token"
                ),
            );
            return;
        };
        let name = format!(
            "{}: step {} attempt {}",
            known.execution, known.step, known.attempt
        );
        if let Some(first) = known.accepted_at {
            report.accuse(
                Rule::Outcome,
                format!("{name}: the outcome of token {token:?} was accepted at {at}, and before at {first}"),
            );
            return;
        }
        known.accepted_at = Some(at);
        let attempts = self.executions.get_mut(&known.execution);
        let step = attempts.and_then(|attempts| attempts.steps.get_mut(&known.step));
        let step = step.expect("a token that is known belongs to a step that is known");
        match step.accepted.get(&known.attempt) {
            Some((other, first)) => report.accuse(
                Rule::Outcome,
                format!("{name}: an outcome was accepted at {at} with token {token:?}, and at {first} with token {other:?}"),
            ),
            None => {
                step.accepted.insert(known.attempt, (token, at));
            }
        }
    }
}
