//! Traces over OTLP: what a collector gets is what happened, in the trace of the caller, and no collector delays anybody.

use crate::collectors::served;
use crate::plans::{RequestWords, StepWords, WORK, echo, fail, plan, request, step, step_id};
use crate::recording_worker::RecordingWorker;
use crate::runs::{creation, ended};
use crate::world::{LIMIT, World};
use escapement_tests::{
    ClosedPort, OrchestratorSettings, PrivateDirectory, Receiver, ScriptedWorker, fresh_id, wait_for,
};
use escapement_wire::runs::v1::inbox_service_client::InboxServiceClient;
use escapement_wire::runs::v1::run_service_client::RunServiceClient;
use escapement_wire::runs::v1::{
    ListInputRequestsRequest, RespondToInputRequest, Responder, respond_to_input_request::Answer,
};
use escapement_wire::v1::ExecutePlanRequest;
use escapement_wire::v1::plan_result::Status;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use rustix::process::Signal;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::net::TcpListener;
use tonic::service::Routes;
use tonic::{Request, Response};

pub(crate) mod trees;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

/// A collector that remembers what it got, and takes it or not.
#[derive(Clone, Debug, Default)]
pub(crate) struct Collector {
    refuses: bool,
    got: Arc<Mutex<Got>>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Got {
    pub(crate) spans: Vec<Span>,
    authorization: BTreeSet<String>,
    n_messages: usize,
}

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, tonic::Status> {
        let mut got = self.got.lock().unwrap();
        got.n_messages += 1;
        if self.refuses {
            return Err(tonic::Status::permission_denied("no"));
        }
        if let Some(value) = request.metadata().get("authorization") {
            got.authorization.insert(value.to_str().unwrap().to_owned());
        }
        let resources = request.into_inner().resource_spans.into_iter();
        let scopes = resources.flat_map(|resource| resource.scope_spans);
        got.spans.extend(scopes.flat_map(|scope| scope.spans));
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    /// Serves on a free port; its address.
    pub(crate) async fn serve(&self) -> String {
        served(Routes::new(TraceServiceServer::new(self.clone()))).await
    }

    pub(crate) fn got(&self) -> Got {
        self.got.lock().unwrap().clone()
    }

    /// The spans once so many executions are there with all of theirs.
    async fn executions(&self, n: usize) -> Vec<Span> {
        let complete = async || {
            let spans = self.got().spans;
            (spans.iter().filter(|span| span.name == "execution").count() == n).then_some(spans)
        };
        wait_for("executions at the collector", LIMIT, complete)
            .await
            .unwrap()
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn attribute(span: &Span, key: &str) -> String {
    let found = span.attributes.iter().find(|attribute| attribute.key == key);
    match found.and_then(|attribute| attribute.value.clone()?.value) {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        other => panic!("{key} is {other:?} in {span:?}"),
    }
}

fn of_execution<'a>(spans: &'a [Span], execution_id: &str) -> &'a Span {
    let is_it =
        |span: &&Span| span.name == "execution" && attribute(span, "escapement.execution.id") == execution_id;
    spans.iter().find(is_it).unwrap()
}

fn children<'a>(spans: &'a [Span], parent: &Span) -> Vec<&'a Span> {
    let is_child = |span: &&Span| span.parent_span_id == parent.span_id;
    spans.iter().filter(is_child).collect()
}

pub(crate) fn exporting(settings: OrchestratorSettings, endpoint: &str, ratio: &str) -> OrchestratorSettings {
    settings
        .flag("--otlp-endpoint", endpoint)
        .flag("--trace-ratio", ratio)
}

/// Returns a directory with a file `headers`.
fn directory_with(text: &str) -> PrivateDirectory {
    let directory = PrivateDirectory::new("traces").unwrap();
    std::fs::write(directory.join("headers"), text).unwrap();
    directory
}

