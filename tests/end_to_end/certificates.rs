//! Certificates of plans: told before, stored with the execution, and the same after a restart. Names that were misspelt.

use crate::plans::{RequestWords, StepWords, WORK, plan, plan_with_retries, request, step, step_id};
use crate::status_details::{reason, violations};
use crate::world::World;
use escapement_tests::ScriptedWorker;
use escapement_wire::v1::execution::State;
use escapement_wire::v1::plan_certificate::DurationBound;
use escapement_wire::v1::plan_step::OnFailure;
use escapement_wire::v1::{
    ExecutionOptions, ListExecutionsRequest, Plan, PlanCertificate, ValidatePlanRequest,
    ValidatePlanResponse, WaitExecutionRequest,
};
use serde_json::json;
use tonic::{Code, Status};

async fn validate(world: &World, plan: &Plan, n_slots: Option<i32>) -> Result<ValidatePlanResponse, Status> {
    let request = ValidatePlanRequest {
        plan: Some(plan.clone()),
        environment: None,
        options: n_slots.map(|n_slots| ExecutionOptions {
            max_concurrent_steps: Some(n_slots),
        }),
        ..Default::default()
    };
    let answer = world.orchestrator.plans().validate_plan(request).await?;
    Ok(answer.into_inner())
}

async fn certificate(world: &World, plan: &Plan, n_slots: Option<i32>) -> PlanCertificate {
    validate(world, plan, n_slots).await.unwrap().certificate.unwrap()
}

/// Two steps after one, a retry, and limits everywhere.
fn diamond() -> Plan {
    let steps = [
        step(2, WORK).after(&[0]).timeout_ms(2_000),
        step(0, WORK).timeout_ms(1_000),
        step(1, WORK)
            .after(&[0])
            .timeout_ms(3_000)
            .on_failure(OnFailure::Retry),
    ];
    plan_with_retries(steps, 3, &["BUSY"])
}

//
#[tokio::test]
async fn a_plan_is_certified_before_it_runs() {
    let world = World::start().await;
    let told = certificate(&world, &diamond(), Some(2)).await;
    assert_eq!(told.canonical_order, [0, 2, 1].map(step_id));
    assert_eq!(told.max_concurrent_steps, 2);
    // Two slots are enough: the longest chain is 1000 + 3 * 3000.
    assert_eq!(told.worst_case_duration_ms, 10_000);
    assert_eq!(told.duration_bound(), DurationBound::Steps);
    assert_eq!(told.worst_case_attempts, 5);
    assert!(
        (3 << 20..4 << 20).contains(&told.worst_case_result_bytes),
        "{told:?}"
    );
    let path: Vec<_> = told.critical_path.iter().collect();
    let path: Vec<_> = path
        .iter()
        .map(|step| (step.step_id.clone(), step.worst_case_ms, step.worst_case_attempts))
        .collect();
    assert_eq!(path, [(step_id(0), 1_000, 1), (step_id(1), 9_000, 3)]);
    assert_eq!(told.critical_path_ms, 10_000);
    assert!(told.critical_path.iter().all(|step| step.action == WORK));
    let digits = told.content_digest.strip_prefix("sha256:").unwrap();
    assert!(
        digits.len() == 64 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()),
        "{digits}"
    );

    // One at a time where nothing else is said.
    let one = certificate(&world, &diamond(), None).await;
    assert_eq!(
        (one.max_concurrent_steps, one.worst_case_duration_ms),
        (1, 12_000)
    );
    let mut without = diamond();
    without.steps[0].timeout_ms = None;
    let told = certificate(&world, &without, Some(3)).await;
    assert_eq!(
        (told.worst_case_duration_ms, told.duration_bound()),
        (300_000, DurationBound::PlanLimit)
    );
}

