//! An orchestrator without commits of its own, with a worker that carries out runs of calls in a chain.

use escapement_tests::documents;
use escapement_wire::runs::v1::run::State;
use escapement_wire::runs::v1::run_service_client::RunServiceClient;
use escapement_wire::runs::v1::{CreateRunRequest, WaitRunRequest};
use escapement_wire::worker::v1::outcome_ack::Verdict;
use serde_json::{Value, json};
use tonic::transport::{Channel, Endpoint};

use crate::caller::Gone;
use crate::hand::{Hand, WORK};
use crate::world::{LIMIT, Life, World};

/// A world with an orchestrator that has written down its action before.
pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) life: Life,
    pub(crate) hand: Hand,
    /// Runs that were acknowledged to their callers.
    pub(crate) acknowledged: Vec<String>,
}

impl Stage {
    pub(crate) async fn open() -> Self {
        let mut world = World::new().flag("--registration-memory-ms", 0);
        world.layer.phase("start").unwrap();
        let life = world.start().await.unwrap();
        let hand = Hand::open(&life.url, 4).await.unwrap();
        let mut stage = Self {
            world,
            life,
            hand,
            acknowledged: Vec::new(),
        };
        stage.run(1).await.unwrap();
        stage
    }

    /// Plays a run of so many calls in a chain to its end.
    pub(crate) async fn run(&mut self, n_steps: usize) -> Result<(), Gone> {
        let mut runs = service(&self.life.url);
        let created = runs.create_run(chain(n_steps)).await.map_err(|_| Gone)?;
        let run_id = created.into_inner().run.unwrap().run_id;
        self.acknowledged.push(run_id.clone());
        for _ in 0..n_steps {
            let assignment = self.hand.started().await?;
            assert_eq!(self.hand.complete(&assignment).await?, Verdict::Accepted);
        }
        let wait = WaitRunRequest {
            run_id,
            timeout_ms: Some(i64::try_from(LIMIT.as_millis()).unwrap()),
        };
        let ended = runs.wait_run(wait).await.map_err(|_| Gone)?.into_inner();
        let ended = ended.run.unwrap();
        assert_eq!(ended.state(), State::Completed, "{ended:?}");
        Ok(())
    }
}

pub(crate) fn service(url: &str) -> RunServiceClient<Channel> {
    RunServiceClient::new(Endpoint::from_shared(url.to_owned()).unwrap().connect_lazy())
}

/// Returns the request for a run of so many calls in a chain.
fn chain(n_steps: usize) -> CreateRunRequest {
    let config = json!({"tool_name": WORK, "tool_args": {}});
    let step = |n: usize| json!({"key": format!("call_{n}"), "type": "tool_call", "config": config});
    let steps: Vec<Value> = (0..n_steps).map(step).collect();
    let document = json!({"schema": "escapement.plan/1", "name": "Syncs", "steps": steps});
    let request = json!({"document": document, "autonomy_level": 4});
    documents::from_json("escapement.runs.v1.CreateRunRequest", &request).unwrap()
}
