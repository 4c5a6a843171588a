//! The four problems of `deploy/A_DAY.md`: a machine in that state, a Prometheus that scrapes it, and the commands of the page as they
//! are written find what is wrong, and end it.

use super::edge::{WITH_SINKS, sink};
use super::machine::Machine;
use super::page::blocks_of_day;
use crate::monitoring::shipped;
use crate::stage::{LIMIT, metrics_address};
use escapement_tests::plans::{RequestWords, StepWords, echo, plan, request, step};
use escapement_tests::{Prometheus, Receiver, Reply, tool, wait_for};
use escapement_wire::v1::plan_execution_service_client::PlanExecutionServiceClient;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::{PlanStep, SubmitPlanRequest};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use tokio::task::JoinSet;
use tonic::transport::Endpoint;

/// A Prometheus that scrapes the machine, and that its commands find. `None` if it is missing, which is noted.
async fn watched(machine: &mut Machine) -> Option<Prometheus> {
    let program = tool("prometheus", "`cargo verify` installs it")?;
    tool("promtool", "`cargo verify` installs it")?;
    let prometheus = shipped(&program, machine.directory.path(), machine.figures(), None).await;
    // What rises later is seen to rise.
    let scrapes = async || (prometheus.values("escapement_ready").await? == ["1"]).then_some(());
    wait_for("a first scrape", LIMIT, scrapes).await.unwrap();
    let address = prometheus.address().to_owned();
    machine.addresses.push(("127.0.0.1:9090", address));
    Some(prometheus)
}

/// Follows a block again and again until what it says is so.
async fn follow_until(machine: &Machine, block: &str, is_so: impl Fn(&str) -> bool) -> String {
    let said = async || Some(machine.follow(block)).filter(|said| is_so(said));
    match wait_for("the commands to say so", LIMIT, said).await {
        Ok(said) => said,
        Err(fault) => panic!("{fault}: {block}\n{}", machine.follow(block)),
    }
}

