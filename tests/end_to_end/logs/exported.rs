//! The log over OTLP: a collector gets what stderr gets, and a collector that is down delays nobody.

use crate::collectors::served;
use crate::metrics::{address, scrape};
use crate::plans::{echo, fail, plan, request};
use crate::traces::{exporting, hex};
use crate::world::{LIMIT, World};
use escapement_tests::{WorkerSettings, wait_for};
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_server::{LogsService, LogsServiceServer};
use opentelemetry_proto::tonic::collector::logs::v1::{ExportLogsServiceRequest, ExportLogsServiceResponse};
use opentelemetry_proto::tonic::common::v1::any_value::Value as Said;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tonic::service::Routes;
use tonic::{Request, Response, Status};

/// A collector that keeps lines by the service that said them.
#[derive(Clone, Default)]
struct Collector {
    refuses: Arc<AtomicBool>,
    got: Arc<Mutex<BTreeMap<String, Vec<Value>>>>,
}

#[tonic::async_trait]
impl LogsService for Collector {
    async fn export(
        &self,
        request: Request<ExportLogsServiceRequest>,
    ) -> Result<Response<ExportLogsServiceResponse>, Status> {
        if self.refuses.load(Ordering::Relaxed) {
            return Err(Status::unavailable("not now"));
        }
        let mut got = self.got.lock().unwrap();
        for of_one in request.into_inner().resource_logs {
            let service = fields(&of_one.resource.unwrap().attributes)["service.name"].clone();
            let service = service.as_str().unwrap().to_owned();
            let records = of_one.scope_logs.iter().flat_map(|scope| &scope.log_records);
            got.entry(service).or_default().extend(records.map(line));
        }
        Ok(Response::new(ExportLogsServiceResponse::default()))
    }
}

impl Collector {
    /// Serves on a free port, and takes logs alone; its address.
    async fn serve(&self) -> String {
        served(Routes::new(LogsServiceServer::new(self.clone()))).await
    }
}

fn fields(attributes: &[KeyValue]) -> Map<String, Value> {
    let field = |attribute: &KeyValue| (attribute.key.clone(), said(attribute.value.as_ref()));
    attributes.iter().map(field).collect()
}

fn said(value: Option<&AnyValue>) -> Value {
    match value.and_then(|value| value.value.as_ref()) {
        Some(Said::StringValue(text)) => json!(text),
        Some(Said::IntValue(number)) => json!(number),
        Some(Said::BoolValue(flag)) => json!(flag),
        Some(Said::DoubleValue(number)) => json!(number),
        other => panic!("{other:?}"),
    }
}

/// Returns a record as the line in JSON that says the same.
fn line(record: &LogRecord) -> Value {
    assert!(record.time_unix_nano > 0 && record.observed_time_unix_nano > 0);
    let mut line = fields(&record.attributes);
    line.insert("level".to_owned(), json!(record.severity_text));
    line.insert("message".to_owned(), said(record.body.as_ref()));
    let ids = [("trace_id", &record.trace_id), ("span_id", &record.span_id)];
    for (name, id) in ids.into_iter().filter(|(_, id)| !id.is_empty()) {
        line.insert(name.to_owned(), json!(hex(id)));
    }
    Value::Object(line)
}

/// Returns the lines that stderr got, without their times.
fn lines(log: &str) -> Vec<Value> {
    let untimed = |line: &str| {
        let mut line: Map<String, Value> = serde_json::from_str(line).unwrap();
        line.remove("timestamp");
        Value::Object(line)
    };
    log.lines().map(untimed).collect()
}

/// Threads log beside one another, so the order is not told.
fn sorted(mut lines: Vec<Value>) -> Vec<String> {
    lines.sort_by_key(Value::to_string);
    lines.iter().map(Value::to_string).collect()
}

const FILTER: &str = "info,escapement_orchestrator=debug,escapement_host=debug,escapement_sdk=debug";

#[tokio::test]
async fn a_collector_gets_what_stderr_gets_to_the_last_line() {
    let collector = Collector::default();
    let url = collector.serve().await;
    let mut world = World::start_with(|settings| {
        exporting(settings, &url, "1")
            .flag("--otlp-signals", "traces,logs")
            .flag("--log", FILTER)
            .flag("--log-format", "json")
    })
    .await;
    let settings = |settings: WorkerSettings| {
        settings
            .flag("--otlp-endpoint", &url)
            .flag("--otlp-signals", "traces,logs")
            .flag("--log", FILTER)
            .flag("--log-format", "json")
    };
    let mut worker = world.stock_worker("stock", settings).await;
    world.execute(request(plan([echo(0, json!({}))]))).await;
    let result = world.execute(request(plan([fail(0, "BROKEN")]))).await;
    worker.process.terminate(LIMIT).await.unwrap();
    world.orchestrator.process.terminate(LIMIT).await.unwrap();

    let mut got = collector.got.lock().unwrap().clone();
    for (service, log, last) in [
        (
            "escapement-orchestrator",
            world.orchestrator.process.stderr(),
            "stopped",
        ),
        ("escapement-worker", worker.process.stderr(), "attempt"),
    ] {
        let got = got.remove(service).unwrap();
        assert!(
            got.iter()
                .any(|line| line["message"].as_str().unwrap().contains(last))
        );
        assert_eq!(sorted(got), sorted(lines(&log)), "{service}");
    }
    assert!(got.is_empty(), "{got:?}");
    let log = lines(&world.orchestrator.process.stderr());
    let failed = log
        .iter()
        .find(|line| line["message"] == "execution failed")
        .unwrap();
    assert_eq!(failed["trace_id"], result.execution_id.replace('-', ""));
    assert_eq!(failed["span_id"].as_str().unwrap().len(), 16);
}

#[tokio::test]
async fn what_no_collector_takes_is_counted_and_told_and_the_next_lines_come() {
    let collector = Collector::default();
    let url = collector.serve().await;
    collector.refuses.store(true, Ordering::Relaxed);
    let world = World::start_with(|settings| {
        settings
            .flag("--otlp-endpoint", &url)
            .flag("--otlp-signals", "logs")
            .flag("--metrics-listen", "127.0.0.1:0")
    })
    .await;
    let _worker = world.stock_worker("first", |settings| settings).await;
    world.execute(request(plan([echo(0, json!({}))]))).await;
    let address = address(&world).await;
    let dropped = r#"escapement_telemetry_dropped_total{signal="logs"}"#;
    let counted = async || (scrape(&address).await[dropped] > 0.0).then_some(());
    wait_for("lost lines to be counted", LIMIT, counted)
        .await
        .unwrap();
    let log = world.orchestrator.process.stderr();
    assert!(log.contains("logs are dropped"), "{log}");

    collector.refuses.store(false, Ordering::Relaxed);
    let _worker = world.stock_worker("second", |settings| settings).await;
    let came = async || {
        let got = collector.got.lock().unwrap();
        let mut lines = got.get("escapement-orchestrator")?.iter();
        lines.find(|line| line["worker_id"] == "second").map(drop)
    };
    wait_for("a line at the collector", LIMIT, came).await.unwrap();
}
