//! A real Prometheus with the shipped configuration and rules, which scrapes a real orchestrator under load: every panel and
//! every alert has data, and the alerts that the load deserves are on their way.

use super::shipped;
use super::watched::{Watched, with_matchers};
use crate::stage::{LIMIT, asks, metrics_address};
use escapement_tests::plans::{StepWords, echo, fail, plan, request, step};
use escapement_tests::prometheus::{Prometheus, encoded};
use escapement_tests::{
    Orchestrator, OrchestratorSettings, PrivateDirectory, Receiver, TokenIssuer, Worker, WorkerSettings,
};
use escapement_tests::{checkout, documents, tool, wait_for};
use escapement_wire::runs::v1::inbox_service_client::InboxServiceClient;
use escapement_wire::runs::v1::{ListInputRequestsRequest, RespondToInputRequest};
use escapement_wire::v1::SubmitPlanRequest;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Waits until an expression has a value that is a number.
async fn has_data(prometheus: &Prometheus, expression: &str) {
    let numbers = async || {
        let values = prometheus.values(expression).await?;
        values.iter().any(|value| value != "NaN").then_some(())
    };
    wait_for(&format!("data for {expression}"), LIMIT, numbers)
        .await
        .unwrap();
}

/// Executions that go well and fail, one after the other, until it is told to end.
async fn load(orchestrator: Orchestrator, ends: Arc<AtomicBool>) -> Orchestrator {
    while !ends.load(Ordering::Relaxed) {
        for step in [echo(0, json!({})), fail(0, "BROKEN")] {
            let answer = orchestrator.plans().execute_plan(request(plan([step]))).await;
            answer.unwrap();
        }
        answered(&orchestrator).await;
    }
    orchestrator
}

/// A run whose question is answered.
async fn answered(orchestrator: &Orchestrator) {
    let run_id = asks(orchestrator).await.unwrap();
    let mut inbox = InboxServiceClient::new(orchestrator.channel());
    let of_run = json!({ "run_id": run_id });
    let of_run: ListInputRequestsRequest =
        documents::from_json("escapement.runs.v1.ListInputRequestsRequest", &of_run).unwrap();
    let open = async || {
        let listed = inbox.clone().list_input_requests(of_run.clone()).await.ok()?;
        listed.into_inner().input_requests.pop()
    };
    let open = wait_for("the question", LIMIT, open).await.unwrap();
    let answer = json!({ "input_request_id": open.input_request_id, "text": "yes" });
    let answer: RespondToInputRequest =
        documents::from_json("escapement.runs.v1.RespondToInputRequest", &answer).unwrap();
    inbox.respond_to_input(answer).await.unwrap();
}

/// A file with one sink.
fn sinks(directory: &Path, receiver: &Receiver) -> PathBuf {
    let (file, secret) = (directory.join("sinks.toml"), directory.join("sink.secret"));
    std::fs::write(&secret, "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=").unwrap();
    let text = format!(
        "version = 1\n[[sink]]\nname = \"crm\"\nkind = \"webhook\"\nurl = \"{}\"\nsecret_file = \"{}\"\n",
        receiver.url("/"),
        secret.display()
    );
    std::fs::write(&file, text).unwrap();
    file
}

/// A policy under which the tunnel's clients may do everything, and which knows an issuer of tokens.
fn policy(directory: &Path, issuer: &TokenIssuer) -> PathBuf {
    let file = directory.join("policy.toml");
    let text = format!(
        "version = 1\n[[certificate]]\ndns = \"tunnel\"\nroles = [\"admin\", \"worker\"]\n\
         [[jwt]]\nissuer = \"https://issuer.example\"\naudience = \"escapement\"\njwks_url = \"{}\"\n",
        issuer.url()
    );
    std::fs::write(&file, text).unwrap();
    file
}

