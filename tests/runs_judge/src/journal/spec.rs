//! What a run is made from, read from the bytes of its first entry.

use super::models::{self, Budget};
use crate::wire::Message;

/// What the run is made from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spec {
    pub(crate) watchdog_ms: u64,
    pub(crate) revision_ms: u64,
    pub(crate) run_ms: u64,
    pub(crate) lifetime_ms: u64,
    pub(crate) pause_ms: u64,
    pub(crate) max_retries: u32,
    pub(crate) four_eyes: bool,
    pub(crate) approvers: Vec<String>,
    pub(crate) quorum: u32,
    /// The word for failed dependencies; 2 is the text of the failure.
    pub(crate) on_dependency_failure: u32,
    pub(crate) autonomy: u32,
    pub(crate) user: String,
    pub(crate) llm_action: String,
    /// Empty if calls are not checked.
    pub(crate) safety_action: String,
    /// Empty if it is the run's own.
    pub(crate) session_id: String,
    /// Maximum of steps that overlap.
    pub(crate) max_concurrency: u32,
    /// True if the steps of a parallel plan need no marks.
    pub(crate) async_by_default: bool,
    pub(crate) max_turns: u32,
    pub(crate) max_generations: u32,
    pub(crate) max_substitutions: u32,
    pub(crate) budget: Option<Budget>,
    /// Milliseconds of a generation, if the run has a planner.
    pub(crate) generation_ms: u64,
    /// The run that waits for it; empty if there is none.
    pub(crate) parent: Vec<u8>,
    /// The run that it goes on from; empty if there is none.
    pub(crate) forked_from: Vec<u8>,
    /// The words for effects of which nothing is known, and for those that took too long; 2 is to repeat them.
    pub(crate) unknown: u32,
    pub(crate) timed_out: u32,
    /// The caller's id of the request.
    pub(crate) request_id: String,
    pub(crate) preset: String,
    /// What the planner makes the first plan for; empty if the run was given one.
    pub(crate) goal: String,
    /// The types of artifacts that it must make.
    pub(crate) must_produce: Vec<String>,
    /// The actions that its plans may call; all if it is empty.
    pub(crate) allowed: Vec<String>,
    pub(crate) forbidden: Vec<String>,
    /// Names of the one that fired its trigger; empty if that is not known.
    pub(crate) fired_by: Vec<String>,
}

pub(super) fn read(body: &Message<'_>) -> Result<Spec, String> {
    let (limits, policy, constraints) = (body.message(3)?, body.message(4)?, body.message(30)?);
    let mut must_produce = constraints.texts(1);
    must_produce.push(constraints.text(2));
    Ok(Spec {
        watchdog_ms: limits.number(4),
        revision_ms: limits.number(5),
        run_ms: limits.number(6),
        lifetime_ms: limits.number(7),
        pause_ms: limits.number(8),
        max_retries: limits.small(11),
        on_dependency_failure: policy.small(4),
        four_eyes: policy.number(6) != 0,
        approvers: policy.texts(7),
        quorum: policy.small(8),
        autonomy: body.small(5),
        user: body.text(6),
        llm_action: body.text(9),
        parent: body.bytes(11).to_vec(),
        safety_action: body.text(17),
        forked_from: body.bytes(14).to_vec(),
        unknown: policy.small(1),
        timed_out: policy.small(2),
        request_id: body.text(7),
        preset: body.text(15),
        goal: body.text(20),
        must_produce,
        fired_by: match body.has(34) {
            true => [body.message(34)?.text(1)]
                .into_iter()
                .chain(body.message(34)?.texts(4))
                .collect(),
            false => Vec::new(),
        },
        allowed: constraints.texts(3),
        forbidden: constraints.texts(4),
        session_id: body.text(27),
        max_concurrency: limits.small(15),
        async_by_default: policy.number(10) != 0,
        max_turns: limits.small(18),
        max_generations: limits.small(19),
        max_substitutions: limits.small(20),
        budget: models::budget(body)?,
        generation_ms: match body.has(18) {
            true => body.message(18)?.number(6),
            false => 0,
        },
    })
}
