#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use escapement_model::limits::ANSWER_MESSAGE_BYTES_MAX;

#[test]
fn large_answers_are_bounded_together_and_small_ones_and_those_of_operators_come_through() {
    let rooms = ResponseBudget::default();
    let mut held = Vec::new();
    while let Ok(room) = rooms.take(CallClass::Reads, ANSWER_MESSAGE_BYTES_MAX) {
        held.push(room);
    }
    assert_eq!(held.len(), ANSWERS_BYTES_MAX / ANSWER_MESSAGE_BYTES_MAX);
    // What is left is not enough.
    assert!(rooms.take(CallClass::Executes, ANSWER_MESSAGE_BYTES_MAX).is_err());
    assert!(rooms.take(CallClass::Reads, SMALL_ANSWER_BYTES - 1).is_ok());
    assert!(rooms.take(CallClass::Controls, ANSWER_MESSAGE_BYTES_MAX).is_ok());
    let copy = held[0].clone();
    held.remove(0);
    assert!(
        rooms.take(CallClass::Reads, ANSWER_MESSAGE_BYTES_MAX).is_err(),
        "a copy holds it"
    );
    drop(copy);
    assert!(rooms.take(CallClass::Reads, ANSWER_MESSAGE_BYTES_MAX).is_ok());
}
