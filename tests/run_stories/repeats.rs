//! The key against repeats, as a handler with effects outside keeps to it.

use crate::plan_words::{call, text, with};
use crate::world::World;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

#[tokio::test]
async fn s10_a_handler_that_keeps_to_its_key_pays_once_over_retries_and_a_kill() {
    let mut world = World::start().await;
    let pays = json!({ "each": [{ "fail": "LOST" }, { "gate": "paid" }, { "fail": "LOST" }, { "answer": { "paid": true } }] });
    let pay = |key: &str| {
        let retry = json!({ "retry": { "max_retries": 5, "backoff_ms": 1 } });
        with(call(key, "script.idempotent", pays.clone()), retry)
    };
    let run_id = world.run(json!([pay("pay"), pay("tip")])).await;
    world.called_times(&run_id, "pay", 2).await;
    world.kill();
    world.worker_goes();
    world.shared.open("paid");
    world.starts().await;
    world.worker_comes().await;
    assert_eq!(world.ended(&run_id).await["state"], "completed");
    let calls = world.calls_of(&run_id);
    let mut payments: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for call in &calls {
        assert_eq!(call["paid_as"], call["key"], "{call}");
        let attempts = payments.entry(text(&call["paid_as"])).or_default();
        attempts.push(call["run_attempt"].as_i64().unwrap());
    }
    let keys = ["pay", "tip"].map(|step| format!("{run_id}/{step}"));
    assert!(
        payments.keys().eq(&keys),
        "one payment for each step: {payments:?}"
    );
    assert!(
        payments
            .values()
            .all(|attempts| attempts.is_sorted() && attempts[0] == 1),
        "{payments:?}"
    );
    let executions: BTreeSet<String> = calls.iter().map(|call| text(&call["execution"])).collect();
    assert!(calls.len() > keys.len(), "{calls:?}");
    assert_eq!(executions.len(), calls.len(), "what the attempts do not share");
    world.close().await;
}