#[tokio::test]
async fn a_callers_trace_goes_through_executions_steps_and_nested_plans() {
    let collector = Collector::default();
    let endpoint = collector.serve().await;
    let headers = directory_with("authorization: Bearer of-the-collector\n");
    let world = World::start_with(|settings| {
        exporting(settings, &endpoint, "0").flag("--otlp-headers-file", headers.join("headers").display())
    });
    let world = world.await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    let child = json!({
        "id": fresh_id(), "version": 1, "created_at": 1_766_016_000_000_i64, "name": "nested",
        "context_requirements": ["region"],
        "steps": [{ "id": step_id(0), "action": "echo", "payload": {} }],
    });
    let parent = request(plan([
        step(0, "execute_plan").payload(json!({ "plan": child })),
        echo(1, json!({})),
    ]));
    let id = parent.id();
    let mut call = Request::new(parent);
    let traceparent = format!("00-{TRACE}-{CALLER}-01");
    call.metadata_mut()
        .insert("traceparent", traceparent.parse().unwrap());
    let answer = world.orchestrator.plans().execute_plan(call).await.unwrap();
    assert_eq!(answer.into_inner().result.unwrap().status(), Status::Success);
    // Its caller names no trace, and of those none is sampled.
    world.execute(request(plan([echo(0, json!({}))]))).await;

    let spans = collector.executions(2).await;
    assert!(
        spans.iter().all(|span| hex(&span.trace_id) == TRACE),
        "{spans:#?}"
    );
    let root = of_execution(&spans, &id);
    assert_eq!(hex(&root.parent_span_id), CALLER);
    let below = children(&spans, root);
    let names: Vec<&str> = below.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["queued", "step", "step"]);
    assert_eq!(attribute(below[1], "escapement.step.action"), "execute_plan");
    let nested = children(&spans, below[1]);
    let [nested] = nested.as_slice() else {
        panic!("{nested:#?}")
    };
    assert_eq!(attribute(nested, "escapement.plan.name"), "nested");
    let names: Vec<&str> = children(&spans, nested)
        .iter()
        .map(|span| span.name.as_str())
        .collect();
    assert_eq!(names, ["queued", "step"]);
    assert_eq!(spans.len(), 7);
    let shown: Vec<String> = collector.got().authorization.into_iter().collect();
    assert_eq!(shown, ["Bearer of-the-collector"]);
}

#[tokio::test]
async fn without_an_endpoint_an_attempt_is_told_what_the_caller_said() {
    let world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let mut asked = request(plan([step(0, WORK)]));
    let said = format!("00-{TRACE}-{CALLER}-01");
    let context = &mut asked.correlation_context;
    context.insert("traceparent".to_owned(), said.clone());
    world.submit(&asked).await;
    let assignment = worker.started().await;
    assert_eq!(assignment.headers["traceparent"], said);
    worker.succeed(&assignment, json!({})).await;
}

