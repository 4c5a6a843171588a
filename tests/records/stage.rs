//! A real orchestrator, its scripted workers, and the record of what ran there. Judges nothing.

use bytes::{Bytes, BytesMut};
use escapement_tests::{
    Orchestrator, OrchestratorSettings, PlanDocument, PrivateDirectory, ScriptedWorker, calls,
};
use escapement_wire::v1::{ExportExecutionRequest, PlanResult, ReplayExecutionRequest};
use std::time::Duration;

/// The action of every step that somebody does.
pub(crate) const WORK: &str = "work";
/// How long a run may take.
const LIMIT: Duration = Duration::from_secs(20);

/// An orchestrator and its directory. The process goes before the directory.
pub(crate) struct Stage {
    pub(crate) orchestrator: Orchestrator,
    settings: OrchestratorSettings,
    _directory: PrivateDirectory,
}

impl Stage {
    /// With the flags of `change`.
    pub(crate) async fn open(change: impl FnOnce(OrchestratorSettings) -> OrchestratorSettings) -> Self {
        let directory = PrivateDirectory::new("records").unwrap();
        let settings = change(OrchestratorSettings::new(directory.path()));
        Self {
            orchestrator: settings.start().await.unwrap(),
            settings,
            _directory: directory,
        }
    }

    pub(crate) async fn crash_and_restart(&mut self) {
        self.orchestrator.process.kill().unwrap();
        self.orchestrator = self.settings.start().await.unwrap();
    }

    pub(crate) async fn worker(&self, max_in_flight: u32) -> ScriptedWorker {
        ScriptedWorker::connect(&self.orchestrator, &[WORK], max_in_flight).await
    }

    /// Hands a plan in; the id of its execution.
    pub(crate) async fn submit(&self, plan: &PlanDocument) -> String {
        let answer = self.orchestrator.plans().submit_plan(plan.submit()).await;
        answer.unwrap().into_inner().execution.unwrap().execution_id
    }

    pub(crate) async fn result(&self, id: &str) -> PlanResult {
        calls::result_of(self.orchestrator.plans(), id, LIMIT)
            .await
            .unwrap()
    }

    /// The record of an execution once it has settled. The orchestrator itself replays it first.
    pub(crate) async fn record(&self, id: &str) -> Bytes {
        self.result(id).await;
        let mut plans = self.orchestrator.plans();
        let execution_id = id.to_owned();
        let replayed = plans
            .replay_execution(ReplayExecutionRequest { execution_id })
            .await;
        let replayed = replayed.unwrap().into_inner();
        assert!(replayed.identical && replayed.complete, "{replayed:?}");
        let execution_id = id.to_owned();
        let pieces = plans
            .export_execution(ExportExecutionRequest { execution_id })
            .await;
        let mut pieces = pieces.unwrap().into_inner();
        let mut file = BytesMut::new();
        while let Some(piece) = pieces.message().await.unwrap() {
            file.extend_from_slice(&piece.data);
        }
        file.freeze()
    }
}
