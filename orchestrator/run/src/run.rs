//! One run as a state machine: inputs in, entries and effects out. Keeps nothing that its journal does not say.

use crate::ids::RunId;
use crate::input::{Blobs, Commit, Effect, Input, Refused};
use crate::journal::{Doubt, Entry, Event, PlanCreated, RequestState, RunCreated};
use crate::plan::Plan;
use crate::spec::{ActionProfile, Spec};
use crate::state::{RunState, Stage};
use crate::turn::Turn;
use crate::turn::held::Held;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use escapement_model::chain::{chain_begin, chain_next};
use escapement_model::planted::{self, Bug};
use escapement_model::{ExecutionId, Opaque};

/// A run.
#[derive(Clone, Debug)]
pub struct Run {
    state: RunState,
    plan: Arc<Plan>,
    held: Held,
    /// True if `held` is about an earlier state.
    held_is_old: bool,
}

/// A run's state in one word, as it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ShownState {
    /// Accepted, waits for admission.
    Queued,
    /// A plan is being made.
    Planning,
    /// Something is in flight, backing off, or can start.
    Running,
    /// Waits until a person answers.
    Waiting,
    /// Pauses soon; work is still in flight.
    Pausing,
    /// Paused.
    Paused,
    /// All steps have ended, and artifacts are looked at.
    Verifying,
    /// Ended well.
    Completed,
    /// Failed.
    Failed,
    /// Ran out of time.
    Timeout,
    /// Was cancelled.
    Cancelled,
}

impl ShownState {
    /// As the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            ShownState::Queued => "queued",
            ShownState::Planning => "planning",
            ShownState::Running => "running",
            ShownState::Waiting => "waiting",
            ShownState::Pausing => "pausing",
            ShownState::Paused => "paused",
            ShownState::Verifying => "verifying",
            ShownState::Completed => "completed",
            ShownState::Failed => "failed",
            ShownState::Timeout => "timeout",
            ShownState::Cancelled => "cancelled",
        }
    }
}

impl Run {
    /// Makes a run of a checked plan. It is queued. If the spec has a goal, the plan has no steps and stands for it: the first
    /// one to be carried out is made by the planner, which the spec has, too.
    pub fn create(
        run_id: RunId,
        mut spec: Spec,
        plan: Arc<Plan>,
        profiles: Vec<ActionProfile>,
        now: i64,
        blobs: &dyn Blobs,
    ) -> (Self, Commit) {
        let mut state = RunState {
            chain: Bytes::copy_from_slice(&chain_begin(&run_id)),
            updated_at: now,
            ..RunState::default()
        };
        let mut turn = Turn::new(&mut state, &plan, now, blobs);
        let (input, environment) = (
            core::mem::take(&mut spec.input),
            core::mem::take(&mut spec.environment),
        );
        let doubts = core::mem::take(&mut spec.doubts);
        let input = turn.store(input.as_encoded().clone());
        let environment = turn.store(environment.as_encoded().clone());
        turn.emit(Event::RunCreated(RunCreated {
            run_id: Bytes::copy_from_slice(run_id.as_bytes()),
            spec,
            input,
            environment,
        }));
        let document = turn.store(plan.document.as_encoded().clone());
        // RUN-11.1
        let is_goal = !turn.is_given_plan();
        turn.emit(Event::PlanCreated(PlanCreated {
            number: u32::from(!is_goal),
            digest: Bytes::copy_from_slice(&plan.digest),
            cause: String::from(if is_goal { "goal" } else { "caller" }),
            profiles,
            n_steps: u32::try_from(plan.steps.len()).expect("a plan has at most 1024 steps"),
            document,
            doubts,
            ..PlanCreated::default()
        }));
        turn.ask_for_actions();
        let commit = turn.into_commit();
        (Self::from_snapshot(state, plan), commit)
    }

    /// Takes a run up from its snapshot and the plan of its revision.
    ///
    /// # Panics
    /// If the plan is another one.
    pub fn from_snapshot(state: RunState, plan: Arc<Plan>) -> Self {
        assert_eq!(
            state.revision,
            plan.digest[..],
            "the plan is that of the revision"
        );
        let held = Held::of(&state, &plan);
        Self {
            state,
            plan,
            held,
            held_is_old: false,
        }
    }

