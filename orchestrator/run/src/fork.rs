//! A run that goes on where another one was: with its plan or an edited one, and the results that it keeps. The other run
//! stays as it is.

mod changed;

pub use self::changed::ChangedStep;

use self::changed::difference;
use crate::branches::stale;
use crate::ids::RunId;
use crate::input::{Blobs, Commit, Refused, RefusedReason};
use crate::journal::sizes::{is_too_large, newest_doubts, newest_results};
use crate::journal::{
    CarriedResult, Doubt, Event, PlanCreated, Reason, RunCreated, SkipReason, StepFailed, StepMemoized,
    StepSkipped, UnitResult,
};
use crate::plan::Plan;
use crate::run::Run;
use crate::spec::{ActionProfile, Spec};
use crate::state::{Checkpoint, RunState, StepStage, StepState, UnitState};
use crate::turn::revisions::failed_keys;
use crate::turn::verbs::would_repeat;
use crate::turn::{INLINE_BYTES_MAX, Turn};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use escapement_model::Opaque;
use escapement_model::chain::chain_begin;
use escapement_model::planted::{self, Bug};
use prost::Message;

/// What a fork keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep<'a> {
    /// Everything that completed, and what branches skipped.
    Completed,
    /// What ended before this step in canonical order, failures included.
    Before(&'a str),
    /// Nothing: it goes back to the beginning, and is paused.
    Nothing,
    /// What completed up to the checkpoint of this number: it goes back there, and is paused.
    Checkpoint(u32),
}

impl Keep<'_> {
    /// True if the other run is rolled back by the fork.
    fn is_rollback(self) -> bool {
        match self {
            Keep::Completed | Keep::Before(_) => false,
            Keep::Nothing | Keep::Checkpoint(_) => true,
        }
    }
}

/// What a fork takes over from the other run, and how.
#[derive(Clone, Debug)]
pub struct Takes<'a> {
    /// What it keeps.
    pub keep: Keep<'a>,
    /// Its plan, if it is another one.
    pub edited: Option<EditedPlan>,
    /// True if it may repeat effects of the other run, those in doubt included, without anybody being asked.
    pub allow_repeat_effects: bool,
    /// Effects that are in doubt of children of the other run whose end that does not know: [`RunState::children`].
    pub doubts_of_children: Vec<Doubt>,
}

/// A plan in the place of the one of the other run.
#[derive(Clone, Debug)]
pub struct EditedPlan {
    /// The plan.
    pub plan: Arc<Plan>,
    /// What is known of its actions and of those of the run itself, sorted by name.
    pub profiles: Vec<ActionProfile>,
}

