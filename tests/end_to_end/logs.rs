//! What never stands in a log, however much is logged. Knows no line that does.

use crate::plans::{StepWords, echo, fail, json_of, object, plan, request, step};
use crate::world::{LIMIT, World};
use escapement_tests::Worker;
use escapement_wire::v1::ExecutePlanRequest;
use escapement_wire::v1::plan_result::Status;
use serde_json::json;

/// Stands in every environment and payload here, and nowhere else.
const SECRET: &str = "swordfish-8d41c7";
/// With the frames, which a level alone does not show.
const EVERYTHING: &str = "trace,h2=trace";

fn with_secret(request: ExecutePlanRequest) -> ExecutePlanRequest {
    let environment = json!({ "region": SECRET, "token": { "inner": [SECRET] } });
    ExecutePlanRequest {
        environment: Some(object(environment)),
        ..request
    }
}

/// Stops both and searches everything that they logged, to their last lines.
async fn assert_kept(mut world: World, mut worker: Worker) {
    worker.process.terminate(LIMIT).await.unwrap();
    world.orchestrator.process.terminate(LIMIT).await.unwrap();
    let logs = [
        ("orchestrator", world.orchestrator.process.stderr()),
        ("worker", worker.process.stderr()),
    ];
    for (name, log) in logs {
        assert!(log.contains(" TRACE "), "the {name} did not log everything");
        let told: Vec<&str> = log.lines().filter(|line| line.contains(SECRET)).collect();
        assert!(told.is_empty(), "the {name} told:\n{}", told.join("\n"));
    }
}

async fn talkative() -> (World, Worker) {
    let world = World::start_with(|settings| settings.flag("--log", EVERYTHING)).await;
    let worker = world.stock_worker("stock", |settings| settings.flag("--log", EVERYTHING));
    let worker = worker.await;
    (world, worker)
}

//
#[tokio::test]
async fn neither_environment_nor_payload_is_logged_at_any_level() {
    let (world, worker) = talkative().await;
    let secret_echo = || echo(0, json!({ "word": SECRET }));
    let misread = step(1, "delay").payload(json!({ "duration_ms": SECRET }));
    let cases = [
        (Status::Success, plan([secret_echo()])),
        (Status::Failure, plan([secret_echo(), fail(1, "BROKEN")])),
        (Status::Failure, plan([secret_echo(), misread])),
    ];
    for (status, plan) in cases {
        let result = world.execute(with_secret(request(plan))).await;
        assert_eq!(result.status(), status);
        assert!(
            json_of(result.result_payload.as_ref())
                .to_string()
                .contains(SECRET),
            "the plan carried it"
        );
    }
    assert_kept(world, worker).await;
}

//
#[tokio::test]
async fn no_environment_is_logged_where_a_key_is_missing_or_the_plan_is_refused() {
    let (world, worker) = talkative().await;
    let secret_echo = || echo(0, json!({ "word": SECRET }));
    let refused = with_secret(request(plan([secret_echo().after(&[0])])));
    assert!(world.try_execute(refused).await.is_err());
    let mut lacking = with_secret(request(plan([secret_echo()])));
    lacking.plan.as_mut().unwrap().context_requirements = vec!["desk".to_owned()];
    let result = world.execute(lacking).await;
    assert_eq!(result.error.unwrap().error_code, "CONTEXT_MISSING");
    assert_kept(world, worker).await;
}
