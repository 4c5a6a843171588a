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
    let report = Report::read(vec![
        item(b"short"),
        item(A),
        item(b""),
        item(B),
        item(A),
        item(&[3; 17]),
    ]);
    let asked: Vec<AttemptToken> = report.readable.iter().map(|(token, _)| *token).collect();
    let (a, b) = (AttemptToken::new([1; 16]), AttemptToken::new([2; 16]));
    assert_eq!(asked, [a, b, a]);
    let verdicts = vec![
        (a, AckVerdict::Accepted),
        (b, AckVerdict::Stale),
        (a, AckVerdict::Duplicate),
    ];
    let answer = answer(report.tokens, verdicts);
    let got: Vec<(&[u8], Verdict)> = answer
        .items
        .iter()
        .map(|ack| (ack.attempt_token.as_ref(), ack.verdict()))
        .collect();
    let wanted: [(&[u8], Verdict); 6] = [
        (b"short", Verdict::Unknown),
        (A, Verdict::Accepted),
        (b"", Verdict::Unknown),
        (B, Verdict::Stale),
        (A, Verdict::Duplicate),
        (&[3; 17], Verdict::Unknown),
    ];
    assert_eq!(got, wanted);
}