impl Run {
    // RUN-8.8
    /// Makes a run of the plan of another one, or of an edited one. It is queued. Input and environment are those of the
    /// other one, and `spec.forked_from` is set here.
    ///
    /// # Errors
    /// [`Refused`] with [`RefusedReason::RunDiscarded`], [`RefusedReason::UnknownStep`], [`RefusedReason::NoCheckpoint`],
    /// [`RefusedReason::KeptStepChanged`] or, if it goes back and would repeat effects that it may not,
    /// [`RefusedReason::EffectsWouldRepeat`].
    pub fn fork(
        other: &Run,
        run_id: RunId,
        spec: Spec,
        takes: Takes<'_>,
        now: i64,
        blobs: &dyn Blobs,
    ) -> Result<(Self, Commit), Refused> {
        let Takes {
            keep,
            edited,
            allow_repeat_effects: may_repeat,
            doubts_of_children,
        } = takes;
        let from = other.state();
        require_contents(from)?;
        let set_back = set_back(other, keep)?;
        if let Some(edited) = &edited {
            other.require_unchanged(keep, &edited.plan)?;
        }
        let mut state = RunState {
            chain: Bytes::copy_from_slice(&chain_begin(&run_id)),
            updated_at: now,
            ..RunState::default()
        };
        let edited = edited.filter(|_| !planted::is_on(Bug::RunForkUnedited));
        let plan = edited.as_ref().map_or(other.plan(), |edited| &edited.plan);
        let plan = Arc::clone(plan);
        let mut left = left_over(other, keep, may_repeat, &set_back, &plan, now, blobs)?;
        left.doubts
            .extend(doubts_of_children.into_iter().filter(|_| !may_repeat));
        let mut turn = Turn::new(&mut state, &plan, now, blobs);
        turn.emit(Event::RunCreated(created_from(from, run_id, spec)));
        // RUN-11.1
        let has_plan = edited.is_some() || !from.has_no_plan();
        let (document, profiles) = match edited {
            Some(edited) => (turn.store(plan.document.as_encoded().clone()), edited.profiles),
            None => (from.document.clone(), from.profiles.clone()),
        };
        let results = turn.made_small(newest_results(left.results));
        let parent = match from.has_no_plan() {
            true => Bytes::new(),
            false => from.revision.clone(),
        };
        let created = Event::PlanCreated(PlanCreated {
            number: u32::from(has_plan),
            digest: Bytes::copy_from_slice(&plan.digest),
            cause: String::from("fork"),
            profiles,
            n_steps: u32::try_from(plan.steps.len()).expect("a plan has at most 1024 steps"),
            document,
            parent,
            failed_steps: failed_keys(other.plan(), from),
            results,
            doubts: newest_doubts(left.doubts),
            ..PlanCreated::default()
        });
        if is_too_large(&created) {
            return Err(Refused {
                reason: RefusedReason::RunTooLarge,
                message: String::from("the entry of the fork's plan would have more than 2 MiB"),
            });
        }
        turn.emit(created);
        begin_session(&mut turn, from, keep)?;
        keep_steps(&mut turn, other, &plan, keep, &set_back);
        // RUN-8.5
        if keep.is_rollback() {
            turn.emit(Event::PauseRequested(Reason {
                reason: String::from("rollback"),
            }));
        }
        turn.ask_for_actions();
        let commit = turn.into_commit();
        Ok((Self::from_snapshot(state, plan), commit))
    }
}

/// Returns the first entry of a fork: input and environment are those of the other run.
fn created_from(from: &RunState, run_id: RunId, spec: Spec) -> RunCreated {
    RunCreated {
        run_id: Bytes::copy_from_slice(run_id.as_bytes()),
        spec: Spec {
            forked_from: from.run_id.clone(),
            input: Opaque::default(),
            environment: Opaque::default(),
            ..spec
        },
        input: from.input.clone(),
        environment: from.environment.clone(),
    }
}

/// Keeps what ended in the steps that the fork has as the other run has them.
fn keep_steps(turn: &mut Turn<'_>, other: &Run, plan: &Plan, keep: Keep<'_>, set_back: &BTreeSet<u32>) {
    let from = other.state();
    for (step, spec) in (0..).zip(&plan.steps) {
        let mut known = (0..).zip(&other.plan().steps).zip(&from.steps);
        let Some(((before, _), state)) = known.find(|((_, before), _)| before.key == spec.key) else {
            continue;
        };
        if set_back.contains(&before) {
            continue;
        }
        // What is to be mended is tried again.
        if state.stage() == StepStage::Failed && difference(other.plan(), before as usize, plan).is_some() {
            continue;
        }
        if let Some(event) = kept(step, state, keep, from.sequence) {
            turn.keep(event);
        }
    }
}

/// What the units of a fork find of the other run, beside the steps that are kept.
#[derive(Default)]
struct LeftOver {
    /// What they may take instead of calling their actions, the oldest first.
    results: Vec<CarriedResult>,
    /// What is settled before it is done again.
    doubts: Vec<Doubt>,
}

