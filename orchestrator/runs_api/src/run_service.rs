//! `RunService`: what callers ask about runs and want of them.

mod about;
mod create;
mod discarding;
mod events;
mod evidence;
mod explain;
mod export;
mod feed;
mod figures;
mod forks;
mod ids;
mod insight;
mod intents;
mod list;
mod lookup;
mod notices;
mod parent;
mod patience;
mod preview;
mod results;
mod revision_result;
mod revisions;
mod steps;
mod verbs;
mod watch;

pub(crate) use create::Started;
pub(crate) use ids::new_run_id;
pub(crate) use list::with_states;

use about::AboutRun;

use crate::caller::Caller;
use crate::errors::Rejection;
use crate::settings::RunSettings;
use crate::watching::AnswerStream;
use escapement_model::RunId;
use escapement_run::{Blobs, Run};
use escapement_runs::Config;
use escapement_runs_shell::RunsHandle;
use escapement_transport::response_budget::ResponseBudget;
use escapement_transport::share::{CallTenant, Share};
use escapement_transport::{CallClass, Recipient};
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::run_service_server::RunService;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tonic::{Request, Response, Status};

/// The service.
#[derive(Clone)]
pub struct Runs {
    runs: RunsHandle,
    config: Config,
    /// Defaults of the operator, shared by all clones.
    settings: Arc<RunSettings>,
    /// Where events say that they come from.
    event_source: Arc<str>,
    /// Questions that read much of the store at a time.
    heavy: Share,
    /// Readings at a time for all who watch and wait; the others of them wait in order.
    turns: Arc<Semaphore>,
    answers: ResponseBudget,
}

impl std::fmt::Debug for Runs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runs").finish_non_exhaustive()
    }
}

impl Runs {
    /// Answers from these runs. `config`: what they were started with; `answers`: the budget of unread answers, which all services share.
    pub fn new(runs: RunsHandle, config: Config, answers: ResponseBudget) -> Self {
        Self {
            runs,
            config,
            settings: Arc::default(),
            event_source: EVENT_SOURCE.into(),
            heavy: Share::new(HEAVY_MAX),
            turns: Arc::new(Semaphore::new(TURNS_MAX)),
            answers,
        }
    }

    fn watcher<T>(&self, request: &Request<T>) -> Recipient {
        Recipient::new(&self.answers, CallClass::Watches, request.extensions())
    }

    /// Sets the defaults of the operator for the runs that it creates.
    #[must_use]
    pub fn with_settings(self, settings: &RunSettings) -> Self {
        Self {
            settings: Arc::new(settings.clone()),
            ..self
        }
    }

    /// With events from that source instead of `/escapement`.
    #[must_use]
    pub fn with_event_source(self, source: &str) -> Self {
        Self {
            event_source: source.into(),
            ..self
        }
    }

    /// The thread of runs.
    pub(crate) fn handle(&self) -> &RunsHandle {
        &self.runs
    }

    /// The request, if its run is one that the caller may find.
    async fn admitted<R: AboutRun>(&self, request: Request<R>) -> Result<R, Rejection> {
        let caller = Caller::of(&request);
        let request = request.into_inner();
        caller.require_run_named(&self.runs, request.run_id()).await?;
        Ok(request)
    }

    /// Looks at a run.
    async fn look<T: Send + 'static>(
        &self,
        run_id: RunId,
        look: impl FnOnce(&Run, &dyn Blobs) -> T + Send + 'static,
    ) -> Result<T, Rejection> {
        let looked = self.runs.look(run_id, look).await;
        looked.map_err(|error| Rejection::OfRun(run_id, error))
    }
}

#[tonic::async_trait]
impl RunService for Runs {
    type WatchRunStream = AnswerStream<v1::WatchRunResponse>;
    type ExportRunStream = AnswerStream<v1::ExportRunResponse>;
    type ReadEventsStream = AnswerStream<v1::ReadEventsResponse>;
    type WatchNoticesStream = AnswerStream<v1::WatchNoticesResponse>;

    async fn watch_run(
        &self,
        request: Request<v1::WatchRunRequest>,
    ) -> Result<Response<Self::WatchRunStream>, Status> {
        let recipient = self.watcher(&request);
        let request = self.admitted(request).await?;
        Ok(Response::new(self.watch(request, recipient).await?))
    }

    async fn watch_notices(
        &self,
        request: Request<v1::WatchNoticesRequest>,
    ) -> Result<Response<Self::WatchNoticesStream>, Status> {
        let (caller, recipient) = (Caller::of(&request), self.watcher(&request));
        let notices = self.notices(request.into_inner(), &caller, recipient);
        Ok(Response::new(notices.await?))
    }

    async fn read_events(
        &self,
        request: Request<v1::ReadEventsRequest>,
    ) -> Result<Response<Self::ReadEventsStream>, Status> {
        let (caller, recipient) = (Caller::of(&request), self.watcher(&request));
        Ok(Response::new(self.read(
            request.into_inner(),
            caller,
            recipient,
        )?))
    }

