//! The artifacts of a run, and what is known of them.

use super::RunState;
use crate::journal::{ArtifactVerified, ToolCalled, UnitRef};
use alloc::string::String;
use bytes::Bytes;
use prost::{Enumeration, Message};

/// An artifact.
#[derive(Clone, PartialEq, Message)]
pub struct ArtifactState {
    /// What is said of it.
    #[prost(message, required, tag = "1")]
    pub created: crate::journal::ArtifactCreated,
    /// The look at it that lives.
    #[prost(message, optional, tag = "2")]
    pub live: Option<ToolCalled>,
    /// Looks at it.
    #[prost(uint32, tag = "3")]
    pub attempts: u32,
    /// Unix milliseconds before which it is not looked at again; 0 if nobody waits for that.
    #[prost(int64, tag = "4")]
    pub again_at: i64,
    /// Whether it is what it is said to be.
    #[prost(enumeration = "Verdict", tag = "5")]
    pub verdict: i32,
    /// What is wrong with it, a sentence; empty if nothing is known to be.
    #[prost(string, tag = "6")]
    pub problem: String,
    /// The bytes that were found.
    #[prost(uint64, tag = "7")]
    pub size_bytes: u64,
    /// Their SHA-256, 32 bytes; empty if it was not found out.
    #[prost(bytes = "bytes", tag = "8")]
    pub sha256: Bytes,
    /// Unix milliseconds of its declaration.
    #[prost(int64, tag = "9")]
    pub created_at: i64,
}

/// Whether an artifact is what it is said to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum Verdict {
    /// It was not verified yet, or could not be.
    Unknown = 0,
    /// It is.
    Right = 1,
    /// It is not.
    Wrong = 2,
}

impl RunState {
    pub(super) fn artifact_verified(&mut self, verified: &ArtifactVerified) {
        let mut artifacts = self.artifacts.iter_mut();
        let artifact = artifacts.find(|artifact| artifact.created.number == verified.number);
        let artifact = artifact.expect("what is looked at is there");
        artifact.again_at = verified.again_at;
        artifact.problem = verified.problem.clone();
        artifact.size_bytes = verified.size_bytes;
        artifact.sha256 = verified.sha256.clone();
        artifact.set_verdict(match (verified.again_at, verified.problem.is_empty()) {
            (0, true) => Verdict::Right,
            (0, false) => Verdict::Wrong,
            (_, _) => Verdict::Unknown,
        });
        self.progress();
    }

    /// The artifact that the unit looks at; absent if it is no artifact of the run any more.
    pub(super) fn looked_at(&mut self, unit: UnitRef) -> Option<&mut ArtifactState> {
        let mut artifacts = self.artifacts.iter_mut();
        artifacts.find(|artifact| artifact.created.number == unit.of_verification())
    }
}
