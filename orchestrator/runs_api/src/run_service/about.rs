//! Which requests are about one run, and which run that is. Looks at none.

use escapement_wire::runs::v1;

/// A request about one run.
pub(super) trait AboutRun {
    /// As it was sent.
    fn run_id(&self) -> &str;
}

macro_rules! about_runs {
    ($($request:ident),+ $(,)?) => {
        $(impl AboutRun for v1::$request {
            fn run_id(&self) -> &str {
                &self.run_id
            }
        })+
    };
}

about_runs!(
    CancelRunRequest,
    CreateCheckpointRequest,
    DeleteRunRequest,
    DiscardRunRequest,
    ExplainRunRequest,
    ExportRunRequest,
    ForkRunRequest,
    GetRunRequest,
    GetRunStepRequest,
    GetStepResultRequest,
    ListCheckpointsRequest,
    ListEvidenceRequest,
    ListRevisionsRequest,
    ListRunEventsRequest,
    ListRunStepsRequest,
    OverrideStepRequest,
    PauseRunRequest,
    ReplayRunRequest,
    ResumeRunRequest,
    RetryRunRequest,
    RewindRunRequest,
    RollbackRunRequest,
    WaitRunRequest,
    WatchRunRequest,
);