/// The steps of the other run that a fork begins anew as if they had never begun: none if it goes on where the other run was.
fn set_back(other: &Run, keep: Keep<'_>) -> Result<BTreeSet<u32>, Refused> {
    let from = other.state();
    let checkpoint = checkpoint_of(from, keep)?;
    let is_back = |step: u32, state: &StepState| match checkpoint {
        Some(checkpoint) => state.stage() != StepStage::Completed || !checkpoint.completed.contains(&step),
        None => true,
    };
    let plan = &other.plan().steps;
    let first = match keep {
        Keep::Completed => plan.len(),
        Keep::Before(key) => plan
            .iter()
            .position(|step| step.key == key)
            .ok_or_else(|| Refused {
                reason: RefusedReason::UnknownStep,
                message: format!("the plan has no step {key:?}"),
            })?,
        Keep::Nothing | Keep::Checkpoint(_) => 0,
    };
    let steps = (0..).zip(&from.steps).skip(first);
    let back = steps.filter(|(step, state)| is_back(*step, state));
    let back = back.map(|(step, _)| step).collect();
    let named = matches!(keep, Keep::Before(_)).then_some(first);
    Ok(stale(other.plan(), &from.steps, &back, named))
}

// RUN-8.5, RUN-8.8, RUN-12.6, RUN-12.14
/// What the other run had left of earlier revisions, and of the steps that the fork neither keeps as a whole nor sets back.
fn left_over(
    other: &Run,
    keep: Keep<'_>,
    may_repeat: bool,
    set_back: &BTreeSet<u32>,
    plan: &Plan,
    now: i64,
    blobs: &dyn Blobs,
) -> Result<LeftOver, Refused> {
    let mut state = other.state().clone();
    let mut left = LeftOver {
        results: core::mem::take(&mut state.results),
        doubts: core::mem::take(&mut state.doubts),
    };
    let steps = (0..).zip(&state.steps).zip(&other.plan().steps);
    let is_kept = |step: u32, state: &StepState, key: &str| {
        kept(step, state, keep, 0).is_some() && plan.steps.iter().any(|step| step.key == key)
    };
    let kept = steps.filter(|((step, state), spec)| is_kept(*step, state, &spec.key));
    let mut kept: BTreeSet<u32> = kept.map(|((step, _), _)| step).collect();
    let turn = Turn::new(&mut state, other.plan(), now, blobs);
    match keep {
        Keep::Completed => left.results.extend(turn.completed_results(&kept)),
        _ if may_repeat => left.results.clear(),
        Keep::Before(_) | Keep::Nothing | Keep::Checkpoint(_) => {
            let repeated = turn.would_repeat(set_back.iter().copied());
            if let Some(steps) = repeated.filter(|_| !planted::is_on(Bug::RunForkRepeats)) {
                return Err(would_repeat(&steps));
            }
            kept.extend(set_back);
            left.results.extend(turn.completed_results(&kept));
        }
    }
    match may_repeat {
        true => left.doubts.clear(),
        false => left.doubts.extend(turn.open_doubts(&kept)),
    }
    if planted::is_on(Bug::RunForkForgets) {
        left.results.clear();
    }
    Ok(left)
}

// RUN-8.9
/// Refuses to fork a run that does not keep what it was made from.
fn require_contents(from: &RunState) -> Result<(), Refused> {
    if !from.is_discarded() {
        return Ok(());
    }
    Err(Refused {
        reason: RefusedReason::RunDiscarded,
        message: String::from("the run was discarded; what it was made from is gone"),
    })
}

// RUN-14.1
/// The session of a fork of a run that shares none: as the other run left it, or as it was at the checkpoint.
fn begin_session(turn: &mut Turn<'_>, from: &RunState, keep: Keep<'_>) -> Result<(), Refused> {
    let Some(session) = from.session.as_ref().filter(|_| from.spec.session_id.is_empty()) else {
        return Ok(());
    };
    let state = match checkpoint_of(from, keep)? {
        None => session.state.clone(),
        Some(checkpoint) => match &checkpoint.session {
            Some(state) => state.clone(),
            None => turn.store(Opaque::default().as_encoded().clone()),
        },
    };
    turn.own_session_is(&state);
    Ok(())
}