/// The value of a series in what promtool says.
fn value(said: &str, series: &str) -> Option<f64> {
    let line = said.lines().find_map(|line| line.strip_prefix(series))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn delay(ms: u64) -> PlanStep {
    let of = step(0, "delay").payload(json!({ "ms": ms }));
    of.timeout_ms(600_000)
}

/// Executes plans of one step, one after the other, until it is dropped.
fn load(machine: &Machine, steps: impl Fn() -> Vec<PlanStep> + Send + 'static) -> JoinSet<()> {
    let url = machine.orchestrator().url();
    let mut loading = JoinSet::new();
    loading.spawn(async move {
        let channel = Endpoint::from_shared(url).unwrap().connect_lazy();
        let mut plans = PlanExecutionServiceClient::new(channel);
        loop {
            for step in steps() {
                let asked: SubmitPlanRequest = request(plan([step])).as_submission();
                let id = asked.execution_id.clone().unwrap();
                plans.submit_plan(asked).await.unwrap();
                let plans = plans.clone();
                escapement_tests::calls::result_of(plans, &id, LIMIT)
                    .await
                    .unwrap();
            }
        }
    });
    loading
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_action_is_found_with_the_execution_and_the_worker_that_have_it() {
    let Some(mut machine) = Machine::with("").await else {
        return;
    };
    let Some(_prometheus) = watched(&mut machine).await else {
        return;
    };
    let figures = "ESCAPEMENT_METRICS_LISTEN=127.0.0.1:0\nESCAPEMENT_LOG_FORMAT=json\n";
    machine.set("worker", &format!("ESCAPEMENT_WORKER_ID=slow-one\n{figures}"));
    machine.systemctl("start escapement-worker").await;
    let figures = metrics_address(machine.worker.as_ref().unwrap()).await;
    machine.addresses.push(("127.0.0.1:7402", figures));
    let slowest = machine.submit(delay(300_000)).await;
    let _loading = load(&machine, || vec![echo(0, json!({})), delay(400)]);

    let [which, running, of_the_worker] = blocks_of_day("A slow action");
    let said = follow_until(&machine, &which, |said| {
        value(said, r#"{action="delay"}"#).is_some_and(f64::is_finite)
            && value(said, r#"{action="echo"}"#).is_some_and(f64::is_finite)
    })
    .await;
    let [slow, quick] = [r#"{action="delay"}"#, r#"{action="echo"}"#].map(|of| value(&said, of).unwrap());
    assert!(slow > 0.25 && quick < slow / 2.0, "{said}");
    // It has taken long, and has not waited.
    assert_eq!(said.matches(r#"{action="delay"}"#).count(), 2, "{said}");

    let said = machine.follow(&running);
    assert!(
        said.contains(&slowest) && said.contains(r#""worker_id": "slow-one""#),
        "{said}"
    );
    let ends_in_ms = said.split_once(r#""ends_in_ms": ""#).unwrap().1;
    let ends_in_ms: u64 = ends_in_ms.split('"').next().unwrap().parse().unwrap();
    assert!((1..=600_000).contains(&ends_in_ms), "{said}");

    let said = machine.follow(&of_the_worker);
    let figure = |name: &str| value(&said.replace("} ", "} = "), name).unwrap();
    let sum = figure(r#"escapement_worker_handler_seconds_sum{action="delay"}"#);
    let count = figure(r#"escapement_worker_handler_seconds_count{action="delay"}"#);
    assert!(sum / count >= 0.4, "{said}");
    assert!(
        figure(r#"escapement_worker_attempts_in_flight{action="delay"}"#) >= 1.0,
        "{said}"
    );
    assert!(said.contains("session established"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_holds_up_a_queue_is_found_and_the_others_get_slots_of_their_own() {
    let Some(mut machine) = Machine::with("ESCAPEMENT_MAX_RUNNING_EXECUTIONS=4\n").await else {
        return;
    };
    let Some(_prometheus) = watched(&mut machine).await else {
        return;
    };
    machine.set(
        "worker",
        "ESCAPEMENT_MAX_IN_FLIGHT=1\nESCAPEMENT_DRAIN_GRACE_MS=100\n",
    );
    machine.systemctl("start escapement-worker").await;
    let holds = machine.submit(delay(300_000)).await;
    let in_flight = r#"escapement_attempts_in_flight{action="delay"}"#;
    machine.until(in_flight, |count| count == 1.0).await;
    let mut waiting = Vec::new();
    for _ in 0..10 {
        waiting.push(machine.submit(echo(0, json!({}))).await);
    }

    let [what, since, who, more] = blocks_of_day("A stuck queue");
    let said = follow_until(&machine, &what, |said| {
        value(said, r#"{state="queued"}"#) == Some(7.0) && said.contains("escapement_steps_waiting")
    })
    .await;
    assert_eq!(value(&said, r#"{state="running"}"#), Some(4.0), "{said}");
    let starved = said
        .lines()
        .find(|line| line.contains("escapement_steps_waiting"));
    let starved = starved.unwrap();
    assert!(
        starved.contains(r#"action="echo""#) && starved.contains("=> 3 @"),
        "{said}"
    );
    follow_until(&machine, &since, |said| {
        value(said, r#"{action="echo"}"#).is_some_and(|seconds| seconds >= 1.0)
    })
    .await;
    let said = machine.follow(&who);
    assert!(
        said.contains(r#""in_flight": 1"#) && said.contains(r#""max_in_flight": 1"#),
        "{said}"
    );
    let explained = said.rsplit_once("\"steps\": [").unwrap();
    assert!(explained.0.contains(&holds), "{said}");
    assert!(
        explained.1.contains(r#""action": "delay""#) && explained.1.contains(r#""state": "started""#),
        "{said}"
    );
    machine.follow_block(&more).await;
    for id in waiting {
        assert_eq!(machine.result_of(&id).await.status(), Status::Success);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_loses_its_work_is_named_and_takes_none_until_it_is_mended() {
    let Some(mut machine) = Machine::with("ESCAPEMENT_LEASE_MS=1000\n").await else {
        return;
    };
    let Some(_prometheus) = watched(&mut machine).await else {
        return;
    };
    machine.set("worker", "ESCAPEMENT_WORKER_ID=of-the-unit\n");
    for n_lost in 1..=2 {
        machine.systemctl("start escapement-worker").await;
        let started = r#"escapement_attempts_in_flight{action="delay"}"#;
        machine.submit(delay(300_000)).await;
        machine.until(started, |count| count >= 1.0).await;
        machine.worker.take().unwrap().kill().unwrap();
        let lost = "escapement_workers_lost_total";
        machine.until(lost, |count| count == f64::from(n_lost)).await;
    }
    machine.systemctl("start escapement-worker").await;

    let [how_many, who, drain, mended] = blocks_of_day("A worker that loses its work");
    follow_until(&machine, &how_many, |said| {
        let lost = said.lines().next().unwrap_or_default().rsplit_once("=> ");
        let lost = lost.and_then(|(_, rest)| rest.split(' ').next()?.parse::<f64>().ok());
        lost.is_some_and(|lost| lost > 0.0)
    })
    .await;
    let said = machine.follow(&who);
    assert!(said.contains(r#"2 "worker_id":"of-the-unit""#), "{said}");
    let said = machine
        .follow_block(&drain.replace("WORKER\"", "of-the-unit\""))
        .await;
    assert!(said.contains(r#""state": "draining""#), "{said}");
    let waits = machine.submit(echo(0, json!({}))).await;
    let waiting = r#"escapement_action_demand{action="echo"}"#;
    machine.until(waiting, |count| count == 1.0).await;
    machine.follow_block(&mended).await;
    assert_eq!(machine.result_of(&waits).await.status(), Status::Success);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sink_that_fails_is_found_and_gets_all_that_it_lacks() {
    let Some(mut machine) = Machine::new("").await else {
        return;
    };
    let status = Arc::new(AtomicU16::new(500));
    let answered = Arc::clone(&status);
    let receiver = Receiver::start_with(move |_| Reply::Status(answered.load(Ordering::Relaxed)));
    let receiver = receiver.await.unwrap();
    sink(&machine, &receiver, "pause_max_ms = 100");
    machine.set("orchestrator", WITH_SINKS);
    machine.systemctl("start escapement-orchestrator").await;
    let Some(_prometheus) = watched(&mut machine).await else {
        return;
    };
    machine.systemctl("start escapement-worker").await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let id = machine.submit(echo(0, json!({}))).await;
        machine.result_of(&id).await;
        ids.push(id);
    }

    let [which, lacking, repair] = blocks_of_day("A sink that fails");
    let said = follow_until(&machine, &which, |said| {
        let refused = value(said, r#"{outcome="refused", sink="crm"}"#);
        said.contains("escapement_event_feed_lag_seconds") && refused.is_some_and(|count| count > 0.0)
    })
    .await;
    assert!(said.lines().last().unwrap().contains("500"), "{said}");
    let said = machine.follow(&lacking);
    assert!(ids.iter().all(|id| said.contains(id.as_str())), "{said}");
    status.store(204, Ordering::Relaxed);
    machine.follow_block(&repair).await;
    let delivered: Vec<String> = receiver
        .received()
        .into_iter()
        .filter(|request| request.status == Some(204))
        .map(|request| request.headers["webhook-id"].clone())
        .collect();
    assert_eq!(delivered, ids);
}
