//! Counts from outside the syncs that callers wait for: each commit syncs a log once.
//! The numbers are the price of today. A change that lowers one lowers it here.

use std::collections::BTreeMap;

use escapement_tests::fault_layer::Call;
use escapement_wire::worker::v1::outcome_ack::Verdict;

use crate::caller::{id_of, request};
use crate::stage::Stage;

impl Stage {
    async fn execution(&mut self) {
        let request = request(100);
        self.life.caller.submit(&request).await.unwrap();
        let assignment = self.hand.started().await.unwrap();
        assert_eq!(self.hand.complete(&assignment).await, Ok(Verdict::Accepted));
        self.life.caller.settled(&id_of(&request)).await.unwrap();
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

#[tokio::test(flavor = "multi_thread")]
async fn runs_and_executions_cost_this_many_syncs() {
    let mut stage = Stage::open().await;
    stage.world.layer.phase("execution").unwrap();
    stage.execution().await;
    stage.world.layer.phase("run").unwrap();
    stage.run(1).await.unwrap();
    stage.world.layer.phase("chain").unwrap();
    stage.run(3).await.unwrap();
    stage.world.layer.phase("over").unwrap();
    for (phase, expected) in [("execution", 2), ("run", 2), ("chain", 4)] {
        let syncs = stage.syncs(phase);
        let syncs: Vec<(&str, usize)> = syncs.iter().map(|(log, n)| (log.as_str(), *n)).collect();
        assert_eq!(syncs, [("store/store.db-wal", expected)], "{phase}");
    }
}
