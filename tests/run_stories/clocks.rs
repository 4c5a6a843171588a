//! Clocks that are set under a running process or between two, a process that stands still, and a disk that is full for a while:
//! no run ends by a limit that it has not reached, and none waits longer than it said.

use crate::plan_words::{call, document, question, with};
use crate::world::World;
use escapement_tests::clock_layer::WallClock;
use escapement_tests::fault_layer::FaultLayer;
use escapement_tests::{OrchestratorSettings, PrivateDirectory, let_pass};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::time::Duration;

const HOUR_S: i64 = 3_600;
const YEARS_S: i64 = 10 * 365 * 24 * HOUR_S;

/// A world whose process looks at the clock.
async fn on(clock: &WallClock) -> World {
    World::start_with(|settings: OrchestratorSettings| {
        let variables = clock.variables().into_iter();
        variables.fold(settings, |settings, (name, value)| {
            settings.variable(name, value.display())
        })
    })
    .await
}

fn retried(backoff_ms: u64) -> Value {
    let flaky = call("a", "script.pure", json!({ "each": [{ "fail": "SHAKY" }, {}] }));
    let retry = json!({ "max_retries": 1, "backoff_ms": backoff_ms });
    json!([with(flaky, json!({ "retry": retry }))])
}

fn gated(gate: &str) -> Value {
    json!([
        call("a", "script.pure", json!({ "gate": gate })),
        call("then", "script.pure", json!({}))
    ])
}

// RUN-7.8, RUN-5.3, RUN-6.6, RUN-2.5
#[tokio::test]
async fn a_clock_that_is_set_under_a_running_process_moves_no_limit_and_stops_none() {
    let directory = PrivateDirectory::new("clock").unwrap();
    let clock = WallClock::new(directory.path()).unwrap();
    let world = on(&clock).await;
    let limits = json!({ "watchdog_ms": 30_000, "run_ms": 60_000 });
    for (n, off_s) in [40, -40, HOUR_S, 0, -HOUR_S, YEARS_S, 0, -YEARS_S]
        .into_iter()
        .enumerate()
    {
        let gate = format!("gate {n}");
        let executes = json!({ "document": document(gated(&gate)), "limits": limits });
        let executes = world.create(executes).await;
        world.until_calls(&executes, 1).await;
        clock.set(off_s).unwrap();
        // These would be made, or be due, by a clock that jumps or stands still.
        let retries = world.run(retried(500)).await;
        let asks = json!([question("q")]);
        let asks = json!({ "document": document(asks), "limits": { "question_ms": 1_000 } });
        let asks = world.create(asks).await;
        let hangs = json!([call("a", "script.pure", json!({ "hang": true }))]);
        let lives = json!({ "document": document(hangs), "limits": { "lifetime_ms": 1_500 } });
        let lives = world.create(lives).await;
        assert_eq!(world.ended(&retries).await["state"], "completed", "{off_s}");
        assert_eq!(world.ended(&lives).await["state"], "timeout", "{off_s}");
        assert_eq!(world.ended(&asks).await["state"], "failed", "{off_s}");
        assert_eq!(world.get(&executes).await["state"], "running", "{off_s}");
        world.shared.open(&gate);
        let ended = world.ended(&executes).await;
        assert_eq!(ended["state"], "completed", "{off_s}: {ended:#}");
    }
    world.close().await;
}

// RUN-7.8, RUN-5.3
#[tokio::test]
async fn no_delay_is_longer_after_a_start_whose_clock_is_behind() {
    let directory = PrivateDirectory::new("clock").unwrap();
    let clock = WallClock::new(directory.path()).unwrap();
    let mut world = on(&clock).await;
    for off_s in [-HOUR_S, -YEARS_S] {
        clock.set(0).unwrap();
        world.crash().await;
        let backs_off = world.run(retried(4_000)).await;
        world.until_ends(&backs_off, 1).await;
        world.step_in(&backs_off, "a", "pending").await;
        world.kill();
        clock.set(off_s).unwrap();
        world.starts().await;
        assert_eq!(world.ended(&backs_off).await["state"], "completed", "{off_s}");
    }
    world.close().await;
}

// RUN-7.2, RUN-7.5
#[tokio::test]
async fn a_process_that_stands_still_ends_no_run_by_a_limit() {
    let mut world = World::start().await;
    let limits = json!({ "watchdog_ms": 3_000 });
    let mut runs = Vec::new();
    for gate in ["while it stands", "afterwards"] {
        let request = json!({ "document": document(gated(gate)), "limits": limits });
        let run_id = world.create(request).await;
        world.until_calls(&run_id, 1).await;
        runs.push(run_id);
    }
    world.orchestrator.process.signal(Signal::STOP).unwrap();
    world.shared.open("while it stands");
    let_pass(Duration::from_millis(4_500)).await;
    world.orchestrator.process.signal(Signal::CONT).unwrap();
    assert_eq!(world.ended(&runs[0]).await["state"], "completed");
    world.shared.open("afterwards");
    assert_eq!(world.ended(&runs[1]).await["state"], "completed");
    let names = world.event_names(&runs[1]).await;
    assert!(names.iter().any(|name| name == "run_stalled"), "{names:?}");
    world.close().await;
}

// RUN-7.2, RUN-7.5
#[tokio::test]
async fn a_full_disk_ends_no_run_by_a_limit() {
    let directory = PrivateDirectory::new("full").unwrap();
    let disk = directory.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let layer = FaultLayer::new(&directory.path().join("control"), &disk).unwrap();
    let world = World::start_with(|settings| layer.under(settings.at(&disk))).await;
    let limits = json!({ "watchdog_ms": 3_000 });
    let mut runs = Vec::new();
    for n in 0..6 {
        let gate = if n % 2 == 0 {
            "while it is full"
        } else {
            "afterwards"
        };
        let request = json!({ "document": document(gated(gate)), "limits": limits });
        let run_id = world.create(request).await;
        world.until_calls(&run_id, 1).await;
        runs.push(run_id);
    }
    layer.set_full(true).unwrap();
    world.shared.open("while it is full");
    let_pass(Duration::from_millis(6_000)).await;
    layer.set_full(false).unwrap();
    for run_id in runs.iter().step_by(2) {
        assert_eq!(world.ended(run_id).await["state"], "completed");
    }
    world.shared.open("afterwards");
    for run_id in &runs {
        assert_eq!(world.ended(run_id).await["state"], "completed");
    }
    world.close().await;
}
