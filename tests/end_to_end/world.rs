//! An orchestrator process of a test's own, its directory, and what callers ask it. Judges nothing.

use crate::plans::RequestWords;
use escapement_tests::calls;
use escapement_tests::{Orchestrator, OrchestratorSettings, PrivateDirectory, Worker, WorkerSettings};
use escapement_wire::v1::{AuditEntry, ExecutePlanRequest, Execution, GetExecutionRequest, PlanResult};
use std::time::Duration;
use tokio::task::JoinHandle;
use tonic::Status;

/// How long a test waits for what must happen.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// An orchestrator and its directory. The process goes before the directory.
pub(crate) struct World {
    pub(crate) orchestrator: Orchestrator,
    /// How it is started again.
    pub(crate) settings: OrchestratorSettings,
    pub(crate) directory: PrivateDirectory,
}

impl World {
    /// With the defaults.
    pub(crate) async fn start() -> Self {
        Self::start_with(|settings| settings).await
    }

    /// With more flags.
    pub(crate) async fn start_with(
        change: impl FnOnce(OrchestratorSettings) -> OrchestratorSettings,
    ) -> Self {
        Self::start_in(PrivateDirectory::new("end-to-end").unwrap(), change).await
    }

    /// In a directory that the test knows already.
    pub(crate) async fn start_in(
        directory: PrivateDirectory,
        change: impl FnOnce(OrchestratorSettings) -> OrchestratorSettings,
    ) -> Self {
        let settings = change(OrchestratorSettings::new(directory.path()));
        let orchestrator = settings.start().await.unwrap();
        Self {
            orchestrator,
            settings,
            directory,
        }
    }

    /// Kills the process as a crash would, and starts it again on the same store and another port.
    pub(crate) async fn crash_and_restart(&mut self) {
        self.orchestrator.process.kill().unwrap();
        self.orchestrator = self.settings.start().await.unwrap();
    }

    /// Returns a stock worker process that has a session.
    pub(crate) async fn stock_worker(
        &self,
        worker_id: &str,
        change: impl FnOnce(WorkerSettings) -> WorkerSettings,
    ) -> Worker {
        let root = self.directory.join(format!("{worker_id}-files"));
        std::fs::create_dir_all(&root).unwrap();
        let url = self.orchestrator.url();
        let settings = WorkerSettings::new(&url, worker_id, &root, self.directory.path());
        change(settings).connect().await.unwrap()
    }

    /// Executes a plan and waits for its result.
    pub(crate) async fn execute(&self, request: ExecutePlanRequest) -> PlanResult {
        self.try_execute(request).await.unwrap()
    }

    /// Executes a plan that may be refused.
    pub(crate) async fn try_execute(&self, request: ExecutePlanRequest) -> Result<PlanResult, Status> {
        let answer = self.orchestrator.plans().execute_plan(request).await?;
        Ok(answer.into_inner().result.unwrap())
    }

    /// Calls `ExecutePlan` beside the test; the call is dropped when the handle is aborted.
    pub(crate) fn executing(&self, request: ExecutePlanRequest) -> JoinHandle<Result<PlanResult, Status>> {
        let mut plans = self.orchestrator.plans();
        tokio::spawn(async move { Ok(plans.execute_plan(request).await?.into_inner().result.unwrap()) })
    }

    /// Hands a plan in and answers when it is accepted.
    pub(crate) async fn submit(&self, request: &ExecutePlanRequest) -> Execution {
        self.try_submit(request).await.unwrap()
    }

    /// Hands a plan in that may be refused.
    pub(crate) async fn try_submit(&self, request: &ExecutePlanRequest) -> Result<Execution, Status> {
        let answer = self
            .orchestrator
            .plans()
            .submit_plan(request.as_submission())
            .await?;
        Ok(answer.into_inner().execution.unwrap())
    }

    /// How an execution stands.
    pub(crate) async fn execution(&self, execution_id: &str) -> Execution {
        let request = GetExecutionRequest {
            execution_id: execution_id.to_owned(),
        };
        let answer = self.orchestrator.plans().get_execution(request).await.unwrap();
        answer.into_inner().execution.unwrap()
    }

    /// Waits until an execution is settled and gives its result.
    pub(crate) async fn result_of(&self, execution_id: &str) -> PlanResult {
        calls::result_of(self.orchestrator.plans(), execution_id, LIMIT)
            .await
            .unwrap()
    }

    /// Returns the record of an execution.
    pub(crate) async fn record_of(&self, execution_id: &str) -> Vec<AuditEntry> {
        calls::record_of(self.orchestrator.plans(), execution_id)
            .await
            .unwrap()
    }
}
