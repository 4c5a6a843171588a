//! What operators do is on record before it happens: killed at every write of a drain, and on a full disk.

use std::time::Duration;

use escapement_tests::fault_layer::{Action, Call};
use escapement_tests::{Binaries, ScriptedWorker, wait_for};
use escapement_wire::v1::access_service_client::AccessServiceClient;
use escapement_wire::v1::fleet_service_client::FleetServiceClient;
use escapement_wire::v1::{
    DrainWorkerRequest, ForgetActionRequest, ListActionsRequest, ListOperatorActionsRequest, OperatorAction,
    ReloadRequest,
};
use escapement_wire::worker::v1::session_response::Message as FromOrchestrator;
use serde_json::Value;
use tonic::Code;
use tonic::transport::{Channel, Endpoint};

use crate::caller::{No, id_of, request};
use crate::hand::{Hand, WORK};
use crate::world::{LIMIT, Life, World};

fn channel(life: &Life) -> Channel {
    Endpoint::from_shared(life.url.clone()).unwrap().connect_lazy()
}

async fn listed(life: &Life) -> Vec<OperatorAction> {
    let mut access = AccessServiceClient::new(channel(life));
    let listed = access
        .list_operator_actions(ListOperatorActionsRequest::default())
        .await;
    listed.unwrap().into_inner().actions
}

fn code(action: &OperatorAction) -> String {
    let outcome = action.outcome.as_ref().expect("a start closes what is open");
    let outcome: Value = serde_json::from_str(&outcome.outcome).unwrap();
    outcome["code"].as_str().unwrap().to_owned()
}

/// What came of one drain.
#[derive(Debug)]
struct Drained {
    /// The operator was told so.
    is_told: bool,
    /// The worker was told so.
    has_begun: bool,
}

/// Lets an operator drain the only worker.
async fn drain(world: &World, life: &Life) -> Drained {
    let hello = ScriptedWorker::hello_for(ScriptedWorker::specs(&["work"]), 1);
    let (mut worker, _) = ScriptedWorker::try_open(&life.url, hello.clone()).await.unwrap();
    let worker_id = hello.worker_id;
    let reading = tokio::spawn(async move {
        while let Ok(Some(Ok(said))) = tokio::time::timeout(LIMIT, worker.next()).await {
            if matches!(said.message, Some(FromOrchestrator::DrainStarted(_))) {
                return true;
            }
        }
        false
    });
    world.layer.phase("drain").unwrap();
    let request = DrainWorkerRequest {
        worker_id,
        ..DrainWorkerRequest::default()
    };
    let mut fleet = FleetServiceClient::new(channel(life));
    let is_told = fleet.drain_worker(request).await.is_ok();
    Drained {
        is_told,
        has_begun: reading.await.unwrap(),
    }
}

fn fresh() -> World {
    World::new().flag("--registration-memory-ms", 0)
}

