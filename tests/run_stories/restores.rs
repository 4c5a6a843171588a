//! Backups that are made beside runs under way, and what a restore makes of them.

use crate::commands::succeeds;
use crate::plan_words::{call, question};
use crate::world::World;
use serde_json::{Value, json};

#[tokio::test]
async fn s77_what_ran_during_a_backup_is_asked_about_after_the_restore() {
    let mut world = World::start().await;
    let steps = json!([
        call("done", "script.effect", json!({ "answer": { "n": 1 } })),
        call(
            "open",
            "script.effect",
            json!({ "gate": "open", "answer": { "n": 2 } })
        ),
        call("then", "script.effect", json!({ "answer": { "n": 3 } })),
    ]);
    let run_id = world.run(steps).await;
    world.called_times(&run_id, "open", 1).await;
    let (store, backup) = (world.directory.join("store"), world.directory.join("backup"));
    let (at, file) = (store.to_str().unwrap(), backup.to_str().unwrap());
    succeeds(&["backup", "--store-path", at, "--to", file]).await;
    world.kill();
    std::fs::rename(&store, world.directory.join("lost")).unwrap();
    succeeds(&["restore", "--from", file, "--store-path", at]).await;
    world.worker_goes();
    world.shared.open("open");
    world.starts().await;
    world.worker_comes().await;

    let run = world.in_state(&run_id, "paused").await;
    assert_eq!(run["completed_steps"], 1, "{run:#}");
    world
        .call("RunService/ResumeRun", json!({ "run_id": run_id }))
        .await;
    let request = world.open_request(&run_id).await;
    assert_eq!(request["kind"], "ambiguous_effect");
    let happened = json!({ "effect": { "happened": { "output": { "n": 2 } } } });
    world.respond(&request, happened).await.unwrap();
    assert_eq!(world.ended(&run_id).await["output"], json!({ "n": 3.0 }));
    assert_eq!(
        world.called(&run_id),
        ["done", "open", "then"],
        "nothing runs twice"
    );
    world.close().await;
}

/// Puts the runs of one store in the place of those of another.
fn put_runs(from: &std::path::Path, to: &std::path::Path) {
    let is_of_runs = |name: &str| name.starts_with("runs.");
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        if entry.file_name().to_str().is_some_and(is_of_runs) {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

#[tokio::test]
async fn s77_what_settled_behind_the_runs_of_a_backup_is_adopted_after_the_restore() {
    // One backup has runs and executions. Without these a run asks what became of its attempt.
    let mut world = World::start().await;
    let steps = json!([
        call(
            "open",
            "script.effect",
            json!({ "gate": "open", "answer": { "n": 2 } })
        ),
        question("q"),
    ]);
    let run_id = world.run(steps).await;
    world.called_times(&run_id, "open", 1).await;
    // A backup has the executions of a moment behind that of its runs; two backups make that moment long.
    let path = |name: &str| world.directory.join(name).to_str().unwrap().to_owned();
    let (store, early, late) = (path("store"), path("early"), path("late"));
    succeeds(&["backup", "--store-path", &store, "--to", &early]).await;
    world.shared.open("open");
    world.open_request(&run_id).await;
    succeeds(&["backup", "--store-path", &store, "--to", &late]).await;
    world.kill();
    std::fs::rename(&store, world.directory.join("lost")).unwrap();
    let runs = world.directory.join("runs");
    succeeds(&[
        "restore",
        "--from",
        &early,
        "--store-path",
        runs.to_str().unwrap(),
    ])
    .await;
    succeeds(&["restore", "--from", &late, "--store-path", &store]).await;
    put_runs(&runs, store.as_ref());
    world.starts().await;

    world.in_state(&run_id, "paused").await;
    let is_adopted = |run: &Value| run["state"] == "paused" && run["completed_steps"] == 1;
    world.until(&run_id, "what had settled", is_adopted).await;
    assert_eq!(world.result(&run_id, "open").await, json!({ "n": 2.0 }));
    world
        .call("RunService/ResumeRun", json!({ "run_id": run_id }))
        .await;
    let request = world.open_request(&run_id).await;
    assert_eq!(request["kind"], "question");
    world.respond(&request, json!({ "text": "on" })).await.unwrap();
    assert_eq!(world.ended(&run_id).await["state"], "completed");
    assert_eq!(world.called(&run_id), ["open"], "nothing runs twice");
    world.close().await;
}
