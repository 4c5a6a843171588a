#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use escapement_wire::worker::v1::outcome_ack::Verdict;

fn item(token: &'static [u8]) -> v1::AttemptOutcome {
    v1::AttemptOutcome {
        attempt_token: Bytes::from_static(token),
        ..v1::AttemptOutcome::default()
    }
}

#[test]
fn answers_stand_in_the_order_of_the_items_with_the_unreadable_among_them() {
    const A: &[u8] = &[1; 16];
    const B: &[u8] = &[2; 16];
    let mut report = OutcomeReports::read(vec![
        item(b"short"),
        item(A),
        item(b""),
        item(B),
        item(A),
        item(&[3; 17]),
    ]);
    let (a, b) = (AttemptToken::new([1; 16]), AttemptToken::new([2; 16]));
    assert_eq!(report.asked(), [a, b, a]);
    // The second one is not its caller's.
    report.retain(&[true, false, true]);
    let (asked, answers) = report.ask();
    assert_eq!(asked.len(), 2);
    let answer = answers.with(vec![(a, AckVerdict::Accepted), (a, AckVerdict::Duplicate)]);
    let got: Vec<(&[u8], Verdict)> = answer
        .items
        .iter()
        .map(|ack| (ack.attempt_token.as_ref(), ack.verdict()))
        .collect();
    let wanted: [(&[u8], Verdict); 6] = [
        (b"short", Verdict::Unknown),
        (A, Verdict::Accepted),
        (b"", Verdict::Unknown),
        (B, Verdict::Unknown),
        (A, Verdict::Duplicate),
        (&[3; 17], Verdict::Unknown),
    ];
    assert_eq!(got, wanted);
}
