//! `WatchExecution` and `ListAuditEntries`: the record of one execution, live and afterwards, without gaps.

use crate::plans::{RequestWords, WORK, plan, request, step, step_id};
use crate::status_details::reason;
use crate::world::{LIMIT, World};
use escapement_tests::ScriptedWorker;
use escapement_tests::fresh_id;
use escapement_wire::v1::audit_entry::Event;
use escapement_wire::v1::{
    AuditEntry, ListAuditEntriesRequest, PlanResult, WatchExecutionRequest, WatchExecutionResponse,
};
use serde_json::json;
use tonic::{Code, Status, Streaming};

/// Watches an execution from a sequence number.
pub(crate) async fn watch(
    world: &World,
    execution_id: &str,
    from_sequence: i64,
) -> Result<Streaming<WatchExecutionResponse>, Status> {
    watch_after(world, execution_id, from_sequence, &[]).await
}

/// The same, behind an entry with this hash.
async fn watch_after(
    world: &World,
    execution_id: &str,
    from_sequence: i64,
    after_hash: &[u8],
) -> Result<Streaming<WatchExecutionResponse>, Status> {
    let request = WatchExecutionRequest {
        execution_id: execution_id.to_owned(),
        from_sequence,
        after_hash: after_hash.to_vec(),
    };
    Ok(world
        .orchestrator
        .plans()
        .watch_execution(request)
        .await?
        .into_inner())
}

/// Waits until a worker said that the handler of a step runs.
pub(crate) async fn wait_for_started(world: &World, execution_id: &str, number: usize) {
    let accepted = async || watch(world, execution_id, 1).await.ok();
    let mut entries = escapement_tests::wait_for("the execution", LIMIT, accepted)
        .await
        .unwrap();
    loop {
        let entry = next(&mut entries)
            .await
            .expect("the step starts before the end")
            .entry
            .unwrap();
        if matches!(entry.event, Some(Event::AttemptStarted(started)) if started.step_id == step_id(number)) {
            return;
        }
    }
}

async fn next(entries: &mut Streaming<WatchExecutionResponse>) -> Option<WatchExecutionResponse> {
    tokio::time::timeout(LIMIT, entries.message())
        .await
        .expect("an entry within the limit")
        .unwrap()
}

/// Reads a stream to its end, which must bring the result with the last entry and with no other.
async fn read_to_the_end(mut entries: Streaming<WatchExecutionResponse>) -> (Vec<AuditEntry>, PlanResult) {
    let mut read = Vec::new();
    let mut result = None;
    while let Some(response) = next(&mut entries).await {
        assert_eq!(result, None, "the result comes with the last entry");
        read.push(response.entry.unwrap());
        result = response.result;
    }
    (read, result.expect("the last entry brings the result"))
}

//
#[tokio::test]
async fn watching_live_shows_what_the_record_holds_afterwards() {
    let world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let request = request(plan([step(0, WORK), step(1, WORK)]));
    let id = request.id();
    world.submit(&request).await;
    let from_the_start = tokio::spawn(read_to_the_end(watch(&world, &id, 0).await.unwrap()));
    worker.complete_next(json!({})).await;
    let so_far = world.record_of(&id).await.len();
    let from_the_middle = tokio::spawn(read_to_the_end(watch(&world, &id, 3).await.unwrap()));
    let from_the_future = tokio::spawn(read_to_the_end(
        watch(&world, &id, i64::try_from(so_far).unwrap() + 1)
            .await
            .unwrap(),
    ));
    worker.complete_next(json!({})).await;

    let (seen, result) = from_the_start.await.unwrap();
    let record = world.record_of(&id).await;
    assert_eq!(seen, record);
    assert_eq!(result, world.result_of(&id).await);
    assert!(
        record
            .iter()
            .map(|entry| entry.sequence)
            .eq(1..=i64::try_from(record.len()).unwrap())
    );
    assert_eq!(
        from_the_middle.await.unwrap(),
        (record[2..].to_vec(), result.clone())
    );
    assert_eq!(
        from_the_future.await.unwrap(),
        (record[so_far..].to_vec(), result)
    );
}