    async fn export_run(
        &self,
        request: Request<v1::ExportRunRequest>,
    ) -> Result<Response<Self::ExportRunStream>, Status> {
        let recipient = Recipient::new(&self.answers, CallClass::Reads, request.extensions());
        let request = self.admitted(request).await?;
        Ok(self.export(request, recipient).await?)
    }

    async fn create_run(
        &self,
        request: Request<v1::CreateRunRequest>,
    ) -> Result<Response<v1::CreateRunResponse>, Status> {
        let caller = Caller::of(&request);
        Ok(Response::new(
            Runs::create_run(self, request.into_inner(), &caller).await?,
        ))
    }

    async fn preview_run(
        &self,
        request: Request<v1::PreviewRunRequest>,
    ) -> Result<Response<v1::PreviewRunResponse>, Status> {
        let caller = Caller::of(&request);
        Ok(Response::new(
            Runs::preview_run(self, request.into_inner(), &caller).await?,
        ))
    }

    async fn get_run(
        &self,
        request: Request<v1::GetRunRequest>,
    ) -> Result<Response<v1::GetRunResponse>, Status> {
        let request = self.admitted(request).await?;
        Ok(Response::new(Runs::get_run(self, request).await?))
    }

    async fn list_runs(
        &self,
        request: Request<v1::ListRunsRequest>,
    ) -> Result<Response<v1::ListRunsResponse>, Status> {
        let caller = Caller::of(&request);
        Ok(Response::new(
            Runs::list_runs(self, request.into_inner(), &caller).await?,
        ))
    }

    async fn wait_run(
        &self,
        request: Request<v1::WaitRunRequest>,
    ) -> Result<Response<v1::WaitRunResponse>, Status> {
        let request = self.admitted(request).await?;
        Ok(Response::new(Runs::wait_run(self, request).await?))
    }

    async fn list_run_events(
        &self,
        request: Request<v1::ListRunEventsRequest>,
    ) -> Result<Response<v1::ListRunEventsResponse>, Status> {
        let request = self.admitted(request).await?;
        Ok(Response::new(Runs::list_run_events(self, request).await?))
    }

    async fn list_run_steps(
        &self,
        request: Request<v1::ListRunStepsRequest>,
    ) -> Result<Response<v1::ListRunStepsResponse>, Status> {
        let request = self.admitted(request).await?;
        Ok(Response::new(Runs::list_run_steps(self, request).await?))
    }

    async fn get_run_step(
        &self,
        request: Request<v1::GetRunStepRequest>,
    ) -> Result<Response<v1::GetRunStepResponse>, Status> {
        let request = self.admitted(request).await?;
        Ok(Response::new(Runs::get_run_step(self, request).await?))
    }

    async fn get_step_result(
        &self,
        request: Request<v1::GetStepResultRequest>,
    ) -> Result<Response<v1::GetStepResultResponse>, Status> {
        let request = self.admitted(request).await?;
        Ok(Response::new(Runs::get_step_result(self, request).await?))
    }

    async fn list_evidence(
        &self,
        request: Request<v1::ListEvidenceRequest>,
    ) -> Result<Response<v1::ListEvidenceResponse>, Status> {
        let request = self.admitted(request).await?;
        Ok(Response::new(Runs::list_evidence(self, request).await?))
    }

    async fn list_revisions(
        &self,
        request: Request<v1::ListRevisionsRequest>,
    ) -> Result<Response<v1::ListRevisionsResponse>, Status> {
        let request = self.admitted(request).await?;
        Ok(Response::new(Runs::list_revisions(self, request).await?))
    }

    async fn get_revision(
        &self,
        request: Request<v1::GetRevisionRequest>,
    ) -> Result<Response<v1::GetRevisionResponse>, Status> {
        let caller = Caller::of(&request);
        Ok(Response::new(
            Runs::get_revision(self, request.into_inner(), &caller).await?,
        ))
    }

    async fn diff_revisions(
        &self,
        request: Request<v1::DiffRevisionsRequest>,
    ) -> Result<Response<v1::DiffRevisionsResponse>, Status> {
        let caller = Caller::of(&request);
        Ok(Response::new(
            Runs::diff_revisions(self, request.into_inner(), &caller).await?,
        ))
    }

    async fn list_checkpoints(
        &self,
        request: Request<v1::ListCheckpointsRequest>,
    ) -> Result<Response<v1::ListCheckpointsResponse>, Status> {
        let request = self.admitted(request).await?;
        Ok(Response::new(Runs::list_checkpoints(self, request).await?))
    }

    async fn pause_run(
        &self,
        request: Request<v1::PauseRunRequest>,
    ) -> Result<Response<v1::PauseRunResponse>, Status> {
        let request = self.admitted(request).await?;
        Ok(Response::new(Runs::pause_run(self, request).await?))
    }

