//! What a run saw of its session and what it changed there, as the journal has it.

use super::Stored;
use crate::session::{Health, SkillHealth};
use alloc::string::String;
use alloc::vec::Vec;
use prost::Message;

// RUN-14.4
/// What changed in the session since the run saw it.
#[derive(Clone, PartialEq, Message)]
pub struct SessionRead {
    /// The state, an encoded object; absent if it did not change or the run does not need it.
    #[prost(message, optional, tag = "1")]
    pub state: Option<Stored>,
    /// The number of that state; 0 for a state of the run's own.
    #[prost(uint64, tag = "2")]
    pub state_version: u64,
    /// The health of skills; absent if it did not change.
    #[prost(message, optional, tag = "3")]
    pub health: Option<SkillsRead>,
}

/// The health of all skills.
#[derive(Clone, PartialEq, Message)]
pub struct SkillsRead {
    /// Its number.
    #[prost(uint64, tag = "1")]
    pub version: u64,
    /// The skills that are not as new, sorted by name.
    #[prost(message, repeated, tag = "2")]
    pub skills: Vec<SkillHealth>,
}

// RUN-14.3
/// A patch of the state.
#[derive(Clone, PartialEq, Message)]
pub struct StatePatched {
    /// The step, from 0.
    #[prost(uint32, tag = "1")]
    pub step: u32,
    /// The unit whose output has it, from 0.
    #[prost(uint32, tag = "2")]
    pub index: u32,
    /// The patch: an encoded object.
    #[prost(message, required, tag = "3")]
    pub patch: Stored,
    /// The state after the last patch of the step: an encoded object; absent for the others.
    #[prost(message, optional, tag = "4")]
    pub state: Option<Stored>,
}

// RUN-14.5
/// How a skill does from now on.
#[derive(Clone, PartialEq, Message)]
pub struct SkillHealthChanged {
    /// The skill.
    #[prost(string, tag = "1")]
    pub skill: String,
    /// Where it was.
    #[prost(enumeration = "Health", tag = "2")]
    pub before: i32,
    /// Where it is.
    #[prost(enumeration = "Health", tag = "3")]
    pub health: i32,
    /// Failures in a row that count.
    #[prost(uint32, tag = "4")]
    pub failures: u32,
    /// True if a unit that calls it failed for good, so that this run selects it no more.
    #[prost(bool, tag = "5")]
    pub is_given_up: bool,
}