/// The checkpoint that a fork goes back to; `None` if it goes back to none. Those of earlier revisions are of other steps.
fn checkpoint_of<'a>(from: &'a RunState, keep: Keep<'_>) -> Result<Option<&'a Checkpoint>, Refused> {
    let Keep::Checkpoint(number) = keep else {
        return Ok(None);
    };
    let is_meant =
        |known: &&Checkpoint| known.number == number && known.revision_number == from.revision_number;
    match from.checkpoints.iter().find(is_meant) {
        Some(checkpoint) => Ok(Some(checkpoint)),
        None => Err(Refused {
            reason: RefusedReason::NoCheckpoint,
            message: String::from("the run has no such checkpoint"),
        }),
    }
}

impl Turn<'_> {
    /// Writes down what a step takes with it. The outputs of many units are kept by their hashes, so that the entry stays small.
    pub(crate) fn keep(&mut self, mut event: Event) {
        if let Event::StepMemoized(memo) = &mut event
            && memo.encoded_len() > INLINE_BYTES_MAX
        {
            for output in memo.units.iter_mut().filter_map(|unit| unit.output.as_mut()) {
                *output = self.small(core::mem::take(output));
            }
        }
        let declaring = match &event {
            Event::StepMemoized(memo) => (0..).zip(memo.units.clone()).collect(),
            _ => Vec::new(),
        };
        let step = match &event {
            Event::StepMemoized(memo) => memo.step,
            _ => 0,
        };
        self.emit(event);
        // RUN-12.7
        for (index, result) in declaring {
            if let Some(output) = result.output.filter(|output| output.length > 0) {
                let output = self.load(&output);
                self.declare(self.unit_ref(step, index), "", &output);
            }
        }
    }
}

/// What a step takes with it to another revision of the same run, if anything.
pub(crate) fn kept_of(
    step: u32,
    state: &StepState,
    as_of: u64,
    execution_of: &dyn Fn(u32, &UnitState) -> Bytes,
) -> Option<Event> {
    let mut event = kept(step, state, Keep::Completed, as_of)?;
    if let Event::StepMemoized(memo) = &mut event {
        for (index, (result, unit)) in (0..).zip(memo.units.iter_mut().zip(&state.units)) {
            if unit.attempts > 0 || !unit.memo_of.is_empty() {
                result.execution_id = execution_of(index, unit);
            }
        }
    }
    Some(event)
}

/// What a step takes with it, if anything.
fn kept(step: u32, state: &StepState, keep: Keep<'_>, as_of: u64) -> Option<Event> {
    match state.stage() {
        StepStage::Completed if planted::is_on(Bug::RunForkForgets) => None,
        StepStage::Completed => Some(Event::StepMemoized(StepMemoized {
            step,
            output: state.output.clone(),
            units: state
                .units
                .iter()
                .map(|unit| UnitResult {
                    output: unit.output.clone(),
                    result_key: unit.result_key.clone(),
                    execution_id: Bytes::new(),
                })
                .collect(),
            as_of,
        })),
        StepStage::Skipped => match state.skip_reason() {
            SkipReason::Branch | SkipReason::Override => {
                let reason = state.skip_reason().into();
                Some(Event::StepSkipped(StepSkipped {
                    step,
                    reason,
                    comment: String::new(),
                }))
            }
            SkipReason::DependencyFailed | SkipReason::RunEnded => None,
        },
        StepStage::Failed if keep != Keep::Completed => {
            let error = state.error.clone().expect("a step that failed says why");
            Some(Event::StepFailed(StepFailed { step, error }))
        }
        StepStage::Failed | StepStage::Pending | StepStage::Running | StepStage::Blocked => None,
    }
}
