//! Queues that do not fit into memory: what waits stands on the disk, runs in its order, and survives a kill.

use crate::plans::{RequestWords, StepWords, WORK, plan, request, step};
use crate::status_details::reason;
use crate::world::World;
use escapement_sdk::{StepContext, Worker};
use escapement_tests::{OrchestratorSettings, ScriptedWorker, wait_for};
use escapement_wire::v1::execution::State;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::{
    ExecutePlanRequest, Execution, ListExecutionsRequest, Plan, WaitExecutionRequest, WatchExecutionRequest,
};
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::{JoinHandle, JoinSet};
use tonic::Code;

/// Submissions at a time; nothing is known of their order among each other.
const TOGETHER: usize = 64;

/// How much of everything.
struct Size {
    n_plans: usize,
    in_memory_max: usize,
    running_max: usize,
    /// Of the whole process, at any time.
    resident_kib_max: u64,
    limit: Duration,
}

impl Size {
    /// `ESCAPEMENT_LONG=1` is for the million, a larger number for so many.
    fn of_this_run() -> Self {
        if let Ok(wanted) = std::env::var("ESCAPEMENT_LONG") {
            let n_plans = wanted.parse().unwrap_or(1);
            Self {
                n_plans: if n_plans > 1 { n_plans } else { 1_000_000 },
                in_memory_max: 10_000,
                running_max: 256,
                resident_kib_max: 512 << 10,
                limit: Duration::from_secs(7_200),
            }
        } else {
            Self {
                n_plans: 2_000,
                in_memory_max: 16,
                running_max: 4,
                resident_kib_max: 120 << 10,
                limit: Duration::from_secs(120),
            }
        }
    }

    fn settings(&self, settings: OrchestratorSettings) -> OrchestratorSettings {
        settings
            .flag("--max-queued-in-memory", self.in_memory_max)
            .flag("--max-running-executions", self.running_max)
            .flag("--max-queued-executions", 10_000_000)
            .flag("--queue-allowance-ms", 86_400_000)
            .flag("--registration-grace-ms", 86_400_000)
    }

    /// Priorities follow each other in a wheel, so that the last that came is among the first to go.
    fn priority(number: usize) -> i32 {
        i32::try_from(number % 3).unwrap()
    }

    /// Highest priority first, then age.
    fn expected_order(&self) -> Vec<usize> {
        let mut numbers: Vec<usize> = (0..self.n_plans).collect();
        numbers.sort_by_key(|number| (-Self::priority(*number), *number));
        numbers
    }
}

fn numbered(number: usize) -> ExecutePlanRequest {
    let step = step(0, "count").payload(json!({ "number": number }));
    request(Plan {
        priority: Some(Size::priority(number)),
        ..plan([step])
    })
}

/// Submits them all, some at a time; gives how many were queued.
async fn submit_all(world: &World, size: &Size) -> usize {
    let mut n_queued = 0;
    let mut next = 0;
    while next < size.n_plans {
        let mut calls = JoinSet::new();
        for number in next..size.n_plans.min(next + TOGETHER) {
            let mut plans = world.orchestrator.plans();
            let request = numbered(number).as_submission();
            calls.spawn(async move { plans.submit_plan(request).await });
        }
        next += TOGETHER;
        for answer in calls.join_all().await {
            let execution = answer.unwrap().into_inner().execution.unwrap();
            n_queued += usize::from(execution.state() == State::Queued);
        }
    }
    n_queued
}

/// A worker that remembers the numbers in the order in which its handlers ran.
struct Counter {
    seen: Arc<Mutex<Vec<u32>>>,
    _running: JoinHandle<()>,
}

impl Counter {
    fn start(url: &str, seen: &Arc<Mutex<Vec<u32>>>) -> Self {
        let remembering = Arc::clone(seen);
        let worker = Worker::builder(url)
            .worker_id("counter")
            .max_in_flight(1_024)
            .handler("count", move |input: Value, _: StepContext| {
                let number = input["number"].as_u64().unwrap();
                remembering.lock().unwrap().push(u32::try_from(number).unwrap());
                async { Ok(json!({})) }
            })
            .build()
            .unwrap();
        let running = tokio::spawn(async move {
            // It ends with the test, or with its orchestrator.
            let _ended = worker.run_until(std::future::pending()).await;
        });
        Self {
            seen: Arc::clone(seen),
            _running: running,
        }
    }

    fn n_seen(&self) -> usize {
        self.seen.lock().unwrap().len()
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        self._running.abort();
    }
}

