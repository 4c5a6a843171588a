//! Figures over OTLP: a collector gets what a scrape gets, and a collector that is down delays and loses nothing.

use super::{address, address_of, checked_by_promtool, read_by_python, scrape};
use crate::collectors::served;
use crate::plans::{echo, fail, plan, request};
use crate::traces::{exporting, hex};
use crate::world::{LIMIT, World};
use escapement_tests::http::get;
use escapement_tests::{PrivateDirectory, wait_for};
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{AggregationTemporality, Metric, ResourceMetrics};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tonic::service::Routes;
use tonic::{Request, Response, Status};

/// A collector that keeps the newest value of each series, by the resource that sent it.
#[derive(Clone, Default)]
struct Collector {
    refuses: Arc<AtomicBool>,
    got: Arc<Mutex<BTreeMap<Sender, BTreeMap<String, f64>>>>,
    authorization: Arc<Mutex<BTreeSet<String>>>,
    /// The traces that exemplars name, by the name of their figure.
    traces: Arc<Mutex<BTreeSet<(String, String)>>>,
}

/// `service.name` and `service.instance.id`.
type Sender = (String, String);

#[tonic::async_trait]
impl MetricsService for Collector {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        if self.refuses.load(Ordering::Relaxed) {
            return Err(Status::unavailable("not now"));
        }
        let shown = request.metadata().get("authorization");
        let shown = shown.map(|value| value.to_str().unwrap().to_owned());
        self.authorization.lock().unwrap().extend(shown);
        let mut got = self.got.lock().unwrap();
        for of_one in request.into_inner().resource_metrics {
            got.entry(sender(&of_one)).or_default().extend(samples(&of_one));
            self.traces.lock().unwrap().extend(exemplars(&of_one));
        }
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}

impl Collector {
    /// Serves on a free port, and takes metrics alone; its address.
    async fn serve(&self) -> String {
        served(Routes::new(MetricsServiceServer::new(self.clone()))).await
    }

    /// What the only sender of that name sent; nothing if nothing came of it.
    fn samples_of(&self, name: &str) -> BTreeMap<String, f64> {
        let got = self.got.lock().unwrap().clone();
        let mut of_name = got.into_iter().filter(|((sender, _), _)| sender == name);
        let samples = of_name.next().map(|(_, samples)| samples);
        assert_eq!(of_name.next(), None, "two processes of the same name");
        samples.unwrap_or_default()
    }

    /// Waits until what that sender pushed is what a scrape of the same process gets, which is asked nothing meanwhile.
    async fn has_what_is_scraped(&self, name: &str, address: &str) {
        let differences = async || {
            let scraped = scrape(address).await.into_iter();
            let scraped = scraped.map(|(series, value)| (renamed(&series), value));
            differing(&self.samples_of(name), &scraped.collect())
        };
        let are_the_same = async || differences().await.is_empty().then_some(());
        let waited = wait_for("the same figures at the collector", LIMIT, are_the_same).await;
        assert!(waited.is_ok(), "{name}: {:#?}", differences().await);
    }
}

fn sender(of_one: &ResourceMetrics) -> Sender {
    let attributes = labels(&of_one.resource.as_ref().unwrap().attributes);
    let of = |key: &str| attributes[key].clone();
    assert!(!of("service.version").is_empty());
    assert_eq!(of("service.instance.id").len(), 16);
    (of("service.name"), of("service.instance.id"))
}

fn labels(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let label = |attribute: &KeyValue| match attribute.value.clone().unwrap().value {
        Some(Value::StringValue(value)) => (attribute.key.clone(), value),
        other => panic!("{other:?}"),
    };
    attributes.iter().map(label).collect()
}

/// Returns the series as Prometheus names them.
fn samples(of_one: &ResourceMetrics) -> BTreeMap<String, f64> {
    let scopes = of_one.scope_metrics.iter();
    let metrics = scopes.flat_map(|scope| &scope.metrics);
    metrics.flat_map(samples_of).collect()
}

/// The names of histograms, and the traces that their exemplars name.
fn exemplars(of_one: &ResourceMetrics) -> Vec<(String, String)> {
    let mut named = Vec::new();
    for metric in of_one.scope_metrics.iter().flat_map(|scope| &scope.metrics) {
        if let Some(Data::Histogram(histogram)) = &metric.data {
            let exemplars = histogram.data_points.iter().flat_map(|point| &point.exemplars);
            named.extend(exemplars.map(|exemplar| (metric.name.clone(), hex(&exemplar.trace_id))));
        }
    }
    named
}