    /// Goes on by an entry that is durable: how a run is folded from its journal. The plan stays the one that it was; behind
    /// an entry with another one, the state and that plan make the run.
    ///
    /// # Panics
    /// If it is not the next one.
    pub fn fold(&mut self, bytes: &[u8], entry: &Entry) {
        let before = self.state.chain_hash();
        self.state.apply(entry);
        self.state.chain = Bytes::copy_from_slice(&chain_next(&before, entry.sequence, bytes));
        self.held_is_old = true;
    }

    // RUN-7.8
    /// Returns the time of the run when the clock reads `now`; never before its last entry, even if the clock
    /// was set back. All times of the run are ahead by the same amount since the last start. So no delay
    /// takes longer because the clock was set back.
    pub fn own_time(&self, now: i64) -> i64 {
        now.saturating_add_unsigned(self.state.ahead_ms)
            .max(self.state.updated_at)
    }

    // RUN-7.8
    /// Converts a time of the run to the time of the clock.
    pub fn clock_time(&self, own: i64) -> i64 {
        own.saturating_sub_unsigned(self.state.ahead_ms)
    }

    // RUN-2.1
    /// Takes an input in. `now` are Unix milliseconds of a clock that never goes back while the process lives; an input that
    /// came before the last entry is taken in at the time of that.
    ///
    /// # Errors
    /// [`Refused`]: the input changed nothing.
    ///
    /// # Panics
    /// If a time that [`Run::due_at`] named has come and another input is handed in first.
    pub fn handle(&mut self, input: Input, now: i64, blobs: &dyn Blobs) -> Result<Commit, Refused> {
        let behind_ms = self.state.updated_at.saturating_sub(now);
        let now = match input {
            Input::Recovered | Input::Restarted => now.max(self.state.updated_at),
            _ => self.own_time(now),
        };
        let on_time = match input {
            Input::Time | Input::Recovered | Input::Restarted | Input::Session(_) | Input::Stalled { .. } => {
                true
            }
            _ => self.state.due(&self.plan).is_none_or(|(due, _)| due > now),
        };
        assert!(on_time, "time fires before a later input");
        if core::mem::take(&mut self.held_is_old) {
            self.held = Held::of(&self.state, &self.plan);
        }
        let held = core::mem::take(&mut self.held);
        let mut turn = Turn::new(&mut self.state, &self.plan, now, blobs).knowing(held);
        let is_forgotten = planted::is_on(Bug::RunAheadForgotten);
        turn.ahead_ms = u64::try_from(behind_ms)
            .ok()
            .filter(|_| !is_forgotten)
            .unwrap_or(0);
        let taken = turn.input(input);
        self.held = turn.take_held();
        let mut commit = turn.into_commit();
        let mut revised = taken?;
        // RUN-12.2: each of them uses up a substitution or a generation.
        while let Some(plan) = revised {
            commit.replaced.push(core::mem::replace(&mut self.plan, plan));
            let held = core::mem::take(&mut self.held);
            let mut turn = Turn::new(&mut self.state, &self.plan, now, blobs).knowing(held);
            revised = turn.goes_on(commit);
            self.held = turn.take_held();
            commit = turn.into_commit();
        }
        Ok(commit)
    }

    // RUN-7.2, RUN-14.4
    /// Handles an input as [`Run::handle`] does, after the inputs that come first: how long the orchestrator
    /// stood still, and what changed in its session. If the input changes nothing, the run handles those with
    /// a later input, unless its time has come.
    ///
    /// # Errors
    /// Fails as [`Run::handle`] does.
    pub fn handle_after(
        &mut self,
        first: Vec<Input>,
        input: Input,
        now: i64,
        blobs: &dyn Blobs,
    ) -> Result<Commit, Refused> {
        let mut run = self.clone();
        let mut seen = Commit::default();
        // A limit that is not over yet is due later from then on. Its time is not submitted before that.
        let moves_timers =
            input == Input::Time && first.iter().any(|first| matches!(first, Input::Stalled { .. }));
        for first in first {
            seen = seen.followed_by(run.handle(first, now, blobs)?);
        }
        let blobs = WithNew {
            new: &seen.blobs,
            others: blobs,
        };
        let handled = run.handle(input, now, &blobs)?;
        if handled.entries.is_empty() && !moves_timers {
            return Ok(handled);
        }
        *self = run;
        Ok(seen.followed_by(handled))
    }

