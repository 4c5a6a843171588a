//! Whole traces, drawn as trees of names and compared with the golden ones in `trees.txt`.

use super::{Collector, children, exporting, hex};
use crate::plans::{StepWords, plan, request, step, step_id};
use crate::recording_worker::RecordingWorker;
use crate::runs::{creation, ended};
use crate::world::{LIMIT, World};
use escapement_sdk::{Action, Effect, Risk, StepContext, StepError};
use escapement_tests::{ChildProcess, ModelServer, Turn, checkout, documents, fresh_id, tool, wait_for};
use escapement_wire::runs::v1::approval::{Approve, Decision};
use escapement_wire::runs::v1::inbox_service_client::InboxServiceClient;
use escapement_wire::runs::v1::plan_service_client::PlanServiceClient;
use escapement_wire::runs::v1::respond_to_input_request::Answer;
use escapement_wire::runs::v1::run::State;
use escapement_wire::runs::v1::run_service_client::RunServiceClient;
use escapement_wire::runs::v1::{
    Approval, CreatePlanRequest, CreateRunRequest, ListInputRequestsRequest, Plan, RespondToInputRequest,
    Responder,
};
use escapement_wire::v1::ListActionsRequest;
use escapement_wire::v1::fleet_service_client::FleetServiceClient;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Said;
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use tonic::transport::Channel;

/// Spans with what is below them, alike in alphabetical order; without times and ids.
pub(crate) fn drawn(spans: &[Span]) -> String {
    let ids: BTreeSet<&[u8]> = spans.iter().map(|span| &span.span_id[..]).collect();
    let tops = spans
        .iter()
        .filter(|span| !ids.contains(&span.parent_span_id[..]));
    let mut trees: Vec<String> = tops.map(|top| tree(spans, top, 0)).collect();
    trees.sort();
    trees.concat()
}

fn tree(spans: &[Span], top: &Span, depth: usize) -> String {
    let mut text = format!("{:1$}{2}", "", 2 * depth, top.name);
    for key in SHOWN {
        let found = top
            .attributes
            .iter()
            .find(|attribute| attribute.key.ends_with(key));
        match found.and_then(|attribute| attribute.value.clone()?.value) {
            Some(Said::StringValue(said)) => write!(text, " {said}").unwrap(),
            Some(Said::IntValue(number)) => write!(text, " {number}").unwrap(),
            _ => {}
        }
    }
    for event in &top.events {
        write!(text, " +{}", event.name).unwrap();
    }
    text.push('\n');
    let mut below: Vec<String> = children(spans, top)
        .iter()
        .map(|child| tree(spans, child, depth + 1))
        .collect();
    below.sort();
    text + &below.concat()
}

/// Compares with the golden trees of that title, or writes them.
#[track_caller]
pub(crate) fn hold(title: &str, trees: &str) {
    static WRITING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let file = checkout::root().join("tests/end_to_end/traces/trees.txt");
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let heading = format!("# {title}\n");
    let (before, rest) = text.split_once(&heading).unwrap_or((&text, ""));
    let (golden, behind) = match rest.find("\n# ") {
        Some(end) => (&rest[..end], &rest[end + 1..]),
        None => (rest.trim_end_matches('\n'), ""),
    };
    if std::env::var_os("ESCAPEMENT_WRITE").is_some() {
        let behind = if behind.is_empty() {
            String::new()
        } else {
            format!("\n{behind}")
        };
        let gap = if before.is_empty() || before.ends_with("\n\n") {
            ""
        } else {
            "\n"
        };
        std::fs::write(&file, format!("{before}{gap}{heading}{trees}{behind}")).unwrap();
    } else {
        assert_eq!(
            golden.trim_end(),
            trees.trim_end(),
            "ESCAPEMENT_WRITE=1 writes {} anew",
            file.display()
        );
    }
}

/// Ends of the keys whose values are shown, in order.
const SHOWN: [&str; 14] = [
    ".plan.name",
    ".run.state",
    ".execution.status",
    ".generation.verdict",
    ".revision",
    ".step.key",
    ".step.type",
    ".step.action",
    ".step.reason",
    ".attempt",
    ".outcome",
    ".input.kind",
    ".input.decision",
    "error.type",
];

fn call(key: &str, action: &str, arguments: &Value) -> Value {
    let config = json!({ "tool_name": action, "tool_args": arguments });
    json!({ "key": key, "type": "tool_call", "config": config })
}

fn document(name: &str, steps: &Value) -> Value {
    json!({ "schema": "escapement.plan/1", "name": name, "steps": steps })
}

/// Fails the first time.
fn shaky(url: &str) -> RecordingWorker {
    let action = Action::new("shaky").effect(Effect::Pure).risk(Risk::Safe);
    RecordingWorker::start_with(url, |builder| {
        builder.handler_with(action, |_: Value, context: StepContext| async move {
            match context.traceparent() {
                Some(_) if SHAKEN.swap(true, std::sync::atomic::Ordering::Relaxed) => Ok(json!({})),
                Some(_) => Err(StepError::new("SHAKY", "the first time")),
                None => Err(StepError::new("NO_TRACE", "it is in none")),
            }
        })
    })
}

static SHAKEN: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

async fn saved(channel: Channel, document: &Value) -> String {
    let what = creation("", document).what;
    let Some(escapement_wire::runs::v1::create_run_request::What::Document(document)) = what else {
        unreachable!("it is a document")
    };
    let request = CreatePlanRequest {
        plan: Some(Plan {
            goal: "Repeat what is said".to_owned(),
            ..Plan::default()
        }),
        document: Some(document),
        ..CreatePlanRequest::default()
    };
    let made = PlanServiceClient::new(channel)
        .create_plan(request)
        .await
        .unwrap();
    made.into_inner().plan.unwrap().plan_id
}

