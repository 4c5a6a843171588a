//! `SimulatePlan`: the core of real executions against stubs, with nothing stored.

use crate::plans::{
    RequestWords, StepWords, WORK, json_of, object, plan, plan_with_retries, request, step, step_id,
    step_number,
};
use crate::status_details::{reason, violations};
use crate::world::World;
use escapement_model::Opaque;
use escapement_tests::ScriptedWorker;
use escapement_wire::v1::attempt_stub::Outcome;
use escapement_wire::v1::audit_entry::Event;
use escapement_wire::v1::execution_error::Severity;
use escapement_wire::v1::plan_result::Status as ResultStatus;
use escapement_wire::v1::plan_step::OnFailure;
use escapement_wire::v1::timeline_span::Activity;
use escapement_wire::v1::{
    AttemptStub, AuditEntry, ExecutePlanRequest, ExecutionOptions, FailureStub, ListExecutionsRequest, Plan,
    PlanResult, RetryPolicy, SimulatePlanRequest, SimulatePlanResponse, StepStub,
};
use serde_json::{Value, json};
use tonic::{Code, Status};
use tonic_types::StatusExt;

const DAY_MS: i64 = 86_400_000;

async fn try_simulate(world: &World, request: SimulatePlanRequest) -> Result<SimulatePlanResponse, Status> {
    Ok(world
        .orchestrator
        .plans()
        .simulate_plan(request)
        .await?
        .into_inner())
}

async fn simulate(world: &World, request: SimulatePlanRequest) -> SimulatePlanResponse {
    try_simulate(world, request).await.unwrap()
}

/// Returns the simulation of a request to execute.
fn simulation_of(request: &ExecutePlanRequest) -> SimulatePlanRequest {
    SimulatePlanRequest {
        plan: request.plan.clone(),
        environment: request.environment.clone(),
        options: request.options,
        deadline_ms: request.deadline_ms,
        ..SimulatePlanRequest::default()
    }
}

fn stub(number: usize, attempts: Vec<AttemptStub>) -> StepStub {
    StepStub {
        step_id: Some(step_id(number)),
        action: None,
        attempts,
    }
}

fn attempt(waits_ms: i64, takes_ms: i64, outcome: Option<Outcome>) -> AttemptStub {
    AttemptStub {
        waits_ms,
        takes_ms,
        outcome,
    }
}

fn completes(output: Value) -> Option<Outcome> {
    Some(Outcome::Output(object(output)))
}

fn fails(code: &str) -> Option<Outcome> {
    Some(Outcome::Failure(FailureStub {
        error_code: code.to_owned(),
        // As the scripted worker says it.
        message: format!("{code} as told."),
        severity: Severity::Error as i32,
        context: None,
    }))
}

fn spans(answer: &SimulatePlanResponse) -> Vec<(usize, i32, Activity, i64, i64, &str)> {
    let spans = answer.timeline.iter();
    spans
        .map(|span| {
            let number = step_number(&span.step_id);
            let activity = span.activity();
            (
                number,
                span.attempt,
                activity,
                span.from_ms,
                span.to_ms,
                span.outcome.as_str(),
            )
        })
        .collect()
}

