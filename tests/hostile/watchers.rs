//! Very many watchers of one execution, half of whom never read. The others get everything, and the process stays small.

use crate::den::{Den, LIMIT, scale};
use crate::frames::{INITIAL_WINDOW_SIZE, WATCH, setting, whole_call};
use crate::large::{PLAIN, Tireless, large_record, plan_of, settled};
use crate::wire::{Flood, Wire};
use escapement_tests::plans::{self, RequestWords};
use escapement_tests::{ScriptedWorker, calls, wait_for};
use escapement_wire::v1::plan_execution_service_client::PlanExecutionServiceClient;
use escapement_wire::v1::{
    AuditEntry, ExecutePlanRequest, PlanResult, SubmitPlanRequest, WatchExecutionRequest,
    WatchExecutionResponse,
};
use prost::Message as _;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};

/// A plan of steps without order.
fn long_plan(n_steps: usize) -> SubmitPlanRequest {
    let steps = (0..n_steps).map(|number| plans::step(number, "watched"));
    plans::request(plans::plan(steps)).as_submission()
}

async fn watch(
    channel: &Channel,
    execution_id: &str,
    from_sequence: i64,
) -> Streaming<WatchExecutionResponse> {
    let request = WatchExecutionRequest {
        execution_id: execution_id.to_owned(),
        from_sequence,
        ..WatchExecutionRequest::default()
    };
    let mut plans = PlanExecutionServiceClient::new(channel.clone()).max_decoding_message_size(32 << 20);
    plans.watch_execution(request).await.unwrap().into_inner()
}