fn samples_of(metric: &Metric) -> Vec<(String, f64)> {
    let series = |suffix: &str, attributes: &[KeyValue], le: Option<String>| {
        let mut labels = labels(attributes);
        labels.extend(le.map(|le| ("le".to_owned(), le)));
        named(&format!("{}{suffix}", metric.name), &labels)
    };
    let number = |value: &Option<Number>| match value {
        Some(Number::AsInt(value)) => *value as f64,
        Some(Number::AsDouble(value)) => *value,
        None => panic!("no value: {metric:?}"),
    };
    assert!(!metric.description.is_empty(), "{metric:?}");
    match metric.data.as_ref().unwrap() {
        Data::Gauge(gauge) => {
            let points = gauge.data_points.iter();
            points
                .map(|point| (series("", &point.attributes, None), number(&point.value)))
                .collect()
        }
        Data::Sum(sum) => {
            assert!(sum.is_monotonic && metric.name.ends_with("_total"), "{metric:?}");
            assert_eq!(sum.aggregation_temporality(), AggregationTemporality::Cumulative);
            let points = sum.data_points.iter();
            points
                .map(|point| (series("", &point.attributes, None), number(&point.value)))
                .collect()
        }
        Data::Histogram(histogram) => {
            assert_eq!(
                histogram.aggregation_temporality(),
                AggregationTemporality::Cumulative
            );
            let mut samples = Vec::new();
            for point in &histogram.data_points {
                let of = &point.attributes;
                samples.push((series("_count", of, None), point.count as f64));
                samples.push((series("_sum", of, None), point.sum.unwrap()));
                let limits = point.explicit_bounds.iter().copied().chain([f64::INFINITY]);
                let mut below = 0;
                assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
                for (limit, count) in limits.zip(&point.bucket_counts) {
                    below += count;
                    samples.push((series("_bucket", of, Some(limit.to_string())), below as f64));
                }
            }
            samples
        }
        other => panic!("{other:?}"),
    }
}

/// One name for a series, whatever the order of its labels and the spelling of its limits.
fn named(name: &str, labels: &BTreeMap<String, String>) -> String {
    format!("{name}{labels:?}")
}

/// Returns a series of a scrape, named as above.
fn renamed(series: &str) -> String {
    let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
    let labels = labels.strip_suffix('}').unwrap().split("\",");
    let labels = labels.filter_map(|label| {
        let (name, value) = label.split_once("=\"")?;
        let value = value.trim_end_matches('"');
        let limit = value.parse::<f64>().ok().filter(|_| name == "le");
        let value = limit.map_or_else(|| value.to_owned(), |limit| limit.to_string());
        Some((name.to_owned(), value))
    });
    named(name, &labels.collect())
}

/// The series that are on one side alone, or have another value there.
fn differing(pushed: &BTreeMap<String, f64>, scraped: &BTreeMap<String, f64>) -> Vec<String> {
    // A process that does nothing gets older, and what asks it for its figures is a turn of its engine.
    let moves = |series: &str| {
        ["process_", "escapement_engine_", "escapement_store_"]
            .iter()
            .any(|beginning| series.starts_with(beginning))
    };
    let all: BTreeSet<&String> = pushed.keys().chain(scraped.keys()).collect();
    let differ = |series: &&String| match (pushed.get(*series), scraped.get(*series)) {
        (Some(pushed), Some(scraped)) => pushed != scraped && !moves(series),
        _ => true,
    };
    let told = |series: &String| format!("{series}: {:?} and {:?}", pushed.get(series), scraped.get(series));
    all.into_iter().filter(differ).map(told).collect()
}

