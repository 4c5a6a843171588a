//! One input's work on a run: each decision is an entry, applied at once, so that the next decision sees it.
//! Nothing leaves before the whole turn is durable.

mod about;
pub(crate) mod advance;
mod answers;
mod artifacts;
mod budget;
mod carry;
mod conclude;
mod contract;
mod dispatch;
mod doubts;
mod failing;
mod fallback;
pub(crate) mod gate;
pub(crate) mod held;
pub(crate) mod judge;
mod looked_up;
mod model;
mod people;
mod planning;
mod replan;
pub(crate) mod revisions;
mod safety;
mod schemas;
mod sessions;
mod steps;
mod subjects;
mod substitution;
pub(crate) mod time;
pub(crate) mod tools;
mod uploads;
pub(crate) mod values;
pub(crate) mod verbs;

pub use answers::says_the_same;

use crate::bounds::{PROFILES_BYTES_MAX, REQUEST_BYTES_MAX};
use crate::ids::{AttemptName, RunId};
use crate::input::{Blobs, Commit, Effect, EncodedEntry, Input, Refused, RefusedReason};
use crate::journal::sizes::profiles_bytes;
use crate::journal::{ActionsKnown, Empty, Entry, Event, RunStalled, Stored, UnitRef};
use crate::plan::{Plan, Step};
use crate::spec::ActionProfile;
use crate::state::{RunState, Stage, StepState, UnitState};
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use core::cell::Cell;
use escapement_model::Opaque;
use escapement_model::chain::chain_next;
use escapement_model::opaque::WalkBudget;
use escapement_model::planted::{self, Bug};
use held::Held;
use looked_up::Lookups;
use prost::Message;

/// One input's work.
pub(crate) struct Turn<'a> {
    state: &'a mut RunState,
    plan: &'a Plan,
    now: i64,
    blobs: &'a dyn Blobs,
    commit: Commit,
    /// The plan of the revision that this turn made. Nothing further is decided by the one before.
    revised: Option<Arc<Plan>>,
    /// A unit that nothing happened to yet.
    new_unit: UnitState,
    /// Milliseconds for which a retry that follows from this input waits at least.
    retry_after_ms: u64,
    /// Milliseconds by which the times of the run are ahead of the clock, for a turn that begins with a
    /// start.
    pub(crate) ahead_ms: u64,
    /// Facts about the state; `None` if it is only read, or new.
    held: Option<Held>,
    /// Budget of reads of its templates. Taken out while one is rendered.
    budget: Cell<WalkBudget>,
    looked_up: Lookups,
}

impl<'a> Turn<'a> {
    pub(crate) fn new(state: &'a mut RunState, plan: &'a Plan, now: i64, blobs: &'a dyn Blobs) -> Self {
        Self {
            state,
            plan,
            now,
            blobs,
            commit: Commit::default(),
            revised: None,
            new_unit: UnitState::default(),
            retry_after_ms: 0,
            ahead_ms: 0,
            held: None,
            budget: Cell::new(WalkBudget::new(TEMPLATE_WORK_MAX)),
            looked_up: Lookups::default(),
        }
    }

    /// Uses these facts about the state.
    pub(crate) fn knowing(self, held: Held) -> Self {
        Self {
            held: Some(held),
            ..self
        }
    }

    /// Returns the facts about the state, if it has any.
    pub(crate) fn take_held(&mut self) -> Held {
        self.held.take().unwrap_or_default()
    }

    pub(crate) fn into_commit(self) -> Commit {
        self.commit
    }

    /// Writes an entry down and applies it.
    pub(crate) fn emit(&mut self, event: Event) {
        let event = self.made_to_fit(event);
        if planted::is_on(Bug::RunTwoEnds) && matches!(event, Event::RunFailed(_)) {
            self.write(event.clone());
        }
        self.write(event);
    }

    fn write(&mut self, event: Event) {
        let (doubts, children) = self.doubts_with(&event);
        let entry = Entry {
            sequence: self.state.sequence + 1,
            at: self.now,
            spent: self.spent_with(&event),
            doubts,
            children,
            event: Some(event),
        };
        let bytes = Bytes::from(entry.encode_to_vec());
        let hash = chain_next(&self.state.chain_hash(), entry.sequence, &bytes);
        self.apply(&entry);
        self.state.chain = Bytes::copy_from_slice(&hash);
        self.commit.entries.push(EncodedEntry { bytes, hash });
        self.commit.events.push(entry);
    }

    fn apply(&mut self, entry: &Entry) {
        let (Some(held), Some(event)) = (&mut self.held, &entry.event) else {
            return self.state.apply(entry);
        };
        let region = self.state.region_of(event);
        let before = self.state.size_of(&region);
        self.state.apply(entry);
        held.learn(self.state, self.plan, event, &region, before);
    }

