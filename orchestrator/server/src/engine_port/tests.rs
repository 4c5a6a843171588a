#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::grpc::testing::{Stage, plan_that_fails_at_once};
use escapement_engine::Refusal;
use escapement_store::Removal;

fn request() -> v1::SubmitPlanRequest {
    v1::SubmitPlanRequest {
        plan: Some(plan_that_fails_at_once(1)),
        execution_id: Some(execution_id().to_string()),
        ..v1::SubmitPlanRequest::default()
    }
}

fn execution_id() -> ExecutionId {
    ExecutionId::from_random([7; 16])
}

// RUN-9.4
#[tokio::test]
async fn an_attempt_submitted_again_has_the_same_end() {
    let stage = Stage::start(Removal::default());
    let port = EnginePort::new(stage.edge.clone());
    let origin = Origin::default();
    port.submit(request(), &origin).await.unwrap();
    let end = port.wait_for_end(execution_id()).await.unwrap();
    assert_eq!(end.result.error.as_ref().unwrap().error_code, "CONTEXT_MISSING");
    port.submit(request(), &origin).await.unwrap();
    assert_eq!(
        port.wait_for_end(execution_id()).await.unwrap().result,
        end.result
    );
    let found = port.look_up(execution_id()).await.unwrap();
    assert_eq!(found.state(), v1::execution::State::Settled);
    assert_eq!(port.accepted(execution_id()).await.unwrap().plan, request().plan);
    assert_eq!(port.last_worker(execution_id()).await.unwrap(), None);

    let mut other = request();
    other.user_id = Some("another".to_owned());
    let refused = port.submit(other, &origin).await.unwrap_err();
    assert_eq!(refused, PortRefusal::OtherRequest);
}

#[tokio::test]
async fn a_removed_execution_is_not_an_unknown_one() {
    let keeps_nothing = Removal {
        keep_settled_count: Some(0),
        ..Removal::default()
    };
    let stage = Stage::start(keeps_nothing);
    let port = EnginePort::new(stage.edge.clone());
    let never = port.wait_for_end(execution_id()).await.unwrap_err();
    assert!(matches!(never, PortRefusal::Never { reason, .. } if reason == "EXECUTION_NOT_FOUND"));
    port.submit(request(), &Origin::default()).await.unwrap();
    // It settled and was removed at once.
    let removed = port.wait_for_end(execution_id()).await.unwrap_err();
    assert_eq!(removed, PortRefusal::Removed);
    let again = port.submit(request(), &Origin::default()).await.unwrap_err();
    assert_eq!(again, PortRefusal::Removed);
}

#[tokio::test]
async fn a_request_above_the_byte_limit_is_refused() {
    let stage = Stage::start(Removal::default());
    let port = EnginePort::new(stage.edge.clone());
    let mut large = request();
    large.user_id = Some("x".repeat(message_bytes_max(CallClass::Executes)));
    let refused = port.submit(large, &Origin::default()).await.unwrap_err();
    assert!(matches!(refused, PortRefusal::Never { reason, .. } if reason == "OutOfRange"));
}

fn of(rejection: Rejection) -> PortRefusal {
    answer::<()>(Err(rejection)).unwrap_err()
}

#[test]
fn a_full_engine_takes_the_attempt_later() {
    for (refused, reason) in [
        (Refusal::QueueFull, "QUEUE_FULL"),
        (Refusal::Draining, "DRAINING"),
        (Refusal::StoreFull, "STORE_FULL"),
        (Refusal::TooManyChildren, "TOO_MANY_CHILDREN"),
        (
            Refusal::NamespaceQuota {
                max_live_executions: 1,
            },
            "NAMESPACE_QUOTA",
        ),
    ] {
        let reason = reason.to_owned();
        assert_eq!(of(Rejection::Refused(refused)), PortRefusal::NotNow { reason });
    }
}

#[test]
fn a_failed_write_leaves_the_answer_open() {
    let reason = "STORE_FAILED".to_owned();
    let refused = of(Rejection::Refused(Refusal::StoreFailed));
    assert_eq!(refused, PortRefusal::NotKnown { reason });
    let reason = "STORE_UNREADABLE".to_owned();
    assert_eq!(of(Rejection::StoreUnreadable), PortRefusal::NotKnown { reason });
}

#[test]
fn a_final_refusal_has_its_reason_and_its_message() {
    let execution_id = ExecutionId::from_random([7; 16]);
    for (rejection, expected) in [
        (
            Rejection::Refused(Refusal::PlanIdUsed { execution_id }),
            "PLAN_ID_USED",
        ),
        (Rejection::Refused(Refusal::NestedTooDeep), "NESTED_TOO_DEEP"),
        (Rejection::ExecutionNotFound(execution_id), "EXECUTION_NOT_FOUND"),
        (Rejection::RecordDamaged, "RECORD_DAMAGED"),
    ] {
        let PortRefusal::Never { reason, message } = of(rejection) else {
            panic!("{expected} is for good");
        };
        assert_eq!(reason, expected);
        assert!(!message.is_empty());
    }
    let too_large = answer::<()>(Err(Status::out_of_range("too large"))).unwrap_err();
    assert!(matches!(too_large, PortRefusal::Never { reason, .. } if reason == "OutOfRange"));
}

#[test]
fn an_id_in_use_is_that_of_another_request() {
    let in_use = of(Rejection::ExecutionIdInUse { differs: None });
    assert_eq!(in_use, PortRefusal::OtherRequest);
    assert_eq!(
        of(Rejection::Refused(Refusal::ExecutionIdUsed)),
        PortRefusal::OtherRequest
    );
}
