//! Artifacts that come from outside.

use super::{Turn, refused, refused_because};
use crate::artifacts::{self, PER_RUN_MAX, UPLOAD_BYTES_MAX};
use crate::ids::artifact_id;
use crate::input::{Refused, RefusedReason, Upload};
use crate::journal::{ArtifactCreated, Event};
use alloc::format;
use bytes::Bytes;
use escapement_model::encoder::sha256;

impl Turn<'_> {
    // RUN-12.12
    /// Takes an artifact in, unless the run has it already.
    pub(super) fn upload(&mut self, upload: Upload) -> Result<(), Refused> {
        let invalid = |what| Err(refused_because(RefusedReason::ArtifactInvalid, what));
        if let Some((field, what)) =
            artifacts::misnamed(&upload.artifact_type, &upload.mime_type, &upload.name)
        {
            return invalid(format!("{field}: {what}"));
        }
        let n_bytes = upload.content.len();
        if n_bytes > UPLOAD_BYTES_MAX {
            return invalid(format!(
                "data: must have at most {UPLOAD_BYTES_MAX} bytes, has {n_bytes}"
            ));
        }
        let number = self.state.n_artifacts + 1;
        let mut created = ArtifactCreated {
            id: Bytes::copy_from_slice(artifact_id(self.run_id(), number).as_bytes()),
            number,
            artifact_type: upload.artifact_type,
            mime_type: upload.mime_type,
            name: upload.name,
            size_bytes: Some(n_bytes as u64),
            sha256: Bytes::copy_from_slice(&sha256(&upload.content)),
            ..ArtifactCreated::default()
        };
        if let Some(problem) = artifacts::problem(&created, &artifacts::found_in(&upload.content)) {
            return invalid(format!("data: {problem}"));
        }
        if self
            .state
            .artifacts
            .iter()
            .any(|known| known.created.is_same_upload(&created))
        {
            return Ok(());
        }
        if self.state.artifacts.len() >= PER_RUN_MAX {
            let what = "the run has 256 artifacts, as many as it may have";
            return Err(refused(RefusedReason::ArtifactsFull, what));
        }
        created.content = Some(self.put_away(upload.content));
        self.emit(Event::ArtifactCreated(created));
        Ok(())
    }
}
