#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::limits::OPEN_READS_MAX;

#[test]
fn a_flood_of_one_kind_takes_no_place_of_another() {
    let gate = Gate::new();
    let connection = gate.of_connection();
    let mut places = Vec::new();
    while let Ok((place, incomplete)) = connection.enter(CallClass::Reads) {
        drop(incomplete);
        places.push(place);
    }
    assert_eq!(places.len(), OPEN_READS_MAX);
    assert_eq!(
        gate.enter(CallClass::Reads).unwrap_err(),
        Refusal::Overloaded(CallClass::Reads)
    );
    let others = CallClass::ALL
        .into_iter()
        .filter(|class| *class != CallClass::Reads);
    for kind in others {
        assert!(gate.enter(kind).is_ok(), "{kind:?}");
    }
    assert!(places.pop().is_some());
    assert!(
        gate.enter(CallClass::Reads).is_ok(),
        "a place that was given back"
    );
}

#[tokio::test]
async fn the_oldest_call_that_is_half_sent_gives_way_to_the_next_one() {
    let places = CallSlots::new(2);
    let gave_way = |incomplete: &PendingUpload| {
        let cx = std::task::Context::from_waker(std::task::Waker::noop());
        incomplete.poll_gave_way(&cx).is_ready()
    };
    let (first, first_half) = places.take().unwrap();
    let (_second, second_half) = places.take().unwrap();
    assert!(!gave_way(&first_half));
    let (third, third_half) = places.take().unwrap();
    assert!(gave_way(&first_half) && !gave_way(&second_half));
    // It has nothing to give back any more.
    drop((first, first_half));
    // Complete calls keep their places.
    drop((second_half, third_half));
    assert!(places.take().is_none());
    drop(third);
    assert!(places.take().is_some());
}
