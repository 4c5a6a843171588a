#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::judged;
use escapement_delivery::Answer;
use hyper::StatusCode;

#[test]
fn a_status_says_whether_it_is_about_the_event_or_about_the_sink() {
    let later = Answer::Failed {
        retry_after_ms: Some(7_000),
    };
    for (status, answer) in [
        (200, Answer::Taken),
        (204, Answer::Taken),
        (301, Answer::Refused),
        (400, Answer::Refused),
        (404, Answer::Refused),
        (408, later),
        (410, Answer::Gone),
        (413, Answer::Refused),
        (425, later),
        (429, later),
        (500, later),
        (503, later),
    ] {
        let status = StatusCode::from_u16(status).unwrap();
        assert_eq!(judged(status, Some(7_000)), answer, "{status}");
    }
}
