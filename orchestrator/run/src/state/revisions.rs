//! Which revision an entry or a unit of a run belongs to.

use super::RunState;
use bytes::Bytes;
use prost::Message;

/// A revision of a run, and what begins with it.
#[derive(Clone, PartialEq, Message)]
pub struct BegunRevision {
    /// The number of its entry: this one and those behind it are about its plan.
    #[prost(uint64, tag = "1")]
    pub sequence: u64,
    /// SHA-256 of the plan, 32 bytes.
    #[prost(bytes = "bytes", tag = "2")]
    pub digest: Bytes,
    /// The epoch in which its steps begin.
    #[prost(uint32, tag = "3")]
    pub epoch: u32,
}

impl RunState {
    // RUN-12.10
    /// The digest of the plan that the steps of this epoch are of.
    pub fn revision_of_epoch(&self, epoch: u32) -> &Bytes {
        let mut revisions = self.revisions.iter().rev();
        let begun = revisions.find(|revision| revision.epoch <= epoch);
        begun.map_or(&self.revision, |revision| &revision.digest)
    }

    // RUN-12.10
    /// The revision at hand begins.
    pub(super) fn revision_begins(&mut self) {
        if !self.has_no_plan() {
            self.revisions.push(BegunRevision {
                sequence: self.sequence,
                digest: self.revision.clone(),
                epoch: self.epoch_floor,
            });
        }
    }
}
