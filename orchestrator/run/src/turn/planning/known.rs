//! What a run knows about the actions of a plan that its planner made. Decides nothing.

use crate::catalogue::Catalogue;
use crate::plan::Plan;
use crate::spec::ActionProfile;
use crate::state::Planning;
use alloc::vec::Vec;

/// What the catalogue knows of the actions that a plan calls, and of those that the run calls itself, sorted by name.
pub(super) fn profiles_of(plan: &Plan, catalogue: &Catalogue, own: &[ActionProfile]) -> Vec<ActionProfile> {
    let called = plan
        .actions()
        .into_iter()
        .filter_map(|action| Some(&catalogue.find(action)?.profile));
    let mut profiles: Vec<ActionProfile> = called.chain(own).cloned().collect();
    profiles.sort_by(|one, other| one.action.cmp(&other.action));
    profiles.dedup_by(|one, other| one.action == other.action);
    profiles
}

/// True if a worker has offered the action before.
pub(super) fn was_seen(planning: &Planning, action: &str) -> bool {
    let known = planning.own.iter().find(|profile| profile.action == action);
    known.is_some_and(|profile| profile.seen)
}