/// What waits: a worker that can do one thing at a time has more to do, and an action has no worker.
async fn let_something_wait(orchestrator: &Orchestrator, directory: &Path) -> Worker {
    let settings = WorkerSettings::new(&orchestrator.url(), "slow", directory, directory);
    let settings = settings.flag("--actions", "delay").flag("--max-in-flight", 1);
    let worker = settings.connect().await.unwrap();
    let slow = || {
        step(0, "delay")
            .payload(json!({ "ms": 300_000 }))
            .timeout_ms(600_000)
    };
    for step in [slow(), slow(), step(0, "declared")] {
        let asked = request(plan([step]));
        let submission = SubmitPlanRequest {
            plan: asked.plan,
            environment: asked.environment,
            ..SubmitPlanRequest::default()
        };
        orchestrator.plans().submit_plan(submission).await.unwrap();
    }
    worker
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prometheus_has_data_for_every_panel_and_every_alert() {
    let Some(program) = tool("prometheus", "`cargo verify` installs it") else {
        return;
    };
    let directory = PrivateDirectory::new("monitoring").unwrap();
    let receiver = Receiver::start(204).await.unwrap();
    let issuer = TokenIssuer::start("issuer").await.unwrap();
    let settings = OrchestratorSettings::new(directory.path())
        .flag("--access-policy", policy(directory.path(), &issuer).display())
        .flag("--events", sinks(directory.path(), &receiver).display())
        .flag("--event-webhook", receiver.url("/"))
        .flag("--metrics-listen", "127.0.0.1:0")
        .flag("--log-format", "json")
        .flag("--drain-grace-ms", 0)
        .flag("--declare-action", "declared")
        .over_tls(directory.path())
        .unwrap();
    let orchestrator = settings.start().await.unwrap();
    let scraped = metrics_address(&orchestrator.process).await;
    let quick = WorkerSettings::new(&orchestrator.url(), "quick", directory.path(), directory.path());
    let quick = quick
        .flag("--actions", "echo,fail")
        .flag("--metrics-listen", "127.0.0.1:0")
        .flag("--log-format", "json");
    let quick = quick.connect().await.unwrap();
    let of_worker = metrics_address(&quick.process).await;
    let prometheus = shipped(&program, directory.path(), &scraped, Some(&of_worker)).await;
    for job in ["escapement", "escapement-worker"] {
        has_data(&prometheus, &format!("up{{job=\"{job}\"}} == 1")).await;
    }
    let _slow = let_something_wait(&orchestrator, directory.path()).await;
    asks(&orchestrator).await.unwrap();
    let ends = Arc::new(AtomicBool::new(false));
    let loaded = tokio::spawn(load(orchestrator, Arc::clone(&ends)));

    let mut n_panels = 0;
    for file in std::fs::read_dir(checkout::root().join("deploy/monitoring/dashboards")).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let dashboard: Value = serde_json::from_str(&text).unwrap();
        for panel in dashboard["panels"].as_array().unwrap() {
            let expression = panel["targets"][0]["expr"].as_str().unwrap();
            has_data(&prometheus, &as_grafana_asks(expression)).await;
            n_panels += 1;
        }
        for variable in &dashboard["templating"]["list"].as_array().unwrap()[1..] {
            let query = variable["query"].as_str().unwrap();
            let (selector, label) = query["label_values(".len()..query.len() - 1]
                .rsplit_once(", ")
                .unwrap();
            let path = format!("/api/v1/label/{label}/values?match[]={}", encoded(selector));
            let values = prometheus.asked(&path).await.unwrap();
            assert!(!values.as_array().unwrap().is_empty(), "{query}");
        }
    }
    let watched = Watched::read();
    assert_eq!(
        n_panels,
        watched
            .dashboards
            .iter()
            .map(|dashboard| dashboard.panels.len())
            .sum::<usize>()
    );
    for alert in &watched.alerts {
        has_data(
            &prometheus,
            &with_matchers(&alert.expression, r#"job="escapement""#),
        )
        .await;
    }
    let on_their_way = async || {
        let answer = prometheus.asked("/api/v1/rules").await?;
        let rules = answer["groups"][0]["rules"].as_array()?;
        let healthy = rules.iter().filter(|rule| rule["health"] == "ok").count();
        let mut seen: Vec<&str> = rules
            .iter()
            .filter(|rule| rule["state"] != "inactive")
            .filter_map(|rule| rule["name"].as_str())
            // Seconds in which anything is written to the disk of the tests look like that.
            .filter(|name| *name != "DiskFillsSoon")
            .collect();
        seen.sort_unstable();
        (healthy == watched.alerts.len() && seen == DESERVED).then_some(())
    };
    let seen = wait_for("the alerts that the load deserves", LIMIT, on_their_way).await;
    if seen.is_err() {
        panic!("{:#?}", prometheus.asked("/api/v1/rules").await);
    }
    ends.store(true, Ordering::Relaxed);
    loaded.await.unwrap();
}

/// With everything chosen, and zoomed in.
fn as_grafana_asks(expression: &str) -> String {
    let all = ["$instance", "$namespace", "$action"].iter();
    all.fold(
        expression.replace("$__rate_interval", "10s"),
        |asked, variable| asked.replace(variable, ".*"),
    )
}

/// What the load is made for, by name. Nothing else may be wrong.
const DESERVED: [&str; 3] = ["ActionStarved", "ActionWithoutWorkers", "FailureRatio"];
