//! Derives values from a spec.

use super::{FallbackAction, FallbackKind, LOOK_ACTION, Spec, session_key};
use crate::ids::IdSeed;
use alloc::borrow::Cow;

impl Spec {
    // RUN-4.3
    /// Returns the seed of the ids of its executions, which are derived from its own id, too.
    pub fn seed(&self) -> Option<IdSeed> {
        IdSeed::from_slice(&self.id_seed)
    }

    /// Returns the key of its session; empty if it has one of its own.
    pub fn session_key(&self) -> Cow<'_, str> {
        session_key(&self.namespace, &self.session_id)
    }

    // RUN-11.2
    /// Returns true if a planner that took too long is asked again, as the preset `execution` has it.
    pub fn asks_slow_planners_again(&self) -> bool {
        self.preset == "execution"
    }

    // RUN-11.1
    /// Returns true if the run begins with a plan, false if a planner makes the first one.
    pub fn is_given_plan(&self) -> bool {
        self.goal.is_empty() || self.planner.is_none()
    }

    /// Returns the actions that the run calls besides those of its plan. They ask models, judge calls and
    /// verify artifacts; the last is its fallback.
    pub fn actions(&self) -> impl Iterator<Item = &str> {
        let wanted = &self.constraints;
        let looks = !wanted.must_produce.is_empty() || !wanted.expected_artifact_type.is_empty();
        let looks = if looks { LOOK_ACTION } else { "" };
        [
            self.llm_action.as_str(),
            &self.safety_action,
            looks,
            self.fallback_action(),
        ]
        .into_iter()
        .filter(|action| !action.is_empty())
    }

    // RUN-11.11
    /// Returns the fallback that is an action, if the run has one.
    pub fn called_fallback(&self) -> Option<&FallbackAction> {
        match self.fallback.as_ref()?.kind.as_ref()? {
            FallbackKind::Action(action) => Some(action),
            FallbackKind::Templates(_) | FallbackKind::Output(_) => None,
        }
    }

    /// Returns the action that is called if the plans failed; empty without one.
    pub fn fallback_action(&self) -> &str {
        self.called_fallback().map_or("", |fallback| &fallback.action)
    }
}
