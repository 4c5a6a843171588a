//! What callers may ask: plans of 4 MiB, records of 20, results of 11, a queue.

use super::Kind;
use super::stage::Stage;
use crate::den::{environment, submission};
use crate::large::{FAILS, LARGE, Tireless, dense, large_record, object_of, plan_of, settled};
use bytes::Bytes;
use escapement_model::{Opaque, limits};
use escapement_wire::v1::event_service_client::EventServiceClient;
use escapement_wire::v1::{
    AttemptStub, ExecutePlanRequest, ExplainExecutionRequest, ExportExecutionRequest, GetExecutionRequest,
    ListAuditEntriesRequest, ListExecutionsRequest, ReadEventsRequest, ReplayExecutionRequest,
    SimulatePlanRequest, StepStub, SubmitPlanRequest, SubscribeEventsRequest, ValidatePlanRequest,
    WaitExecutionRequest, WatchExecutionRequest,
};
use tokio::task::JoinSet;

pub(super) async fn measure(stage: &mut Stage) {
    plans(stage).await;
    records(stage).await;
    queue(stage).await;
}

/// Plans as large as they may be, refused and taken.
async fn plans(stage: &mut Stage) {
    let mut plans = stage.plans.clone();
    for (is_cyclic, worst) in [
        (true, "4 MiB: 1,024 steps, 100,000 references, in a cycle"),
        (false, "4 MiB: 1,024 steps, 100,000 references"),
    ] {
        let kind = Kind {
            name: "PlanExecutionService/ValidatePlan",
            worst,
            engine_max: 30,
            other_max: 60,
        };
        let request = ValidatePlanRequest {
            plan: Some(dense(is_cyclic)),
            ..ValidatePlanRequest::default()
        };
        let ask = async |_| drop(plans.validate_plan(request.clone()).await.unwrap());
        stage.cost(kind, 1, ask).await;
    }
    let kind = |name| Kind {
        name,
        worst: "the same plan, an environment of 1 MiB in 80,000 keys, which lacks one",
        engine_max: 60,
        other_max: 400,
    };
    // It ends at its start, and so nothing of it is left.
    let dear = || (Some(dense(false)), Some(many_keys()));
    let submit = async |_| {
        let (plan, environment) = dear();
        let request = SubmitPlanRequest {
            plan,
            environment,
            ..SubmitPlanRequest::default()
        };
        plans.submit_plan(request).await.unwrap();
    };
    stage
        .cost(kind("PlanExecutionService/SubmitPlan"), 1, submit)
        .await;
    let execute = async |_| {
        let (plan, environment) = dear();
        let request = ExecutePlanRequest {
            plan,
            environment,
            ..ExecutePlanRequest::default()
        };
        plans.execute_plan(request).await.unwrap();
    };
    stage
        .cost(kind("PlanExecutionService/ExecutePlan"), 1, execute)
        .await;
    let kind = Kind {
        name: "PlanExecutionService/SimulatePlan",
        worst: "the same plan, each step with an output of 10 KiB",
        engine_max: 10,
        other_max: 200,
    };
    let stub = StepStub {
        attempts: vec![AttemptStub {
            outcome: Some(escapement_wire::v1::attempt_stub::Outcome::Output(object_of(
                10 << 10,
            ))),
            ..AttemptStub::default()
        }],
        ..StepStub::default()
    };
    let request = SimulatePlanRequest {
        plan: Some(dense(false)),
        environment: Some(environment()),
        stubs: vec![stub],
        ..SimulatePlanRequest::default()
    };
    let simulate = async |_| drop(plans.simulate_plan(request.clone()).await.unwrap());
    stage.cost(kind, 1, simulate).await;
}

