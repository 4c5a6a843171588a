//! Figures and probes: what a scrape tells is what happened, and nothing that it tells is without bound.

mod above_zero;
mod pushed;
mod readiness;
mod workers;

use crate::plans::{StepWords, WORK, echo, fail, plan, plan_with_retries, request, step};
use crate::sinks;
use crate::world::{LIMIT, World};
use escapement_tests::http::get;
use escapement_tests::{Binaries, Prometheus, Receiver, ScriptedWorker, checkout, piped, tool, wait_for};
use escapement_wire::v1::ListExecutionsRequest;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::plan_step::OnFailure;
use rustix::process::Signal;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::{Instant, SystemTime};
use tonic::Code;
use tonic::client::Grpc;

/// Where the orchestrator serves its figures, as its log says.
pub(crate) async fn address(world: &World) -> String {
    address_of(world, "orchestrator").await
}

/// The same of the process whose log has that name.
async fn address_of(world: &World, process: &str) -> String {
    let log = world.directory.join(format!("{process}.stderr"));
    let told = async || {
        let log = std::fs::read_to_string(&log).ok()?;
        let line = log.lines().rfind(|line| line.contains("metrics served"))?;
        let (_, address) = line.split_once("address=")?;
        Some(address.split_whitespace().next()?.to_owned())
    };
    wait_for("the listener of metrics", LIMIT, told).await.unwrap()
}

/// Returns the code with which `orchestrator health` ends.
pub(crate) fn health(address: &str) -> Option<i32> {
    let mut command = Command::new(Binaries::build().unwrap().orchestrator);
    let output = command.args(["health", "--metrics-listen", address]).output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.success(), said.is_empty(), "{said}");
    output.status.code()
}

/// Returns the samples of a scrape by name and labels, as they are written.
pub(crate) async fn scrape(address: &str) -> BTreeMap<String, f64> {
    let (status, text) = get(address, "/metrics", "text/plain").await.unwrap();
    assert_eq!(status, 200);
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let sample = |line: &str| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        (name.to_owned(), value.parse().unwrap())
    };
    samples.map(sample).collect()
}

/// What Python's own reader of OpenMetrics finds: names of figures. It refuses what breaks the format.
fn read_by_python(text: &str) -> Option<BTreeSet<String>> {
    let python = tool("python/bin/python", "`cargo verify` installs it")?;
    let program = "import sys\n\
                   from prometheus_client.openmetrics.parser import text_string_to_metric_families as read\n\
                   for family in read(sys.stdin.read()):\n\
                   \x20   print(family.name, family.type)\n";
    let output = piped(&python, &["-c", program], text).unwrap();
    assert!(output.status.success());
    let named = |line: &str| match line.split_once(' ').unwrap() {
        (name, "counter") => format!("{name}_total"),
        (name, _) => name.to_owned(),
    };
    Some(
        String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .map(named)
            .collect(),
    )
}

/// Runs `promtool check metrics`, which has nothing to say of names that are as they should be.
fn checked_by_promtool(text: &str) {
    let Some(promtool) = tool("promtool", "`cargo verify` installs it") else {
        return;
    };
    let output = piped(&promtool, &["check", "metrics"], text).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
}