#[tokio::test]
async fn a_collector_gets_what_a_scrape_gets_and_what_it_refused_is_in_the_next() {
    let (collector, directory) = (Collector::default(), PrivateDirectory::new("pushed").unwrap());
    let url = collector.serve().await;
    let headers = directory.join("headers");
    std::fs::write(&headers, "authorization: Bearer of-the-collector\n").unwrap();
    collector.refuses.store(true, Ordering::Relaxed);
    let world = World::start_with(|settings| {
        exporting(settings, &url, "1")
            .flag("--otlp-signals", "metrics")
            .flag("--otlp-metrics-interval-ms", "1000")
            .flag("--otlp-headers-file", headers.display())
            .flag("--metrics-listen", "127.0.0.1:0")
    })
    .await;
    let worker = world.stock_worker("pushes", |settings| {
        settings
            .flag("--otlp-endpoint", &url)
            .flag("--otlp-signals", "metrics")
            .flag("--otlp-metrics-interval-ms", "1000")
            .flag("--metrics-listen", "127.0.0.1:0")
    });
    let _worker = worker.await;
    for _ in 0..3 {
        world.execute(request(plan([echo(0, json!({}))]))).await;
    }
    world.execute(request(plan([fail(0, "BROKEN")]))).await;
    let told = async || log(&world).contains("metrics are dropped").then_some(());
    wait_for("the log to tell of it", LIMIT, told).await.unwrap();
    collector.refuses.store(false, Ordering::Relaxed);

    let of_orchestrator = address(&world).await;
    let settled = &scrape(&of_orchestrator).await[r#"escapement_executions_settled_total{namespace="default",status="success"}"#];
    assert_eq!(*settled, 3.0);
    collector
        .has_what_is_scraped("escapement-orchestrator", &of_orchestrator)
        .await;
    let of_worker = address_of(&world, "pushes").await;
    collector
        .has_what_is_scraped("escapement-worker", &of_worker)
        .await;
    let shown = collector.authorization.lock().unwrap().clone();
    assert_eq!(shown, BTreeSet::from(["Bearer of-the-collector".to_owned()]));
    assert!(!log(&world).contains("traces are dropped"), "none are exported");
}

#[tokio::test]
async fn figures_are_pushed_without_an_address_of_their_own() {
    let (collector, world) = pushing("--otlp-service-name", "first").await;
    let ready = named("escapement_ready", &BTreeMap::new());
    let is_ready = async || (collector.samples_of("first").get(&ready) == Some(&1.0)).then_some(());
    wait_for("figures at the collector", LIMIT, is_ready)
        .await
        .unwrap();
    assert!(!log(&world).contains("metrics served"));
}

#[tokio::test]
async fn a_duration_names_the_last_trace_that_is_exported() {
    let (collector, world) = pushing("--metrics-listen", "127.0.0.1:0").await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    let result = world.execute(request(plan([echo(0, json!({}))]))).await;
    let trace_id = result.execution_id.replace('-', "");
    let histograms = [
        "escapement_execution_duration_seconds",
        "escapement_attempt_duration_seconds",
    ];
    let named: BTreeSet<_> = histograms.map(|name| (name.to_owned(), trace_id.clone())).into();
    let are_named = async || (*collector.traces.lock().unwrap() == named).then_some(());
    wait_for("exemplars at the collector", LIMIT, are_named)
        .await
        .unwrap();

    let address = address(&world).await;
    let (_, text) = get(&address, "/metrics", "application/openmetrics-text")
        .await
        .unwrap();
    let exemplar = format!(" # {{trace_id=\"{trace_id}\"}} ");
    for name in histograms {
        let of_histogram = |line: &&str| line.starts_with(&format!("{name}_bucket"));
        let lines = text.lines().filter(of_histogram);
        assert_eq!(lines.filter(|line| line.contains(&exemplar)).count(), 1, "{text}");
    }
    assert_ne!(read_by_python(&text), Some(BTreeSet::new()));
    let (_, text) = get(&address, "/metrics", "text/plain").await.unwrap();
    assert!(!text.contains("trace_id"), "it knows no exemplars");
    checked_by_promtool(&text);
}

/// Returns a collector, and an orchestrator with this flag that sends it all traces, and metrics each second.
async fn pushing(flag: &str, value: &str) -> (Collector, World) {
    let collector = Collector::default();
    let url = collector.serve().await;
    let world = World::start_with(|settings| {
        exporting(settings, &url, "1")
            .flag("--otlp-signals", "traces,metrics")
            .flag("--otlp-metrics-interval-ms", "1000")
            .flag(flag, value)
    });
    let world = world.await;
    (collector, world)
}

fn log(world: &World) -> String {
    std::fs::read_to_string(world.directory.join("orchestrator.stderr")).unwrap()
}
