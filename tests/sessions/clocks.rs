//! Wall clocks that jump while sessions are open. Time within the orchestrator must not care.
//! How fast time runs is no matter of these tests: the monotonic clock is left alone.

use crate::arena::{Arena, ArenaSettings, scale, unix_ms};
use crate::record::{assigned_unix_ms, failures, n_assigned};
use crate::recorder::{HOLD, Recorder, WORK};
use crate::traffic::side_by_side;
use escapement_tests::clock_layer::WallClock;
use escapement_tests::session_checker::Count;
use escapement_tests::{PlanDocument, PrivateDirectory, let_pass};
use escapement_wire::v1::plan_result::Status;
use serde_json::json;
use std::path::Path;
use std::time::Duration;

// Leases, limits of steps and plans, and deadlines are all shorter than the jumps.
#[tokio::test]
async fn jumps_of_the_wall_clock_settle_nothing() {
    let directory = PrivateDirectory::new("clock").unwrap();
    let clock = WallClock::new(directory.path()).unwrap();
    let arena = Arena::start_with(|settings| settings_with(settings, &clock)).await;
    let worker = Recorder::connect(&arena.orchestrator.url(), "steady", 8).await;
    let held = arena.submit(side_by_side(HOLD, &json!({}), 3)).await;
    arena.wait_for_starts(&held, 3).await;

    let hour: i64 = 3_600;
    let jumps_s = [hour, -hour, 365 * 24 * hour, -24 * hour, 0];
    for offset_s in jumps_s.into_iter().cycle().take(scale(5, 25)) {
        clock.set(offset_s).unwrap();
        // For more than half of a lease, so that every lease spans a jump.
        let_pass(Duration::from_millis(2_600)).await;
        let id = arena
            .submit(PlanDocument::new("after a jump").step(WORK, json!({}), &[]))
            .await;
        assert_eq!(arena.result_of(&id).await.status(), Status::Success);
        let off_ms = assigned_unix_ms(&arena.record_of(&id).await)[0] - unix_ms();
        assert!(
            (off_ms - offset_s * 1_000).abs() < 5_000,
            "the clock did jump: {off_ms} ms"
        );
    }
    worker.release();
    assert_eq!(arena.result_of(&held).await.status(), Status::Success);
    let record = arena.record_of(&held).await;
    assert_eq!((n_assigned(&record), failures(&record)), (3, vec![]));
    assert_eq!(worker.n_sessions(), 1, "nobody had a reason to connect again");
    worker.stop().await;
    let judgement = arena.finish().await;
    judgement
        .exactly(Count::Losses, 0)
        .exactly(Count::HandedOutAgain, 0);
}

fn settings_with(settings: ArenaSettings, clock: &WallClock) -> ArenaSettings {
    let on_clock =
        |settings: ArenaSettings, (name, value): (&str, &Path)| settings.variable(name, value.display());
    clock
        .variables()
        .into_iter()
        .fold(settings, on_clock)
        // Long enough for a busy machine, which is no matter of this test.
        .lease(5_000, 1_000)
        // It compares times of records with the wall clock at the start.
        .checker(|checker| checker.free_slot_ms = u64::MAX)
}
