//! What callers ask and are told, against a worker that is played by hand.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test fails by panicking and its name is its documentation"
)]

mod process;

use escapement_model::limits;
use escapement_model::opaque::StructBuilder;
use escapement_wire::v1;
use escapement_wire::v1::execution::State;
use escapement_wire::worker::v1::session_request::Message as Request;
use process::{Orchestrator, PATIENCE, TestDirectory, Worker, plan, request};
use tokio::time::timeout;
use tonic::Code;
use tonic_types::StatusExt;

/// An orchestrator that has run one plan, and how the execution stands.
async fn settled(orchestrator: &Orchestrator) -> v1::Execution {
    let mut plans = orchestrator.plans().await;
    let worker = Worker::start(orchestrator, "copy").await;
    let submitted = plans
        .submit_plan(request(plan(1, "copy")))
        .await
        .unwrap()
        .into_inner();
    let execution_id = submitted.execution.unwrap().execution_id;
    let waited = v1::WaitExecutionRequest {
        execution_id,
        timeout_ms: Some(20_000),
    };
    let settled = plans
        .wait_execution(waited)
        .await
        .unwrap()
        .into_inner()
        .execution
        .unwrap();
    worker.stop().await;
    settled
}

#[tokio::test]
async fn a_plan_runs_and_the_event_and_every_later_question_agree_on_its_result() {
    let directory = TestDirectory::new("runs");
    let orchestrator = Orchestrator::start(&directory, &[]).await;
    let types = vec!["plan_execution_success".to_owned()];
    let subscription = v1::SubscribeEventsRequest {
        types,
        ..v1::SubscribeEventsRequest::default()
    };
    let mut events = orchestrator
        .events()
        .await
        .subscribe_events(subscription)
        .await
        .unwrap()
        .into_inner();
    let settled = settled(&orchestrator).await;
    assert_eq!(settled.state, State::Settled as i32);
    let result = settled.result.clone().unwrap();
    assert_eq!(result.status, v1::plan_result::Status::Success as i32);
    assert_eq!((result.steps_executed, result.steps_total), (2, 2));

    let asked = v1::GetExecutionRequest {
        execution_id: settled.execution_id.clone(),
    };
    let got = orchestrator
        .plans()
        .await
        .get_execution(asked)
        .await
        .unwrap()
        .into_inner();
    let mut got = got.execution.unwrap();
    assert!(got.certificate.take().is_some(), "this answer alone has it");
    assert_eq!(got, settled);
    let event = timeout(PATIENCE, events.message())
        .await
        .unwrap()
        .unwrap()
        .unwrap()
        .event
        .unwrap();
    assert_eq!(
        (event.r#type.as_str(), event.data),
        ("plan_execution_success", Some(result))
    );
    assert_eq!(orchestrator.stop().await, Some(0));
}

#[tokio::test]
async fn the_record_of_a_settled_execution_is_the_same_as_a_stream_and_in_pages() {
    let directory = TestDirectory::new("record");
    let orchestrator = Orchestrator::start(&directory, &[]).await;
    let mut plans = orchestrator.plans().await;
    let settled = settled(&orchestrator).await;
    let execution_id = settled.execution_id;
    let watched = v1::WatchExecutionRequest {
        execution_id: execution_id.clone(),
        from_sequence: 0,
        ..v1::WatchExecutionRequest::default()
    };
    let mut watch = plans.watch_execution(watched).await.unwrap().into_inner();
    let mut answers = Vec::new();
    while let Some(answer) = watch.message().await.unwrap() {
        answers.push(answer);
    }
    assert_eq!(answers.last().unwrap().result, settled.result.clone());
    assert!(
        answers[..answers.len() - 1]
            .iter()
            .all(|answer| answer.result.is_none())
    );
    let entries: Vec<_> = answers.into_iter().map(|answer| answer.entry.unwrap()).collect();
    let sequences: Vec<_> = entries.iter().map(|entry| entry.sequence).collect();
    assert_eq!(sequences, (1..=entries.len() as i64).collect::<Vec<_>>());
    assert_eq!(pages_of_audit(&mut plans, &execution_id).await, entries);

    let beyond = v1::WatchExecutionRequest {
        execution_id,
        from_sequence: entries.len() as i64 + 1,
        ..v1::WatchExecutionRequest::default()
    };
    let mut watch = plans.watch_execution(beyond).await.unwrap().into_inner();
    let last = watch.message().await.unwrap().unwrap();
    assert_eq!(
        (last.entry.as_ref(), last.result),
        (entries.last(), settled.result)
    );
    assert!(watch.message().await.unwrap().is_none());
    assert_eq!(orchestrator.stop().await, Some(0));
}

async fn pages_of_audit(plans: &mut process::Plans, execution_id: &str) -> Vec<v1::AuditEntry> {
    let mut entries = Vec::new();
    let mut from_sequence = 1;
    while from_sequence != 0 {
        let page = v1::ListAuditEntriesRequest {
            execution_id: execution_id.to_owned(),
            from_sequence,
            page_size: Some(3),
        };
        let page = plans.list_audit_entries(page).await.unwrap().into_inner();
        assert!(page.entries.len() <= 3);
        entries.extend(page.entries);
        from_sequence = page.next_sequence;
    }
    entries
}

#[tokio::test]
async fn a_live_watch_shows_the_steps_as_they_run_and_ends_with_the_result() {
    let directory = TestDirectory::new("watch");
    let orchestrator = Orchestrator::start(&directory, &[]).await;
    let mut plans = orchestrator.plans().await;
    // It is there, so that the execution starts, and takes nothing.
    let mut hello = Worker::hello("copy");
    hello.instance_id = vec![8; 16].into();
    hello.max_in_flight = 0;
    let (_full, mut welcomed) = Worker::open(&orchestrator, Some(Request::Hello(hello))).await;
    welcomed.message().await.unwrap().unwrap();
    let submitted = plans
        .submit_plan(request(plan(1, "copy")))
        .await
        .unwrap()
        .into_inner()
        .execution
        .unwrap();
    let watched = v1::WatchExecutionRequest {
        execution_id: submitted.execution_id.clone(),
        from_sequence: 2,
        ..v1::WatchExecutionRequest::default()
    };
    let mut watch = plans.watch_execution(watched).await.unwrap().into_inner();
    let first = timeout(PATIENCE, watch.message())
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert_eq!(first.entry.unwrap().sequence, 2);
    let live = v1::ListAuditEntriesRequest {
        execution_id: submitted.execution_id,
        from_sequence: 2,
        page_size: Some(1),
    };
    let live = plans.list_audit_entries(live).await.unwrap().into_inner();
    assert_eq!(
        live.entries
            .iter()
            .map(|entry| entry.sequence)
            .collect::<Vec<_>>(),
        [2]
    );

    // Only now is there a worker: what comes from here on is live.
    let worker = Worker::start(&orchestrator, "copy").await;
    let mut last = None;
    while let Some(answer) = timeout(PATIENCE, watch.message()).await.unwrap().unwrap() {
        last = Some(answer);
    }
    let result = last.unwrap().result.unwrap();
    assert_eq!(result.status, v1::plan_result::Status::Success as i32);
    worker.stop().await;
    assert_eq!(orchestrator.stop().await, Some(0));
}

#[tokio::test]
async fn pages_of_a_list_are_newest_first_and_refuse_other_filters() {
    let directory = TestDirectory::new("pages");
    let orchestrator = Orchestrator::start(&directory, &[]).await;
    let mut plans = orchestrator.plans().await;
    let mut accepted = Vec::new();
    for number in 1..=5 {
        let execution = plans
            .submit_plan(request(plan(number, "copy")))
            .await
            .unwrap()
            .into_inner()
            .execution;
        accepted.insert(0, execution.unwrap().execution_id);
    }
    let mut query = v1::ListExecutionsRequest {
        page_size: Some(2),
        ..Default::default()
    };
    let mut listed = Vec::new();
    loop {
        let page = plans.list_executions(query.clone()).await.unwrap().into_inner();
        listed.extend(
            page.executions
                .into_iter()
                .map(|execution| execution.execution_id),
        );
        if page.next_page_token.is_empty() {
            break;
        }
        query.page_token = page.next_page_token;
    }
    assert_eq!(listed, accepted);
    query.tag = Some("other".to_owned());
    let status = plans.list_executions(query).await.unwrap_err();
    assert_eq!(
        status.get_error_details().error_info().unwrap().reason,
        "PAGE_TOKEN_INVALID"
    );
    // All of them wait for a worker, and what waits holds up no end.
    assert_eq!(orchestrator.stop().await, Some(0));
}

#[tokio::test]
async fn validation_says_what_no_worker_offers_and_stores_nothing() {
    let directory = TestDirectory::new("validate");
    let orchestrator = Orchestrator::start(&directory, &[]).await;
    let mut plans = orchestrator.plans().await;
    let mut wanted = plan(1, "copy");
    wanted.steps[1].action = "absent".to_owned();
    let worker = Worker::start(&orchestrator, "copy").await;
    let environment = Some(StructBuilder::new().text("other", "x").build());
    let asked = v1::ValidatePlanRequest {
        options: None,
        plan: Some(wanted.clone()),
        environment,
        ..Default::default()
    };
    let answer = plans.validate_plan(asked).await.unwrap().into_inner();
    assert!(answer.valid);
    assert_eq!(answer.unknown_actions, ["absent"]);
    assert_eq!(
        answer.canonical_order,
        [wanted.steps[0].id.clone(), wanted.steps[1].id.clone()]
    );
    assert!(
        answer
            .warnings
            .iter()
            .any(|warning| warning.code == "CONTEXT_MISSING")
    );

    wanted.version = 2;
    let asked = v1::ValidatePlanRequest {
        options: None,
        plan: Some(wanted.clone()),
        environment: None,
        ..Default::default()
    };
    let answer = plans.validate_plan(asked).await.unwrap().into_inner();
    assert!(!answer.valid);
    assert_eq!(answer.violations[0].field, "plan.version");
    let status = plans.submit_plan(request(wanted)).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    let listed = plans
        .list_executions(v1::ListExecutionsRequest::default())
        .await
        .unwrap()
        .into_inner();
    assert!(listed.executions.is_empty());
    worker.stop().await;
    assert_eq!(orchestrator.stop().await, Some(0));
}

#[tokio::test]
async fn what_is_too_large_is_refused_with_its_field() {
    let directory = TestDirectory::new("large");
    let orchestrator = Orchestrator::start(&directory, &[]).await;
    let mut plans = orchestrator.plans().await;
    let text = |bytes: usize| StructBuilder::new().text("key", &"x".repeat(bytes)).build();
    let mut large_environment = request(plan(1, "copy"));
    large_environment.environment = Some(text(limits::ENVIRONMENT_BYTES_MAX));
    let mut large_plan = request(plan(1, "copy"));
    large_plan.plan.as_mut().unwrap().metadata = Some(text(limits::PLAN_BYTES_MAX));
    let mut large_payload = request(plan(1, "copy"));
    large_payload.plan.as_mut().unwrap().steps[1].payload = Some(text(limits::PAYLOAD_BYTES_MAX));
    let table = [
        (large_environment, "environment"),
        (large_plan, "plan"),
        (large_payload, "plan.steps[1].payload"),
    ];
    for (asked, field) in table {
        let status = plans.submit_plan(asked).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{field}");
        assert_eq!(
            status.get_error_details().bad_request().unwrap().field_violations[0].field,
            field
        );
    }
    // Beyond what is read at all.
    let mut enormous = request(plan(1, "copy"));
    enormous.environment = Some(text(2 * limits::CALLER_MESSAGE_BYTES_MAX));
    let status = plans.submit_plan(enormous).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    let details = status.get_error_details();
    assert_eq!(details.error_info().unwrap().reason, "REQUEST_TOO_LARGE");
    assert!(details.retry_info().is_none(), "the same again would be as large");
    assert_eq!(orchestrator.stop().await, Some(0));
}

#[tokio::test]
async fn reflection_lists_every_service_in_both_versions() {
    use tonic_reflection::pb::{v1 as new, v1alpha as old};
    let directory = TestDirectory::new("reflection");
    let orchestrator = Orchestrator::start(&directory, &[]).await;
    let channel = orchestrator.channel().await;

    let message = new::server_reflection_request::MessageRequest::ListServices(String::new());
    let asked = new::ServerReflectionRequest {
        message_request: Some(message),
        ..Default::default()
    };
    let mut client = new::server_reflection_client::ServerReflectionClient::new(channel.clone());
    let mut answers = client
        .server_reflection_info(tokio_stream::iter([asked]))
        .await
        .unwrap()
        .into_inner();
    let answer = answers
        .message()
        .await
        .unwrap()
        .unwrap()
        .message_response
        .unwrap();
    let new::server_reflection_response::MessageResponse::ListServicesResponse(list) = answer else {
        panic!("a list");
    };
    let new_names: Vec<_> = list.service.into_iter().map(|service| service.name).collect();

    let message = old::server_reflection_request::MessageRequest::ListServices(String::new());
    let asked = old::ServerReflectionRequest {
        message_request: Some(message),
        ..Default::default()
    };
    let mut client = old::server_reflection_client::ServerReflectionClient::new(channel);
    let mut answers = client
        .server_reflection_info(tokio_stream::iter([asked]))
        .await
        .unwrap()
        .into_inner();
    let answer = answers
        .message()
        .await
        .unwrap()
        .unwrap()
        .message_response
        .unwrap();
    let old::server_reflection_response::MessageResponse::ListServicesResponse(list) = answer else {
        panic!("a list");
    };
    let old_names: Vec<_> = list.service.into_iter().map(|service| service.name).collect();

    for names in [new_names, old_names] {
        for service in [
            "escapement.v1.PlanExecutionService",
            "escapement.v1.EventService",
            "escapement.v1.FleetService",
            "escapement.worker.v1.WorkerService",
            "grpc.health.v1.Health",
        ] {
            assert!(names.iter().any(|name| name == service), "{service} in {names:?}");
        }
    }
    assert_eq!(orchestrator.stop().await, Some(0));
}
