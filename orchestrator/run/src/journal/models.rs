//! What models ask for and what they cost, as the journal has it.

use super::{Failure, Stored, UnitRef};
use alloc::string::String;
use alloc::vec::Vec;
use prost::Message;

/// The tools that a turn of a model asks for, judged.
#[derive(Clone, PartialEq, Message)]
pub struct ToolsAsked {
    /// The turn.
    #[prost(message, required, tag = "1")]
    pub unit: UnitRef,
    /// The calls in the order in which the model asks for them, at most 16.
    #[prost(message, repeated, tag = "2")]
    pub calls: Vec<AskedCall>,
    /// Calls beyond those; they are not looked at.
    #[prost(uint32, tag = "3")]
    pub n_left_out: u32,
}

/// A call of a tool that a model asks for.
#[derive(Clone, PartialEq, Message)]
pub struct AskedCall {
    /// The tool, as the model names it; at most 100 code points.
    #[prost(string, tag = "1")]
    pub action: String,
    /// What it is called with: an encoded object. Absent if that is none.
    #[prost(message, optional, tag = "2")]
    pub arguments: Option<Stored>,
    /// Why it is not called. The model is told.
    #[prost(message, optional, tag = "3")]
    pub refusal: Option<Failure>,
}
