//! The orchestrator is killed while it delivers.

use super::{event, execute, taken, wait_for_taken, world};
use crate::world::LIMIT;
use escapement_tests::{Dice, ReceivedRequest, Receiver, Reply};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// A receiver that takes two of three events, and answers the others badly or not at all.
pub(crate) async fn moody(seed: u64) -> Receiver {
    let dice = Mutex::new(Dice::new(seed));
    let script = move |_: &ReceivedRequest| match dice.lock().unwrap().roll(9) {
        0 => Reply::Status(500),
        1 => Reply::Close,
        2 => Reply::Status(400),
        _ => Reply::Status(204),
    };
    Receiver::start_with(script).await.unwrap()
}

#[tokio::test]
async fn every_ending_comes_to_each_sink_in_order_and_at_least_once_across_kills() {
    let (all, failures) = (moody(1).await, moody(2).await);
    let (mut world, _sinks) = world(
        |sinks| {
            sinks.sink("all", &all.url("/all"), "").sink(
                "failures",
                &failures.url("/"),
                "types = [\"plan_execution_failure\"]\ntimeout_ms = 1000",
            )
        },
        |settings| settings,
    )
    .await;
    let mut dice = Dice::new(3);
    let mut expected = Vec::new();
    for round in 0..6 {
        let worker = world
            .stock_worker(&format!("stock-{round}"), |settings| settings)
            .await;
        let before = all.received().len();
        expected.extend(execute(&world, 6).await);
        // At some moment of the deliveries: with some of them done, and one perhaps under way.
        let n_more = usize::try_from(dice.roll(6)).unwrap();
        all.wait_for_requests(before + n_more, LIMIT).await.unwrap();
        drop(worker);
        world.crash_and_restart().await;
    }
    let received = wait_for_taken(&all, expected.len()).await;
    assert_eq!(
        taken(&received),
        expected,
        "everything, and in the order of settling"
    );
    let failed: Vec<String> = expected.iter().step_by(3).cloned().collect();
    let received_failures = wait_for_taken(&failures, failed.len()).await;
    assert_eq!(taken(&received_failures), failed);

    let mut bodies = BTreeMap::new();
    for request in received.iter().chain(&received_failures) {
        let id = &request.headers["webhook-id"];
        let body = bodies.entry(id).or_insert(&request.body);
        assert_eq!(*body, &request.body, "a repetition is the same event");
        assert_eq!(event(request)["id"], id.as_str());
    }
    let places = received.iter().map(|request| event(request)["sequence"].clone());
    let places: BTreeMap<_, _> = places.map(|place| (place.to_string(), ())).collect();
    assert_eq!(places.len(), expected.len(), "each has a place of its own");
}