// F11: callers that name the execution lost their trace.
#[tokio::test]
async fn without_an_endpoint_the_trace_of_the_call_reaches_workers_and_nested_plans() {
    let world = World::start().await;
    let recording = RecordingWorker::start(&world.orchestrator.url(), 4);
    let _stock = world.stock_worker("stock", |settings| settings).await;
    let child = json!({
        "id": fresh_id(), "version": 1, "created_at": 1_766_016_000_000_i64, "name": "nested",
        "context_requirements": ["region"],
        "steps": [{ "id": step_id(0), "action": "record", "payload": {} }],
    });
    let mut asked = request(plan([
        step(0, "execute_plan").payload(json!({ "plan": child })),
        step(1, "record"),
    ]));
    assert!(asked.execution_id.is_some(), "it is named");
    let another = format!("00-{}-{CALLER}-00", TRACE.replace('0', "1"));
    asked.correlation_context = [("traceparent", another.as_str()), ("tenant", "a")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
    let unnamed = ExecutePlanRequest {
        execution_id: None,
        ..request(plan([step(0, "record")]))
    };
    let said = format!("00-{TRACE}-{CALLER}-01");
    for request in [asked.clone(), unnamed] {
        let mut call = Request::new(request);
        let metadata = call.metadata_mut();
        metadata.insert("traceparent", said.parse().unwrap());
        metadata.insert("tracestate", "vendor=1".parse().unwrap());
        let answer = world.orchestrator.plans().execute_plan(call).await.unwrap();
        assert_eq!(answer.into_inner().result.unwrap().status(), Status::Success);
    }
    // The trace is no part of what makes two requests the same.
    let again = world.orchestrator.plans().execute_plan(asked.clone()).await;
    assert_eq!(
        again.unwrap().into_inner().result.unwrap().status(),
        Status::Success
    );

    let seen = recording.seen();
    assert_eq!(seen.len(), 3, "{seen:#?}");
    for seen in &seen {
        let header = |key: &str| seen.headers.get(key).map(String::as_str);
        assert_eq!(
            (header("traceparent"), header("tracestate")),
            (Some(said.as_str()), Some("vendor=1")),
            "{seen:#?}"
        );
    }
    let with_tenant = seen.iter().filter(|seen| seen.headers.contains_key("tenant"));
    assert_eq!(
        with_tenant.count(),
        2,
        "the rest of the context goes on: {seen:#?}"
    );

    // What is no span is passed on to nobody.
    let mut call = Request::new(request(plan([step(0, "record")])));
    call.metadata_mut()
        .insert("traceparent", "nonsense".parse().unwrap());
    world.orchestrator.plans().execute_plan(call).await.unwrap();
    assert_eq!(recording.seen()[3].headers.get("traceparent"), None);
}

#[tokio::test]
async fn what_a_kill_interrupts_has_the_span_that_its_worker_was_told() {
    let collector = Collector::default();
    let endpoint = collector.serve().await;
    let mut world = World::start_with(|settings| exporting(settings, &endpoint, "1")).await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let first = request(plan([step(0, WORK)]));
    world.submit(&first).await;
    let assignment = worker.started().await;
    worker.succeed(&assignment, json!({})).await;
    collector.executions(1).await;
    let second = request(plan([step(0, WORK)]));
    world.submit(&second).await;
    let assignment = worker.started().await;
    let told = assignment.headers["traceparent"].clone();
    world.crash_and_restart().await;

    let spans = collector.executions(2).await;
    let root = of_execution(&spans, &second.id());
    assert_eq!(attribute(root, "error.type"), "orchestrator_restarted");
    assert_eq!(
        hex(&root.trace_id),
        second.id().replace('-', ""),
        "an execution id finds its trace"
    );
    let fields: Vec<&str> = told.split('-').collect();
    assert_eq!((fields[1], fields[3]), (hex(&root.trace_id).as_str(), "01"));
    // The record of what was interrupted tells no attempts, so the span that was told is there at most once.
    let ids: BTreeSet<_> = spans.iter().map(|span| (&span.trace_id, &span.span_id)).collect();
    assert_eq!(ids.len(), spans.len(), "no span is there twice");
    let of_first = of_execution(&spans, &first.id());
    assert_eq!(children(&spans, of_first).len(), 2);
}

#[tokio::test]
async fn lines_of_the_log_name_the_trace_and_the_span() {
    let collector = Collector::default();
    let endpoint = collector.serve().await;
    let world = World::start_with(|settings| {
        let settings = exporting(settings, &endpoint, "0").flag("--log", "escapement_host=debug");
        settings.flag("--log-format", "json")
    });
    let mut world = world.await;
    let mut worker = world
        .stock_worker("stock", |settings| {
            let settings = settings.flag("--log", "escapement_sdk=debug");
            settings
                .flag("--log-format", "json")
                .flag("--otlp-endpoint", &endpoint)
        })
        .await;
    let mut call = Request::new(request(plan([echo(0, json!({}))])));
    let traceparent = format!("00-{TRACE}-{CALLER}-01").parse().unwrap();
    call.metadata_mut().insert("traceparent", traceparent);
    world.orchestrator.plans().execute_plan(call).await.unwrap();
    worker.process.terminate(LIMIT).await.unwrap();
    world.orchestrator.process.terminate(LIMIT).await.unwrap();
    let spans = collector.got().spans;
    let of = |name: &str| hex(&spans.iter().find(|span| span.name == name).unwrap().span_id);
    let logs = [
        (
            world.orchestrator.process.stderr(),
            of("execution"),
            "execution succeeded",
        ),
        (worker.process.stderr(), of("handler"), "attempt ended"),
    ];
    for (log, span_id, message) in logs {
        let lines = log
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let lines: Vec<_> = lines.filter(|line| line["execution_id"].is_string()).collect();
        assert!(lines.iter().any(|line| line["message"] == message), "{log}");
        for line in lines {
            assert_eq!(
                (&line["trace_id"], &line["span_id"]),
                (&json!(TRACE), &json!(span_id)),
                "{line}"
            );
        }
    }
}

/// Executes, sees that drops are told, and ends within the time for the last traces.
async fn nobody_waits(endpoint: &str, is_told: bool) {
    let mut world = World::start_with(|settings| exporting(settings, endpoint, "1")).await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    for _ in 0..3 {
        let result = world.execute(request(plan([echo(0, json!({}))]))).await;
        assert_eq!(result.status(), Status::Success);
    }
    let log = world.directory.join("orchestrator.stderr");
    let dropped = async || {
        let log = std::fs::read_to_string(&log).ok()?;
        log.contains("traces are dropped").then_some(())
    };
    if is_told {
        wait_for("the drop to be told", LIMIT, dropped).await.unwrap();
    }
    let asked = Instant::now();
    world.orchestrator.process.signal(Signal::TERM).unwrap();
    let ended = world.orchestrator.process.exit(LIMIT).await.unwrap();
    assert!(ended.success(), "{ended:?}");
    assert!(asked.elapsed() < LIMIT / 2, "{:?}", asked.elapsed());
}

#[tokio::test]
async fn a_collector_that_refuses_delays_nobody() {
    let collector = Collector {
        refuses: true,
        ..Collector::default()
    };
    nobody_waits(&collector.serve().await, true).await;
    assert!(collector.got().n_messages > 0);
}

#[tokio::test]
async fn a_collector_that_is_absent_delays_nobody() {
    let closed = ClosedPort::bind().unwrap();
    nobody_waits(&format!("http://{}", closed.address()), true).await;
}

#[tokio::test]
async fn a_collector_that_never_answers_delays_nobody() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    nobody_waits(&endpoint, false).await;
    drop(listener);
}