/// What is settled, with a record and a result as large as they come.
async fn records(stage: &mut Stage) {
    let mut plans = stage.plans.clone();
    let worker = Tireless::start(stage.den.address()).await;
    let record = large_record(&stage.den).await;
    let result = settled(&stage.den, plan_of(&[LARGE; 11], false)).await;
    let kind = |name, worst, other_max| Kind {
        name,
        worst,
        engine_max: 10,
        other_max,
    };
    let large = "a result of 11 MiB";
    let request = GetExecutionRequest {
        execution_id: result.clone(),
    };
    let ask = async |_| drop(plans.get_execution(request.clone()).await.unwrap());
    let get = kind("PlanExecutionService/GetExecution", large, 250);
    stage.cost(get, 2, ask).await;
    let request = WaitExecutionRequest {
        execution_id: result,
        timeout_ms: None,
    };
    let ask = async |_| drop(plans.wait_execution(request.clone()).await.unwrap());
    let wait = kind("PlanExecutionService/WaitExecution", large, 250);
    stage.cost(wait, 2, ask).await;

    let large = "a record of 20 MiB";
    let request = WatchExecutionRequest {
        execution_id: record.clone(),
        from_sequence: 1,
        ..WatchExecutionRequest::default()
    };
    let watch = async |_| {
        let mut entries = plans.watch_execution(request.clone()).await.unwrap().into_inner();
        while entries.message().await.unwrap().is_some() {}
    };
    let watched = kind("PlanExecutionService/WatchExecution", large, 1_500);
    stage.cost(watched, 1, watch).await;
    let request = ListAuditEntriesRequest {
        execution_id: record.clone(),
        from_sequence: 1,
        page_size: None,
    };
    let ask = async |_| drop(plans.list_audit_entries(request.clone()).await.unwrap());
    let listed = kind(
        "PlanExecutionService/ListAuditEntries",
        "a page of a record of 20 MiB",
        250,
    );
    stage.cost(listed, 2, ask).await;
    let request = ReplayExecutionRequest {
        execution_id: record.clone(),
    };
    let ask = async |_| drop(plans.replay_execution(request.clone()).await.unwrap());
    let replayed = kind("PlanExecutionService/ReplayExecution", large, 100);
    stage.cost(replayed, 1, ask).await;
    let request = ExportExecutionRequest { execution_id: record };
    let export = async |_| {
        let mut pieces = plans
            .export_execution(request.clone())
            .await
            .unwrap()
            .into_inner();
        while pieces.message().await.unwrap().is_some() {}
    };
    let exported = kind("PlanExecutionService/ExportExecution", large, 1_500);
    stage.cost(exported, 1, export).await;

    let mut events = EventServiceClient::new(stage.den.channel().await).max_decoding_message_size(32 << 20);
    let mut told = events
        .subscribe_events(SubscribeEventsRequest::default())
        .await
        .unwrap()
        .into_inner();
    let mut plans = stage.plans.clone();
    let event = async |_| {
        plans.submit_plan(plan_of(&[LARGE; 11], false)).await.unwrap();
        told.message().await.unwrap().unwrap();
    };
    let subscribed = Kind {
        name: "EventService/SubscribeEvents",
        worst: "the end of an execution with a result of 11 MiB, and its execution",
        engine_max: 100,
        other_max: 1_500,
    };
    stage.cost(subscribed, 1, event).await;

    let newest = ReadEventsRequest {
        wait_ms: Some(0),
        ..ReadEventsRequest::default()
    };
    let mut events = events.clone();
    let all = async |_| {
        let mut told = events.read_events(newest.clone()).await.unwrap().into_inner();
        while told.message().await.unwrap().is_some() {}
    };
    let read = kind(
        "EventService/ReadEvents",
        "all that is settled, results of 11 MiB among them",
        1_500,
    );
    stage.cost(read, 1, all).await;
    drop(worker);
}

/// What is queued: executions for which there is no worker.
async fn queue(stage: &mut Stage) {
    let mut plans = stage.plans.clone();
    let mut submitted = JoinSet::new();
    for _ in 0..16 {
        let mut plans = stage.plans.clone();
        submitted.spawn(async move {
            for _ in 0..N_QUEUED / 16 {
                let mut request = submission("nobody");
                let plan = request.plan.as_mut().expect("a submission has a plan");
                plan.name = "\u{1f552}".repeat(limits::NAME_CHARS_MAX);
                plan.tags = (0..16).map(|n| format!("{n:0255}")).collect();
                plans.submit_plan(request).await.unwrap();
            }
        });
    }
    submitted.join_all().await;
    let mut last = plan_of(&[FAILS; limits::STEPS_MAX], false);
    let id = last.execution_id.clone().expect("it has one");
    last.plan.as_mut().expect("it has one").priority = Some(-1);
    plans.submit_plan(last).await.unwrap();
    let kind = Kind {
        name: "PlanExecutionService/ListExecutions",
        worst: "a page of 1,000 with long names and tags",
        engine_max: 20,
        other_max: 400,
    };
    let request = ListExecutionsRequest {
        page_size: Some(1_000),
        ..ListExecutionsRequest::default()
    };
    let ask = async |_| drop(plans.list_executions(request.clone()).await.unwrap());
    stage.cost(kind, 2, ask).await;
    let kind = Kind {
        name: "PlanExecutionService/ExplainExecution",
        worst: "1,024 steps behind a queue of 1,600",
        engine_max: 40,
        other_max: 200,
    };
    let request = ExplainExecutionRequest {
        execution_id: id,
        step_ids: Vec::new(),
    };
    let ask = async |_| drop(plans.explain_execution(request.clone()).await.unwrap());
    stage.cost(kind, 4, ask).await;
}

/// An environment of 1 MiB with as many keys as fit, none of which is asked for.
fn many_keys() -> Opaque {
    let mut encoded = Vec::new();
    for n in 0..100_000 {
        // A key of five digits and a null.
        encoded.extend([10, 11, 10, 5]);
        encoded.extend(format!("{n:05}").bytes());
        encoded.extend([18, 2, 8, 0]);
    }
    assert!(encoded.len() > limits::ENVIRONMENT_BYTES_MAX);
    encoded.truncate(limits::ENVIRONMENT_BYTES_MAX / 13 * 13);
    Opaque::from_encoded(Bytes::from(encoded))
}

const N_QUEUED: usize = 1_600;