#[tokio::test]
async fn a_simulation_tells_result_timeline_and_record() {
    let world = World::start().await;
    let retries = RetryPolicy {
        max_attempts: Some(3),
        backoff_ms: Some(1_000),
        retryable_error_codes: vec!["BUSY".to_owned()],
        ..RetryPolicy::default()
    };
    let plan = Plan {
        retry_policy: Some(retries),
        ..plan([
            step(0, WORK).on_failure(OnFailure::Retry),
            step(1, "other").after(&[0]).timeout_ms(50),
        ])
    };
    let of_action = StepStub {
        action: Some("other".to_owned()),
        attempts: vec![attempt(5, 0, Some(Outcome::Silent(true)))],
        ..StepStub::default()
    };
    let of_the_rest = StepStub {
        attempts: vec![
            attempt(0, 10, fails("BUSY")),
            attempt(0, 20, completes(json!({ "n": 1 }))),
        ],
        ..StepStub::default()
    };
    let request = SimulatePlanRequest {
        stubs: vec![of_the_rest, of_action],
        ..simulation_of(&request(plan.clone()))
    };
    let answer = simulate(&world, request.clone()).await;
    let result = answer.result.as_ref().unwrap();
    assert_eq!(result.status(), ResultStatus::Failure);
    assert_eq!(result.error.as_ref().unwrap().error_code, "STEP_TIMEOUT");
    assert_eq!(
        (result.duration_ms, result.steps_executed, result.steps_total),
        (1_085, 1, 2)
    );
    assert_eq!(result.completed_at, plan.created_at + 1_085);
    assert_eq!((&result.plan_id, &result.execution_id), (&plan.id, &plan.id));
    assert_eq!(
        json_of(result.result_payload.as_ref()),
        json!({ step_id(0): { "n": 1 } })
    );
    let expected = [
        (0, 1, Activity::Running, 0, 10, "BUSY"),
        (0, 2, Activity::BackingOff, 10, 1_010, ""),
        (0, 2, Activity::Running, 1_010, 1_030, "completed"),
        (1, 1, Activity::Waiting, 1_030, 1_035, ""),
        (1, 1, Activity::Running, 1_035, 1_085, "STEP_TIMEOUT"),
    ];
    assert_eq!(spans(&answer), expected);
    assert_eq!(
        (&*answer.timeline[0].action, &*answer.timeline[3].action),
        (WORK, "other")
    );
    assert!(!answer.timeline_cut);
    // Start and its write, three for each attempt that ends, two and a limit for the other, a sleep, the write of the result.
    assert_eq!(answer.inputs, 13);
    let numbers: Vec<_> = answer.audit.iter().map(|entry| entry.sequence).collect();
    assert_eq!(numbers, (1..=answer.audit.len() as i64).collect::<Vec<_>>());
    assert!(answer.audit.iter().all(|entry| entry.hash.len() == 32));
    assert!(matches!(
        answer.audit.last().unwrap().event,
        Some(Event::Settled(_))
    ));

    assert_eq!(
        simulate(&world, request.clone()).await,
        answer,
        "the same request, the same answer"
    );
    let later = SimulatePlanRequest {
        started_at: Some(plan.created_at + 7),
        ..request
    };
    let later = simulate(&world, later).await;
    assert_eq!(later.timeline, answer.timeline);
    assert_eq!(later.result.unwrap().completed_at, plan.created_at + 1_092);

    // Nothing was stored and no id was used up.
    let list = world
        .orchestrator
        .plans()
        .list_executions(ListExecutionsRequest::default())
        .await;
    assert_eq!(list.unwrap().into_inner().executions, []);
}

/// Returns a result without its times.
fn timeless(mut result: PlanResult) -> (PlanResult, Value) {
    let context = result.error.as_mut().and_then(|error| error.context.take());
    let mut context = context
        .as_ref()
        .map_or(Value::Null, |context| json_of(Some(context)));
    for error in context["errors"].as_array_mut().into_iter().flatten() {
        assert!(error.as_object_mut().unwrap().remove("timestamp").is_some());
    }
    result.completed_at = 0;
    result.duration_ms = 0;
    (result, context)
}

/// A record without its times, the hashes over them, and what it says of workers.
fn timeless_record(record: Vec<AuditEntry>) -> Vec<AuditEntry> {
    let timeless = |mut entry: AuditEntry| {
        entry.at = 0;
        entry.hash.clear();
        match &mut entry.event {
            Some(Event::Accepted(accepted)) => accepted.deadline_ms = 0,
            Some(Event::Started(started)) => started.started_at = 0,
            Some(Event::AttemptAssigned(assigned)) => assigned.worker_id.clear(),
            Some(Event::AttemptReturned(returned)) => returned.evidence.clear(),
            _ => {}
        }
        entry
    };
    record.into_iter().map(timeless).collect()
}

#[tokio::test]
async fn a_real_execution_comes_to_what_was_simulated() {
    let world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let plan = plan_with_retries(
        [
            step(0, WORK).on_failure(OnFailure::Retry),
            step(1, WORK).on_failure(OnFailure::Skip),
            step(2, WORK).after(&[1]).on_failure(OnFailure::Skip),
            step(3, WORK).after(&[0]),
        ],
        3,
        &["BUSY"],
    );
    let mut request = request(plan);
    // A simulation goes under the id of its plan.
    request.execution_id = Some(request.plan_id());
    let executing = world.executing(request.clone());
    for _ in 0..2 {
        let busy = worker.started().await;
        worker.fail(&busy, "BUSY", Severity::Error).await;
    }
    worker.complete_next(json!({ "done": 0 })).await;
    let broken = worker.started().await;
    worker.fail(&broken, "BROKEN", Severity::Error).await;
    let returned = worker.assignment().await;
    let mut other = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    worker.reject(&returned).await;
    other.complete_next(json!({ "done": 3 })).await;
    let real = executing.await.unwrap().unwrap();
    let record = world.record_of(&request.id()).await;

    let simulated = simulate(
        &world,
        SimulatePlanRequest {
            started_at: Some(record[0].at),
            stubs: vec![
                stub(
                    0,
                    vec![
                        attempt(0, 0, fails("BUSY")),
                        attempt(0, 0, fails("BUSY")),
                        attempt(0, 0, completes(json!({ "done": 0 }))),
                    ],
                ),
                stub(1, vec![attempt(0, 0, fails("BROKEN"))]),
                stub(
                    3,
                    vec![
                        attempt(0, 0, Some(Outcome::Returned(true))),
                        attempt(0, 0, completes(json!({ "done": 3 }))),
                    ],
                ),
            ],
            ..simulation_of(&request)
        },
    )
    .await;
    // The same request under the same id, accepted at the same instant with the same deadline.
    assert_eq!(simulated.audit[0], record[0]);
    assert_eq!(timeless(simulated.result.unwrap()), timeless(real));
    assert_eq!(timeless_record(simulated.audit), timeless_record(record));
}