#[tokio::test]
async fn what_waits_at_the_end_is_exported() {
    let collector = Collector::default();
    let endpoint = collector.serve().await;
    let world = World::start_with(|settings| exporting(settings, &endpoint, "1")).await;
    let worker = world.stock_worker("stock", |settings| settings).await;
    for _ in 0..20 {
        world.execute(request(plan([echo(0, json!({}))]))).await;
    }
    drop(worker);
    world.orchestrator.stop().await.unwrap();
    let spans = collector.got().spans;
    assert_eq!(spans.iter().filter(|span| span.name == "execution").count(), 20);
}

#[tokio::test]
async fn all_attempts_of_a_run_are_in_the_trace_of_the_call_that_made_it_also_behind_a_crash() {
    let collector = Collector::default();
    let endpoint = collector.serve().await;
    let mut world = World::start_with(|settings| exporting(settings, &endpoint, "0")).await;
    let record = |key: &str| json!({ "key": key, "type": "tool_call", "config": { "tool_name": "record", "tool_args": {} } });
    let asks = json!({ "key": "ask", "type": "user_input", "config": { "question": "Well?" } });
    let steps = json!([record("before"), asks, record("behind")]);
    let document = json!({ "schema": "escapement.plan/1", "name": "Traced", "steps": steps });
    let worker = RecordingWorker::start(&world.orchestrator.url(), 1);
    let mut request = Request::new(creation("traced", &document));
    let traceparent = format!("00-{TRACE}-{CALLER}-01").parse().unwrap();
    request.metadata_mut().insert("traceparent", traceparent);
    request
        .metadata_mut()
        .insert("tracestate", "vendor=1".parse().unwrap());
    let mut runs = RunServiceClient::new(world.orchestrator.channel());
    let created = runs.create_run(request);
    let run_id = created.await.unwrap().into_inner().run.unwrap().run_id;
    collector.executions(1).await;
    worker.stop().await;
    world.crash_and_restart().await;
    let worker = RecordingWorker::start(&world.orchestrator.url(), 1);
    let mut inbox = InboxServiceClient::new(world.orchestrator.channel());
    let of_run = ListInputRequestsRequest {
        run_id: run_id.clone(),
        ..ListInputRequestsRequest::default()
    };
    let asked = async || {
        let listed = inbox.clone().list_input_requests(of_run.clone()).await.ok()?;
        listed.into_inner().input_requests.pop()
    };
    let asked = wait_for("the question", LIMIT, asked).await.unwrap();
    let answer = RespondToInputRequest {
        input_request_id: asked.input_request_id,
        answer: Some(Answer::Text("yes".to_owned())),
        responder: Some(Responder {
            id: "me".to_owned(),
            ..Responder::default()
        }),
        ..RespondToInputRequest::default()
    };
    inbox.respond_to_input(answer).await.unwrap();
    ended(&world.orchestrator, &run_id).await;
    let whole = async || {
        let spans = collector.got().spans;
        spans.iter().any(|span| span.name == "run").then_some(spans)
    };
    wait_for("the run at the collector", LIMIT, whole).await.unwrap();
    let spans = collector.executions(2).await;
    for span in &spans {
        assert_eq!(hex(&span.trace_id), TRACE, "{span:?}");
        assert_eq!(span.trace_state, "vendor=1", "{span:?}");
    }
    let run = spans.iter().find(|span| span.name == "run").unwrap();
    assert_eq!(hex(&run.parent_span_id), CALLER);
    assert_eq!(attribute(run, "escapement.run.id"), run_id);
    let attempts = spans.iter().filter(|span| span.name == "attempt");
    let below: Vec<&str> = attempts
        .flat_map(|attempt| children(&spans, attempt))
        .map(|span| span.name.as_str())
        .collect();
    assert_eq!(below, ["execution", "execution"], "{spans:#?}");
    // What the handlers were told is the trace, and each its own attempt.
    for seen in worker.seen() {
        let told = &seen.headers["traceparent"];
        assert!(told.starts_with(&format!("00-{TRACE}-")), "{told}");
        assert!(!told.contains(CALLER), "{told}");
    }
    worker.stop().await;
}