/// Reads to the end, which must bring the result with the last entry.
async fn read(mut entries: Streaming<WatchExecutionResponse>) -> (Vec<AuditEntry>, PlanResult) {
    let mut read = Vec::new();
    loop {
        let next = tokio::time::timeout(4 * LIMIT, entries.message());
        let next = next.await.expect("an entry within the limit").unwrap();
        let next = next.expect("the result comes before the end");
        read.extend(next.entry);
        if let Some(result) = next.result {
            assert!(
                entries.message().await.unwrap().is_none(),
                "nothing follows the result"
            );
            return (read, result);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_watchers_of_whom_half_never_read() {
    let den = Den::start().await;
    let (n_watchers, n_steps) = (scale(1_000, 10_000), scale(20, 50));
    let per_connection = 100;
    let request = long_plan(n_steps);
    let id = request.execution_id.clone().unwrap();
    let channel = den.channel().await;
    let mut plans = PlanExecutionServiceClient::new(channel.clone());
    plans.submit_plan(request).await.unwrap();

    let before = den.size();
    // Those who never read: some take nothing at all, some a little, and none empties its socket.
    let question = WatchExecutionRequest {
        execution_id: id.clone(),
        from_sequence: 1,
        ..WatchExecutionRequest::default()
    }
    .encode_to_vec();
    let mut deaf = Vec::new();
    for n in 0..n_watchers / 2 / per_connection {
        let window = [0, 1_024, 65_535][n % 3];
        let mut wire = Wire::with_settings(den.address(), &setting(INITIAL_WINDOW_SIZE, window)).await;
        let bytes: Vec<u8> = (0..per_connection)
            .flat_map(|n| whole_call(WATCH, 2 * u32::try_from(n).unwrap() + 1, &question))
            .collect();
        assert_eq!(wire.flood_deaf(&bytes).await, Flood::Sent);
        deaf.push(wire);
    }
    let n_begun = Arc::new(AtomicUsize::new(0));
    let mut readers = JoinSet::new();
    for n in 0..n_watchers / 2 / per_connection {
        let channel = den.channel().await;
        for m in 0..per_connection {
            let (channel, id, n_begun) = (channel.clone(), id.clone(), Arc::clone(&n_begun));
            // Not all from the start.
            let from = if (n + m) % 10 == 0 { 2 } else { 1 };
            readers.spawn(async move {
                let entries = watch(&channel, &id, from).await;
                n_begun.fetch_add(1, Ordering::Relaxed);
                (from, read(entries).await)
            });
        }
    }
    let all_begun = async || (n_begun.load(Ordering::Relaxed) == n_watchers / 2).then_some(());
    wait_for("all watchers", 4 * LIMIT, all_begun).await.unwrap();
    let watched = den.size();

    let mut worker = ScriptedWorker::connect(&den.orchestrator, &["watched"], 4).await;
    worker.keep_alive(Duration::from_secs(2));
    for _ in 0..n_steps {
        worker.complete_next(json!({})).await;
    }
    let result = calls::result_of(plans.clone(), &id, LIMIT).await.unwrap();
    let record = calls::record_of(plans, &id).await.unwrap();
    assert!(record.len() > 4 * n_steps);
    while let Some(seen) = readers.join_next().await {
        let (from, (entries, seen)) = seen.unwrap();
        assert_eq!(entries, record[from_index(from)..]);
        assert_eq!(seen, result);
    }
    let after = den.size();
    eprintln!(
        "{n_watchers} watchers, {} entries: {} MiB before, {} with watchers, {} at the end; {} KiB a watcher",
        record.len(),
        before.resident_mib,
        watched.resident_mib,
        after.resident_mib,
        (after.peak_mib.saturating_sub(before.resident_mib) << 10) / n_watchers as u64,
    );
    worker.goodbye().await;
    drop((deaf, channel));
    den.finish("watchers", scale(160, 900)).await;
}

fn from_index(from: i64) -> usize {
    usize::try_from(from).unwrap() - 1
}

/// Whoever reads only when all is over gets the rest from the store, without gap or repeat, to the result.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watcher_may_read_as_slowly_as_it_likes() {
    let den = Den::start().await;
    let n_steps = scale(200, 1_000);
    let request = long_plan(n_steps);
    let id = request.execution_id.clone().unwrap();
    let channel = den.channel().await;
    let mut plans = PlanExecutionServiceClient::new(channel.clone());
    plans.submit_plan(request).await.unwrap();
    let narrow = || async {
        let endpoint = Endpoint::from_shared(den.orchestrator.url()).unwrap();
        let endpoint = endpoint.initial_stream_window_size(1_024);
        endpoint.connect().await.unwrap()
    };
    let mut slow = Vec::new();
    for from in [1, 3, 10] {
        let mut entries = watch(&narrow().await, &id, from).await;
        if from == 1 {
            let first = entries.message().await.unwrap().unwrap();
            assert_eq!(first.entry.unwrap().sequence, 1);
        }
        slow.push((from, entries));
    }
    let mut worker = ScriptedWorker::connect(&den.orchestrator, &["watched"], 8).await;
    worker.keep_alive(Duration::from_secs(2));
    for _ in 0..n_steps {
        worker.complete_next(json!({})).await;
    }
    let result = calls::result_of(plans.clone(), &id, LIMIT).await.unwrap();
    let record = calls::record_of(plans, &id).await.unwrap();
    for (from, entries) in slow {
        let (entries, seen) = read(entries).await;
        let seen_before = usize::from(from == 1);
        assert_eq!(entries, record[from_index(from) + seen_before..], "from {from}");
        assert_eq!(seen, result);
    }
    worker.goodbye().await;
    den.finish("slow watchers", 128).await;
}

/// A watcher that waits for an entry beyond the end gets the end when that is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watcher_that_waits_beyond_the_end_gets_the_result() {
    let den = Den::start().await;
    let request = long_plan(1);
    let id = request.execution_id.clone().unwrap();
    let channel = den.channel().await;
    let mut plans = PlanExecutionServiceClient::new(channel.clone());
    plans.submit_plan(request).await.unwrap();
    let entries = watch(&channel, &id, 1_000).await;
    let mut worker = ScriptedWorker::connect(&den.orchestrator, &["watched"], 1).await;
    worker.complete_next(json!({})).await;
    let (last, _result) = read(entries).await;
    assert_eq!(last.len(), 1);
    worker.goodbye().await;
    drop((channel, plans));
    den.finish("a watcher beyond the end", 64).await;
}

/// A record of some 20 MiB, which many watch and do not read and a few read as fast as they can:
/// each holds little, and callers that ask for other results, which only the store has, are answered meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watchers_of_a_large_settled_record_leave_room_for_other_callers() {
    let den = Den::start_alone(|settings| settings).await;
    let worker = Tireless::start(den.address()).await;
    let id = large_record(&den).await;
    let others = plan_of(&[PLAIN], false);
    settled(&den, others.clone()).await;
    drop(worker);
    let before = den.measure();
    let question = WatchExecutionRequest {
        execution_id: id.clone(),
        from_sequence: 1,
        ..WatchExecutionRequest::default()
    };
    let mut deaf = Vec::new();
    for n in 0..scale(4, 20) {
        let window = [0, 65_535][n % 2];
        let mut wire = Wire::with_settings(den.address(), &setting(INITIAL_WINDOW_SIZE, window)).await;
        for stream in 0..10 {
            let call = whole_call(WATCH, 2 * stream + 1, &question.encode_to_vec());
            assert_eq!(wire.flood_deaf(&call).await, Flood::Sent);
        }
        deaf.push(wire);
    }
    let mut readers = JoinSet::new();
    for _ in 0..2 {
        let mut entries = watch(&den.channel().await, &id, 1).await;
        readers.spawn(async move { while let Ok(Some(_)) = entries.message().await {} });
    }
    let mut plans = PlanExecutionServiceClient::new(den.channel().await);
    let mut took = Vec::new();
    for _ in 0..20 {
        let begin = Instant::now();
        let repeat = ExecutePlanRequest {
            plan: others.plan.clone(),
            environment: others.environment.clone(),
            execution_id: others.execution_id.clone(),
            options: others.options,
            ..ExecutePlanRequest::default()
        };
        plans.execute_plan(repeat).await.unwrap();
        took.push(begin.elapsed());
    }
    took.sort();
    eprintln!(
        "a large settled record: {} MiB before, {} at most; 20 repeats of another, median {:?}, most {:?}",
        before.resident_mib,
        den.size().peak_mib,
        took[10],
        took[19]
    );
    assert!(took[10] < Duration::from_millis(500), "{took:?}");
    readers.shutdown().await;
    drop((deaf, plans));
    den.finish("watchers of a large settled record", 700).await;
}
