//! What entries change in what a run sees of its session, and which skills it must not select.

use super::RunState;
use crate::journal::{Event, SessionRead, Stored};
use crate::session::{Health, SkillHealth, health_of, set_health};
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use prost::Message;

// RUN-14.4
/// What a run sees of its session.
#[derive(Clone, PartialEq, Message)]
pub struct SessionView {
    /// The state: an encoded object.
    #[prost(message, required, tag = "1")]
    pub state: Stored,
    /// The number of that state; 0 if the run never needed it.
    #[prost(uint64, tag = "2")]
    pub state_version: u64,
    /// The skills that are not as new, sorted by name.
    #[prost(message, repeated, tag = "3")]
    pub skills: Vec<SkillHealth>,
    /// The number of their health.
    #[prost(uint64, tag = "4")]
    pub health_version: u64,
    /// The skills that failed for good in this run, sorted.
    #[prost(string, repeated, tag = "5")]
    pub given_up: Vec<String>,
}

impl RunState {
    // RUN-14.6
    /// The skills that must not be selected for this run: those that are out for the session, and those that failed for
    /// good in this run. Never fewer than before, unless the session is restarted.
    pub fn disabled_skills(&self) -> BTreeSet<&str> {
        let given_up = self.session.iter().flat_map(|session| &session.given_up);
        self.skills_that_are_out()
            .chain(given_up.map(|skill| skill.as_str()))
            .collect()
    }

    // RUN-14.6
    /// The skills that are out for the session, whatever this run gave up.
    pub fn skills_that_are_out(&self) -> impl Iterator<Item = &str> {
        let skills = self.session.iter().flat_map(|session| &session.skills);
        skills
            .filter(|one| one.health() == Health::PermanentFailure)
            .map(|one| one.skill.as_str())
    }

    // RUN-14.6
    /// The actions of the current revision that call such a skill, sorted.
    pub fn actions_that_are_out(&self) -> impl Iterator<Item = &str> {
        let disabled = self.disabled_skills();
        let calls = self
            .profiles
            .iter()
            .filter(move |profile| disabled.contains(profile.skill()));
        calls.map(|profile| profile.action.as_str())
    }

    /// How a skill does.
    pub fn health_of(&self, skill: &str) -> (Health, u32) {
        let session = self.session.as_ref();
        session.map_or((Health::Healthy, 0), |session| health_of(&session.skills, skill))
    }

    pub(super) fn apply_to_session(&mut self, event: &Event) {
        let session = self.session.get_or_insert_default();
        match event {
            Event::SessionRead(SessionRead {
                state,
                state_version,
                health,
            }) => {
                if let Some(state) = state {
                    session.state = state.clone();
                    session.state_version = *state_version;
                }
                if let Some(health) = health {
                    session.skills.clone_from(&health.skills);
                    session.health_version = health.version;
                }
            }
            Event::StatePatched(patched) => {
                if let Some(state) = &patched.state {
                    session.state = state.clone();
                    session.state_version += 1;
                }
            }
            Event::SkillHealthChanged(changed) => {
                let before = health_of(&session.skills, &changed.skill);
                if before != (changed.health(), changed.failures) {
                    set_health(
                        &mut session.skills,
                        &changed.skill,
                        changed.health(),
                        changed.failures,
                    );
                    session.health_version += 1;
                }
                if changed.is_given_up
                    && let Err(at) = session.given_up.binary_search(&changed.skill)
                {
                    session.given_up.insert(at, changed.skill.clone());
                }
            }
            _ => unreachable!("{event:?} is not about a session"),
        }
    }
}