/// What is wrong after a kill at one call.
async fn killed(call: &Call, action: Action) -> Option<String> {
    let mut world = fresh();
    world.layer.phase("start").unwrap();
    let life = world.start().await.unwrap();
    world.layer.arm_at(call, action).unwrap();
    let drained = drain(&world, &life).await;
    // What the call was not made for lives on: it is killed behind the last one.
    world.kill();
    let life = world.start_undisturbed().await;
    let codes: Vec<String> = listed(&life).await.iter().map(code).collect();
    world.kill();
    let store = world.store();
    let checked = std::process::Command::new(Binaries::build().unwrap().orchestrator)
        .args(["check", "--store-path", store.to_str().unwrap()])
        .output()
        .unwrap();
    let holds = match (&codes[..], &drained) {
        (
            _,
            Drained {
                is_told: true,
                has_begun: false,
            },
        ) => false,
        ([code], Drained { is_told: true, .. }) => code == "OK",
        ([code], Drained { is_told: false, .. }) => code == "OK" || code == "UNKNOWN",
        (
            [],
            Drained {
                is_told: false,
                has_begun: false,
            },
        ) => true,
        _ => false,
    };
    let is_right = holds && checked.status.success();
    (!is_right).then(|| format!("{action} at {call}: {drained:?}, recorded as {codes:?}, {checked:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_at_any_call_leaves_no_act_without_its_intent() {
    let mut world = fresh();
    world.layer.phase("start").unwrap();
    let life = world.start().await.unwrap();
    let drained = drain(&world, &life).await;
    assert!(drained.is_told && drained.has_begun, "{drained:?}");
    let [action] = &listed(&life).await[..] else {
        panic!("one act");
    };
    assert_eq!(
        (action.rpc.as_str(), code(action).as_str()),
        ("escapement.v1.FleetService/DrainWorker", "OK")
    );
    world.kill();
    let trace = world.layer.trace().unwrap();
    let calls: Vec<&Call> = trace.iter().filter(|call| call.phase == "drain").collect();
    // Each of the two entries is written and synced.
    let n_syncs = calls
        .iter()
        .filter(|call| call.kind.ends_with("sync") && call.file.ends_with("-wal"));
    assert!(n_syncs.count() >= 2, "{calls:?}");
    let mut wrong = Vec::new();
    for call in calls {
        for action in [Action::KillBefore, Action::KillAfter] {
            wrong.extend(killed(call, action).await);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_full_disk_operators_are_refused_and_a_narrower_policy_holds_all_the_same() {
    let world = World::new();
    let file = world.directory.join("policy.toml");
    let everybody = "version = 1\n[anonymous]\nroles = [\"admin\"]\n";
    std::fs::write(&file, everybody).unwrap();
    let mut world = world
        .flag("--access-policy", file.display())
        .flag("--tls-reload-interval-ms", 1_000);
    world.layer.phase("space").unwrap();
    let life = world.start().await.unwrap();
    let mut access = AccessServiceClient::new(channel(&life));
    assert!(access.reload(ReloadRequest {}).await.is_ok());

    world.layer.set_full(true).unwrap();
    world.layer.phase("full").unwrap();
    let refused = No::from(access.reload(ReloadRequest {}).await.unwrap_err());
    assert_eq!(
        refused,
        No::Refused(Code::ResourceExhausted, "STORE_FULL".to_owned())
    );
    std::fs::write(&file, "version = 1\n[anonymous]\nroles = [\"operator\"]\n").unwrap();
    let narrowed = async || {
        let refused = access.clone().reload(ReloadRequest {}).await.unwrap_err();
        (refused.code() == Code::Unauthenticated).then_some(())
    };
    wait_for("the narrower policy to hold", FULL_LIMIT, narrowed)
        .await
        .unwrap();
    assert!(
        world
            .stderr()
            .contains("this cannot be recorded, and happens all the same")
    );

    world.layer.set_full(false).unwrap();
    std::fs::write(&file, everybody).unwrap();
    let recorded = async || {
        let actions = listed(&life).await;
        (actions.first()?.rpc == "reload/interval").then_some(actions)
    };
    let actions = wait_for("the policy to be read on record", FULL_LIMIT, recorded)
        .await
        .unwrap();
    assert_eq!(
        actions.len(),
        2,
        "what was refused left nothing behind: {actions:?}"
    );
    assert_eq!(
        (actions[0].kind.as_str(), actions[1].kind.as_str()),
        ("process", "anonymous")
    );
}

/// How many workers offer an action; `None` if nothing is known of it.
async fn n_offering(life: &Life, name: &str) -> Option<i32> {
    let mut fleet = FleetServiceClient::new(channel(life));
    let listed = fleet.list_actions(ListActionsRequest {}).await.unwrap();
    let mut actions = listed.into_inner().actions.into_iter();
    actions
        .find(|action| action.name == name)
        .map(|action| action.workers)
}

//
#[tokio::test(flavor = "multi_thread")]
async fn an_action_stays_forgotten_once_an_operator_was_told_so() {
    let mut world = World::new();
    world.layer.phase("remembered").unwrap();
    let life = world.start().await.unwrap();
    let mut hand = Hand::open(&life.url, 1).await.unwrap();
    let ran = request(0);
    life.caller.submit(&ran).await.unwrap();
    let assignment = hand.started().await.unwrap();
    hand.complete(&assignment).await.unwrap();
    life.caller.settled(&id_of(&ran)).await.unwrap();
    drop(hand);
    wait_for("the worker to be gone", LIMIT, async || {
        (n_offering(&life, WORK).await == Some(0)).then_some(())
    })
    .await
    .unwrap();
    world.kill();
    let life = world.start().await.unwrap();
    assert_eq!(n_offering(&life, WORK).await, Some(0), "a restart remembers it");

    // A memory of another action that cannot be written: others are not tried again for a minute.
    let spare = ScriptedWorker::hello_for(ScriptedWorker::specs(&["spare"]), 1);
    let _worker = ScriptedWorker::try_open(&life.url, spare).await.unwrap();
    world.layer.set_full(true).unwrap();
    for _ in 0..2 {
        let mut asked = request(0);
        for step in &mut asked.plan.as_mut().unwrap().steps {
            step.action = "spare".to_owned();
        }
        let refused = life.caller.submit(&asked).await.unwrap_err();
        assert_eq!(
            refused,
            No::Refused(Code::ResourceExhausted, "STORE_FULL".to_owned())
        );
    }
    world.layer.set_full(false).unwrap();
    let request = ForgetActionRequest {
        name: WORK.to_owned(),
    };
    let mut fleet = FleetServiceClient::new(channel(&life));
    assert!(fleet.forget_action(request).await.unwrap().into_inner().known);
    world.kill();
    let life = world.start_undisturbed().await;
    assert_eq!(n_offering(&life, WORK).await, None, "it is forgotten for good");
}

const FULL_LIMIT: Duration = Duration::from_secs(60);
