//! Who makes the plans of a run, from what, and what the run has if none of them works.

use alloc::string::String;
use alloc::vec::Vec;
use escapement_model::Opaque;
use prost::{Message, Oneof};

/// Who makes plans.
#[derive(Clone, PartialEq, Message)]
pub struct Planner {
    /// The action that is asked.
    #[prost(string, tag = "1")]
    pub action: String,
    /// The model that it asks; may be empty.
    #[prost(string, tag = "2")]
    pub model: String,
    /// An object that is merged into what the action is sent. Keys that the run sets itself win.
    #[prost(message, required, tag = "3")]
    pub parameters: Opaque,
    /// Actions that plans may call, sorted; all that are offered if it is empty.
    #[prost(string, repeated, tag = "4")]
    pub catalogue: Vec<String>,
    /// What the planner is told beside the goal.
    #[prost(string, tag = "5")]
    pub instructions: String,
    /// Milliseconds for one plan, from the run's point of view.
    #[prost(uint64, tag = "6")]
    pub limit_ms: u64,
}

/// What a run has for an output if its plans failed and no further one is made.
#[derive(Clone, PartialEq, Message)]
pub struct Fallback {
    /// One of them.
    #[prost(oneof = "FallbackKind", tags = "1, 2, 3")]
    pub kind: Option<FallbackKind>,
}

/// What a fallback is.
#[derive(Clone, PartialEq, Oneof)]
pub enum FallbackKind {
    /// One of some texts.
    #[prost(message, tag = "1")]
    Templates(Templates),
    /// This object.
    #[prost(message, tag = "2")]
    Output(Opaque),
    /// What this action comes to.
    #[prost(message, tag = "3")]
    Action(FallbackAction),
}

/// An action that is called if the plans failed.
#[derive(Clone, PartialEq, Message)]
pub struct FallbackAction {
    /// The action.
    #[prost(string, tag = "1")]
    pub action: String,
    /// A template of what it is sent: an object, which may refer to the input, the session and the run.
    #[prost(message, required, tag = "2")]
    pub payload: Opaque,
}

/// Texts in which `{input}` stands for the goal.
#[derive(Clone, PartialEq, Message)]
pub struct Templates {
    /// At least one.
    #[prost(string, repeated, tag = "1")]
    pub texts: Vec<String>,
}
