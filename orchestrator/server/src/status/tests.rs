#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use escapement_contract::{PlanDraft, StepDraft, validate_plan};
use escapement_wire::ERROR_DOMAIN;
use tonic_types::{ErrorDetails, StatusExt};

fn execution_id() -> ExecutionId {
    ExecutionId::from_random([7; 16])
}

/// Code, reason and whether it says when to ask again.
fn check(rejection: Rejection, code: Code, reason: &str, is_repeatable: bool) -> ErrorDetails {
    let status = Status::from(rejection.clone());
    let details = status.check_error_details().unwrap();
    let info = details.error_info().unwrap();
    assert_eq!(
        (status.code(), info.reason.as_str()),
        (code, reason),
        "{rejection:?}"
    );
    assert_eq!(info.domain, ERROR_DOMAIN);
    assert_eq!(details.retry_info().is_some(), is_repeatable, "{rejection:?}");
    assert!(!status.message().is_empty());
    details
}

#[test]
fn every_refusal_of_the_engine_has_its_status() {
    let refusals = [
        (
            Refusal::ExecutionIdUsed,
            Code::AlreadyExists,
            "EXECUTION_ID_IN_USE",
            false,
        ),
        (
            Refusal::PlanIdUsed {
                execution_id: execution_id(),
            },
            Code::FailedPrecondition,
            "PLAN_ID_USED",
            false,
        ),
        (
            Refusal::NestedTooDeep,
            Code::FailedPrecondition,
            "NESTED_TOO_DEEP",
            false,
        ),
        (
            Refusal::TooManyChildren,
            Code::ResourceExhausted,
            "TOO_MANY_CHILDREN",
            true,
        ),
        (Refusal::QueueFull, Code::ResourceExhausted, "QUEUE_FULL", true),
        (
            Refusal::NamespaceQuota {
                max_live_executions: 5,
            },
            Code::ResourceExhausted,
            "NAMESPACE_QUOTA",
            true,
        ),
        (Refusal::Draining, Code::Unavailable, "DRAINING", true),
        (Refusal::StoreFull, Code::ResourceExhausted, "STORE_FULL", true),
        (Refusal::StoreFailed, Code::Unavailable, "STORE_FAILED", true),
    ];
    for (refusal, code, reason, is_repeatable) in refusals {
        check(Rejection::Refused(refusal), code, reason, is_repeatable);
    }
}

