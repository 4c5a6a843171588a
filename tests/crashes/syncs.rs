//! Counts from outside the syncs that callers wait for: each commit syncs a log once.
//! The numbers are the price of today. A change that lowers one lowers it here.

use std::collections::BTreeMap;

use escapement_tests::documents;
use escapement_tests::fault_layer::Call;
use escapement_wire::runs::v1::run::State;
use escapement_wire::runs::v1::run_service_client::RunServiceClient;
use escapement_wire::runs::v1::{CreateRunRequest, WaitRunRequest};
use escapement_wire::worker::v1::outcome_ack::Verdict;
use serde_json::{Value, json};
use tonic::transport::Endpoint;

use crate::caller::{Caller, id_of, request};
use crate::hand::{Hand, WORK};
use crate::world::{LIMIT, World};

/// An orchestrator without commits of its own, with a worker.
struct Stage {
    world: World,
    url: String,
    hand: Hand,
    caller: Caller,
}

impl Stage {
    async fn open() -> Self {
        let mut world = World::new().flag("--registration-memory-ms", 0);
        let life = world.start().await.unwrap();
        let hand = Hand::open(&life.url, 4).await.unwrap();
        let mut stage = Self {
            world,
            url: life.url,
            hand,
            caller: life.caller,
        };
        // The first run also writes down its action.
        stage.run(1).await;
        stage
    }

    async fn execution(&mut self) {
        let request = request(100);
        self.caller.submit(&request).await.unwrap();
        let assignment = self.hand.started().await.unwrap();
        assert_eq!(self.hand.complete(&assignment).await, Ok(Verdict::Accepted));
        self.caller.settled(&id_of(&request)).await.unwrap();
    }

    async fn run(&mut self, n_steps: usize) {
        let channel = Endpoint::from_shared(self.url.clone()).unwrap().connect_lazy();
        let mut runs = RunServiceClient::new(channel);
        let created = runs.create_run(chain(n_steps)).await.unwrap().into_inner();
        for _ in 0..n_steps {
            let assignment = self.hand.started().await.unwrap();
            assert_eq!(self.hand.complete(&assignment).await, Ok(Verdict::Accepted));
        }
        let wait = WaitRunRequest {
            run_id: created.run.unwrap().run_id,
            timeout_ms: Some(i64::try_from(LIMIT.as_millis()).unwrap()),
        };
        let ended = runs.wait_run(wait).await.unwrap().into_inner().run.unwrap();
        assert_eq!(ended.state(), State::Completed, "{ended:?}");
    }

    /// Returns how often each log was synced in a phase, in the order of the alphabet.
    fn syncs(&self, phase: &str) -> Vec<(String, usize)> {
        let mut syncs = BTreeMap::new();
        for call in self.world.layer.trace().unwrap() {
            if call.phase == phase && is_sync_of_a_log(&call) {
                *syncs.entry(call.file).or_default() += 1;
            }
        }
        syncs.into_iter().collect()
    }
}

fn is_sync_of_a_log(call: &Call) -> bool {
    ["fsync", "fdatasync"].contains(&call.kind.as_str()) && call.file.ends_with("-wal")
}

/// Returns the request for a run of so many calls in a chain.
pub(crate) fn chain(n_steps: usize) -> CreateRunRequest {
    let config = json!({"tool_name": WORK, "tool_args": {}});
    let step = |n: usize| json!({"key": format!("call_{n}"), "type": "tool_call", "config": config});
    let steps: Vec<Value> = (0..n_steps).map(step).collect();
    let document = json!({"schema": "escapement.plan/1", "name": "Syncs", "steps": steps});
    let request = json!({"document": document, "autonomy_level": 4});
    documents::from_json("escapement.runs.v1.CreateRunRequest", &request).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_and_executions_cost_this_many_syncs() {
    let mut stage = Stage::open().await;
    stage.world.layer.phase("execution").unwrap();
    stage.execution().await;
    stage.world.layer.phase("run").unwrap();
    stage.run(1).await;
    stage.world.layer.phase("chain").unwrap();
    stage.run(3).await;
    stage.world.layer.phase("over").unwrap();
    for (phase, expected) in [("execution", 2), ("run", 2), ("chain", 4)] {
        let syncs = stage.syncs(phase);
        let syncs: Vec<(&str, usize)> = syncs.iter().map(|(log, n)| (log.as_str(), *n)).collect();
        assert_eq!(syncs, [("store/store.db-wal", expected)], "{phase}");
    }
}
