//! The mandatory actions in their order, and that a result is durable before anybody hears of it.

use crate::events::{next_event, subscribe};
use crate::plans::{RequestWords, echo, plan, request};
use crate::world::World;
use escapement_wire::v1::PlanResult;
use escapement_wire::v1::execution::State;
use prost::Message;
use rusqlite::{Connection, OpenFlags, OptionalExtension};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Returns the SQLite file of executions.
fn store_file(world: &World) -> PathBuf {
    world.directory.join("store/store.db")
}

/// Returns the result of an execution as its bytes stand in the file, read by a process that is not the orchestrator.
fn stored_result(file: &Path, execution_id: &str) -> Option<PlanResult> {
    let digits: String = execution_id.chars().filter(|digit| *digit != '-').collect();
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags).unwrap();
    let query = "SELECT record.result FROM execution JOIN settled_record AS record USING (number) \
                 WHERE lower(hex(execution_id)) = ?1";
    let row: Option<Vec<u8>> = connection
        .query_row(query, [digits], |row| row.get(0))
        .optional()
        .unwrap();
    row.map(|bytes| PlanResult::decode(bytes.as_slice()).unwrap())
}

//
#[tokio::test]
async fn whoever_hears_of_a_result_finds_it_in_the_store_already() {
    let world = World::start().await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    let file = store_file(&world);
    let mut events = subscribe(&world, &[]).await;
    for n in 0..20 {
        let request = request(plan([echo(0, json!({ "n": n.to_string() }))]));
        let id = request.id();
        let call = world.executing(request);
        let event = next_event(&mut events).await;
        assert_eq!(event.id, id);
        assert_eq!(
            stored_result(&file, &id),
            event.data,
            "the event tells of what is durable"
        );
        let execution = world.execution(&id).await;
        assert_eq!(
            (execution.state(), &execution.result),
            (State::Settled, &event.data)
        );
        let returned = call.await.unwrap().unwrap();
        assert_eq!(
            Some(returned),
            event.data,
            "what is returned is what was persisted"
        );
    }
}

//
#[tokio::test]
async fn a_result_that_was_returned_survives_a_kill_right_after() {
    let mut world = World::start().await;
    for _ in 0..3 {
        let _worker = world.stock_worker("stock", |settings| settings).await;
        let mut calls = Vec::new();
        for _ in 0..8 {
            let request = request(plan([echo(0, json!({ "kept": true }))]));
            calls.push((request.id(), world.executing(request)));
        }
        let mut returned = Vec::new();
        for (id, call) in calls {
            returned.push((id, call.await.unwrap().unwrap()));
        }
        world.crash_and_restart().await;
        for (id, result) in returned {
            assert_eq!(world.execution(&id).await.result, Some(result));
        }
    }
}
