//! What is left of a run that is discarded, whole or damaged.

use crate::children::saved;
use crate::commands::succeeds;
use crate::plan_words::{call, question, text, with};
use crate::recovery::{flip_document, padding};
use crate::world::World;
use rusqlite::Connection;
use serde_json::{Value, json};
use tonic::Code;

/// The store of runs, while nobody serves it or beside the one who does.
fn runs_db(world: &World) -> Connection {
    Connection::open(world.directory.join("store").join("store.db")).unwrap()
}

/// Contents that are no documents of revisions.
pub(crate) fn n_payloads(world: &World) -> i64 {
    let sql = "SELECT count(*) FROM content WHERE revision IS NULL";
    runs_db(world).query_row(sql, [], |row| row.get(0)).unwrap()
}

async fn discard(world: &World, run_id: &str) -> Value {
    let request = json!({ "run_id": run_id });
    world.call("RunService/DiscardRun", request).await["run"].take()
}

#[tokio::test]
async fn s8_a_discarded_run_keeps_its_journal_and_no_payload() {
    let world = World::start().await;
    let steps = json!([
        call("large", "script.pure", json!({ "bytes": 100_000 })),
        call("small", "script.pure", json!({ "answer": { "n": 1 } })),
        question("q"),
        call("then", "script.pure", json!({ "got": "${large:/text}" }))
    ]);
    let run_id = world.run(steps).await;
    world.open_request(&run_id).await;
    let fork = json!({ "run_id": run_id });
    let fork = world.call("RunService/ForkRun", fork).await["run"].take();
    assert_eq!(n_payloads(&world), 1, "both refer to the same output");
    discard(&world, &run_id).await;
    assert_eq!(n_payloads(&world), 1, "the fork still does");

    let fork = text(&fork["run_id"]);
    let request = world.open_request(&fork).await;
    world.respond(&request, json!({ "text": "on" })).await.unwrap();
    assert_eq!(world.ended(&fork).await["state"], "completed");
    world
        .call("RunService/DeleteRun", json!({ "run_id": fork }))
        .await;
    assert_eq!(n_payloads(&world), 0);

    let run = world.get(&run_id).await;
    assert_eq!(
        (&run["state"], &run["reason"]),
        (&json!("cancelled"), &json!("discarded"))
    );
    assert_eq!(discard(&world, &run_id).await["reason"], "discarded", "again");
    let names = world.event_names(&run_id).await;
    assert_eq!(names.last().unwrap(), "run_cancelled");
    assert_eq!(world.result(&run_id, "small").await, json!({ "n": 1.0 }));
    for (method, request) in [
        ("GetStepResult", json!({ "run_id": run_id, "step_key": "large" })),
        ("ForkRun", json!({ "run_id": run_id })),
        ("ReplayRun", json!({ "run_id": run_id })),
    ] {
        let refusal = world.refusal(&format!("RunService/{method}"), request).await;
        assert_eq!(
            refusal.is(),
            (Code::FailedPrecondition, "RUN_DISCARDED"),
            "{method}"
        );
    }
    world.orchestrator.stop().await.unwrap();
}

#[tokio::test]
async fn s8_a_run_whose_plan_cannot_be_read_points_to_its_discard() {
    let mut world = World::start().await;
    let asks = with(question("q"), json!({ "description": "a text to be damaged" }));
    let run_id = world.run(json!([asks, padding()])).await;
    world.open_request(&run_id).await;
    world.kill();
    flip_document(&world.directory.join("store"), "a text to be damaged");
    world.starts().await;
    let rewind = json!({ "run_id": run_id, "step_key": "q" });
    let refused = world.refusal("RunService/RewindRun", rewind).await;
    assert_eq!(refused.is(), (Code::DataLoss, "RUN_DAMAGED"));
    assert!(refused.message.contains("DiscardRun"), "{refused:?}");
    let run = discard(&world, &run_id).await;
    assert_eq!(
        (&run["state"], &run["error"]["code"]),
        (&json!("cancelled"), &json!("RUN_DAMAGED"))
    );
    assert!(world.all_runs(json!({ "live": true })).await.is_empty());
    world.orchestrator.stop().await.unwrap();
}

