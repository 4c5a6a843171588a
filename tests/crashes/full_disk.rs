//! A disk without space, that fills up and empties while the orchestrator runs.

use std::time::Duration;

use escapement_tests::wait_for;
use escapement_wire::v1::execution::State;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::{WaitExecutionRequest, WatchExecutionRequest};
use escapement_wire::worker::v1::outcome_ack::Verdict;
use tonic::Code;
use tonic_types::StatusExt;

use crate::caller::{id_of, request};
use crate::hand::Hand;
use crate::is_long;
use crate::told::{Told, Verdicts};
use crate::world::{LIMIT, Life, World};

/// An orchestrator with two executions that run and one in the queue, and a worker that has the first two.
struct Stage {
    world: World,
    life: Life,
    told: Told,
    hand: Hand,
    running: escapement_wire::worker::v1::Assignment,
    /// Runs, and nothing is reported of it.
    stays: String,
    queued: String,
}

impl Stage {
    async fn set() -> Self {
        let mut world = World::new().flag("--max-running-executions", 2);
        world.layer.phase("space").unwrap();
        let life = world.start().await.unwrap();
        let mut told = Told::default();
        let mut hand = Hand::open(&life.url, 4).await.unwrap();
        let mut asked = Vec::new();
        for _ in 0..3 {
            let one = request(100);
            told.ask(&one);
            told.accepted(life.caller.submit(&one).await.unwrap());
            asked.push(id_of(&one));
        }
        let mut running = Vec::new();
        for id in &asked[..2] {
            told.may_start(id);
            running.push(hand.started().await.unwrap());
            told.started(id);
        }
        Self {
            world,
            life,
            told,
            hand,
            running: running.remove(0),
            queued: asked.remove(2),
            stays: asked.remove(1),
        }
    }

    fn fill_the_disk(&mut self) {
        self.world.layer.set_full(true).unwrap();
        self.world.layer.phase("full").unwrap();
    }
}

/// Waits until the writer has tried in vain so many times.
async fn tries(world: &World, n: usize) {
    let tried = async || {
        let trace = world.layer.trace().unwrap();
        let in_vain = trace
            .iter()
            .filter(|call| call.phase == "full" && call.thread == "writer");
        (in_vain.count() >= n).then_some(())
    };
    wait_for("the writer to try again", FULL_LIMIT, tried)
        .await
        .unwrap();
}

//
#[tokio::test(flavor = "multi_thread")]
async fn on_a_full_disk_new_requests_are_refused_reads_go_on_and_all_settles_when_there_is_space() {
    let mut stage = Stage::set().await;
    stage.fill_the_disk();
    let caller = stage.life.caller.clone();
    let id = stage.running.execution_id.clone();

    let refused = caller.plans().submit_plan(request(100)).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    let details = refused.get_error_details();
    assert_eq!(details.error_info().unwrap().reason, "STORE_FULL");
    assert!(details.retry_info().unwrap().retry_delay.is_some());

    // The outcome comes in, and the result is told to nobody.
    stage.told.may_settle(&id);
    stage.told.may_start(&stage.queued);
    let completing = tokio::spawn(async move {
        let verdict = stage.hand.complete(&stage.running).await;
        (stage.hand, verdict)
    });
    let mut world = stage.world;
    tries(&world, if is_long() { TRIES_LONG } else { TRIES }).await;

    let now = caller.execution(&id).await.unwrap().unwrap();
    assert_eq!(
        now.state(),
        State::Running,
        "nothing is shown that is not durable"
    );
    let waiting = WaitExecutionRequest {
        execution_id: id.clone(),
        timeout_ms: Some(50),
    };
    if let Ok(answer) = caller.plans().wait_execution(waiting).await {
        let execution = answer.into_inner().execution.unwrap();
        assert_ne!(execution.state(), State::Settled, "{execution:?}");
    }
    assert_eq!(caller.list().await.unwrap().len(), 3);
    assert!(!caller.record(&stage.stays).await.unwrap().is_empty());
    let watch = WatchExecutionRequest {
        execution_id: stage.stays.clone(),
        from_sequence: 1,
        ..WatchExecutionRequest::default()
    };
    let mut watch = caller.plans().watch_execution(watch).await.unwrap().into_inner();
    let first = tokio::time::timeout(LIMIT, watch.message()).await;
    let first = first.expect("a watcher sees what there is").unwrap().unwrap();
    assert!(first.entry.is_some());
    let refused = caller.submit(&request(100)).await.unwrap_err();
    assert_eq!(refused.reason(), "STORE_FULL");

    world.layer.set_full(false).unwrap();
    let settled = async || {
        let execution = caller.settled(&id).await.ok()?;
        Some(execution)
    };
    let settled = wait_for("the result to be stored", LIMIT, settled).await.unwrap();
    assert_eq!(settled.result.as_ref().unwrap().status(), Status::Success);
    stage.told.settled(&settled);
    let (mut hand, verdict) = completing.await.unwrap();
    assert_eq!(verdict, Ok(Verdict::Accepted));
    let next = hand.started().await.unwrap();
    assert_eq!(next.execution_id, stage.queued);
    stage.told.started(&next.execution_id);
    let late = request(100);
    stage.told.ask(&late);
    stage.told.accepted(caller.submit(&late).await.unwrap());
    assert_eq!(stage.told.judge(&mut world).await, Verdicts::new());
}

//
#[tokio::test(flavor = "multi_thread")]
async fn a_kill_on_a_full_disk_and_a_start_on_it_lose_nothing() {
    let mut stage = Stage::set().await;
    stage.fill_the_disk();
    let id = stage.running.execution_id.clone();
    stage.told.may_settle(&id);
    stage.told.may_start(&stage.queued);
    assert_eq!(
        stage
            .life
            .caller
            .submit(&request(100))
            .await
            .unwrap_err()
            .reason(),
        "STORE_FULL"
    );
    let running = stage.running.clone();
    let mut hand = stage.hand;
    let completing = tokio::spawn(async move { hand.complete(&running).await });
    let mut world = stage.world;
    tries(&world, 4).await;
    world.kill();
    let _ = completing.await.unwrap();
    // It may not be able to start; then it says why.
    match world.start().await {
        Ok(life) => {
            let now = life.caller.execution(&id).await.unwrap();
            assert!(now.is_some());
        }
        Err(_) => {
            let code = world.ended().await.code();
            assert!(matches!(code, Some(73 | 74)), "{code:?}");
            let stderr = world.stderr();
            assert!(stderr.contains("space"), "{stderr}");
        }
    }
    world.layer.set_full(false).unwrap();
    assert_eq!(stage.told.judge(&mut world).await, Verdicts::new());
}

/// Calls of the writer, each of which is a try.
const TRIES: usize = 7;
/// More than the writer would make for any other reason before it gave up.
const TRIES_LONG: usize = 16;
const FULL_LIMIT: Duration = Duration::from_secs(90);
