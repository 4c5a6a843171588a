//! What namespaces may take: turns by weight, in memory and on the disk, across a kill and a change of the policy, and limits.

use crate::plans::{RequestWords, StepWords, plan, request, step};
use crate::status_details::reason;
use crate::world::{LIMIT, World};
use escapement_sdk::{StepContext, Worker};
use escapement_tests::{OrchestratorSettings, PrivateDirectory, wait_for};
use escapement_wire::v1::execution::State;
use escapement_wire::v1::{ExplainExecutionRequest, SubmitPlanRequest};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tonic::Code;
use tonic_types::StatusExt;

/// Of each namespace; more than run.
const N_PLANS: usize = 400;
/// Steps between two looks.
const N_SEEN: usize = 200;

/// A policy that lets everybody do everything in these namespaces.
fn write_policy(file: &Path, namespaces: &[(&str, &str)]) {
    let mut text =
        "version = 1\n[anonymous]\nroles = [\"admin\", \"submitter\", \"worker\"]\nnamespaces = [\"*\"]\n"
            .to_owned();
    for (name, limits) in namespaces {
        text.push_str(&format!("[[namespace]]\nname = \"{name}\"\n{limits}\n"));
    }
    std::fs::write(file, text).unwrap();
}

async fn world_with(
    namespaces: &[(&str, &str)],
    change: impl FnOnce(OrchestratorSettings) -> OrchestratorSettings,
) -> (World, PathBuf) {
    let directory = PrivateDirectory::new("shares").unwrap();
    let file = directory.join("policy.toml");
    write_policy(&file, namespaces);
    let flag = file.display().to_string();
    let world = World::start_in(directory, |settings| {
        change(
            settings
                .flag("--access-policy", flag)
                .flag("--tls-reload-interval-ms", 0)
                .flag("--registration-grace-ms", 86_400_000),
        )
    });
    (world.await, file)
}

async fn change_policy(world: &mut World, file: &Path, namespaces: &[(&str, &str)]) {
    write_policy(file, namespaces);
    world.orchestrator.process.signal(Signal::HUP).unwrap();
    let process = &world.orchestrator.process;
    let is_read = async || process.stderr().contains("files read again").then_some(());
    wait_for("another policy", LIMIT, is_read).await.unwrap();
}

fn submission(namespace: &str) -> SubmitPlanRequest {
    let step = step(0, "count").payload(json!({ "namespace": namespace }));
    SubmitPlanRequest {
        namespace: namespace.to_owned(),
        ..request(plan([step])).as_submission()
    }
}

/// A worker that does so many steps as it is granted, and remembers the namespaces of their plans in that order.
struct Granted {
    seen: Arc<Mutex<Vec<String>>>,
    grants: Arc<Semaphore>,
    running: JoinHandle<()>,
}

impl Granted {
    fn start(url: &str) -> Self {
        let (seen, grants) = (Arc::<Mutex<Vec<String>>>::default(), Arc::new(Semaphore::new(0)));
        let (remembering, granted) = (Arc::clone(&seen), Arc::clone(&grants));
        let worker = Worker::builder(url)
            .worker_id("granted")
            .handler("count", move |input: Value, _: StepContext| {
                let (remembering, granted) = (Arc::clone(&remembering), Arc::clone(&granted));
                async move {
                    granted.acquire().await.unwrap().forget();
                    let namespace = input["namespace"].as_str().unwrap().to_owned();
                    remembering.lock().unwrap().push(namespace);
                    Ok(json!({}))
                }
            })
            .build()
            .unwrap();
        let running = tokio::spawn(async move {
            // It ends with the test, or with its orchestrator.
            let _ended = worker.run_until(std::future::pending()).await;
        });
        Self {
            seen,
            grants,
            running,
        }
    }

    /// Grants so many steps more and returns how many of them were of the namespace.
    async fn share_of(&self, namespace: &str, n_steps: usize) -> usize {
        let n_before = self.seen.lock().unwrap().len();
        self.grants.add_permits(n_steps);
        let are_done = async || (self.seen.lock().unwrap().len() == n_before + n_steps).then_some(());
        wait_for("the steps that were granted", LIMIT, are_done)
            .await
            .unwrap();
        let seen = self.seen.lock().unwrap();
        seen[n_before..].iter().filter(|of| *of == namespace).count()
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        self.running.abort();
    }
}