#[tokio::test]
async fn watching_after_the_end_shows_the_same_from_any_place_and_always_the_result() {
    let mut world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let request = request(plan([step(0, WORK)]));
    let id = request.id();
    world.submit(&request).await;
    worker.complete_next(json!({})).await;
    let result = world.result_of(&id).await;
    let record = world.record_of(&id).await;
    let n = i64::try_from(record.len()).unwrap();
    for restarted in [false, true] {
        for (from, skipped) in [
            (0, 0),
            (1, 0),
            (4, 3),
            (n, record.len() - 1),
            (n + 1, record.len() - 1),
        ] {
            let read = read_to_the_end(watch(&world, &id, from).await.unwrap()).await;
            assert_eq!(
                read,
                (record[skipped..].to_vec(), result.clone()),
                "from {from}, restarted: {restarted}"
            );
        }
        world.crash_and_restart().await;
    }
}

#[tokio::test]
async fn a_watcher_that_goes_on_learns_whether_a_crash_took_back_what_it_saw() {
    let mut world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let request = request(plan([step(0, WORK), step(1, WORK)]));
    let id = request.id();
    world.submit(&request).await;
    let mut entries = watch(&world, &id, 1).await.unwrap();
    worker.complete_next(json!({})).await;
    let mut seen = Vec::new();
    while seen.len() < 6 {
        seen.extend(next(&mut entries).await.unwrap().entry);
    }
    let go_on = async |world: &World, n_seen: usize| {
        let from = i64::try_from(n_seen).unwrap() + 1;
        watch_after(world, &id, from, &seen[n_seen - 1].hash).await
    };
    let mut entries = go_on(&world, 5).await.unwrap();
    assert_eq!(next(&mut entries).await.unwrap().entry.as_ref(), Some(&seen[5]));
    world.crash_and_restart().await;
    for n_seen in 3..=6 {
        let told = go_on(&world, n_seen).await.map(drop).unwrap_err();
        assert_eq!(reason(&told, Code::Aborted), "RECORD_REWRITTEN", "after {n_seen}");
    }
    // What is durable at once stays.
    let (rest, result) = read_to_the_end(go_on(&world, 2).await.unwrap()).await;
    assert_eq!(rest, world.record_of(&id).await[2..]);
    assert_eq!(result, world.result_of(&id).await);
    let not_a_hash = watch_after(&world, &id, 2, &[1; 31]).await.map(drop).unwrap_err();
    assert_eq!(not_a_hash.code(), Code::InvalidArgument);
    let of_nothing = watch_after(&world, &id, 1, &[1; 32]).await.map(drop).unwrap_err();
    assert_eq!(of_nothing.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn a_record_is_listed_in_pages_without_gap_or_repeat() {
    let world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let request = request(plan([step(0, WORK)]));
    let id = request.id();
    world.submit(&request).await;
    worker.complete_next(json!({})).await;
    world.result_of(&id).await;
    let whole = world.record_of(&id).await;
    let mut paged = Vec::new();
    let mut from_sequence = 0;
    loop {
        let request = ListAuditEntriesRequest {
            execution_id: id.clone(),
            from_sequence,
            page_size: Some(3),
        };
        let page = world
            .orchestrator
            .plans()
            .list_audit_entries(request)
            .await
            .unwrap()
            .into_inner();
        assert!(page.entries.len() <= 3);
        paged.extend(page.entries);
        if page.next_sequence == 0 {
            break;
        }
        from_sequence = page.next_sequence;
    }
    assert_eq!(paged, whole);
    for page_size in [0, -1, 1_001] {
        let request = ListAuditEntriesRequest {
            execution_id: id.clone(),
            from_sequence: 1,
            page_size: Some(page_size),
        };
        let refused = world
            .orchestrator
            .plans()
            .list_audit_entries(request)
            .await
            .unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "page size {page_size}");
    }
}

#[tokio::test]
async fn an_execution_that_was_never_accepted_has_no_record() {
    let world = World::start().await;
    let unknown = match watch(&world, &fresh_id(), 1).await {
        Ok(mut entries) => entries.message().await.unwrap_err(),
        Err(status) => status,
    };
    assert_eq!(reason(&unknown, Code::NotFound), "EXECUTION_NOT_FOUND");
    let request = ListAuditEntriesRequest {
        execution_id: fresh_id(),
        ..ListAuditEntriesRequest::default()
    };
    let unknown = world
        .orchestrator
        .plans()
        .list_audit_entries(request)
        .await
        .unwrap_err();
    assert_eq!(reason(&unknown, Code::NotFound), "EXECUTION_NOT_FOUND");
}
