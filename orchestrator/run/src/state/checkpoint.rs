//! What a run remembers of a moment.

use crate::journal::Stored;
use alloc::vec::Vec;
use prost::Message;

/// A checkpoint.
#[derive(Clone, PartialEq, Message)]
pub struct Checkpoint {
    /// Counts from 1.
    #[prost(uint32, tag = "1")]
    pub number: u32,
    /// Unix milliseconds.
    #[prost(int64, tag = "2")]
    pub at: i64,
    /// The caller's data: an encoded object.
    #[prost(message, required, tag = "3")]
    pub data: Stored,
    /// The steps that had completed, from 0.
    #[prost(uint32, repeated, tag = "4")]
    pub completed: Vec<u32>,
    /// The revision that they are of.
    #[prost(uint32, tag = "5")]
    pub revision_number: u32,
    /// The state of the session as the run saw it, if it had seen one.
    #[prost(message, optional, tag = "6")]
    pub session: Option<Stored>,
}