#[tokio::test]
async fn a_request_of_the_stock_worker_carries_the_trace_of_its_attempt() {
    let receiver = Receiver::start(200).await.unwrap();
    let world = World::start().await;
    let host = receiver.address().to_string();
    let _worker = world
        .stock_worker("stock", |settings| settings.flag("--allow-host", &host))
        .await;
    let asks = |path: &str, more: serde_json::Value| {
        let mut payload = json!({ "url": receiver.url(path) });
        payload
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        request(plan([step(0, "http.request").payload(payload)]))
    };
    let mut plans = world.orchestrator.plans();
    let named = "00-11111111111111111111111111111111-2222222222222222-01";
    for asked in [
        asks("/goes-on", json!({})),
        asks("/names-another", json!({ "headers": { "traceparent": named } })),
    ] {
        let mut asked = Request::new(asked);
        let traceparent = format!("00-{TRACE}-{CALLER}-01").parse().unwrap();
        asked.metadata_mut().insert("traceparent", traceparent);
        asked
            .metadata_mut()
            .insert("tracestate", "vendor=1".parse().unwrap());
        plans.execute_plan(asked).await.unwrap();
    }
    // Nobody said anything of a trace.
    plans.execute_plan(asks("/none", json!({}))).await.unwrap();
    let of = |path: &str, name: &str| {
        let received = receiver.received().into_iter();
        let request = received.rev().find(|request| request.path == path).unwrap();
        request.headers.get(name).cloned()
    };
    assert_eq!(
        of("/goes-on", "traceparent"),
        Some(format!("00-{TRACE}-{CALLER}-01"))
    );
    assert_eq!(of("/goes-on", "tracestate").as_deref(), Some("vendor=1"));
    assert_eq!(of("/names-another", "traceparent").as_deref(), Some(named));
    assert_eq!(of("/names-another", "tracestate"), None);
    assert_eq!(of("/none", "traceparent"), None);
}

