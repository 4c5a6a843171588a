//! Where the messages of callers and operators have lists. Answers are not counted: they come from an orchestrator.

use super::Holds::{Entries, Heavy, One};
use super::{Counted, Lists};
use crate::{externalscaler, v1};

impl Counted for v1::SubmitPlanRequest {
    const LISTS: Lists = &[(1, One(PLAN)), (8, Entries(&[]))];
    const IS_ASKED: bool = true;
}

impl Counted for v1::ExecutePlanRequest {
    const LISTS: Lists = &[(1, One(PLAN)), (8, Entries(&[]))];
    const IS_ASKED: bool = true;
}

impl Counted for v1::ValidatePlanRequest {
    const LISTS: Lists = &[(1, One(PLAN))];
    const IS_ASKED: bool = true;
}

impl Counted for v1::SimulatePlanRequest {
    const LISTS: Lists = &[
        (1, One(PLAN)),
        (6, Heavy(STEP_WEIGHT, &[(3, Heavy(STEP_WEIGHT, &[]))])),
    ];
    const IS_ASKED: bool = true;
}

impl Counted for v1::ExplainExecutionRequest {
    const LISTS: Lists = &[(2, Entries(&[]))];
    const IS_ASKED: bool = true;
}

impl Counted for v1::SubscribeEventsRequest {
    const LISTS: Lists = &[(1, Entries(&[]))];
    const IS_ASKED: bool = true;
}

impl Counted for v1::ReadEventsRequest {
    const LISTS: Lists = &[(3, Entries(&[]))];
    const IS_ASKED: bool = true;
}

impl Counted for externalscaler::ScaledObjectRef {
    const LISTS: Lists = SCALED_OBJECT;
    const IS_ASKED: bool = true;
}

impl Counted for externalscaler::GetMetricsRequest {
    const LISTS: Lists = &[(1, One(SCALED_OBJECT))];
    const IS_ASKED: bool = true;
}

impl Counted for externalscaler::IsActiveResponse {
    const LISTS: Lists = &[];
}

impl Counted for externalscaler::GetMetricSpecResponse {
    const LISTS: Lists = &[];
}

impl Counted for externalscaler::GetMetricsResponse {
    const LISTS: Lists = &[];
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
    GetExecutionRequest WaitExecutionRequest ListExecutionsRequest WatchExecutionRequest ListAuditEntriesRequest
    ReplayExecutionRequest ExportExecutionRequest
    ListWorkersRequest ListActionsRequest DrainWorkerRequest DeclareWorkerDeadRequest
    ForgetActionRequest WhoAmIRequest ListOperatorActionsRequest ReloadRequest
}

uncounted! { false:
    ForgetActionResponse WhoAmIResponse ListOperatorActionsResponse ReloadResponse
    SubmitPlanResponse ExecutePlanResponse ValidatePlanResponse GetExecutionResponse WaitExecutionResponse
    ListExecutionsResponse WatchExecutionResponse ListAuditEntriesResponse SubscribeEventsResponse ReadEventsResponse
    ExplainExecutionResponse ReplayExecutionResponse ExportExecutionResponse SimulatePlanResponse
    ListWorkersResponse ListActionsResponse DrainWorkerResponse DeclareWorkerDeadResponse
}

/// `Plan`: steps and what they depend on, context requirements, retryable codes, tags.
const PLAN: Lists = &[
    (4, Heavy(STEP_WEIGHT, &[(4, Entries(&[]))])),
    (6, Entries(&[])),
    (9, One(&[(5, Entries(&[]))])),
    (11, Entries(&[])),
];

/// `ScaledObjectRef`: the metadata.
const SCALED_OBJECT: Lists = &[(3, Entries(&[]))];

/// What a step weighs, in texts. Valid plans have at most 1024 steps.
const STEP_WEIGHT: usize = 8;
