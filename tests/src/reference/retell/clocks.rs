//! Whether limits and sleeps fit the recorded times. Says nothing where the wall clock may have jumped.

use escapement_wire::v1::{AuditEntry, Plan};

use super::{Difference, at};
use crate::reference::words::Phase;

pub(super) struct Clocks {
    slack_ms: Option<i64>,
    deadline_ms: i64,
    plan_limit_ms: i64,
    started_at: Option<i64>,
    step_limits_ms: Vec<Option<i64>>,
    assigned_at: Vec<i64>,
    wakes_at: Vec<i64>,
}

impl Clocks {
    pub(super) fn new(plan: &Plan, slack_ms: Option<i64>, accepted_at: i64, deadline_ms: i64) -> Self {
        Self {
            slack_ms,
            deadline_ms,
            plan_limit_ms: plan.timeout_ms.unwrap_or(300_000),
            started_at: None,
            step_limits_ms: plan.steps.iter().map(|step| step.timeout_ms).collect(),
            assigned_at: vec![accepted_at; plan.steps.len()],
            wakes_at: vec![accepted_at; plan.steps.len()],
        }
    }

    pub(super) fn started(&mut self, started_at: i64) {
        self.started_at = Some(started_at);
    }

    pub(super) fn assigned(&mut self, entry: &AuditEntry, step: usize) {
        self.assigned_at[step] = entry.at;
    }

    pub(super) fn sleeps(&mut self, entry: &AuditEntry, step: usize, delay_ms: u64) {
        let delay_ms = i64::try_from(delay_ms).unwrap_or(i64::MAX);
        // An attempt is over at its limit, however late a busy machine notes that.
        let over_at = self.step_limits_ms[step].map_or(entry.at, |limit_ms| {
            entry.at.min(self.assigned_at[step].saturating_add(limit_ms))
        });
        self.wakes_at[step] = over_at.saturating_add(delay_ms);
    }

    ///
    pub(super) fn wakes(&self, entry: &AuditEntry, step: usize) -> Result<(), Difference> {
        self.not_before(entry, self.wakes_at[step], "at, of the end of a sleep")
    }

    /// An outcome that counts came before the limits of its step, which counts from the hand-out, and of its plan.
    pub(super) fn ended(
        &self,
        entry: &AuditEntry,
        step: usize,
        code: &str,
        was_handed_out: bool,
    ) -> Result<(), Difference> {
        if let Some(started_at) = self.started_at {
            let limit = started_at.saturating_add(self.plan_limit_ms);
            self.before(entry, limit, "at, of an outcome within the plan's limit")?;
        }
        match self.step_limits_ms[step] {
            Some(limit_ms) if was_handed_out && code != "STEP_TIMEOUT" => {
                let limit = self.assigned_at[step].saturating_add(limit_ms);
                self.before(entry, limit, "at, of an outcome within the step's limit")
            }
            _ => Ok(()),
        }
    }

    ///
    pub(super) fn limit_ends(&self, entry: &AuditEntry, phase: Phase) -> Result<(), Difference> {
        match (phase, self.started_at) {
            (Phase::Queued, _) => self.not_before(entry, self.deadline_ms, "at, of the deadline"),
            (_, Some(started_at)) => {
                let limit = started_at.saturating_add(self.plan_limit_ms);
                self.not_before(entry, limit, "at, of the plan's limit")
            }
            (_, None) => Ok(()),
        }
    }

    fn before(&self, entry: &AuditEntry, limit: i64, part: &'static str) -> Result<(), Difference> {
        match self.slack_ms {
            Some(slack_ms) if entry.at >= limit.saturating_add(slack_ms) => Err(at(
                Some(entry),
                part,
                &format!("before {limit}"),
                &entry.at.to_string(),
            )),
            _ => Ok(()),
        }
    }

    fn not_before(&self, entry: &AuditEntry, due: i64, part: &'static str) -> Result<(), Difference> {
        match self.slack_ms {
            Some(slack_ms) if entry.at < due.saturating_sub(slack_ms) => Err(at(
                Some(entry),
                part,
                &format!("{due} or later"),
                &entry.at.to_string(),
            )),
            _ => Ok(()),
        }
    }
}
