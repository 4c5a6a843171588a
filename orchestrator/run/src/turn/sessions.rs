//! What a run sees of its session, what its steps change there, and what becomes of the skills that it calls.

use super::Turn;
use crate::fields::field;
use crate::input::SessionNews;
use crate::journal::{
    Event, OutcomeClass, SessionRead, SkillHealthChanged, SkillsRead, StatePatched, Stored, UnitRef,
};
use crate::plan::StepKind;
use crate::session::{self, Health, PATCH_WORK_MAX, SkillEvent};
use crate::state::UnitStage;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use escapement_model::Opaque;
use escapement_model::opaque::{ValueView, WalkBudget};
use escapement_model::planted::{self, Bug};

/// The patches of a step, and the state behind them.
pub(super) struct Patched {
    patches: Vec<(u32, Opaque)>,
    state: Opaque,
}

impl Turn<'_> {
    // RUN-14.4
    /// Somebody else changed the session.
    pub(super) fn session_changed(&mut self, news: SessionNews) {
        let (state_version, state) = news
            .state
            .map_or((0, None), |(version, state)| (version, Some(state)));
        let state = state.map(|state| self.store(state.as_encoded().clone()));
        let health = news
            .health
            .map(|(version, skills)| SkillsRead { version, skills });
        if state.is_some() || health.is_some() {
            self.emit(Event::SessionRead(SessionRead {
                state,
                state_version,
                health,
            }));
        }
    }

    /// The state of the session as the run sees it.
    pub(super) fn session_state(&self) -> Opaque {
        let session = self.state.session.as_ref();
        session.map_or_else(Opaque::default, |session| {
            Opaque::from_encoded(self.load(&session.state))
        })
    }

    // RUN-14.3
    /// What the outputs of a step's units make of the session's state; `None` if they leave it as it is.
    ///
    /// # Errors
    /// A sentence, if a patch is none or makes too much of the state.
    pub(super) fn patched(&self, step: u32) -> Result<Option<Patched>, String> {
        // What a model says is no patch; what a tool answers that it called is one.
        let of_tools = match &self.step(step).kind {
            StepKind::ToolCall(_) | StepKind::Parallel(_) | StepKind::Loop(_) => false,
            StepKind::LlmDecision(_) => true,
            StepKind::UserInput(_) | StepKind::Condition(_) | StepKind::SubPlan(_) => return Ok(None),
        };
        let (mut patches, mut budget) = (Vec::new(), WalkBudget::new(PATCH_WORK_MAX));
        let too_much = |spent| alloc::format!("$state_patch: merging it {spent}");
        for (index, unit) in self.step_state(step).all_units() {
            let is_of_tool = self.unit_ref(step, index).as_tool_call().is_some();
            if !unit.patches || unit.stage() != UnitStage::Completed || is_of_tool != of_tools {
                continue;
            }
            let Some(output) = &unit.output else { continue };
            let output = self
                .looked_up
                .bytes(self, output, &mut budget)
                .map_err(too_much)?;
            match patch_of(&output) {
                Some(ValueView::Struct(patch)) => {
                    patches.push((index, Opaque::from_encoded(output.slice_ref(patch))));
                }
                Some(_) => return Err(String::from("$state_patch is not an object")),
                None => {}
            }
        }
        if patches.is_empty() {
            return Ok(None);
        }
        let before = self.session_state();
        let mut merged_in_order: Vec<_> = patches.iter().collect();
        if planted::is_on(Bug::RunPatchesReversed) {
            merged_in_order.reverse();
        }
        let bytes = merged_in_order.iter().map(|(_, patch)| &patch.as_encoded()[..]);
        let state = session::merged(&before, bytes, &mut budget)
            .map_err(|why| alloc::format!("$state_patch: {why}"))?;
        Ok(Some(Patched { patches, state }))
    }

    // RUN-14.3
    /// Writes the patches of a step down, in the order of its units.
    pub(super) fn patch_session(&mut self, step: u32, patched: Patched) {
        let n_patches = patched.patches.len();
        for (n, (index, patch)) in (1..).zip(patched.patches) {
            let is_last = n == n_patches;
            let state = is_last.then(|| self.store(patched.state.as_encoded().clone()));
            let patch = self.store(patch.as_encoded().clone());
            self.emit(Event::StatePatched(StatePatched {
                step,
                index,
                patch,
                state,
            }));
        }
    }

    // RUN-14.1, RUN-8.5
    /// The state of a session that the run shares with no other is that of the run that it goes on from, or of a checkpoint.
    pub(crate) fn own_session_is(&mut self, state: &Stored) {
        self.emit(Event::SessionRead(SessionRead {
            state: Some(state.clone()),
            state_version: 0,
            health: None,
        }));
    }

    // RUN-14.5
    /// An attempt that counts has ended.
    pub(super) fn skill_did(&mut self, action: &str, class: OutcomeClass, code: &str) {
        let event = match class {
            OutcomeClass::Completed => SkillEvent::Succeeded,
            OutcomeClass::TimedOut | OutcomeClass::Unknown => SkillEvent::TimedOut,
            OutcomeClass::Failed if UNREACHABLE.contains(&code) => SkillEvent::TimedOut,
            OutcomeClass::Failed | OutcomeClass::FailedForGood => SkillEvent::Failed,
            OutcomeClass::NeverRan | OutcomeClass::ApprovalRequired => return,
        };
        self.skill_is(action, Some(event), false);
    }

    // RUN-14.5, RUN-14.6
    /// A unit fails for good: if that is for its last attempt, its skill is given up in this run.
    pub(super) fn skill_gives_up(&mut self, unit: UnitRef) {
        let state = self.unit(unit).clone();
        let (tried, action) = (state.attempts > 0, self.action_of(unit));
        match (state.class(), state.stage()) {
            _ if !tried || action.is_empty() => {}
            (_, UnitStage::Ready | UnitStage::Live | UnitStage::BackingOff | UnitStage::Completed) => {}
            (OutcomeClass::Completed | OutcomeClass::NeverRan | OutcomeClass::ApprovalRequired, _) => {}
            (OutcomeClass::FailedForGood, _) => self.skill_is(&action, None, true),
            (OutcomeClass::Failed | OutcomeClass::TimedOut | OutcomeClass::Unknown, _) => {
                let base = self.max_retries(unit.step);
                let is_used_up = base > 0 && state.retries >= base.saturating_mul(1 + state.extensions);
                let event = is_used_up.then_some(SkillEvent::RetriesUsedUp);
                self.skill_is(&action, event, true);
            }
        }
    }

    fn skill_is(&mut self, action: &str, event: Option<SkillEvent>, is_given_up: bool) {
        let profile = self.profile(action);
        let skill = match profile.skill() {
            "" => action.to_string(),
            skill => skill.to_string(),
        };
        let (before, failures) = self.state.health_of(&skill);
        let after = event.map_or((before, failures), |event| session::next(before, failures, event));
        let session = self.state.session.as_ref();
        let is_known = session.is_some_and(|session| session.given_up.binary_search(&skill).is_ok());
        if after == (before, failures) && (!is_given_up || is_known) {
            return;
        }
        self.emit(Event::SkillHealthChanged(SkillHealthChanged {
            skill,
            before: before.into(),
            health: after.0.into(),
            failures: after.1,
            is_given_up,
        }));
    }

    // RUN-14.7
    /// The limit of an attempt, longer if its skill is degraded and the run says so.
    pub(super) fn degraded_ms(&self, limit_ms: u64, skill: &str) -> u64 {
        match self.state.health_of(skill).0 {
            Health::Degraded => self.state.spec.limits.longest_ms(limit_ms),
            Health::Healthy | Health::TemporaryFailure | Health::PermanentFailure => limit_ms,
        }
    }
}

/// The patch in an output, an encoded `google.protobuf.Value`.
fn patch_of(output: &[u8]) -> Option<ValueView<'_>> {
    match super::values::view(output)? {
        ValueView::Struct(object) => field(object, "$state_patch"),
        _ => None,
    }
}

/// True if an output has a patch of the session's state.
pub(super) fn has_patch(output: &[u8]) -> bool {
    patch_of(output).is_some()
}

/// Codes of handlers that say that something could not be reached.
const UNREACHABLE: [&str; 4] = ["HTTP_CONNECT", "NETWORK_ERROR", "UNAVAILABLE", "TIMEOUT"];
