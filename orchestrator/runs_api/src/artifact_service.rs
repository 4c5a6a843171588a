//! `ArtifactService`: what runs made, and what they are given.

mod upload;

use std::pin::Pin;

use bytes::Bytes;
use escapement_model::limits::LABEL_CHARS_MAX;
use escapement_model::{ArtifactId, RunId};
use escapement_run::journal::ArtifactCreated;
use escapement_run::{Blobs, Run};
use escapement_runs_shell::RunsHandle;
use escapement_transport::CallClass;
use escapement_transport::response_budget::{ResponseBudget, with_room};
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::artifact_service_server::ArtifactService;
use tokio_stream::{Stream, iter};
use tonic::{Request, Response, Status, Streaming};

use crate::caller::Caller;
use crate::errors::Rejection;
use crate::fields::Fields;
use crate::paging;
use crate::views::{Document, artifact_of};

/// The service.
#[derive(Clone, Debug)]
pub struct Artifacts {
    runs: RunsHandle,
    answers: ResponseBudget,
}

impl Artifacts {
    /// Keeps artifacts with these runs. `answers`: the budget of unread answers, which all services share.
    pub fn new(runs: RunsHandle, answers: ResponseBudget) -> Self {
        Self { runs, answers }
    }

    /// Looks at one artifact of a run.
    async fn one<T: Send + 'static>(
        &self,
        run_id: &str,
        artifact_id: &str,
        look: impl FnOnce(&Run, &dyn Blobs, usize) -> T + Send + 'static,
    ) -> Result<T, Rejection> {
        let mut fields = Fields::default();
        let run_id = fields.id::<RunId>("run_id", run_id);
        let artifact_id = fields.id::<ArtifactId>("artifact_id", artifact_id);
        fields.conclude()?;
        let (run_id, artifact_id) = run_id
            .zip(artifact_id)
            .expect("an id that is missing is a problem");
        let looked = self.runs.look(run_id, move |run, blobs| {
            let mut artifacts = run.state().artifacts.iter();
            let at = artifacts.position(|artifact| artifact.created.id[..] == artifact_id.as_bytes()[..]);
            at.map(|at| look(run, blobs, at))
        });
        let seen = looked.await.map_err(|error| Rejection::OfRun(run_id, error))?;
        seen.ok_or_else(|| Rejection::NotFound {
            reason: "ARTIFACT_NOT_FOUND",
            message: format!("artifact_id: run {run_id} has no artifact {artifact_id}."),
        })
    }

    async fn content(&self, request: v1::DownloadRequest) -> Result<Bytes, Rejection> {
        let look = |run: &Run, blobs: &dyn Blobs, at: usize| {
            let created = &run.state().artifacts[at].created;
            let content = created.content.as_ref().ok_or_else(|| elsewhere(created))?;
            content.kept(run, blobs)
        };
        self.one(&request.run_id, &request.artifact_id, look).await?
    }

    async fn list(&self, request: v1::ListArtifactsRequest) -> Result<v1::ListArtifactsResponse, Rejection> {
        let mut fields = Fields::default();
        let run_id = fields.id::<RunId>("run_id", &request.run_id);
        fields.text("type", &request.r#type, 0..=LABEL_CHARS_MAX);
        let page_size = fields.page_size(request.page_size, PAGE, PAGE_MAX);
        fields.conclude()?;
        let run_id = run_id.expect("an id that is missing is a problem");
        let filters = ("artifacts", run_id, &request.r#type, &request.step_key);
        let after = paging::number(&request.page_token, &filters)?.unwrap_or(0);
        let (of_type, of_step) = (request.r#type.clone(), request.step_key.clone());
        let looked = self.runs.look(run_id, move |run, _| {
            let artifacts = run.state().artifacts.iter();
            let behind = artifacts.filter(|artifact| u64::from(artifact.created.number) > after);
            let shown =
                behind.map(|artifact| (artifact.created.number, artifact_of(run_id, run.plan(), artifact)));
            let wanted = shown.filter(|(_, view)| {
                (of_type.is_empty() || view.r#type == of_type)
                    && (of_step.is_empty() || view.step_key == of_step)
            });
            wanted.take(page_size + 1).collect::<Vec<_>>()
        });
        let mut found = looked.await.map_err(|error| Rejection::OfRun(run_id, error))?;
        let has_more = found.len() > page_size;
        found.truncate(page_size);
        let last = found.last().map_or(0, |(number, _)| u64::from(*number));
        Ok(v1::ListArtifactsResponse {
            artifacts: found.into_iter().map(|(_, view)| view).collect(),
            next_page_token: match has_more {
                true => paging::token([last, 0, 0], &filters),
                false => String::new(),
            },
        })
    }
}

fn elsewhere(created: &ArtifactCreated) -> Rejection {
    let place = &created.path;
    Rejection::failed(
        "ARTIFACT_ELSEWHERE",
        format!("artifact_id: its content is a file of the workers, {place:?}."),
    )
}

type Pieces = Pin<Box<dyn Stream<Item = Result<v1::DownloadResponse, Status>> + Send>>;

#[tonic::async_trait]
impl ArtifactService for Artifacts {
    type DownloadStream = Pieces;

    async fn upload(
        &self,
        request: Request<Streaming<v1::UploadRequest>>,
    ) -> Result<Response<v1::UploadResponse>, Status> {
        let caller = Caller::of(&request);
        let uploaded = self.take_in(request.into_inner(), &caller).await?;
        Ok(Response::new(uploaded))
    }

    async fn download(&self, request: Request<v1::DownloadRequest>) -> Result<Response<Pieces>, Status> {
        let caller = Caller::of(&request);
        let request = request.into_inner();
        caller.require_run_named(&self.runs, &request.run_id).await?;
        let mut rest = self.content(request).await?;
        // The whole content stays in memory until the last piece is taken.
        let room = self.answers.take(CallClass::Reads, rest.len())?;
        let pieces = std::iter::from_fn(move || {
            let data = rest.split_to(rest.len().min(PIECE_BYTES_MAX));
            (!data.is_empty()).then_some(Ok(v1::DownloadResponse { data }))
        });
        let pieces: Pieces = Box::pin(iter(pieces));
        Ok(with_room(pieces, room))
    }

    async fn get_artifact(
        &self,
        request: Request<v1::GetArtifactRequest>,
    ) -> Result<Response<v1::GetArtifactResponse>, Status> {
        let caller = Caller::of(&request);
        let request = request.into_inner();
        caller.require_run_named(&self.runs, &request.run_id).await?;
        let run_id: Option<RunId> = request.run_id.parse().ok();
        let look = move |run: &Run, _: &dyn Blobs, at: usize| {
            run_id.map(|run_id| artifact_of(run_id, run.plan(), &run.state().artifacts[at]))
        };
        let artifact = self.one(&request.run_id, &request.artifact_id, look).await?;
        Ok(Response::new(v1::GetArtifactResponse { artifact }))
    }

    async fn list_artifacts(
        &self,
        request: Request<v1::ListArtifactsRequest>,
    ) -> Result<Response<v1::ListArtifactsResponse>, Status> {
        let caller = Caller::of(&request);
        let request = request.into_inner();
        caller.require_run_named(&self.runs, &request.run_id).await?;
        Ok(Response::new(self.list(request).await?))
    }
}

const PAGE: i32 = 50;
const PAGE_MAX: i32 = 256;
/// Bytes of one piece of a download: 64 KiB.
const PIECE_BYTES_MAX: usize = 64 << 10;
