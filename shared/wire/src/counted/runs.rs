//! Where the messages of the API of runs have lists. Answers are not counted: they come from an orchestrator.

use super::Holds::{Entries, One};
use super::{Counted, Lists};
use crate::runs::v1;

impl Counted for v1::CreateRunRequest {
    const LISTS: Lists = CREATE_RUN;
    const IS_ASKED: bool = true;
}

impl Counted for v1::PreviewRunRequest {
    const LISTS: Lists = &[(1, One(CREATE_RUN))];
    const IS_ASKED: bool = true;
}

impl Counted for v1::CreateTriggerRequest {
    const LISTS: Lists = &[(1, One(TRIGGER))];
    const IS_ASKED: bool = true;
}

impl Counted for v1::UpdateTriggerRequest {
    const LISTS: Lists = &[(1, One(TRIGGER))];
    const IS_ASKED: bool = true;
}

impl Counted for v1::ListRunEventsRequest {
    const LISTS: Lists = &[(6, Entries(&[]))];
    const IS_ASKED: bool = true;
}

impl Counted for v1::ReadEventsRequest {
    const LISTS: Lists = &[(3, Entries(&[]))];
    const IS_ASKED: bool = true;
}

impl Counted for v1::ExplainRunRequest {
    const LISTS: Lists = &[(2, Entries(&[]))];
    const IS_ASKED: bool = true;
}

impl Counted for v1::PutActionProfileRequest {
    const LISTS: Lists = &[(1, One(&[(7, Entries(&[])), (8, Entries(&[]))]))];
    const IS_ASKED: bool = true;
}

impl Counted for v1::CreatePlanRequest {
    const LISTS: Lists = &[(1, One(PLAN))];
    const IS_ASKED: bool = true;
}

impl Counted for v1::ImportPlanRequest {
    const LISTS: Lists = &[(4, One(PLAN))];
    const IS_ASKED: bool = true;
}

impl Counted for v1::AddPlanStepRequest {
    const LISTS: Lists = &[(3, One(FLAT_STEP))];
    const IS_ASKED: bool = true;
}

/// What has no lists, or is an answer.
macro_rules! uncounted {
    ($is_asked:literal: $($message:ident)*) => {
        $(impl Counted for v1::$message {
            const LISTS: Lists = &[];
            const IS_ASKED: bool = $is_asked;
        })*
    };
}

uncounted! { true:
    GetRunRequest ListRunsRequest WaitRunRequest WatchRunRequest ListRunStepsRequest GetRunStepRequest
    GetStepResultRequest ListEvidenceRequest ListRevisionsRequest GetRevisionRequest DiffRevisionsRequest
    ListCheckpointsRequest PauseRunRequest ResumeRunRequest CancelRunRequest DiscardRunRequest RewindRunRequest
    RollbackRunRequest ForkRunRequest RetryRunRequest OverrideStepRequest CreateCheckpointRequest ReplayRunRequest
    ExportRunRequest GetRunStatsRequest GetRunsStatusRequest DeleteRunRequest
    GetPlanRequest ListPlansRequest UpdatePlanRequest DeletePlanRequest UpdatePlanStepRequest DeletePlanStepRequest
    PutPlanDocumentRequest LoadSamplesRequest
    ListInputRequestsRequest GetInputRequestRequest RespondToInputRequest WatchInboxRequest
    ListActionProfilesRequest DeleteActionProfileRequest ClassifyIntentRequest
    CreateSessionRequest GetSessionRequest MergeSessionStateRequest RestartSessionRequest ListSkillHealthRequest
    ResetSkillHealthRequest DeleteSessionRequest WatchNoticesRequest
    GetTriggerRequest ListTriggersRequest DeleteTriggerRequest EnableTriggerRequest FireTriggerRequest
    ListFiringsRequest GetTriggerStatsRequest PreviewScheduleRequest PublishEventRequest CreateGoalRequest
    GetGoalRequest ListGoalsRequest UpdateGoalRequest DeleteGoalRequest
    UploadRequest DownloadRequest GetArtifactRequest ListArtifactsRequest
}

uncounted! { false:
    CreateRunResponse PreviewRunResponse GetRunResponse ListRunsResponse WaitRunResponse WatchRunResponse
    ListRunEventsResponse ListRunStepsResponse GetRunStepResponse GetStepResultResponse ListEvidenceResponse
    ListRevisionsResponse GetRevisionResponse DiffRevisionsResponse ListCheckpointsResponse PauseRunResponse
    ResumeRunResponse CancelRunResponse DiscardRunResponse RewindRunResponse RollbackRunResponse ForkRunResponse
    RetryRunResponse OverrideStepResponse CreateCheckpointResponse ExplainRunResponse ReplayRunResponse
    ExportRunResponse GetRunStatsResponse GetRunsStatusResponse DeleteRunResponse
    CreatePlanResponse GetPlanResponse ListPlansResponse UpdatePlanResponse DeletePlanResponse AddPlanStepResponse
    UpdatePlanStepResponse DeletePlanStepResponse PutPlanDocumentResponse ImportPlanResponse
    ListInputRequestsResponse GetInputRequestResponse RespondToInputResponse WatchInboxResponse LoadSamplesResponse
    CreateSessionResponse GetSessionResponse MergeSessionStateResponse RestartSessionResponse ListSkillHealthResponse
    ResetSkillHealthResponse DeleteSessionResponse WatchNoticesResponse ReadEventsResponse
    ListActionProfilesResponse PutActionProfileResponse DeleteActionProfileResponse
    ClassifyIntentResponse
    CreateTriggerResponse GetTriggerResponse ListTriggersResponse UpdateTriggerResponse DeleteTriggerResponse
    EnableTriggerResponse FireTriggerResponse ListFiringsResponse GetTriggerStatsResponse PreviewScheduleResponse
    PublishEventResponse CreateGoalResponse GetGoalResponse ListGoalsResponse UpdateGoalResponse DeleteGoalResponse
    UploadResponse DownloadResponse GetArtifactResponse ListArtifactsResponse
}

/// `CreateRunRequest`: approvers of the policy, constraints, labels.
const CREATE_RUN: Lists = &[
    (12, One(&[(9, Entries(&[]))])),
    (13, One(&[(4, Entries(&[]))])),
    (14, One(&[(1, One(&[(1, Entries(&[]))]))])),
    (
        15,
        One(&[(1, Entries(&[])), (3, Entries(&[])), (4, Entries(&[]))]),
    ),
    (16, One(&[(5, Entries(&[]))])),
    (29, Entries(&[])),
];

/// `Trigger`: sources of its webhook, the request of its runs.
const TRIGGER: Lists = &[(9, One(&[(2, Entries(&[]))])), (10, One(CREATE_RUN))];

/// `Plan`: steps, and events with their other names.
const PLAN: Lists = &[(22, Entries(&[])), (29, Entries(&[(6, Entries(&[]))]))];

/// `FlatStep`: choices, options, parallel steps, dependencies.
const FLAT_STEP: Lists = &[
    (9, Entries(&[])),
    (12, Entries(&[])),
    (16, Entries(&[])),
    (19, Entries(&[])),
];