async fn approve(channel: Channel) {
    let mut inbox = InboxServiceClient::new(channel);
    let list = async || {
        let list = ListInputRequestsRequest::default();
        let listed = inbox.clone().list_input_requests(list).await.ok()?;
        listed.into_inner().input_requests.pop()
    };
    let asked = wait_for("the run asks", LIMIT, list).await.unwrap();
    let approval = RespondToInputRequest {
        input_request_id: asked.input_request_id,
        subject_digest: asked.subject_digest,
        answer: Some(Answer::Approval(Approval {
            decision: Some(Decision::Approve(Approve {})),
        })),
        responder: Some(Responder {
            id: "anna".to_owned(),
            ..Responder::default()
        }),
        ..RespondToInputRequest::default()
    };
    inbox.respond_to_input(approval).await.unwrap();
}

#[tokio::test]
async fn a_run_with_a_refused_plan_a_retry_an_approval_and_a_child_is_one_trace() {
    let collector = Collector::default();
    let endpoint = collector.serve().await;
    let world = World::start_with(|settings| exporting(settings, &endpoint, "1")).await;
    let channel = world.orchestrator.channel();
    let below = document(
        "Below",
        &json!([call("said", "echo", &json!({ "say": "hello" }))]),
    );
    let below = saved(channel.clone(), &below).await;
    let refused = document("Refused", &json!([call("a", "there.is.none", &json!({}))]));
    let good = document(
        "Good",
        &json!([
            call("shaky", "shaky", &json!({})),
            call(
                "written",
                "file.write",
                &json!({ "path": "secret.txt", "content": "a secret" })
            ),
        ]),
    );
    // A planner may not run other plans, so the plan that fails does.
    let mut broken = call("broken", "fail", &json!({ "code": "BROKEN" }));
    broken["retry"] = json!({ "max_retries": 0 });
    broken["depends_on"] = json!(["below"]);
    let below = json!({ "key": "below", "type": "sub_plan", "config": { "plan_id": below } });
    let given = document("Given", &json!([below, broken]));
    let script = [&refused, &good].map(|plan| Turn::Says(plan.to_string()));
    let model = ModelServer::start(script).await.unwrap();
    let worker = world
        .stock_worker("stock", |settings| {
            settings
                .flag("--llm-endpoint", model.endpoint())
                .flag("--otlp-endpoint", &endpoint)
        })
        .await;
    let recording = shaky(&world.orchestrator.url());
    let catalogue = ["shaky", "file.write"];
    let request: CreateRunRequest = documents::from_json(
        "escapement.runs.v1.CreateRunRequest",
        &json!({
            "document": given,
            "planner": { "model": "scripted", "catalogue": catalogue },
            "autonomy_level": 2,
            "request_id": "traced",
        }),
    )
    .unwrap();
    let created = RunServiceClient::new(channel.clone()).create_run(request).await;
    let run_id = created.unwrap().into_inner().run.unwrap().run_id;
    approve(channel).await;
    let run = ended(&world.orchestrator, &run_id).await;
    assert_eq!(run.state(), State::Completed, "{run:?}");
    worker.stop().await.unwrap();
    recording.stop().await;
    let complete = async || {
        let spans = collector.got().spans;
        (spans.iter().filter(|span| span.name == "run").count() == 2).then_some(spans)
    };
    wait_for("both runs at the collector", LIMIT, complete)
        .await
        .unwrap();
    world.orchestrator.stop().await.unwrap();

    let spans = collector.got().spans;
    for span in &spans {
        assert_eq!(
            hex(&span.trace_id),
            run_id.replace('-', ""),
            "its id finds its trace: {span:?}"
        );
        assert!(!format!("{span:?}").contains("secret"), "{span:?}");
    }
    let ids: BTreeSet<_> = spans.iter().map(|span| &span.span_id).collect();
    assert_eq!(ids.len(), spans.len(), "no span is there twice");
    hold(
        "A run with a refused plan, a retry, an approval and a child run",
        &drawn(&spans),
    );
}

#[tokio::test]
async fn a_plan_that_a_worker_in_python_starts_is_in_the_trace_of_its_attempt() {
    let Some(python) = tool("python/bin/python", "`cargo verify` installs it") else {
        return;
    };
    let collector = Collector::default();
    let endpoint = collector.serve().await;
    let world = World::start_with(|settings| exporting(settings, &endpoint, "1")).await;
    let mut command = Command::new(&python);
    command
        .arg(checkout::root().join("tests/clients/python/nesting.py"))
        .env("ESCAPEMENT_ORCHESTRATOR", world.orchestrator.url());
    let stderr = world.directory.join("python.stderr");
    let mut worker = ChildProcess::start("python", &mut command, &stderr).unwrap();
    let fleet = FleetServiceClient::new(world.orchestrator.channel());
    let offered = async || {
        let listed = fleet.clone().list_actions(ListActionsRequest {}).await.ok()?;
        let mut actions = listed.into_inner().actions.into_iter();
        actions.any(|action| action.name == "nest").then_some(())
    };
    wait_for("the worker in Python", LIMIT, offered).await.unwrap();
    let nested = json!({
        "id": fresh_id(), "version": 1, "created_at": 1_766_016_000_000_i64, "name": "nested",
        "context_requirements": ["region"],
        "steps": [{ "id": step_id(0), "action": "echo", "payload": {} }],
    });
    let nest = step(0, "nest").payload(json!({ "plan": nested }));
    world.execute(request(plan([nest]))).await;
    let spans = collector.executions(2).await;
    hold("A plan that a worker in Python starts", &drawn(&spans));
    assert!(worker.terminate(LIMIT).await.unwrap().success());
}