//
#[tokio::test]
async fn everything_that_is_wrong_is_named_at_once() {
    let world = World::start().await;
    let broken = Plan {
        version: 0,
        ..plan([step(0, WORK), step(1, "")])
    };
    let with_severity = FailureStub {
        severity: 9,
        ..FailureStub::default()
    };
    let wrong = vec![
        stub(0, vec![attempt(-1, 0, None)]),
        stub(
            7,
            vec![attempt(0, 0, None), attempt(0, -2, Some(Outcome::Lost(false)))],
        ),
        StepStub {
            step_id: Some("nobody".to_owned()),
            ..StepStub::default()
        },
        StepStub {
            action: Some(WORK.to_owned()),
            ..stub(0, vec![attempt(0, 0, Some(Outcome::Failure(with_severity)))])
        },
        StepStub {
            action: Some(String::new()),
            attempts: vec![AttemptStub::default(); 1_001],
            ..StepStub::default()
        },
    ];
    let request = SimulatePlanRequest {
        options: Some(ExecutionOptions {
            max_concurrent_steps: Some(0),
        }),
        started_at: Some(0),
        stubs: wrong,
        ..simulation_of(&request(broken))
    };
    let refused = try_simulate(&world, request.clone()).await.unwrap_err();
    assert_eq!(reason(&refused, Code::InvalidArgument), "INVALID_PAYLOAD");
    let found = violations(&refused);
    assert!(
        found.iter().all(|(_, code)| code == "INVALID_PAYLOAD"),
        "{found:?}"
    );
    let fields: Vec<_> = found.iter().map(|(field, _)| field.as_str()).collect();
    let expected = [
        "plan.version",
        "plan.steps[1].action",
        "options.max_concurrent_steps",
        "started_at",
        "stubs[0].attempts[0].waits_ms",
        "stubs[1].step_id",
        "stubs[1].attempts[1].takes_ms",
        "stubs[1].attempts[1].lost",
        "stubs[2].step_id",
        "stubs[2].attempts",
        "stubs[3].action",
        "stubs[3].attempts[0].failure.severity",
        "stubs[4].action",
        "stubs[4].attempts",
    ];
    assert_eq!(fields, expected);
    assert!(refused.message().ends_with("(13 more)"), "{refused:?}");

    let no_plan = SimulatePlanRequest {
        plan: None,
        options: None,
        started_at: None,
        stubs: Vec::new(),
        ..request.clone()
    };
    let refused = try_simulate(&world, no_plan).await.unwrap_err();
    assert_eq!(
        violations(&refused),
        [("plan".to_owned(), "INVALID_PAYLOAD".to_owned())]
    );

    let too_many = SimulatePlanRequest {
        stubs: vec![stub(0, vec![AttemptStub::default()]); 4_097],
        ..simulation_of(&crate::plans::request(plan([step(0, WORK)])))
    };
    let refused = try_simulate(&world, too_many.clone()).await.unwrap_err();
    assert_eq!(
        violations(&refused),
        [("stubs".to_owned(), "INVALID_PAYLOAD".to_owned())]
    );
    let just_enough = SimulatePlanRequest {
        stubs: too_many.stubs[1..].to_vec(),
        ..too_many
    };
    assert_eq!(
        simulate(&world, just_enough).await.result.unwrap().status(),
        ResultStatus::Success
    );
}