/// Returns the most that the process has ever held in memory.
fn resident_kib_max(world: &World) -> u64 {
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", world.orchestrator.process.id())).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

async fn is_any(world: &World, state: State) -> bool {
    let mut filter = ListExecutionsRequest {
        page_size: Some(1),
        ..ListExecutionsRequest::default()
    };
    filter.set_state(state);
    let answer = world.orchestrator.plans().list_executions(filter).await;
    !answer.unwrap().into_inner().executions.is_empty()
}

async fn n_settled(world: &World, status: Status) -> usize {
    let mut filter = ListExecutionsRequest {
        page_size: Some(1_000),
        ..ListExecutionsRequest::default()
    };
    filter.set_status(status);
    let mut n_listed = 0;
    loop {
        let answer = world.orchestrator.plans().list_executions(filter.clone()).await;
        let answer = answer.unwrap().into_inner();
        n_listed += answer.executions.len();
        if answer.next_page_token.is_empty() {
            return n_listed;
        }
        filter.page_token = answer.next_page_token;
    }
}

async fn wait_for_count(counter: &Counter, n_wanted: usize, limit: Duration) {
    let what = format!("{n_wanted} plans to run");
    wait_for(&what, limit, async || {
        (counter.n_seen() >= n_wanted).then_some(())
    })
    .await
    .unwrap();
}

//
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_beyond_memory_runs_in_its_order_across_a_kill() {
    let size = Size::of_this_run();
    let mut world = World::start_with(|settings| size.settings(settings)).await;
    let begun = std::time::Instant::now();
    let n_queued = submit_all(&world, &size).await;
    let accepted_in = begun.elapsed();
    assert!(n_queued >= size.n_plans - size.running_max - TOGETHER);
    let while_queued_kib = resident_kib_max(&world);

    // Without a worker all of them are held back, so the kill ends none.
    let begun = std::time::Instant::now();
    world.crash_and_restart().await;
    let restarted_in = begun.elapsed();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let first_life = Counter::start(&world.orchestrator.url(), &seen);
    let n_half = size.n_plans / 2;
    wait_for_count(&first_life, n_half, size.limit).await;
    let first_life_kib = resident_kib_max(&world);
    world.crash_and_restart().await;
    drop(first_life);
    let second_life = Counter::start(&world.orchestrator.url(), &seen);
    let settled = async || {
        let is_over = !is_any(&world, State::Queued).await && !is_any(&world, State::Running).await;
        is_over.then_some(())
    };
    wait_for("everything to settle", size.limit, settled)
        .await
        .unwrap();
    drop(second_life);
    let second_life_kib = resident_kib_max(&world);
    println!(
        "{} plans accepted in {accepted_in:?} ({while_queued_kib} KiB at most), restarted in {restarted_in:?} \
         ({first_life_kib} and {second_life_kib} KiB at most)",
        size.n_plans
    );
    for kib in [while_queued_kib, first_life_kib, second_life_kib] {
        assert!(kib <= size.resident_kib_max, "{kib} KiB");
    }

    // Nothing is lost, and nothing ran twice.
    let seen = seen.lock().unwrap().clone();
    let n_succeeded = n_settled(&world, Status::Success).await;
    let n_failed = n_settled(&world, Status::Failure).await;
    assert_eq!(n_succeeded + n_failed, size.n_plans);
    assert!(n_failed <= 2 * size.running_max + TOGETHER, "{n_failed} failed");
    assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), seen.len());
    assert!(seen.len() >= n_succeeded);
    in_order(&size, &seen);
}

/// Each runs about when its turn is: of those that ran, so many at a time were under way or were accepted together.
fn in_order(size: &Size, seen: &[u32]) {
    let ran: BTreeSet<u32> = seen.iter().copied().collect();
    let expected = size
        .expected_order()
        .into_iter()
        .map(|number| u32::try_from(number).unwrap());
    let places: HashMap<u32, usize> = expected
        .filter(|number| ran.contains(number))
        .enumerate()
        .map(|(place, number)| (number, place))
        .collect();
    let slack = size.running_max + TOGETHER;
    for (place, number) in seen.iter().enumerate() {
        let expected = places[number];
        assert!(
            place.abs_diff(expected) <= slack,
            "plan {number} ran as number {place}, not about {expected}"
        );
    }
}

/// An orchestrator that runs one plan, keeps one in memory, and has three more in its queue.
async fn crowded() -> (World, ScriptedWorker, Vec<ExecutePlanRequest>) {
    let world = World::start_with(|settings| {
        settings
            .flag("--max-running-executions", 1)
            .flag("--max-queued-in-memory", 1)
    })
    .await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 8).await;
    let mut requests = Vec::new();
    for _ in 0..5 {
        let request = request(plan([step(0, WORK), step(1, WORK).after(&[0])]));
        world.submit(&request).await;
        requests.push(request);
    }
    let first = worker.started().await;
    assert_eq!(first.execution_id, requests[0].id());
    worker.succeed(&first, json!({})).await;
    (world, worker, requests)
}

