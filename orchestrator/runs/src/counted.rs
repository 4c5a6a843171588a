//! Events of runs for metrics, and the number of runs in each state.

use alloc::vec::Vec;
use escapement_model::Namespace;
use escapement_run::journal::{
    Decision, Event, Limit, OutcomeClass, RequestKind, RequestState, ToolOutput, Usage, Verdict,
};
use escapement_run::spec::namespace_named;
use escapement_run::{Commit, Run, ShownState};

/// Something that an entry says and that is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Counted {
    /// A run was made.
    Created(Namespace),
    /// A run ended.
    Ended {
        /// Namespace.
        namespace: Namespace,
        /// Outcome.
        ending: Ending,
        /// Milliseconds since it was made.
        took_ms: u64,
    },
    /// A start resumed a run.
    Recovered,
    /// An attempt ended.
    Attempt(OutcomeClass),
    /// An attempt used tokens of a language model.
    Tokens {
        /// Tokens of the prompt.
        prompt: u64,
        /// Tokens of the answer.
        completion: u64,
    },
    /// A unit or a step has an earlier result instead of an attempt.
    Memoized,
    /// A planner was asked for a plan, with this verdict.
    Generation(Verdict),
    /// A revision failed, and this replaces it.
    Replan(Replan),
    /// A limit of a run ran out.
    Limit(Limit),
    /// A request to a person was decided, or closed.
    RequestEnded {
        /// Kind of question; `None` if its run has forgotten it already.
        kind: Option<RequestKind>,
        /// Final state.
        state: RequestState,
        /// Decision of a person, if any.
        decision: Option<Decision>,
        /// Milliseconds since it was asked, if a person decided and that is known.
        waited_ms: Option<u64>,
    },
}

/// Outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Well.
    Completed,
    /// Well, but a step failed on the way.
    Partial,
    /// The run failed.
    Failed,
    /// A limit ran out.
    Timeout,
    /// The run was cancelled.
    Cancelled,
}

/// Replacement of a revision that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replan {
    /// The same plan with another action.
    Substitution,
    /// The plan that the failed one falls back to.
    Fallback,
    /// New plan of a planner.
    Planner,
    /// New plan of a planner because a person asked for another plan.
    Revise,
}

/// Number of runs in each state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Runs that have not ended in each state, in the order of [`LIVE_STATES`].
    pub runs: [usize; LIVE_STATES.len()],
    /// Limit of the number of runs.
    pub runs_max: usize,
    /// Open requests of each kind, in the order of [`REQUEST_KINDS`].
    pub open_requests: [usize; REQUEST_KINDS.len()],
    /// Time at which the oldest of them was opened, Unix milliseconds; `None` without open requests.
    pub oldest_request_at: Option<i64>,
}

/// The states of a run that has not ended.
pub const LIVE_STATES: [ShownState; 7] = [
    ShownState::Queued,
    ShownState::Planning,
    ShownState::Running,
    ShownState::Waiting,
    ShownState::Pausing,
    ShownState::Paused,
    ShownState::Verifying,
];

/// The kinds of questions.
pub const REQUEST_KINDS: [RequestKind; 5] = [
    RequestKind::Question,
    RequestKind::Approval,
    RequestKind::RetryExtension,
    RequestKind::AmbiguousEffect,
    RequestKind::BudgetExtension,
];

/// Runs by state.
#[derive(Debug, Default)]
pub(crate) struct States([usize; LIVE_STATES.len()]);

impl States {
    /// Moves a run from one state to another. `None` stands for a run that is new, or gone.
    pub(crate) fn change(&mut self, before: Option<ShownState>, after: Option<ShownState>) {
        let place = |state: ShownState| LIVE_STATES.iter().position(|live| *live == state);
        if let Some(place) = after.and_then(place) {
            self.0[place] += 1;
        }
        if let Some(place) = before.and_then(place) {
            self.0[place] -= 1;
        }
    }

    pub(crate) fn census(&self, runs_max: usize) -> Census {
        Census {
            runs: self.0,
            runs_max,
            ..Census::default()
        }
    }
}

