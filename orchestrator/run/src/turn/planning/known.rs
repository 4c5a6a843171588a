//! What a run knows about the actions of a plan that its planner made. Decides nothing.

use crate::catalogue::Catalogue;
use crate::plan::Plan;
use crate::session::SkillHealth;
use crate::spec::ActionProfile;
use crate::state::{Planning, RunState};
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

// RUN-11.6, RUN-14.6
/// The actions that no plan may call any more, sorted: those that failed for good in the run, and those whose skill is out.
pub(super) fn disabled_for(state: &RunState, catalogue: &Catalogue) -> Vec<String> {
    let skills = state.disabled_skills();
    let actions = catalogue.actions.iter().map(|action| &action.profile);
    let out = actions.filter(|profile| skills.contains(profile.skill()));
    let out = out.map(|profile| profile.action.clone());
    let mut disabled: Vec<String> = out.chain(state.disabled_actions.iter().cloned()).collect();
    disabled.sort();
    disabled.dedup();
    disabled
}

/// The skills that are not as new, as the run sees them.
pub(super) fn skills_of(state: &RunState) -> &[SkillHealth] {
    state.session.as_ref().map_or(&[], |session| &session.skills)
}

// RUN-12.3, RUN-13.6
/// What the catalogue knows of the actions that a plan calls and of their alternatives, and of those that the run calls itself,
/// sorted by name. Of those that models may call also what models are told of them.
pub(super) fn profiles_of(plan: &Plan, catalogue: &Catalogue, own: &[ActionProfile]) -> Vec<ActionProfile> {
    let tools: BTreeSet<&str> = plan.tools().collect();
    let known = |action: &str| {
        let entry = catalogue.find(action)?;
        let mut profile = entry.profile.clone();
        if tools.contains(action) {
            profile.description.clone_from(&entry.description);
            profile.input_schema.clone_from(&entry.input_schema);
        }
        Some(profile)
    };
    let called = plan.actions();
    let mut profiles: Vec<ActionProfile> = called.iter().copied().filter_map(known).collect();
    let mut names: BTreeSet<String> = called.into_iter().map(String::from).collect();
    let mut at = 0;
    while at < profiles.len() {
        for alternative in profiles[at].alternatives.clone() {
            if names.insert(alternative.clone()) {
                profiles.extend(known(&alternative));
            }
        }
        at += 1;
    }
    profiles.extend_from_slice(own);
    profiles.sort_by(|one, other| one.action.cmp(&other.action));
    profiles.dedup_by(|one, other| one.action == other.action);
    profiles
}

/// True if a worker has offered the action before.
pub(super) fn was_seen(planning: &Planning, action: &str) -> bool {
    let known = planning.own.iter().find(|profile| profile.action == action);
    known.is_some_and(|profile| profile.seen)
}
