//! Holds the profile of an action.

use alloc::string::String;
use alloc::vec::Vec;
use prost::{Enumeration, Message};

/// Profile of an action: frozen when a revision is accepted.
#[derive(Clone, PartialEq, Message)]
pub struct ActionProfile {
    /// The action.
    #[prost(string, tag = "1")]
    pub action: String,
    /// Effect of a repetition.
    #[prost(enumeration = "EffectClass", tag = "2")]
    pub effect: i32,
    /// Risk of an execution without an approval.
    #[prost(enumeration = "Risk", tag = "3")]
    pub risk: i32,
    /// True if a repetition with the same idempotency key has no second effect.
    #[prost(bool, tag = "4")]
    pub idempotent: bool,
    /// Milliseconds of one attempt; 0 if the profile does not say.
    #[prost(uint64, tag = "5")]
    pub attempt_ms: u64,
    /// True if a worker has offered the action in this deployment.
    #[prost(bool, tag = "6")]
    pub seen: bool,
    /// Types of artifacts that it makes, at most 16.
    #[prost(string, repeated, tag = "7")]
    pub produces: Vec<String>,
    /// Actions that may replace it, the best first, at most 16.
    #[prost(string, repeated, tag = "8")]
    pub alternatives: Vec<String>,
    /// Description of a tool that a model may call, as a worker sent it; may be empty.
    #[prost(string, tag = "9")]
    pub description: String,
    /// JSON Schema of the payload of a tool that a model may call; unchecked JSON text that a worker sent;
    /// may be empty.
    #[prost(string, tag = "10")]
    pub input_schema: String,
    /// JSON Schema of its output, as JSON text of the operator, else unchecked of a worker; may be empty.
    #[prost(string, tag = "11")]
    pub output_schema: String,
    /// True if no worker or operator has described the action so far, but one may soon.
    #[prost(bool, tag = "12")]
    pub unknown: bool,
    /// True if planners are not offered it unless the run names it.
    #[prost(bool, tag = "13")]
    pub not_for_planners: bool,
    /// The skill whose health its attempts count for; the action itself if it is empty.
    #[prost(string, tag = "20")]
    pub skill: String,
}

impl ActionProfile {
    // RUN-14.5
    /// Returns the skill whose health its attempts count for.
    pub fn skill(&self) -> &str {
        match self.skill.as_str() {
            "" => &self.action,
            skill => skill,
        }
    }
}

/// Effect of a repetition of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum EffectClass {
    /// Changes something, here or elsewhere.
    SideEffect = 0,
    /// Computes.
    Pure = 1,
    /// Reads what may change.
    World = 2,
    /// Asks a model.
    Llm = 3,
    /// Acts on a person or a system outside.
    External = 4,
}

impl EffectClass {
    /// Returns true if a repetition may be noticed.
    pub fn is_effect(self) -> bool {
        match self {
            EffectClass::SideEffect | EffectClass::External => true,
            EffectClass::Pure | EffectClass::World | EffectClass::Llm => false,
        }
    }
}

/// Risk of an execution of an action without an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum Risk {
    /// Not known, or out of the ordinary.
    Unusual = 0,
    /// Routine.
    Safe = 1,
    /// May destroy something.
    Destructive = 2,
}
