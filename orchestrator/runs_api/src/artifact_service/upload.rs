//! `Upload`: a header and the content behind it, taken in once all of it is there.

use escapement_model::hex;
use escapement_model::{RunId, encoder};
use escapement_run::artifacts::{UPLOAD_BYTES_MAX, misnamed};
use escapement_run::journal::ArtifactCreated;
use escapement_run::{Input, Upload};
use escapement_runs_shell::Condition;
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::upload_request::Part;
use tonic::{Status, Streaming};

use super::Artifacts;
use crate::caller::Caller;
use crate::errors::Rejection;
use crate::fields::Fields;
use crate::views::artifact_of;

/// A header that was read, and nothing is wrong with it.
struct Announced {
    run_id: RunId,
    upload: Upload,
    size_bytes: Option<i64>,
    sha256: String,
}

impl Artifacts {
    /// Reads an upload and gives it to its run.
    pub(super) async fn take_in(
        &self,
        mut parts: Streaming<v1::UploadRequest>,
        caller: &Caller,
    ) -> Result<v1::UploadResponse, Status> {
        let first = parts.message().await?.and_then(|first| first.part);
        let Some(Part::Header(header)) = first else {
            return Err(
                Rejection::field("header", "INVALID_ARGUMENT", "is required, before any data").into(),
            );
        };
        let mut announced = announced(header)?;
        caller.require_run(&self.runs, announced.run_id).await?;
        let mut content = Vec::new();
        while let Some(request) = parts.message().await? {
            let Some(Part::Data(data)) = request.part else {
                return Err(
                    Rejection::field("data", "INVALID_ARGUMENT", "is required behind the header").into(),
                );
            };
            if content.len() + data.len() > UPLOAD_BYTES_MAX {
                let what = format!("must have at most {UPLOAD_BYTES_MAX} bytes");
                return Err(Rejection::field("data", "ARTIFACT_INVALID", what).into());
            }
            content.extend_from_slice(&data);
        }
        announced.check(&content)?;
        announced.upload.content = content.into();
        Ok(self.give(announced).await?)
    }

    async fn give(&self, announced: Announced) -> Result<v1::UploadResponse, Rejection> {
        let Announced { run_id, upload, .. } = announced;
        let same = ArtifactCreated {
            artifact_type: upload.artifact_type.clone(),
            mime_type: upload.mime_type.clone(),
            name: upload.name.clone(),
            sha256: encoder::sha256(&upload.content).to_vec().into(),
            ..ArtifactCreated::default()
        };
        let given = self
            .runs
            .input(run_id, Condition::default(), Input::Upload(upload));
        given.await.map_err(|error| Rejection::OfRun(run_id, error))?;
        let look = self.runs.look(run_id, move |run, _| {
            let mut artifacts = run.state().artifacts.iter();
            let found = artifacts.find(|artifact| artifact.created.is_same_upload(&same));
            found.map(|artifact| artifact_of(run_id, run.plan(), artifact))
        });
        Ok(v1::UploadResponse {
            artifact: look.await.map_err(|error| Rejection::OfRun(run_id, error))?,
        })
    }
}

fn announced(header: v1::UploadHeader) -> Result<Announced, Rejection> {
    let mut fields = Fields::default();
    let run_id = fields.id::<RunId>("header.run_id", &header.run_id);
    if let Some((field, what)) = misnamed(&header.r#type, &header.mime_type, &header.name) {
        fields.because(format!("header.{field}"), "ARTIFACT_INVALID", what);
    }
    if let Some(size_bytes) = header.size_bytes {
        fields.number("header.size_bytes", size_bytes, 0..=UPLOAD_BYTES_MAX as i64);
    }
    let is_digest = header.sha256.len() == 64 && header.sha256.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !header.sha256.is_empty() && !is_digest {
        fields.wrong("header.sha256", "must be 64 hexadecimal digits");
    }
    fields.conclude()?;
    Ok(Announced {
        run_id: run_id.expect("an id that is missing is a problem"),
        upload: Upload {
            artifact_type: header.r#type,
            mime_type: header.mime_type,
            name: header.name,
            ..Upload::default()
        },
        size_bytes: header.size_bytes,
        sha256: header.sha256,
    })
}

impl Announced {
    /// The content is as the header says.
    fn check(&self, content: &[u8]) -> Result<(), Rejection> {
        let wrong = |field, what| Err(Rejection::field(field, "ARTIFACT_INVALID", what));
        let n_bytes = content.len() as i64;
        if let Some(size_bytes) = self.size_bytes.filter(|size_bytes| *size_bytes != n_bytes) {
            return wrong(
                "header.size_bytes",
                format!("is {size_bytes}, and {n_bytes} bytes came"),
            );
        }
        let digest = hex::text(&encoder::sha256(content));
        if !self.sha256.is_empty() && !self.sha256.eq_ignore_ascii_case(&digest) {
            return wrong(
                "header.sha256",
                format!("is not that of what came, which is {digest}"),
            );
        }
        Ok(())
    }
}
