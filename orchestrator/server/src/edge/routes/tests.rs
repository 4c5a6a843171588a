#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::edge::gate::Gate;
use prost::Message;
use prost_types::FileDescriptorSet;

#[test]
fn exactly_the_calls_that_stream_their_requests_may_take_as_long_as_they_like() {
    let sets = [
        DESCRIPTORS,
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
    ];
    let gate = Gate::new();
    let mut n_calls = [0, 0];
    for set in sets {
        for file in FileDescriptorSet::decode(set).unwrap().file {
            for service in &file.service {
                for method in &service.method {
                    let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                    let is_unlimited = gate.bytes_of(kind_of(&path)).is_none();
                    assert_eq!(is_unlimited, method.client_streaming(), "{path}");
                    n_calls[usize::from(method.client_streaming())] += 1;
                }
            }
        }
    }
    assert!(n_calls[0] > 10 && n_calls[1] == 3, "{n_calls:?}");
}

#[test]
fn each_kind_of_call_is_known_by_its_path() {
    let kinds = [
        ("/escapement.v1.PlanExecutionService/SubmitPlan", Kind::Writes),
        ("/escapement.v1.PlanExecutionService/ExecutePlan", Kind::Executes),
        ("/escapement.v1.PlanExecutionService/ValidatePlan", Kind::Reads),
        ("/escapement.v1.PlanExecutionService/GetExecution", Kind::Reads),
        ("/escapement.v1.PlanExecutionService/WaitExecution", Kind::Waits),
        ("/escapement.v1.PlanExecutionService/ListExecutions", Kind::Reads),
        (
            "/escapement.v1.PlanExecutionService/WatchExecution",
            Kind::Watches,
        ),
        (
            "/escapement.v1.PlanExecutionService/ListAuditEntries",
            Kind::Reads,
        ),
        ("/escapement.v1.EventService/SubscribeEvents", Kind::Subscriptions),
        ("/escapement.v1.FleetService/ListWorkers", Kind::Controls),
        ("/escapement.v1.FleetService/DrainWorker", Kind::Controls),
        ("/escapement.worker.v1.WorkerService/Session", Kind::Sessions),
        (
            "/escapement.worker.v1.WorkerService/ReportOutcomes",
            Kind::Reports,
        ),
        ("/grpc.health.v1.Health/Check", Kind::Health),
        ("/grpc.health.v1.Health/Watch", Kind::Health),
        ("/nothing", Kind::Reads),
        ("", Kind::Reads),
    ];
    for (path, kind) in kinds {
        assert_eq!(kind_of(path), kind, "{path}");
    }
}