    // RUN-9.6
    /// Returns the event; the payload of a request that is too large for an inbox is stored by its hash.
    fn made_to_fit(&mut self, event: Event) -> Event {
        let Event::InputRequested(mut request) = event else {
            return event;
        };
        if request.encoded_len() > REQUEST_BYTES_MAX {
            request.data = request.data.map(|data| self.small(data));
            request.subject = request.subject.map(|subject| self.small(subject));
        }
        Event::InputRequested(request)
    }

    /// Takes an input in. Gives the plan that the run goes on with, if that is another one.
    pub(crate) fn input(&mut self, input: Input) -> Result<Option<Arc<Plan>>, Refused> {
        if self.state.stage().is_end() {
            return behind_the_end(&input).map(|()| None);
        }
        match input {
            Input::Admit => self.admit()?,
            Input::Settled {
                execution_id,
                outcome,
            } => self.settled(execution_id, outcome),
            Input::Catalogue {
                generation,
                catalogue,
                own,
            } => self.catalogue_given(generation, catalogue, own),
            Input::Evaluated { evaluation, result } => self.evaluated(evaluation, result),
            Input::ChildEnded {
                run_id,
                result,
                used,
                doubts,
            } => self.child_ended(run_id, result, used, doubts),
            Input::Answer(answer) => self.answer(answer, None)?,
            Input::ApproveEdited { answer, profiles } => {
                self.revised = self.approve_edited(answer, profiles)?;
            }
            Input::Time => self.time(),
            Input::Pause { reason } => self.pause(reason)?,
            Input::Resume { reason } => self.resume(reason)?,
            Input::Cancel { reason } => self.cancel(reason),
            Input::Rewind {
                step_key,
                scope,
                allow_repeat_effects,
            } => {
                self.rewind(&step_key, scope, allow_repeat_effects)?;
            }
            Input::Rollback {
                to,
                allow_repeat_effects,
            } => self.rollback(to, allow_repeat_effects)?,
            Input::Override {
                step_key,
                word,
                reason,
            } => self.override_step(&step_key, word, reason)?,
            Input::Checkpoint { data } => self.checkpoint(data)?,
            Input::Upload(upload) => self.upload(upload)?,
            Input::Recovered => self.recovered(false),
            Input::Restarted => self.recovered(true),
            Input::ActionsKnown { profiles } => self.actions_known(profiles),
            Input::Session(news) => {
                self.session_changed(news);
                return Ok(None);
            }
            // RUN-7.2
            Input::Stalled { ms } => {
                self.emit(Event::RunStalled(RunStalled { stalled_ms: ms }));
                return Ok(None);
            }
        }
        if self.revised.is_none() {
            self.advance();
        }
        Ok(self.revised.take())
    }

    /// Goes on with the plan of a revision that was made. Gives the next one if that revision fails at once.
    pub(crate) fn goes_on(&mut self, commit: Commit) -> Option<Arc<Plan>> {
        self.commit = commit;
        // RUN-11.7
        let is_planned = |entry: &Entry| match &entry.event {
            Some(Event::PlanCreated(created)) => Some(created.generation > 0),
            _ => None,
        };
        match self.commit.events.iter().rev().find_map(is_planned) {
            Some(true) => self.begin_planned(),
            _ => self.begin_revision(),
        }
        self.advance();
        self.revised.take()
    }

    // RUN-2.4
    fn admit(&mut self) -> Result<(), Refused> {
        let paused = self.state.pause_wanted && !planted::is_on(Bug::RunPausedAdmitted);
        if self.state.stage() != Stage::Queued || paused || self.state.waits_for_actions() {
            return Err(refused(
                RefusedReason::NotQueued,
                "the run does not wait for admission",
            ));
        }
        self.emit(Event::RunStarted(Empty {}));
        if !self.state.has_no_plan() {
            self.ask_for_plan();
        }
        Ok(())
    }

    // RUN-2.6
    /// Takes the careful traits for each action that is still unknown.
    fn actions_known(&mut self, profiles: Vec<ActionProfile>) {
        if !self.state.waits_for_actions() {
            return;
        }
        let known = |profile| ActionProfile {
            unknown: false,
            ..profile
        };
        // RUN-9.6
        let profiles = match profiles_bytes(&profiles) > PROFILES_BYTES_MAX {
            true => self.state.profiles.clone(),
            false => profiles,
        };
        let profiles = profiles.into_iter().map(known).collect();
        self.emit(Event::ActionsKnown(ActionsKnown { profiles }));
    }

    // RUN-2.6
    /// Asks for the missing profiles of actions, if the run waits for them.
    pub(crate) fn ask_for_actions(&mut self) {
        if self.state.waits_for_actions() {
            let unknown = self.state.profiles.iter().filter(|profile| profile.unknown);
            let unknown = unknown.map(|profile| profile.action.clone()).collect();
            self.effect(Effect::Actions { unknown });
        }
    }