/// The names on the page.
pub(crate) fn on_the_page() -> BTreeSet<String> {
    let page = std::fs::read_to_string(checkout::root().join("deploy/METRICS.md")).unwrap();
    let (_, table) = page.split_once("<!-- catalogue -->").unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| row.split('`').next().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_scrape_tells_what_happened() {
    let receiver = Receiver::start(204).await.unwrap();
    let (world, _sinks) = sinks::world(
        |sinks| sinks.sink("crm", &receiver.url("/"), ""),
        |settings| {
            let settings = settings.flag("--metrics-listen", "127.0.0.1:0");
            settings.flag("--event-webhook", receiver.url("/"))
        },
    )
    .await;
    let address = address(&world).await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    for _ in 0..3 {
        world
            .execute(request(plan([echo(0, json!({})), echo(1, json!({}))])))
            .await;
    }
    let partial = plan([echo(0, json!({})), fail(1, "BUSY").on_failure(OnFailure::Skip)]);
    assert_eq!(world.execute(request(partial)).await.status(), Status::Partial);
    assert_eq!(
        world.execute(request(plan([fail(0, "BROKEN")]))).await.status(),
        Status::Failure
    );
    let again = plan_with_retries([fail(0, "BUSY").on_failure(OnFailure::Retry)], 3, &["BUSY"]);
    assert_eq!(world.execute(request(again)).await.status(), Status::Failure);
    let late = plan([step(0, "delay").payload(json!({ "ms": 60_000 })).timeout_ms(50)]);
    assert_eq!(world.execute(request(late)).await.status(), Status::Failure);

    // What was answered is durable; it is counted right behind the answer.
    let all_settled = async || {
        let samples = scrape(&address).await;
        let settled = samples
            .iter()
            .filter(|(name, _)| name.starts_with("escapement_executions_settled_total"));
        (settled.map(|(_, count)| count).sum::<f64>() == 7.0).then_some(samples)
    };
    let samples = wait_for("all executions to be counted", LIMIT, all_settled)
        .await
        .unwrap();
    let expected = [
        (
            r#"escapement_executions_accepted_total{namespace="default"}"#,
            7.0,
        ),
        (
            r#"escapement_executions_settled_total{namespace="default",status="success"}"#,
            3.0,
        ),
        (
            r#"escapement_executions_settled_total{namespace="default",status="partial"}"#,
            1.0,
        ),
        (
            r#"escapement_executions_settled_total{namespace="default",status="failure"}"#,
            3.0,
        ),
        (r#"escapement_execution_errors_total{code="_other"}"#, 3.0),
        (r#"escapement_execution_errors_total{code="STEP_TIMEOUT"}"#, 1.0),
        (r#"escapement_executions{state="queued"}"#, 0.0),
        (r#"escapement_executions{state="running"}"#, 0.0),
        ("escapement_executions_parked", 0.0),
        (
            r#"escapement_execution_queue_wait_seconds_count{namespace="default"}"#,
            7.0,
        ),
        (
            r#"escapement_execution_duration_seconds_count{namespace="default",status="success"}"#,
            3.0,
        ),
        (r#"escapement_step_wait_seconds_count{action="echo"}"#, 7.0),
        (
            r#"escapement_attempts_total{action="echo",outcome="success"}"#,
            7.0,
        ),
        (
            r#"escapement_attempts_total{action="fail",outcome="failure"}"#,
            5.0,
        ),
        (
            r#"escapement_attempts_total{action="delay",outcome="timeout"}"#,
            1.0,
        ),
        (r#"escapement_attempt_duration_seconds_count{action="fail"}"#, 5.0),
        (
            r#"escapement_attempt_duration_seconds_bucket{le="0.025",action="delay"}"#,
            0.0,
        ),
        (r#"escapement_attempt_errors_total{code="_other"}"#, 5.0),
        (r#"escapement_attempt_errors_total{code="STEP_TIMEOUT"}"#, 1.0),
        (r#"escapement_steps_waiting{action="echo"}"#, 0.0),
        (r#"escapement_action_demand{action="echo"}"#, 0.0),
        (r#"escapement_action_workers{action="echo"}"#, 1.0),
        (r#"escapement_worker_sessions{state="active"}"#, 1.0),
        (r#"escapement_worker_sessions{state="draining"}"#, 0.0),
        ("escapement_workers_lost_total", 0.0),
        ("escapement_stuck_handlers", 0.0),
        ("escapement_store_full", 0.0),
        (r#"escapement_late_outcomes_total{answer="stale"}"#, 0.0),
        (
            r#"escapement_rpc_requests_total{method="escapement.v1.PlanExecutionService/ExecutePlan",code="OK"}"#,
            7.0,
        ),
        (
            r#"escapement_rpc_duration_seconds_count{method="escapement.v1.PlanExecutionService/ExecutePlan"}"#,
            7.0,
        ),
        (r#"escapement_rpc_open{kind="executes"}"#, 0.0),
        (r#"escapement_rpc_open{kind="sessions"}"#, 1.0),
        (r#"escapement_connections{transport="tls"}"#, 0.0),
        (r#"escapement_handshake_failures_total{reason="handshake"}"#, 0.0),
        ("escapement_tls_certificate_expiry_timestamp_seconds", 0.0),
    ];
    for (name, value) in expected {
        assert_eq!(samples.get(name), Some(&value), "{name} in {samples:#?}");
    }
    let writes = samples["escapement_store_writes_total"];
    assert!(writes >= 14.0, "an accept and a settlement each, {writes}");
    assert!(samples["escapement_store_commits_total"] <= writes);
    assert!(samples[r#"escapement_store_file_bytes{file="database"}"#] > 0.0);
    assert_eq!(
        samples["escapement_store_commit_seconds_count"],
        samples["escapement_store_commits_total"]
    );
    assert!(samples["escapement_store_free_bytes"] > 0.0);
    assert!(
        samples["escapement_engine_turn_seconds_count"] >= 7.0,
        "a plan is more than a turn"
    );
    assert!(samples[r#"escapement_connections{transport="plaintext"}"#] >= 1.0);
    let resident = samples["process_resident_memory_bytes"];
    assert!((1e6..1e9).contains(&resident), "{resident} bytes");

    let (_, plain) = get(&address, "/metrics", "*/*").await.unwrap();
    checked_by_promtool(&plain);
    let (_, open) = get(&address, "/metrics", "application/openmetrics-text")
        .await
        .unwrap();
    assert!(open.ends_with("# EOF\n"));
    if let Some(mut names) = read_by_python(&open) {
        // No issuer of tokens is known here.
        assert!(names.insert("escapement_jwks_last_success_timestamp_seconds".to_owned()));
        assert_eq!(names, on_the_page());
    }
}

#[tokio::test]
async fn what_is_damaged_is_counted_at_the_next_look_through_the_store() {
    let world = World::start_with(|settings| {
        settings
            .flag("--metrics-listen", "127.0.0.1:0")
            .flag("--scrub-interval-ms", 100)
    });
    let world = world.await;
    let address = address(&world).await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    for _ in 0..3 {
        world.execute(request(plan([echo(0, json!({}))]))).await;
    }
    let now = || SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
    let looked = async || scrape(&address).await["escapement_store_last_scrub_timestamp_seconds"];
    let began = now();
    let again = async || (looked().await > began).then_some(());
    wait_for("a look through the store", LIMIT, again).await.unwrap();
    assert!(looked().await <= now());
    counts(&address, "escapement_store_damaged", 0.0).await;
    let file = world.directory.join("store/store.db");
    let store = rusqlite::Connection::open(file).unwrap();
    store.busy_timeout(LIMIT).unwrap();
    let damaged = "UPDATE accepted_record SET record = x'00' WHERE number IN (1, 3)";
    assert_eq!(store.execute(damaged, ()).unwrap(), 2);
    counts(&address, "escapement_store_damaged", 2.0).await;
}

/// What a counter says, as soon as it says that.
pub(crate) async fn counts(address: &str, name: &str, value: f64) {
    let counted = async || (scrape(address).await.get(name) == Some(&value)).then_some(());
    if wait_for(name, LIMIT, counted).await.is_err() {
        panic!("{name} is not {value}: {:#?}", scrape(address).await);
    }
}

#[tokio::test]
async fn every_call_is_counted_by_how_it_ended() {
    let world = World::start_with(|settings| settings.flag("--metrics-listen", "127.0.0.1:0")).await;
    let address = address(&world).await;
    let method = |name: &str, code: &str| {
        format!(
            r#"escapement_rpc_requests_total{{method="escapement.v1.PlanExecutionService/{name}",code="{code}"}}"#
        )
    };
    // Nobody offers the action, so the call stays open until its caller leaves.
    let waiting = world.executing(request(plan([step(0, WORK)])));
    counts(&address, r#"escapement_rpc_open{kind="executes"}"#, 1.0).await;
    waiting.abort();
    counts(&address, r#"escapement_rpc_open{kind="executes"}"#, 0.0).await;
    counts(&address, &method("ExecutePlan", "CANCELLED"), 1.0).await;

    let refused = world.try_execute(request(plan([]))).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    counts(&address, &method("ExecutePlan", "INVALID_ARGUMENT"), 1.0).await;

    // Paths that are no calls share a label, as many as there are.
    for number in 0..100 {
        let mut client = Grpc::new(world.orchestrator.channel());
        client.ready().await.unwrap();
        let path = format!("/chosen/by-a-client-{number}").parse().unwrap();
        let codec = tonic_prost::ProstCodec::<ListExecutionsRequest, ListExecutionsRequest>::default();
        let answer = client.unary(tonic::Request::new(ListExecutionsRequest::default()), path, codec);
        assert_eq!(answer.await.unwrap_err().code(), Code::Unimplemented);
    }
    let other = r#"escapement_rpc_requests_total{method="_other",code="UNIMPLEMENTED"}"#;
    counts(&address, other, 100.0).await;
}

#[tokio::test]
async fn what_stands_now_is_shown_while_it_does() {
    let world = World::start_with(|settings| {
        let settings = settings.flag("--metrics-listen", "127.0.0.1:0");
        settings
            .flag("--max-running-executions", 2)
            .flag("--metrics-max-actions", 1)
    });
    let mut world = world.await;
    let address = address(&world).await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK, "work.rarely"], 1).await;
    let requests: Vec<_> = (0..3).map(|_| request(plan([step(0, WORK)]))).collect();
    let before = Instant::now();
    for request in &requests {
        world.submit(request).await;
    }
    let assignment = worker.started().await;
    let samples = scrape(&address).await;
    let demand = format!(r#"escapement_action_demand{{action="{WORK}"}}"#);
    let slots = format!(r#"escapement_action_slots{{action="{WORK}"}}"#);
    let expected = [
        (r#"escapement_executions{state="queued"}"#, 1.0),
        (r#"escapement_executions{state="running"}"#, 2.0),
        (demand.as_str(), 2.0),
        (slots.as_str(), 1.0),
        (r#"escapement_action_slots{action="_other"}"#, 1.0),
        (r#"escapement_action_demand{action="_other"}"#, 0.0),
    ];
    for (name, value) in expected {
        assert_eq!(samples.get(name), Some(&value), "{name} in {samples:#?}");
    }
    let behind = Instant::now();
    let oldest = format!(r#"escapement_step_oldest_wait_seconds{{action="{WORK}"}}"#);
    let waits = async || {
        let (least, shown, most) = (
            behind.elapsed(),
            scrape(&address).await[&oldest],
            before.elapsed(),
        );
        // Whole seconds of it.
        let is_so = shown >= least.as_secs_f64().floor() && shown <= most.as_secs_f64();
        assert!(is_so, "{shown} s, and it is {least:?} to {most:?}");
        (shown >= 1.0).then_some(())
    };
    wait_for("a wait of a second", LIMIT, waits).await.unwrap();
    assert_eq!(get(&address, "/readyz", "*/*").await.unwrap().0, 200);
    assert_eq!(get(&address, "/livez", "*/*").await.unwrap().0, 200);
    assert_eq!(get(&address, "/", "*/*").await.unwrap().0, 404);
    let (_, port) = address.rsplit_once(':').unwrap();
    for asked in [&address, &format!("0.0.0.0:{port}")] {
        assert_eq!(health(asked), Some(0), "{asked}");
    }
    assert_eq!(health("nowhere"), Some(64));

    world.orchestrator.process.signal(Signal::TERM).unwrap();
    let drains = async || (get(&address, "/readyz", "*/*").await?.0 == 503).then_some(());
    wait_for("the drain to show", LIMIT, drains).await.unwrap();
    assert_eq!(
        get(&address, "/livez", "*/*").await.unwrap().0,
        200,
        "it drains, and lives"
    );
    assert_eq!(health(&address), Some(1), "it drains");
    worker.succeed(&assignment, json!({})).await;
    let second = worker.started().await;
    worker.succeed(&second, json!({})).await;
    let ended = world.orchestrator.process.exit(LIMIT).await.unwrap();
    assert!(ended.success(), "{ended:?}");
    assert_eq!(health(&address), Some(1), "nobody answers");
}

#[tokio::test]
async fn a_prometheus_scrapes_it() {
    let Some(prometheus) = tool("prometheus", "`cargo verify` installs it") else {
        return;
    };
    let world = World::start_with(|settings| settings.flag("--metrics-listen", "127.0.0.1:0")).await;
    let address = address(&world).await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    world.execute(request(plan([echo(0, json!({}))]))).await;
    let configuration = format!(
        "global: {{ scrape_interval: 100ms }}\nscrape_configs:\n- job_name: escapement\n  static_configs:\n  \
         - targets: [\"{address}\"]\n"
    );
    let prometheus = Prometheus::start(&prometheus, world.directory.path(), &configuration);
    let prometheus = prometheus.await.unwrap();
    let scraped = async || {
        let values = prometheus.values("sum(escapement_attempts_total)").await?;
        (values == ["1"]).then_some(())
    };
    wait_for("Prometheus to know of the attempt", LIMIT, scraped)
        .await
        .unwrap();
}