    async fn resume_run(
        &self,
        request: Request<v1::ResumeRunRequest>,
    ) -> Result<Response<v1::ResumeRunResponse>, Status> {
        let request = self.admitted(request).await?;
        Ok(Response::new(Runs::resume_run(self, request).await?))
    }

    async fn cancel_run(
        &self,
        request: Request<v1::CancelRunRequest>,
    ) -> Result<Response<v1::CancelRunResponse>, Status> {
        let request = self.admitted(request).await?;
        Ok(Response::new(Runs::cancel_run(self, request).await?))
    }

    async fn discard_run(
        &self,
        request: Request<v1::DiscardRunRequest>,
    ) -> Result<Response<v1::DiscardRunResponse>, Status> {
        let request = self.admitted(request).await?;
        Ok(Response::new(Runs::discard_run(self, request).await?))
    }

    async fn rewind_run(
        &self,
        request: Request<v1::RewindRunRequest>,
    ) -> Result<Response<v1::RewindRunResponse>, Status> {
        let request = self.admitted(request).await?;
        Ok(Response::new(Runs::rewind_run(self, request).await?))
    }

    async fn rollback_run(
        &self,
        request: Request<v1::RollbackRunRequest>,
    ) -> Result<Response<v1::RollbackRunResponse>, Status> {
        let caller = Caller::of(&request);
        let request = self.admitted(request).await?;
        Ok(Response::new(Runs::rollback_run(self, request, &caller).await?))
    }

    async fn fork_run(
        &self,
        request: Request<v1::ForkRunRequest>,
    ) -> Result<Response<v1::ForkRunResponse>, Status> {
        let caller = Caller::of(&request);
        let request = self.admitted(request).await?;
        Ok(Response::new(Runs::fork_run(self, request, &caller).await?))
    }

    async fn retry_run(
        &self,
        request: Request<v1::RetryRunRequest>,
    ) -> Result<Response<v1::RetryRunResponse>, Status> {
        let caller = Caller::of(&request);
        let request = self.admitted(request).await?;
        Ok(Response::new(Runs::retry_run(self, request, &caller).await?))
    }

    async fn override_step(
        &self,
        request: Request<v1::OverrideStepRequest>,
    ) -> Result<Response<v1::OverrideStepResponse>, Status> {
        let request = self.admitted(request).await?;
        Ok(Response::new(Runs::override_step(self, request).await?))
    }

    async fn create_checkpoint(
        &self,
        request: Request<v1::CreateCheckpointRequest>,
    ) -> Result<Response<v1::CreateCheckpointResponse>, Status> {
        let request = self.admitted(request).await?;
        Ok(Response::new(Runs::create_checkpoint(self, request).await?))
    }

    async fn explain_run(
        &self,
        request: Request<v1::ExplainRunRequest>,
    ) -> Result<Response<v1::ExplainRunResponse>, Status> {
        let request = self.admitted(request).await?;
        Ok(Response::new(Runs::explain_run(self, request).await?))
    }

    async fn replay_run(
        &self,
        request: Request<v1::ReplayRunRequest>,
    ) -> Result<Response<v1::ReplayRunResponse>, Status> {
        let tenant = CallTenant::of(request.extensions());
        let request = self.admitted(request).await?;
        Ok(Response::new(Runs::replay_run(self, request, &tenant).await?))
    }

    async fn get_run_stats(
        &self,
        request: Request<v1::GetRunStatsRequest>,
    ) -> Result<Response<v1::GetRunStatsResponse>, Status> {
        let caller = Caller::of(&request);
        Ok(Response::new(
            Runs::get_run_stats(self, request.into_inner(), &caller).await?,
        ))
    }

    async fn get_runs_status(
        &self,
        request: Request<v1::GetRunsStatusRequest>,
    ) -> Result<Response<v1::GetRunsStatusResponse>, Status> {
        let caller = Caller::of(&request);
        Ok(Response::new(
            Runs::get_runs_status(self, request.into_inner(), &caller).await?,
        ))
    }

    async fn classify_intent(
        &self,
        request: Request<v1::ClassifyIntentRequest>,
    ) -> Result<Response<v1::ClassifyIntentResponse>, Status> {
        Ok(Response::new(intents::classified(request.get_ref())?))
    }

    async fn delete_run(
        &self,
        request: Request<v1::DeleteRunRequest>,
    ) -> Result<Response<v1::DeleteRunResponse>, Status> {
        let request = self.admitted(request).await?;
        Ok(Response::new(Runs::delete_run(self, request).await?))
    }
}

/// Questions that read much of the store at a time, all together; others wait.
const HEAVY_MAX: usize = 2;
/// Readings at a time for all who watch and wait.
const TURNS_MAX: usize = 8;
/// Where events say that they come from, unless the operator says otherwise.
const EVENT_SOURCE: &str = "/escapement";