    /// Everything that is outstanding: what a restart does again.
    pub fn outstanding(&self, blobs: &dyn Blobs) -> Vec<Effect> {
        // Nothing is decided; a turn knows how an effect is made.
        let mut state = self.state.clone();
        Turn::new(&mut state, &self.plan, self.state.updated_at, blobs).outstanding()
    }

    /// What the expression of an evaluation is about: an object with `input`, `run`, `session`, `results` (by the keys of the steps that
    /// completed, at least of those that the expression can refer to), and in a loop `iteration` and `last`, the output of that
    /// iteration. A sentence, which is what the expression comes to, if that has more than 8 MiB. `None` if nobody waits for its
    /// value.
    pub fn bindings(&self, evaluation: u32, blobs: &dyn Blobs) -> Option<Result<Opaque, String>> {
        let mut state = self.state.clone();
        Turn::new(&mut state, &self.plan, self.state.updated_at, blobs).bindings(evaluation)
    }

    // RUN-12.14
    /// The effects of the run that are in doubt. What is of its children that are under way, those know.
    pub fn in_doubt(&self, blobs: &dyn Blobs) -> Vec<Doubt> {
        let mut state = self.state.clone();
        Turn::new(&mut state, &self.plan, self.state.updated_at, blobs).all_doubts()
    }

    // RUN-4.13
    /// True if the run goes on by what that execution comes to. What else it has sent is fenced.
    pub fn awaits(&self, execution_id: ExecutionId, blobs: &dyn Blobs) -> bool {
        let mut state = self.state.clone();
        Turn::new(&mut state, &self.plan, self.state.updated_at, blobs).awaits(execution_id)
    }

    /// Returns the time at which [`Input::Time`] is due by the clock, in Unix milliseconds; `None` once the
    /// run has ended.
    pub fn due_at(&self) -> Option<i64> {
        self.state.due(&self.plan).map(|(due, _)| self.clock_time(due))
    }

    /// The state, for those who show it.
    pub fn state(&self) -> &RunState {
        &self.state
    }

    // RUN-9.13
    /// Returns the approximate bytes of the work of the run, as [`RunState::size`] does, without reading all
    /// of it.
    pub fn size(&self) -> usize {
        match self.held_is_old {
            true => self.state.size(),
            false => self.held.size(),
        }
    }

    /// The plan of the current revision.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// The state in one word.
    pub fn shown(&self) -> ShownState {
        self.state.shown()
    }
}

/// Contents that the store does not have yet, and those that it has.
struct WithNew<'a> {
    new: &'a [([u8; 32], Bytes)],
    others: &'a dyn Blobs,
}

impl Blobs for WithNew<'_> {
    fn blob(&self, digest: &[u8; 32]) -> Bytes {
        let new = self.new.iter().find(|(known, _)| known == digest);
        new.map_or_else(|| self.others.blob(digest), |(_, bytes)| bytes.clone())
    }
}

impl RunState {
    /// The hash of the last entry.
    pub fn chain_hash(&self) -> [u8; 32] {
        self.chain[..].try_into().expect("a hash has 32 bytes")
    }

    // RUN-2.2
    /// The state in one word.
    pub fn shown(&self) -> ShownState {
        match self.stage() {
            Stage::Queued => ShownState::Queued,
            Stage::Planning | Stage::Executing if self.paused_at != 0 => ShownState::Paused,
            Stage::Planning | Stage::Executing if self.pause_wanted => ShownState::Pausing,
            Stage::Planning | Stage::Executing if self.waits_for_people() => ShownState::Waiting,
            Stage::Planning => ShownState::Planning,
            Stage::Executing if self.is_verifying => ShownState::Verifying,
            Stage::Executing => ShownState::Running,
            Stage::Completed => ShownState::Completed,
            Stage::Failed => ShownState::Failed,
            Stage::TimedOut => ShownState::Timeout,
            Stage::Cancelled => ShownState::Cancelled,
        }
    }

    /// Ids of the requests that wait for an answer.
    pub fn open_requests(&self) -> impl Iterator<Item = &crate::journal::InputRequest> {
        self.requests
            .iter()
            .filter(|request| request.state() == RequestState::Open)
    }
}
