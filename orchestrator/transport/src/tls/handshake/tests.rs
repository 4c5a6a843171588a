use super::*;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn each_reason_is_told_of_once_a_minute() {
    let failures = Failures::default();
    let begin = Instant::now();
    let count = |why, after_s| failures.count(why, "", begin + Duration::from_secs(after_s));
    assert!(count(Failed::PlaintextOnTls, 0));
    assert!(!count(Failed::PlaintextOnTls, 59));
    assert!(count(Failed::TooSlow, 59), "another reason");
    assert!(count(Failed::PlaintextOnTls, 60));
}
