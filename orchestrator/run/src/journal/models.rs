//! What models ask for and what they cost, as the journal has it.

use super::{Failure, Stored, UnitRef};
use crate::budget::BudgetKind;
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

/// What attempts used.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Usage {
    /// Attempts that ask a language model.
    #[prost(uint64, tag = "1")]
    pub llm_calls: u64,
    /// All other attempts.
    #[prost(uint64, tag = "2")]
    pub tool_calls: u64,
    /// Tokens of prompts.
    #[prost(uint64, tag = "3")]
    pub prompt_tokens: u64,
    /// Tokens of answers.
    #[prost(uint64, tag = "4")]
    pub completion_tokens: u64,
    /// All tokens.
    #[prost(uint64, tag = "5")]
    pub total_tokens: u64,
    /// Millionths of the currency of the prices.
    #[prost(uint64, tag = "6")]
    pub cost_micros: u64,
}

/// A part of the budget that is nearly used up.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct BudgetWarning {
    /// Which part.
    #[prost(enumeration = "BudgetKind", tag = "1")]
    pub kind: i32,
    /// Used and reserved.
    #[prost(uint64, tag = "2")]
    pub used: u64,
    /// The limit as it is now.
    #[prost(uint64, tag = "3")]
    pub limit: u64,
}

/// A unit that waits until others give back what they reserved, or until a person extends the budget.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct BudgetAwaited {
    /// The unit.
    #[prost(message, required, tag = "1")]
    pub unit: UnitRef,
    /// What there is too little of.
    #[prost(enumeration = "BudgetKind", tag = "2")]
    pub kind: i32,
}