#[tokio::test]
async fn what_waits_on_the_disk_answers_like_what_waits_in_memory() {
    let (world, mut worker, requests) = crowded().await;
    let (in_memory, on_disk) = (&requests[1], &requests[4]);
    let shown = |request: &ExecutePlanRequest| {
        let id = request.id();
        let world = &world;
        async move {
            let mut execution = world.execution(&id).await;
            (execution.execution_id, execution.plan_id) = (String::new(), String::new());
            (execution.accepted_at, execution.deadline_ms) = (0, 0);
            // The digest is of the plan with its id.
            execution.certificate.as_mut().unwrap().content_digest.clear();
            execution
        }
    };
    let expected = shown(in_memory).await;
    assert_eq!(expected.state(), State::Queued);
    assert_eq!(shown(on_disk).await, expected);

    let again = world.submit(on_disk).await;
    assert_eq!(
        again,
        Execution {
            certificate: None,
            ..world.execution(&on_disk.id()).await
        },
        "the same request attaches"
    );
    let other = ExecutePlanRequest {
        execution_id: Some(on_disk.id()),
        ..request(plan([step(0, WORK)]))
    };
    let refused = world.try_submit(&other).await.unwrap_err();
    assert_eq!(reason(&refused, Code::AlreadyExists), "EXECUTION_ID_IN_USE");
    let other = ExecutePlanRequest {
        execution_id: Some(escapement_tests::fresh_id()),
        ..on_disk.clone()
    };
    let refused = world.try_submit(&other).await.unwrap_err();
    assert_eq!(reason(&refused, Code::FailedPrecondition), "PLAN_ID_USED");

    let record = world.record_of(&on_disk.id()).await;
    assert_eq!(record.len(), 1, "accepted, and nothing else yet");
    let watch = WatchExecutionRequest {
        execution_id: on_disk.id(),
        ..WatchExecutionRequest::default()
    };
    let watching = world.orchestrator.plans().watch_execution(watch).await;
    let mut entries = watching.unwrap().into_inner();
    let first = entries.message().await.unwrap().unwrap();
    assert_eq!(first.entry.as_ref(), record.first());
    let call = world.executing(on_disk.clone());
    let short = WaitExecutionRequest {
        execution_id: on_disk.id(),
        timeout_ms: Some(1),
    };
    let waited = world.orchestrator.plans().wait_execution(short).await;
    assert_eq!(
        waited.unwrap().into_inner().execution.unwrap().state(),
        State::Queued
    );

    for _ in 0..9 {
        worker.complete_next(json!({})).await;
    }
    let result = call.await.unwrap().unwrap();
    assert_eq!(result.status(), Status::Success);
    assert_eq!(world.result_of(&on_disk.id()).await, result);
    let mut n_entries = 1;
    let mut last = first;
    while let Some(answer) = entries.message().await.unwrap() {
        n_entries += 1;
        last = answer;
    }
    assert_eq!(last.result.as_ref(), Some(&result));
    assert_eq!(n_entries, world.record_of(&on_disk.id()).await.len());
}

#[tokio::test]
async fn a_damaged_record_shows_when_its_turn_comes_and_holds_up_nobody() {
    let (mut world, mut worker, requests) = crowded().await;
    let damaged = requests[3].id();
    let call = world.executing(requests[3].clone());
    let file = world.directory.join("store/store.db");
    let connection = rusqlite::Connection::open(file).unwrap();
    connection
        .execute("UPDATE accepted_record SET record = x'00' WHERE number = 4", ())
        .unwrap();
    drop(connection);
    for _ in 0..7 {
        let assignment = worker.complete_next(json!({})).await;
        assert_ne!(assignment.execution_id, damaged);
    }
    assert_eq!(world.result_of(&requests[4].id()).await.status(), Status::Success);
    let refused = call.await.unwrap().unwrap_err();
    assert_eq!(reason(&refused, Code::DataLoss), "RECORD_DAMAGED");
    let asked = escapement_wire::v1::GetExecutionRequest {
        execution_id: damaged.clone(),
    };
    let refused = world.orchestrator.plans().get_execution(asked).await.unwrap_err();
    assert_eq!(reason(&refused, Code::DataLoss), "RECORD_DAMAGED");
    let log = std::fs::read_to_string(world.directory.join("orchestrator.stderr")).unwrap();
    assert!(log.contains(&damaged), "it is in the log");
    assert!(world.orchestrator.process.is_running());
}