//
#[tokio::test]
async fn a_certificate_is_asked_for_as_many_slots_as_a_request_may_ask_for() {
    let world = World::start_with(|settings| settings.flag("--max-concurrent-steps", 7)).await;
    for n_slots in [-1, 0, 8, i32::MAX] {
        let refused = validate(&world, &diamond(), Some(n_slots)).await.unwrap_err();
        assert_eq!(reason(&refused, Code::InvalidArgument), "INVALID_PAYLOAD");
        let expected = (
            "options.max_concurrent_steps".to_owned(),
            "INVALID_PAYLOAD".to_owned(),
        );
        assert_eq!(violations(&refused), [expected], "{n_slots}");
    }
    assert_eq!(
        certificate(&world, &diamond(), Some(7))
            .await
            .worst_case_duration_ms,
        10_000
    );
    let invalid = Plan {
        version: 9,
        ..diamond()
    };
    let answer = validate(&world, &invalid, Some(7)).await.unwrap();
    assert!(!answer.valid && answer.certificate.is_none(), "{answer:?}");
}

//
#[tokio::test]
async fn an_execution_shows_the_certificate_that_it_was_accepted_with_before_and_after_restarts() {
    let mut world = World::start_with(|settings| settings.flag("--max-running-executions", 1)).await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 4).await;
    let settled = request(plan([step(0, WORK).timeout_ms(60_000)]));
    world.submit(&settled).await;
    worker.complete_next(json!({})).await;
    world.result_of(&settled.id()).await;
    let running = request(diamond()).concurrent(2);
    assert!(
        world.submit(&running).await.certificate.is_none(),
        "GetExecution alone shows it"
    );
    worker.started().await;
    let queued = request(Plan {
        id: escapement_tests::fresh_id(),
        ..diamond()
    })
    .concurrent(3);
    world.submit(&queued).await;

    let requests = [&settled, &running, &queued];
    let mut told = Vec::new();
    for (request, state) in requests
        .into_iter()
        .zip([State::Settled, State::Running, State::Queued])
    {
        let execution = world.execution(&request.id()).await;
        assert_eq!(execution.state(), state);
        let n_slots = request
            .options
            .as_ref()
            .and_then(|options| options.max_concurrent_steps);
        let certificate = certificate(&world, request.plan.as_ref().unwrap(), n_slots).await;
        assert_eq!(execution.certificate.as_ref(), Some(&certificate), "{state:?}");
        told.push(certificate);
    }

    world.crash_and_restart().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 4).await;
    world.result_of(&running.id()).await;
    worker.started().await;
    let states = [State::Settled, State::Settled, State::Running];
    for ((request, told), state) in requests.into_iter().zip(told).zip(states) {
        let execution = world.execution(&request.id()).await;
        assert_eq!((execution.state(), execution.certificate), (state, Some(told)));
    }
    let waited = WaitExecutionRequest {
        execution_id: settled.id(),
        timeout_ms: Some(0),
    };
    let waited = world
        .orchestrator
        .plans()
        .wait_execution(waited)
        .await
        .unwrap()
        .into_inner();
    assert!(waited.execution.unwrap().certificate.is_none());
    let listed = world
        .orchestrator
        .plans()
        .list_executions(ListExecutionsRequest::default())
        .await
        .unwrap();
    assert!(
        listed
            .into_inner()
            .executions
            .iter()
            .all(|execution| execution.certificate.is_none())
    );
}

#[tokio::test]
async fn misspelt_actions_are_told_what_they_may_have_meant() {
    let world = World::start().await;
    let _worker =
        ScriptedWorker::connect(&world.orchestrator, &["file.read", "file.write", "http.get"], 1).await;
    let asks = plan([
        step(0, "file_read"),
        step(1, "http.gte"),
        step(2, "render"),
        step(3, "file.write"),
    ]);
    let answer = validate(&world, &asks, None).await.unwrap();
    assert_eq!(answer.unknown_actions, ["file_read", "http.gte", "render"]);
    let suggested = answer.action_suggestions.iter();
    let suggested: Vec<_> = suggested
        .map(|unknown| (unknown.action.as_str(), unknown.suggestions.clone()))
        .collect();
    let one = |name: &str| vec![name.to_owned()];
    let expected = [
        ("file_read", one("file.read")),
        ("http.gte", one("http.get")),
        ("render", vec![]),
    ];
    assert_eq!(suggested, expected);
}