/// Returns the events of the commit for metrics, in the order of its entries.
pub(crate) fn counted(run: &Run, commit: &Commit) -> Vec<Counted> {
    let mut counted = Vec::new();
    for entry in &commit.events {
        let Some(event) = &entry.event else { continue };
        match event {
            Event::RunCreated(created) => {
                counted.push(Counted::Created(namespace_named(&created.spec.namespace)));
            }
            Event::RunCompleted(end) => {
                let ending = if end.partial {
                    Ending::Partial
                } else {
                    Ending::Completed
                };
                counted.push(ended(run, ending, entry.at));
            }
            Event::RunFailed(end) => {
                let ending = if end.timed_out {
                    Ending::Timeout
                } else {
                    Ending::Failed
                };
                counted.push(ended(run, ending, entry.at));
            }
            Event::RunCancelled(_) => counted.push(ended(run, Ending::Cancelled, entry.at)),
            Event::RunRecovered(_) => counted.push(Counted::Recovered),
            Event::ToolOutput(output) => attempt(output, &mut counted),
            Event::StepMemoized(_) | Event::UnitMemoized(_) => counted.push(Counted::Memoized),
            Event::GenerationEnded(end) => counted.push(Counted::Generation(end.verdict())),
            Event::ReplanTriggered(replan) => counted.push(Counted::Replan(Replan::named(&replan.cause))),
            Event::TimeoutError(error) => counted.push(Counted::Limit(error.limit())),
            Event::InputReceived(answer) => {
                let decision = Some(answer.decision());
                counted.push(request_ended(
                    run,
                    &answer.id,
                    RequestState::Answered,
                    decision,
                    entry.at,
                ));
            }
            Event::InputExpired(request) => {
                counted.push(request_ended(
                    run,
                    &request.id,
                    RequestState::Expired,
                    None,
                    entry.at,
                ));
            }
            Event::InputClosed(request) => {
                counted.push(request_ended(
                    run,
                    &request.id,
                    RequestState::Closed,
                    None,
                    entry.at,
                ));
            }
            _ => {}
        }
    }
    counted
}

fn ended(run: &Run, ending: Ending, at: i64) -> Counted {
    let state = run.state();
    Counted::Ended {
        namespace: namespace_named(&state.spec.namespace),
        ending,
        took_ms: since(state.created_at, at),
    }
}

fn attempt(output: &ToolOutput, counted: &mut Vec<Counted>) {
    counted.push(Counted::Attempt(output.class()));
    if let Some(Usage {
        prompt_tokens: prompt,
        completion_tokens: completion,
        ..
    }) = output.usage
    {
        counted.push(Counted::Tokens { prompt, completion });
    }
}

fn request_ended(run: &Run, id: &[u8], state: RequestState, decision: Option<Decision>, at: i64) -> Counted {
    let mut known = run.state().requests.iter();
    let known = known.find(|known| known.id == id);
    Counted::RequestEnded {
        kind: known.map(|known| known.kind()),
        state,
        decision,
        waited_ms: known
            .filter(|_| decision.is_some())
            .map(|known| since(known.opened_at, at)),
    }
}

fn since(before: i64, now: i64) -> u64 {
    u64::try_from(now - before).unwrap_or_default()
}

impl Ending {
    /// Returns its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Ending::Completed => "completed",
            Ending::Partial => "partial",
            Ending::Failed => "failed",
            Ending::Timeout => "timeout",
            Ending::Cancelled => "cancelled",
        }
    }
}

impl Replan {
    fn named(cause: &str) -> Self {
        match cause {
            "substitution" => Replan::Substitution,
            "fallback" => Replan::Fallback,
            "revise" => Replan::Revise,
            _ => Replan::Planner,
        }
    }

    /// Returns its name in entries.
    pub fn as_str(self) -> &'static str {
        match self {
            Replan::Substitution => "substitution",
            Replan::Fallback => "fallback",
            Replan::Planner => "planner",
            Replan::Revise => "revise",
        }
    }
}
