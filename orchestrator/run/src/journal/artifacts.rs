//! Artifacts of a run, as the journal has them.

use super::{Stored, UnitRef};
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use prost::Message;

/// An artifact that an output declares, or that is uploaded.
#[derive(Clone, PartialEq, Message)]
pub struct ArtifactCreated {
    /// 16 bytes, derived from the run and the number.
    #[prost(bytes = "bytes", tag = "1")]
    pub id: Bytes,
    /// Counts from 1 in the run.
    #[prost(uint32, tag = "2")]
    pub number: u32,
    /// The unit whose output declares it; absent if it is uploaded.
    #[prost(message, optional, tag = "3")]
    pub unit: Option<UnitRef>,
    /// The action that made it; empty if a child run did, or nothing that is known.
    #[prost(string, tag = "4")]
    pub action: String,
    /// Its type, such as `image`: at most 255 code points.
    #[prost(string, tag = "5")]
    pub artifact_type: String,
    /// Its media type, at most 127 bytes.
    #[prost(string, tag = "6")]
    pub mime_type: String,
    /// At most 255 code points; may be empty.
    #[prost(string, tag = "7")]
    pub name: String,
    /// A path relative to the workers' root, at most 1,024 bytes; empty if the content is given.
    #[prost(string, tag = "8")]
    pub path: String,
    /// The content, if it is given.
    #[prost(message, optional, tag = "9")]
    pub content: Option<Stored>,
    /// Bytes, as declared or as given; absent if nobody said.
    #[prost(uint64, optional, tag = "10")]
    pub size_bytes: Option<u64>,
    /// SHA-256, as declared or of the given content, 32 bytes; empty if nobody said.
    #[prost(bytes = "bytes", tag = "11")]
    pub sha256: Bytes,
    /// Where a picture of it is, at most 2,048 bytes; empty if nobody said.
    #[prost(string, tag = "12")]
    pub preview_url: String,
}

impl ArtifactCreated {
    /// True if both are uploads of the same content under the same name.
    pub fn is_same_upload(&self, other: &Self) -> bool {
        let what = |one: &Self| {
            (
                one.artifact_type.clone(),
                one.mime_type.clone(),
                one.name.clone(),
                one.sha256.clone(),
            )
        };
        self.unit.is_none() && other.unit.is_none() && what(self) == what(other)
    }
}

/// All steps have ended, and artifacts are looked at before the run completes.
#[derive(Clone, PartialEq, Message)]
pub struct RunVerifying {
    /// The types of which there must be one.
    #[prost(string, repeated, tag = "1")]
    pub wanted: Vec<String>,
}

/// An artifact was looked at.
#[derive(Clone, PartialEq, Message)]
pub struct ArtifactVerified {
    /// Its number.
    #[prost(uint32, tag = "1")]
    pub number: u32,
    /// What is wrong with it, a sentence; empty if nothing is.
    #[prost(string, tag = "2")]
    pub problem: String,
    /// The bytes that were found.
    #[prost(uint64, tag = "3")]
    pub size_bytes: u64,
    /// Their SHA-256, 32 bytes; empty if it was not found out.
    #[prost(bytes = "bytes", tag = "4")]
    pub sha256: Bytes,
    /// Unix milliseconds before which it is not looked at again; 0 if this was the last look.
    #[prost(int64, tag = "5")]
    pub again_at: i64,
}
