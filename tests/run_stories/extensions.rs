//! What a person is asked once retries or a budget are used up, over a kill between the request and its answer.

use crate::plan_words::{call, document, with};
use crate::world::World;
use serde_json::{Value, json};
use tonic::Code;

fn extend(yes: bool) -> Value {
    json!({ "extend": yes })
}

#[tokio::test]
async fn retries_are_extended_after_a_kill_and_refused_for_good() {
    let mut world = World::start().await;
    let broken = json!({ "fail": "BROKEN" });
    let each = json!({ "each": [broken, broken, { "answer": { "n": 1 } }] });
    let retry = json!({ "max_retries": 1, "backoff_ms": 1, "escalate": true });
    let step = with(call("a", "script.pure", each), json!({ "retry": retry }));
    let extended = world.run(json!([step])).await;
    let refused = world.run(json!([step])).await;
    for run_id in [&extended, &refused] {
        let asked = world.open_request(run_id).await;
        assert_eq!(asked["kind"], "retry_extension", "{asked:#}");
        let amounts = json!({ "account": "retries", "used": 1.0, "limit": 1.0, "extended_limit": 2.0 });
        assert_eq!(asked["subject"], amounts);
        assert_eq!(world.calls_of(run_id).len(), 2);
    }
    world.crash().await;
    let asked = world.open_request(&extended).await;
    let wrong = world.respond(&asked, json!({ "text": "yes" })).await.unwrap_err();
    assert_eq!(wrong.is(), (Code::InvalidArgument, "ANSWER_INVALID"));
    world.respond(&asked, extend(true)).await.unwrap();
    world.crash().await;
    let run = world.ended(&extended).await;
    assert_eq!(run["state"], "completed", "{run:#}");
    // One that was in flight at the kill comes again, uncounted.
    let n_calls = world.calls_of(&extended).len();
    assert!((3..=4).contains(&n_calls), "as often again: {n_calls}");

    let asked = world.open_request(&refused).await;
    world.respond(&asked, extend(false)).await.unwrap();
    let run = world.ended(&refused).await;
    assert_eq!(run["error"]["code"], "BROKEN", "{run:#}");
    assert_eq!(world.calls_of(&refused).len(), 2);
    world.close().await;
}

#[tokio::test]
async fn a_budget_is_extended_after_a_kill() {
    let mut world = World::start().await;
    let think = |key: &str| json!({ "key": key, "type": "llm_decision", "config": { "prompt": "?" } });
    let request =
        json!({ "document": document(json!([think("a"), think("b")])), "budget": { "max_llm_calls": 1 } });
    let run_id = world.create(request).await;
    let asked = world.open_request(&run_id).await;
    assert_eq!(asked["kind"], "budget_extension", "{asked:#}");
    let amounts = json!({ "account": "llm_calls", "used": 1.0, "limit": 1.0, "extended_limit": 2.0 });
    assert_eq!(asked["subject"], amounts);
    world.crash().await;
    assert_eq!(world.open_request(&run_id).await, asked, "the same request");
    world.respond(&asked, extend(true)).await.unwrap();
    let run = world.ended(&run_id).await;
    assert_eq!(run["state"], "completed", "{run:#}");
    assert_eq!(run["budget"]["max_llm_calls"], 2);
    assert_eq!(world.calls_of(&run_id).len(), 2);
    world.close().await;
}