/// Damages a run of which an attempt was at a worker, and starts anew.
async fn damaged(world: &mut World, sql: &str, run_id: &str) {
    world.called_times(run_id, "a", 1).await;
    // An entry behind that of the attempt.
    let checkpoint = json!({ "run_id": run_id });
    world.call("RunService/CreateCheckpoint", checkpoint).await;
    world.kill();
    let changed = runs_db(world).execute(sql, ()).unwrap();
    assert_eq!(changed, 1, "{sql}");
    world.starts().await;
    let refused = world
        .refusal("RunService/CancelRun", json!({ "run_id": run_id }))
        .await;
    assert_eq!(refused.is(), (Code::DataLoss, "RUN_DAMAGED"), "{sql}");
    assert!(refused.message.contains("DiscardRun"), "{refused:?}");
}

#[tokio::test]
async fn s7_a_damaged_run_is_discarded_and_what_is_lost_is_told() {
    let mut world = World::start().await;
    let whole = world.run(json!([question("q")])).await;
    world.open_request(&whole).await;
    // Of a damaged row nothing but the id is known.
    for (sql, is_known) in [
        (
            "UPDATE content SET bytes = x'00' WHERE place = (SELECT max(place) FROM content)",
            true,
        ),
        (
            "UPDATE journal SET entry = x'00' WHERE place = (SELECT max(place) FROM journal)",
            true,
        ),
        (
            "UPDATE run SET priority = priority + 1 WHERE number = (SELECT max(number) FROM run)",
            false,
        ),
    ] {
        let steps = json!([
            call("large", "script.pure", json!({ "bytes": 100_000 })),
            with(
                call("a", "script.pure", json!({ "gate": "never", "of": sql })),
                json!({ "description": sql })
            ),
            question("q")
        ]);
        let run_id = world.run(steps).await;
        damaged(&mut world, sql, &run_id).await;
        let run = discard(&world, &run_id).await;
        assert_eq!(
            (&run["state"], &run["reason"], &run["run_id"]),
            (&json!("cancelled"), &json!("discarded"), &json!(run_id)),
            "{run:#}"
        );
        assert_eq!(run["error"]["code"], "RUN_DAMAGED");
        let ledger = world.calls_of(&run_id);
        let execution = &ledger.last().unwrap()["execution"];
        match is_known {
            true => assert_eq!(run["orphans"], json!([execution]), "{run:#}"),
            false => assert!(
                text(&run["error"]["message"]).contains("0 of its entries"),
                "{run:#}"
            ),
        }
        let gone = world
            .refusal("RunService/GetRun", json!({ "run_id": run_id }))
            .await;
        assert_eq!(gone.is(), (Code::NotFound, "RUN_REMOVED"), "{gone:?}");
        assert!(gone.text().contains("removed"), "{gone:?}");
        assert_eq!(n_payloads(&world), 0, "{sql}");
    }
    let live = world.all_runs(json!({ "live": true })).await;
    assert_eq!(live.len(), 1, "none of them counts any more: {live:#?}");
    let request = world.open_request(&whole).await;
    world.respond(&request, json!({ "text": "on" })).await.unwrap();
    assert_eq!(world.ended(&whole).await["state"], "completed");
    // What is left is whole.
    world.kill();
    let store = world.directory.join("store");
    succeeds(&["check", "--store-path", store.to_str().unwrap()]).await;
}

#[tokio::test]
async fn s7_a_damaged_run_is_discarded_with_its_children_and_its_parent_goes_on() {
    let mut world = World::start().await;
    let inner = saved(
        &world,
        json!([call("a", "script.pure", json!({ "gate": "never" }))]),
    )
    .await;
    let retry = json!({ "max_retries": 0 });
    let sub = |plan_id: &str| json!([{ "key": "sub", "type": "sub_plan", "config": { "plan_id": plan_id }, "retry": retry }]);
    let middle = saved(&world, sub(&inner)).await;
    let top = world.run(sub(&middle)).await;
    let middle = text(&crate::children::child_of(&world, &top).await["run_id"]);
    let inner = text(&crate::children::child_of(&world, &middle).await["run_id"]);
    world.called_times(&inner, "a", 1).await;
    world.kill();
    let changed = runs_db(&world).execute(
        "UPDATE run SET priority = priority + 1 WHERE run_id = (SELECT run_id FROM run ORDER BY number LIMIT 1 OFFSET 1)",
        (),
    );
    assert_eq!(changed.unwrap(), 1);
    world.starts().await;
    let top = world.ended(&top).await;
    assert_eq!(top["error"]["code"], "CHILD_FAILED", "{top:#}");
    assert_eq!(world.ended(&inner).await["state"], "cancelled");
    assert_eq!(discard(&world, &middle).await["error"]["code"], "RUN_DAMAGED");
    assert!(world.all_runs(json!({ "live": true })).await.is_empty());
    world.orchestrator.stop().await.unwrap();
}