//
#[test]
fn a_removed_execution_says_when_and_a_repeated_request_is_no_lookup() {
    let removed = RemovedExecution {
        number: 3,
        execution_id: execution_id(),
        plan_id: escapement_model::PlanId::from_random([8; 16]),
        request_digest: [1; 32],
        settled_at: 1_000,
        removed_at: 2_000,
    };
    let looked_up = Rejection::ExecutionRemoved(removed);
    let repeated = looked_up.clone().of_submission();
    for (rejection, code) in [(looked_up, Code::NotFound), (repeated, Code::FailedPrecondition)] {
        let details = check(rejection, code, "EXECUTION_REMOVED", false);
        let metadata = &details.error_info().unwrap().metadata;
        assert_eq!(metadata["execution_id"], execution_id().to_string());
        assert_eq!(metadata["plan_id"], removed.plan_id.to_string());
        assert_eq!(
            (&*metadata["settled_at"], &*metadata["removed_at"]),
            ("1000", "2000")
        );
    }
    let other = Rejection::ExecutionNotFound(execution_id());
    assert_eq!(other.clone().of_submission(), other);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn every_rejection_of_the_shell_has_its_status() {
    let field = Rejection::InvalidField {
        field: "page_size",
        message: "must be 1 to 1000".to_owned(),
    };
    let rejections = [
        (field, Code::InvalidArgument, "INVALID_ARGUMENT", false),
        (
            Rejection::InvalidItem {
                list: "step_ids",
                index: 3,
                message: "the plan has no such step".to_owned(),
            },
            Code::InvalidArgument,
            "INVALID_ARGUMENT",
            false,
        ),
        (
            Rejection::Call(CallRefusal::Stopping),
            Code::Unavailable,
            "DRAINING",
            true,
        ),
        (
            Rejection::PageTokenInvalid,
            Code::InvalidArgument,
            "PAGE_TOKEN_INVALID",
            false,
        ),
        (
            Rejection::ExecutionNotFound(execution_id()),
            Code::NotFound,
            "EXECUTION_NOT_FOUND",
            false,
        ),
        (
            Rejection::NotSettled(execution_id()),
            Code::FailedPrecondition,
            "EXECUTION_NOT_SETTLED",
            false,
        ),
        (
            Rejection::InputsNotRecorded(execution_id()),
            Code::FailedPrecondition,
            "INPUTS_NOT_RECORDED",
            false,
        ),
        (Rejection::NoSuchWorker, Code::NotFound, "NO_SUCH_WORKER", false),
        (
            Rejection::WorkerAlive(900),
            Code::FailedPrecondition,
            "WORKER_ALIVE",
            false,
        ),
        (
            Rejection::RecordRewritten,
            Code::Aborted,
            "RECORD_REWRITTEN",
            false,
        ),
        (
            Rejection::ActionInUse,
            Code::FailedPrecondition,
            "ACTION_IN_USE",
            false,
        ),
        (
            Rejection::SimulationTooLong(TooLong { inputs_max: 7 }),
            Code::ResourceExhausted,
            "SIMULATION_TOO_LONG",
            false,
        ),
        (
            Rejection::SimulationTooLarge { bytes: 9 << 30 },
            Code::ResourceExhausted,
            "SIMULATION_TOO_LARGE",
            false,
        ),
        (
            Rejection::StoreUnreadable,
            Code::Unavailable,
            "STORE_UNREADABLE",
            true,
        ),
        (Rejection::RecordDamaged, Code::DataLoss, "RECORD_DAMAGED", false),
    ];
    for (rejection, code, reason, is_repeatable) in rejections {
        check(rejection, code, reason, is_repeatable);
    }
}

#[test]
fn a_used_plan_id_names_the_execution_that_has_it() {
    let rejection = Rejection::Refused(Refusal::PlanIdUsed {
        execution_id: execution_id(),
    });
    let details = check(rejection, Code::FailedPrecondition, "PLAN_ID_USED", false);
    assert_eq!(
        details.error_info().unwrap().metadata["execution_id"],
        execution_id().to_string()
    );
}

#[test]
fn all_violations_are_listed_and_the_first_gives_the_reason() {
    let violations = validate_plan(PlanDraft::default()).unwrap_err();
    assert!(violations.len() > 3, "an empty plan breaks several rules");
    let first = violations.first().clone();
    let details = check(
        Rejection::Violations(violations.clone()),
        Code::InvalidArgument,
        first.code,
        false,
    );
    let listed = &details.bad_request().unwrap().field_violations;
    assert_eq!(listed.len(), violations.len());
    for (violation, finding) in listed.iter().zip(&violations) {
        assert_eq!(violation.field, finding.field);
        assert_eq!(violation.description, finding.message);
        assert_eq!(violation.reason, finding.code);
    }
}

#[test]
fn findings_are_listed_as_violations_are() {
    let violations = validate_plan(PlanDraft::default()).unwrap_err();
    let findings: Vec<Finding> = violations.iter().cloned().collect();
    let [of_plan, of_stubs] =
        [Rejection::Violations(violations), Rejection::Findings(findings)].map(Status::from);
    assert_eq!(of_plan.message(), of_stubs.message());
    assert_eq!(of_plan.details(), of_stubs.details());
}

#[test]
fn a_thousand_violations_still_fit_into_headers() {
    let plan = PlanDraft {
        steps: vec![StepDraft::default(); 1_024],
        ..PlanDraft::default()
    };
    let violations = validate_plan(plan).unwrap_err();
    let n_violations = violations.len();
    let status = Status::from(Rejection::Violations(violations));
    assert!(status.message().len() <= 512);
    // In headers the details are written in base64, which takes a third more.
    assert!(
        status.details().len() * 4 / 3 < 8 << 10,
        "{} bytes of details",
        status.details().len()
    );
    let details = status.check_error_details().unwrap();
    assert_eq!(
        details.error_info().unwrap().metadata["violations"],
        n_violations.to_string()
    );
    assert!(!details.bad_request().unwrap().field_violations.is_empty());
}
