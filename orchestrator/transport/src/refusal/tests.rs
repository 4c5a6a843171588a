#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;

#[test]
fn every_refusal_has_its_status() {
    let too_large = Refusal::RequestTooLarge {
        bytes: 7 << 20,
        bytes_max: 6 << 20,
    };
    let (reads, reports) = (CallClass::Reads, CallClass::Reports);
    let (exhausted, unavailable) = (Code::ResourceExhausted, Code::Unavailable);
    for (refusal, code, reason, is_repeatable) in [
        (Refusal::Stopping, unavailable, "DRAINING", true),
        (Refusal::Overloaded(reads), exhausted, "OVERLOADED", true),
        (Refusal::Overloaded(reports), unavailable, "OVERLOADED", true),
        (Refusal::PartTaken(reads), exhausted, "OVERLOADED", true),
        (Refusal::PartTaken(reports), unavailable, "OVERLOADED", true),
        (
            Refusal::RequestTooSlow,
            Code::DeadlineExceeded,
            "REQUEST_TOO_SLOW",
            false,
        ),
        (too_large, exhausted, "REQUEST_TOO_LARGE", false),
        (Refusal::RequestsTooLarge, exhausted, "REQUESTS_TOO_LARGE", true),
    ] {
        let status = Status::from(refusal);
        let details = status.check_error_details().unwrap();
        let info = details.error_info().unwrap();
        assert_eq!(
            (status.code(), info.reason.as_str()),
            (code, reason),
            "{refusal:?}"
        );
        assert_eq!(info.domain, ERROR_DOMAIN);
        assert_eq!(details.retry_info().is_some(), is_repeatable, "{refusal:?}");
        assert!(!status.message().is_empty());
    }
}

#[test]
fn a_caller_that_is_not_let_in_learns_of_what_there_is_too_much() {
    let status = Status::from(Refusal::Overloaded(CallClass::Watches));
    let details = status.check_error_details().unwrap();
    assert_eq!(details.error_info().unwrap().metadata["kind"], "watches");
    let status = Status::from(Refusal::PartTaken(CallClass::Watches));
    let info = status.get_details_error_info().unwrap();
    assert_eq!(
        (info.metadata["kind"].as_str(), info.metadata["of"].as_str()),
        ("watches", "tenant")
    );
}