    fn run_id(&self) -> RunId {
        let bytes: [u8; 16] = self.state.run_id[..].try_into().expect("an id has 16 bytes");
        RunId::from_bytes(bytes).expect("it was an id")
    }

    fn step(&self, step: u32) -> &'a Step {
        &self.plan.steps[step as usize]
    }

    fn step_state(&self, step: u32) -> &StepState {
        &self.state.steps[step as usize]
    }

    /// The unit in the epoch at hand.
    pub(crate) fn unit_ref(&self, step: u32, index: u32) -> UnitRef {
        UnitRef {
            step,
            index,
            epoch: self.step_state(step).epoch,
        }
    }

    /// The unit; one that nothing happened to yet is as new.
    fn unit(&self, unit: UnitRef) -> &UnitState {
        self.step_state(unit.step).unit(unit).unwrap_or(&self.new_unit)
    }

    fn attempt_name(&self, unit: UnitRef, attempt: u32) -> AttemptName<'a> {
        AttemptName {
            run_id: self.run_id(),
            seed: self.state.spec.seed(),
            step: &self.step(unit.step).key,
            index: unit.index,
            epoch: if planted::is_on(Bug::RunEpochForgotten) {
                0
            } else {
                unit.epoch
            },
            attempt: if planted::is_on(Bug::RunIdReused) {
                1
            } else {
                attempt
            },
        }
    }

    fn profile(&self, action: &str) -> ActionProfile {
        let found = self
            .state
            .profiles
            .binary_search_by(|profile| profile.action.as_str().cmp(action));
        found.map_or_else(|_| ActionProfile::default(), |at| self.state.profiles[at].clone())
    }

    // RUN-9.6
    /// Keeps bytes in place if they are few, else by their hash.
    pub(crate) fn store(&mut self, bytes: Bytes) -> Stored {
        let length = bytes.len() as u64;
        if bytes.len() <= self.inline_bytes_max() {
            return Stored {
                inline: bytes,
                digest: Bytes::new(),
                length,
            };
        }
        self.put_away(bytes)
    }

    /// Keeps bytes by their hash.
    pub(crate) fn put_away(&mut self, bytes: Bytes) -> Stored {
        let length = bytes.len() as u64;
        let digest = escapement_model::encoder::sha256(&bytes);
        self.commit.blobs.push((digest, bytes));
        Stored {
            inline: Bytes::new(),
            digest: Bytes::copy_from_slice(&digest),
            length,
        }
    }

    /// The run's input.
    fn given_input(&self) -> Opaque {
        Opaque::from_encoded(self.load(&self.state.input))
    }

    /// What every attempt's environment begins with.
    fn given_environment(&self) -> Opaque {
        Opaque::from_encoded(self.load(&self.state.environment))
    }

    /// What was kept.
    pub(crate) fn load(&self, stored: &Stored) -> Bytes {
        if stored.digest.is_empty() {
            return stored.inline.clone();
        }
        let digest: [u8; 32] = stored.digest[..].try_into().expect("a hash has 32 bytes");
        let new = self.commit.blobs.iter().find(|(known, _)| *known == digest);
        new.map_or_else(|| self.blobs.blob(&digest), |(_, bytes)| bytes.clone())
    }

    fn effect(&mut self, effect: Effect) {
        self.commit.effects.push(effect);
    }
}

// RUN-2.3
/// What comes back after the end changes nothing; what somebody wants is refused.
fn behind_the_end(input: &Input) -> Result<(), Refused> {
    match input {
        Input::Settled { .. }
        | Input::Catalogue { .. }
        | Input::Evaluated { .. }
        | Input::ChildEnded { .. }
        | Input::Time
        | Input::Session(_)
        | Input::Stalled { .. }
        | Input::ActionsKnown { .. }
        | Input::Recovered
        | Input::Restarted => Ok(()),
        Input::Admit
        | Input::Answer(_)
        | Input::ApproveEdited { .. }
        | Input::Pause { .. }
        | Input::Resume { .. }
        | Input::Cancel { .. }
        | Input::Rewind { .. }
        | Input::Rollback { .. }
        | Input::Override { .. }
        | Input::Checkpoint { .. }
        | Input::Upload(_) => Err(refused(
            RefusedReason::RunEnded,
            "the run has ended; fork it to go on",
        )),
    }
}

// RUN-1.9
/// Entries and items that the templates of one turn may read.
pub const TEMPLATE_WORK_MAX: usize = 4 << 20;
/// Bytes that an entry holds in place; more are kept by their hash.
pub const INLINE_BYTES_MAX: usize = 32_768;

fn refused(reason: RefusedReason, message: &str) -> Refused {
    Refused {
        reason,
        message: message.to_string(),
    }
}

fn refused_because(reason: RefusedReason, message: String) -> Refused {
    Refused { reason, message }
}
