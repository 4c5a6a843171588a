//! The mandatory actions in their order, and that a result is durable before anybody hears of it.

use crate::events::{next_event, subscribe};
use crate::plans::{RequestWords, StepWords, echo, fail, plan, request, step_id};
use crate::story::mandatory_actions;
use crate::world::World;
use escapement_wire::v1::audit_entry::Event;
use escapement_wire::v1::execution::State;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::plan_step::OnFailure;
use escapement_wire::v1::{AuditEntry, Plan, PlanResult};
use prost::Message;
use rusqlite::{Connection, OpenFlags, OptionalExtension};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Executes a plan and gives its record, after checking what every record keeps.
async fn record_after(world: &World, plan: Plan, status: Status) -> Vec<AuditEntry> {
    let request = request(plan);
    let id = request.id();
    assert_eq!(world.execute(request).await.status(), status);
    let record = world.record_of(&id).await;
    //
    assert!(
        record
            .iter()
            .map(|entry| entry.sequence)
            .eq(1..=i64::try_from(record.len()).unwrap())
    );
    assert!(record.is_sorted_by_key(|entry| entry.at));
    let Some(Event::Settled(settled)) = &record.last().unwrap().event else {
        panic!("the last entry is not `settled`: {record:?}");
    };
    assert_eq!(settled.status(), status);
    assert!(matches!(record[0].event, Some(Event::Accepted(_))));
    record
}

fn incomplete_steps(record: &[AuditEntry]) -> Vec<String> {
    let mut lists = record
        .iter()
        .filter_map(|entry| match entry.event.as_ref().unwrap() {
            Event::StepsIncomplete(list) => Some(list.step_ids.clone()),
            _ => None,
        });
    let list = lists.next().unwrap();
    assert_eq!(lists.next(), None);
    list
}

//
#[tokio::test]
async fn a_success_carries_out_the_actions_of_5_1_in_their_order() {
    let world = World::start().await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    let record = record_after(&world, plan([echo(0, json!({}))]), Status::Success).await;
    let expected = [
        "1 validate_completion",
        "2 capture_metadata",
        "3 set_success_status",
        "4 persist_result",
        "5 emit_completion_event",
        "6 update_plan_state",
        "7 release_resources",
        "8 return_result",
    ];
    assert_eq!(mandatory_actions(&record, "5.1"), expected);
}

//
#[tokio::test]
async fn a_partial_carries_out_the_actions_of_5_2_in_their_order() {
    let world = World::start().await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    let skip = OnFailure::Skip;
    let steps = [
        fail(0, "BUSY").on_failure(skip),
        echo(1, json!({})),
        echo(2, json!({})).after(&[0]).on_failure(skip),
    ];
    let record = record_after(&world, plan(steps), Status::Partial).await;
    let expected = [
        "1 classify_failure",
        "2 aggregate_errors",
        "3 validate_partial_progress",
        "4 preserve_output",
        "5 capture_metadata",
        "6 set_partial_status",
        "7 persist_result",
        "8 emit_partial_event",
        "9 mark_incomplete",
        "0 update_plan_state",
        "0 release_resources",
        "10 return_result",
    ];
    assert_eq!(mandatory_actions(&record, "5.2"), expected);
    assert_eq!(incomplete_steps(&record), [step_id(0), step_id(2)]);
}

//
#[tokio::test]
async fn a_failure_carries_out_the_actions_of_5_3_in_their_order() {
    let world = World::start().await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    let steps = [echo(0, json!({})), fail(1, "BROKEN"), echo(2, json!({}))];
    let record = record_after(&world, plan(steps), Status::Failure).await;
    let expected = [
        "1 identify_failure_cause",
        "2 classify_severity",
        "3 halt_execution",
        "4 capture_failure_context",
        "5 truncate_result",
        "6 validate_consistency",
        "7 set_error",
        "8 set_failure_status",
        "9 persist_result",
        "10 emit_failure_event",
        "11 release_resources",
        "12 notify_error_handler",
        "0 update_plan_state",
        "13 return_result",
    ];
    assert_eq!(mandatory_actions(&record, "5.3"), expected);
    assert_eq!(incomplete_steps(&record), [step_id(1), step_id(2)]);
}

/// The SQLite file of a store.
fn store_file(world: &World) -> PathBuf {
    let folder = world.directory.join("store");
    let mut files = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let is_store =
        |path: &PathBuf| std::fs::read(path).is_ok_and(|bytes| bytes.starts_with(b"SQLite format 3\0"));
    files
        .find(is_store)
        .expect("the store's directory holds a SQLite file")
}

/// The result of an execution as its bytes stand in the file, read by a process that is not the orchestrator.
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
