//! Wall clocks that jump while sessions are open. Time within the orchestrator must not care.
//! How fast time runs is no matter of these tests: the monotonic clock is left alone.

use crate::arena::{Arena, ArenaSettings, scale, unix_ms};
use crate::record::{assigned_unix_ms, failures, n_assigned};
use crate::recorder::{HOLD, Recorder, WORK};
use crate::traffic::side_by_side;
use escapement_tests::session_checker::Count;
use escapement_tests::{PlanDocument, PrivateDirectory, let_pass, tool};
use escapement_wire::v1::plan_result::Status;
use serde_json::json;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

// Leases, limits of steps and plans, and deadlines are all shorter than the jumps.
#[tokio::test]
async fn jumps_of_the_wall_clock_settle_nothing() {
    let Some(program) = tool("faketime", "`cargo verify` installs it on Debian") else {
        return;
    };
    let directory = PrivateDirectory::new("clock").unwrap();
    let offset = directory.join("offset");
    jump(&offset, 0);
    let arena = Arena::start_with(|settings| settings_with(settings, &library(&program), &offset)).await;
    let worker = Recorder::connect(&arena.orchestrator.url(), "steady", 8).await;
    let held = arena.submit(side_by_side(HOLD, &json!({}), 3)).await;
    arena.wait_for_starts(&held, 3).await;

    let hour: i64 = 3_600;
    let jumps_s = [hour, -hour, 365 * 24 * hour, -24 * hour, 0];
    for offset_s in jumps_s.into_iter().cycle().take(scale(5, 25)) {
        jump(&offset, offset_s);
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

fn settings_with(settings: ArenaSettings, library: &str, offset: &Path) -> ArenaSettings {
    settings
        // Long enough for a busy machine, which is no matter of this test.
        .lease(5_000, 1_000)
        .variable("LD_PRELOAD", library)
        .variable("FAKETIME_TIMESTAMP_FILE", offset.display())
        .variable("FAKETIME_NO_CACHE", 1)
        .variable("FAKETIME_DONT_FAKE_MONOTONIC", 1)
        // It compares times of records with the wall clock at the start.
        .checker(|checker| checker.free_slot_ms = u64::MAX)
}

/// What the program would preload itself.
fn library(program: &Path) -> String {
    let mut command = Command::new(program);
    let output = command
        .args(["-m", "-f", "+0", "printenv", "LD_PRELOAD"])
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Sets the wall clock off by so many seconds from now on, in one step.
fn jump(offset: &Path, seconds: i64) {
    let new = offset.with_extension("new");
    std::fs::write(&new, format!("{seconds:+}\n")).unwrap();
    std::fs::rename(new, offset).unwrap();
}