#[tokio::test]
async fn thirty_days_are_simulated_at_once() {
    let world = World::start().await;
    let polls = RetryPolicy {
        max_attempts: Some(i32::MAX),
        backoff_ms: Some(3_600_000),
        max_backoff_ms: Some(3_600_000),
        retryable_error_codes: vec!["NOT_YET".to_owned()],
        ..RetryPolicy::default()
    };
    let plan = Plan {
        timeout_ms: Some(30 * DAY_MS),
        retry_policy: Some(polls),
        ..plan([step(0, WORK).on_failure(OnFailure::Retry)])
    };
    let request = SimulatePlanRequest {
        stubs: vec![stub(0, vec![attempt(0, 0, fails("NOT_YET"))])],
        ..simulation_of(&request(plan))
    };
    let answer = simulate(&world, request).await;
    let result = answer.result.unwrap();
    assert_eq!(result.duration_ms, 30 * DAY_MS);
    assert_eq!(result.error.unwrap().error_code, "PLAN_TIMEOUT");
    let last = answer.timeline.last().unwrap();
    assert_eq!((last.to_ms, last.attempt), (30 * DAY_MS, 721));
    assert!(!answer.timeline_cut);
}

/// Returns a plan whose one step fails again and again in no time, with so much diagnostic data that its simulation is given up soon.
fn endless() -> SimulatePlanRequest {
    let plan = plan_with_retries([step(0, WORK).on_failure(OnFailure::Retry)], i32::MAX, &["*"]);
    let failure = FailureStub {
        error_code: "AGAIN".to_owned(),
        context: Some(object(json!({ "fill": "x".repeat(16_300) }))),
        ..FailureStub::default()
    };
    SimulatePlanRequest {
        stubs: vec![stub(0, vec![attempt(0, 0, Some(Outcome::Failure(failure)))])],
        ..simulation_of(&request(plan))
    }
}

#[tokio::test]
async fn a_simulation_without_end_is_given_up() {
    let world = World::start().await;
    let refused = try_simulate(&world, endless()).await.unwrap_err();
    assert_eq!(reason(&refused, Code::ResourceExhausted), "SIMULATION_TOO_LONG");
    assert!(refused.get_error_details().retry_info().is_none());
}

#[tokio::test]
async fn an_answer_beyond_its_limit_is_not_given() {
    let world = World::start().await;
    let large = |n_steps: usize| {
        let steps = (0..n_steps).map(|number| step(number, WORK).on_failure(OnFailure::Skip));
        let failure = FailureStub {
            error_code: "LARGE".to_owned(),
            context: Some(object(json!({ "fill": "x".repeat(16_000) }))),
            ..FailureStub::default()
        };
        SimulatePlanRequest {
            stubs: vec![StepStub {
                attempts: vec![attempt(0, 0, Some(Outcome::Failure(failure)))],
                ..StepStub::default()
            }],
            ..simulation_of(&request(plan(steps)))
        }
    };
    assert_eq!(
        simulate(&world, large(400)).await.result.unwrap().status(),
        ResultStatus::Failure
    );
    let refused = try_simulate(&world, large(600)).await.unwrap_err();
    assert_eq!(reason(&refused, Code::ResourceExhausted), "SIMULATION_TOO_LARGE");
}

#[tokio::test]
async fn too_many_simulations_are_refused_and_the_others_are_not_disturbed() {
    let world = World::start().await;
    let calls: Vec<_> = (0..100)
        .map(|_| {
            let mut plans = world.orchestrator.plans();
            tokio::spawn(async move { plans.simulate_plan(endless()).await.unwrap_err() })
        })
        .collect();
    let mut n_by_reason = std::collections::BTreeMap::<_, usize>::new();
    for call in calls {
        let refused = call.await.unwrap();
        let is_repeatable = refused.get_error_details().retry_info().is_some();
        let reason = reason(&refused, Code::ResourceExhausted);
        assert_eq!(is_repeatable, reason == "OVERLOADED", "{refused:?}");
        *n_by_reason.entry(reason).or_default() += 1;
    }
    assert_eq!(n_by_reason.values().sum::<usize>(), 100);
    assert!(n_by_reason.contains_key("OVERLOADED"), "{n_by_reason:?}");
    assert!(n_by_reason["SIMULATION_TOO_LONG"] >= 2, "{n_by_reason:?}");
    let answer = simulate(&world, simulation_of(&request(plan([step(0, WORK)])))).await;
    assert_eq!(
        answer.result.unwrap().result_payload,
        Some(payload_of_an_empty_output())
    );
}

fn payload_of_an_empty_output() -> Opaque {
    object(json!({ step_id(0): {} }))
}