//
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespaces_start_by_their_weights_on_the_disk_across_a_kill_and_another_policy() {
    let weights = [("light", "weight = 1"), ("heavy", "weight = 3")];
    let (mut world, file) = world_with(&weights, |settings| {
        settings
            .flag("--max-queued-in-memory", 16)
            .flag("--max-running-executions", 1)
    })
    .await;
    // Without a worker all of them are held back. By age alone the light ones would all come first.
    for namespace in ["light", "heavy"] {
        for _ in 0..N_PLANS {
            let accepted = world
                .orchestrator
                .plans()
                .submit_plan(submission(namespace))
                .await;
            let execution = accepted.unwrap().into_inner().execution.unwrap();
            assert_eq!(execution.state(), State::Queued);
        }
    }
    let quarter = |n: usize| n.abs_diff(N_SEEN / 4) * 100 <= N_SEEN;
    let first_life = Granted::start(&world.orchestrator.url());
    let light = first_life.share_of("light", N_SEEN).await;
    assert!(quarter(light), "{light} of {N_SEEN}");

    world.crash_and_restart().await;
    drop(first_life);
    let second_life = Granted::start(&world.orchestrator.url());
    let light = second_life.share_of("light", N_SEEN).await;
    assert!(quarter(light), "{light} of {N_SEEN} after the restart");

    change_policy(
        &mut world,
        &file,
        &[("light", "weight = 3"), ("heavy", "weight = 1")],
    )
    .await;
    let heavy = second_life.share_of("heavy", N_SEEN).await;
    assert!(quarter(heavy), "{heavy} of {N_SEEN} with the weights exchanged");
}

//
#[tokio::test]
async fn a_namespace_with_all_that_it_may_have_is_refused_and_says_so() {
    let (mut world, file) = world_with(&[("small", "max_live_executions = 2")], |settings| settings).await;
    let mut plans = world.orchestrator.plans();
    let named = SubmitPlanRequest {
        execution_id: Some("7b1f0a52-8c4e-4b7f-9c21-5e0d7a9b4c10".to_owned()),
        ..submission("small")
    };
    for accepted in [named.clone(), submission("small")] {
        plans.submit_plan(accepted).await.unwrap();
    }
    let third = submission("small");
    let refused = plans.submit_plan(third.clone()).await.unwrap_err();
    assert_eq!(reason(&refused, Code::ResourceExhausted), "NAMESPACE_QUOTA");
    let details = refused.get_error_details();
    let metadata = &details.error_info().unwrap().metadata;
    assert_eq!(
        (&*metadata["namespace"], &*metadata["max_live_executions"]),
        ("small", "2")
    );
    assert!(details.retry_info().is_some());
    plans.submit_plan(named).await.unwrap();
    plans.submit_plan(submission("default")).await.unwrap();
    change_policy(&mut world, &file, &[("small", "max_live_executions = 3")]).await;
    plans.submit_plan(third).await.unwrap();
}

//
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_for_its_namespace_says_so_and_others_pass() {
    let (world, _file) = world_with(&[("narrow", "max_running_executions = 1")], |settings| settings).await;
    let worker = Granted::start(&world.orchestrator.url());
    let mut plans = world.orchestrator.plans();
    let mut submit = async |namespace| {
        let accepted = plans.submit_plan(submission(namespace)).await.unwrap();
        accepted.into_inner().execution.unwrap().execution_id
    };
    let mut ids = Vec::new();
    for namespace in ["narrow", "narrow", "default"] {
        ids.push(submit(namespace).await);
    }
    let explain = async |n: usize| {
        let execution_id = ids[n].clone();
        let asked = ExplainExecutionRequest {
            execution_id,
            ..ExplainExecutionRequest::default()
        };
        let explained = world.orchestrator.plans().explain_execution(asked).await;
        explained.unwrap().into_inner().execution.unwrap()
    };
    let waits = async || {
        let explained = explain(1).await;
        let text = "Waits for its namespace: 1 of 1 of its executions run";
        explained.text.starts_with(text).then_some(explained)
    };
    let explained = wait_for("the second to wait for its namespace", LIMIT, waits)
        .await
        .unwrap();
    assert_eq!(explained.rules, ["R-2.17", "R-3.2"]);
    let runs = async || (explain(2).await.state() == State::Running).then_some(());
    wait_for("the other one to run", LIMIT, runs).await.unwrap();
    assert_eq!(worker.share_of("narrow", 3).await, 2);
}
