//! What a run remembers of a moment.

use super::{RunState, StepStage};
use crate::journal::{CheckpointCreated, Stored};
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

impl RunState {
    pub(super) fn checkpoint_created(&mut self, checkpoint: &CheckpointCreated, at: i64) {
        let completed = self.steps_in(StepStage::Completed);
        self.checkpoint_bytes += checkpoint.data.length;
        self.checkpoints.push(Checkpoint {
            number: checkpoint.number,
            at,
            data: checkpoint.data.clone(),
            completed,
            revision_number: self.revision_number,
            session: self.session.as_ref().map(|session| session.state.clone()),
        });
        if self.checkpoints.len() > CHECKPOINTS_KEPT {
            self.checkpoints.remove(0);
        }
    }
}

/// Checkpoints that a state holds.
const CHECKPOINTS_KEPT: usize = 64;
