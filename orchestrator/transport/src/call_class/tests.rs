//! The class of each call, by its path.

use super::{CallClass, class_of};

#[test]
fn each_class_of_call_is_known_by_its_path() {
    let kinds = [
        (
            "/escapement.v1.PlanExecutionService/SubmitPlan",
            CallClass::Writes,
        ),
        (
            "/escapement.v1.PlanExecutionService/ExecutePlan",
            CallClass::Executes,
        ),
        (
            "/escapement.v1.PlanExecutionService/ValidatePlan",
            CallClass::Reads,
        ),
        (
            "/escapement.v1.PlanExecutionService/GetExecution",
            CallClass::Reads,
        ),
        (
            "/escapement.v1.PlanExecutionService/WaitExecution",
            CallClass::Waits,
        ),
        (
            "/escapement.v1.PlanExecutionService/ListExecutions",
            CallClass::Reads,
        ),
        (
            "/escapement.v1.PlanExecutionService/WatchExecution",
            CallClass::Watches,
        ),
        (
            "/escapement.v1.PlanExecutionService/ListAuditEntries",
            CallClass::Reads,
        ),
        (
            "/escapement.v1.EventService/SubscribeEvents",
            CallClass::Subscriptions,
        ),
        ("/escapement.v1.EventService/ReadEvents", CallClass::Subscriptions),
        ("/escapement.v1.FleetService/ListWorkers", CallClass::Controls),
        ("/escapement.v1.FleetService/DrainWorker", CallClass::Controls),
        ("/escapement.v1.AccessService/WhoAmI", CallClass::Health),
        ("/escapement.worker.v1.WorkerService/Session", CallClass::Sessions),
        (
            "/escapement.worker.v1.WorkerService/ReportOutcomes",
            CallClass::Reports,
        ),
        ("/escapement.runs.v1.RunService/CreateRun", CallClass::Writes),
        ("/escapement.runs.v1.RunService/PauseRun", CallClass::Writes),
        ("/escapement.runs.v1.RunService/GetRun", CallClass::Reads),
        ("/escapement.runs.v1.RunService/ExportRun", CallClass::Reads),
        ("/escapement.runs.v1.RunService/WaitRun", CallClass::Waits),
        ("/escapement.runs.v1.RunService/WatchRun", CallClass::Watches),
        (
            "/escapement.runs.v1.InboxService/RespondToInput",
            CallClass::Writes,
        ),
        ("/escapement.runs.v1.InboxService/WatchInbox", CallClass::Watches),
        ("/escapement.runs.v1.PlanService/ListPlans", CallClass::Reads),
        (
            "/escapement.runs.v1.ActionService/PutActionProfile",
            CallClass::Writes,
        ),
        ("/grpc.health.v1.Health/Check", CallClass::Health),
        ("/grpc.health.v1.Health/Watch", CallClass::HealthWatches),
        ("/nothing", CallClass::Reads),
        ("", CallClass::Reads),
    ];
    for (path, kind) in kinds {
        assert_eq!(class_of(path), kind, "{path}");
    }
}

#[test]
fn every_class_stands_at_the_place_of_its_discriminant() {
    let places = CallClass::ALL.map(|class| class as usize);
    assert!(places.into_iter().eq(0..places.len()));
}

#[test]
fn what_sessions_share_users_are_told_and_scalers_ask_has_its_class() {
    let kinds = [
        (
            "/externalscaler.ExternalScaler/StreamIsActive",
            CallClass::Subscriptions,
        ),
        ("/externalscaler.ExternalScaler/GetMetrics", CallClass::Controls),
        ("/escapement.runs.v1.RunService/WatchNotices", CallClass::Watches),
        ("/escapement.runs.v1.RunService/ReadEvents", CallClass::Watches),
        (
            "/escapement.runs.v1.SessionService/MergeSessionState",
            CallClass::Writes,
        ),
        ("/escapement.runs.v1.ArtifactService/Upload", CallClass::Writes),
        ("/escapement.runs.v1.ArtifactService/Download", CallClass::Reads),
        (
            "/escapement.runs.v1.SessionService/ListSkillHealth",
            CallClass::Reads,
        ),
    ];
    for (path, kind) in kinds {
        assert_eq!(class_of(path), kind, "{path}");
    }
}