#[tokio::test]
async fn handlers_of_the_stock_worker_have_spans_and_what_they_start_is_below() {
    let collector = Collector::default();
    let endpoint = collector.serve().await;
    let receiver = Receiver::start(200).await.unwrap();
    let host = receiver.address().to_string();
    let world = World::start_with(|settings| exporting(settings, &endpoint, "0")).await;
    let worker = world
        .stock_worker("stock", |settings| {
            settings
                .flag("--allow-host", &host)
                .flag("--otlp-endpoint", &endpoint)
        })
        .await;
    // Its caller names no trace, and of those none is sampled.
    world.execute(request(plan([echo(0, json!({}))]))).await;
    let child = json!({
        "id": fresh_id(), "version": 1, "created_at": 1_766_016_000_000_i64, "name": "nested",
        "context_requirements": ["region"],
        "steps": [{ "id": step_id(0), "action": "echo", "payload": {} }],
    });
    let calls = [
        request(plan([
            step(0, "execute_plan").payload(json!({ "plan": child })),
            step(1, "http.request").payload(json!({ "url": receiver.url("/asked") })),
        ])),
        request(plan([fail(0, "BROKEN")])),
    ];
    for call in calls {
        let mut call = Request::new(call);
        let traceparent = format!("00-{TRACE}-{CALLER}-01");
        call.metadata_mut()
            .insert("traceparent", traceparent.parse().unwrap());
        world.orchestrator.plans().execute_plan(call).await.unwrap();
    }
    // The end of the worker exports what waits.
    worker.stop().await.unwrap();
    let spans = collector.executions(3).await;
    assert_eq!(spans.iter().filter(|span| span.name == "handler").count(), 4);

    let of = |name: &str, action: &str| {
        let is_it = |span: &&Span| span.name == name && attribute(span, "escapement.step.action") == action;
        spans.iter().find(is_it).unwrap()
    };
    for action in ["execute_plan", "echo", "http.request", "fail"] {
        let (step, handler) = (of("step", action), of("handler", action));
        assert_eq!(hex(&handler.trace_id), TRACE);
        assert_eq!(handler.parent_span_id, step.span_id, "{action}");
        for key in ["escapement.step.id", "escapement.attempt"] {
            // Of the same type, too: a collector finds both by one question.
            let said = |span: &Span| span.attributes.iter().find(|one| one.key == key).cloned();
            assert_eq!(said(handler), Some(said(step).unwrap()));
        }
    }
    let nested = children(&spans, of("handler", "execute_plan"));
    assert_eq!(nested.len(), 1);
    assert_eq!(attribute(nested[0], "escapement.plan.name"), "nested");
    let asked = receiver.received().pop().unwrap();
    let of_request = format!("00-{TRACE}-{}-01", hex(&of("handler", "http.request").span_id));
    assert_eq!(asked.headers.get("traceparent"), Some(&of_request));
    assert_eq!(attribute(of("handler", "fail"), "error.type"), "BROKEN");
}
