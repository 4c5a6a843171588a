//! Starts that fail: with an exit code and a word on what to do. And the health of one that succeeded.

use crate::plans::{WORK, plan, request, step};
use crate::world::{LIMIT, World};
use escapement_tests::ScriptedWorker;
use escapement_tests::{Binaries, ChildProcess, PrivateDirectory};
use escapement_wire::v1::plan_result::Status;
use rustix::process::Signal;
use serde_json::json;
use std::process::Command;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

/// Starts an orchestrator that must not serve, and gives its exit code and stderr.
async fn failed_start(directory: &PrivateDirectory, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(Binaries::build().unwrap().orchestrator);
    command.args(arguments).current_dir(directory.path());
    let stderr = directory.join("failed-start.stderr");
    let mut process = ChildProcess::start("orchestrator", &mut command, &stderr).unwrap();
    let status = process.exit(LIMIT).await.unwrap();
    (status.code(), process.stderr())
}

#[tokio::test]
async fn a_second_orchestrator_on_the_same_store_is_refused_and_the_first_works_on() {
    let world = World::start().await;
    let store = world.directory.join("store").display().to_string();
    let (code, stderr) = failed_start(
        &world.directory,
        &["--listen", "127.0.0.1:0", "--store-path", &store],
    )
    .await;
    assert_eq!(code, Some(73), "{stderr}");
    assert!(stderr.contains(&store), "it names the store: {stderr}");
    assert!(
        stderr.contains("another") || stderr.contains("in use"),
        "it says why: {stderr}"
    );
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let call = world.executing(request(plan([step(0, WORK)])));
    worker.complete_next(json!({})).await;
    assert_eq!(call.await.unwrap().unwrap().status(), Status::Success);
}

#[tokio::test]
async fn an_address_that_is_taken_is_named() {
    let world = World::start().await;
    let address = world.orchestrator.address().to_string();
    let other = PrivateDirectory::new("end-to-end").unwrap();
    let store = other.join("store").display().to_string();
    let (code, stderr) = failed_start(&other, &["--listen", &address, "--store-path", &store]).await;
    assert_eq!(code, Some(69), "{stderr}");
    assert!(stderr.contains(&address), "{stderr}");
}

#[tokio::test]
async fn bad_flags_exit_with_64_and_say_which() {
    let directory = PrivateDirectory::new("end-to-end").unwrap();
    let cases: [(&[&str], &str); 8] = [
        (&["--no-such-flag"], "--no-such-flag"),
        (&["--listen", "nonsense"], "--listen"),
        (&["--max-running-executions", "0"], "--max-running-executions"),
        (&["--listen", "0.0.0.0:0"], "--allow-plaintext"),
        (&["--event-webhook", "https://example.com/"], "--event-webhook"),
        (
            &["--event-webhook", "http://example.com/?token=1"],
            "--allow-plaintext",
        ),
        (
            &["--otlp-endpoint", "http://example.com:4317"],
            "--otlp-allow-plaintext",
        ),
        (&["--drain-grace-ms=-5"], "--drain-grace-ms"),
    ];
    for (arguments, named) in cases {
        let (code, stderr) = failed_start(&directory, arguments).await;
        assert_eq!(code, Some(64), "{arguments:?}: {stderr}");
        assert!(stderr.contains(named), "{arguments:?}: {stderr}");
    }
}

#[tokio::test]
async fn a_store_that_cannot_be_made_is_named() {
    let directory = PrivateDirectory::new("end-to-end").unwrap();
    let file = directory.join("a-file");
    std::fs::write(&file, "not a directory").unwrap();
    let store = file.join("store").display().to_string();
    let (code, stderr) = failed_start(&directory, &["--listen", "127.0.0.1:0", "--store-path", &store]).await;
    assert_eq!(code, Some(73), "{stderr}");
    assert!(stderr.contains("a-file"), "{stderr}");
}

#[tokio::test]
async fn an_error_handler_file_that_cannot_be_written_is_named() {
    let directory = PrivateDirectory::new("end-to-end").unwrap();
    let store = directory.join("store").display().to_string();
    let file = directory.join("missing/failures.jsonl").display().to_string();
    let arguments = [
        "--listen",
        "127.0.0.1:0",
        "--store-path",
        &store,
        "--error-handler-path",
        &file,
    ];
    let (code, stderr) = failed_start(&directory, &arguments).await;
    assert_eq!(code, Some(73), "{stderr}");
    assert!(stderr.contains(&file), "{stderr}");
}

#[tokio::test]
async fn health_is_serving_until_the_orchestrator_stops() {
    let mut world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let mut health = HealthClient::new(world.orchestrator.channel());
    for service in ["", "escapement.v1.PlanExecutionService"] {
        let request = HealthCheckRequest {
            service: service.to_owned(),
        };
        let answer = health.check(request).await.unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving, "{service:?}");
    }
    let request = HealthCheckRequest {
        service: String::new(),
    };
    let mut changes = health.watch(request).await.unwrap().into_inner();
    assert_eq!(
        changes.message().await.unwrap().unwrap().status(),
        ServingStatus::Serving
    );

    let call = world.executing(crate::plans::request(plan([step(0, WORK)])));
    let assignment = worker.started().await;
    world.orchestrator.process.signal(Signal::TERM).unwrap();
    let next = tokio::time::timeout(LIMIT, changes.message())
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert_eq!(next.status(), ServingStatus::NotServing);
    worker.succeed(&assignment, json!({})).await;
    assert_eq!(call.await.unwrap().unwrap().status(), Status::Success);
}

#[tokio::test]
async fn settings_come_from_the_environment_too_and_a_flag_wins() {
    let directory = PrivateDirectory::new("end-to-end").unwrap();
    let mut command = Command::new(Binaries::build().unwrap().orchestrator);
    command
        .args(["--listen", "127.0.0.1:0"])
        .env("ESCAPEMENT_LISTEN", "nonsense.invalid:1")
        .env("ESCAPEMENT_STORE_PATH", directory.join("from-the-environment"));
    let stderr = directory.join("orchestrator.stderr");
    let mut process = ChildProcess::start("orchestrator", &mut command, &stderr).unwrap();
    process.announcement("serving", LIMIT).await.unwrap();
    assert!(directory.join("from-the-environment").is_dir());
    assert_eq!(process.terminate(LIMIT).await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn a_question_about_flags_or_version_is_answered_with_0() {
    for program in [
        Binaries::build().unwrap().orchestrator,
        Binaries::build().unwrap().worker,
    ] {
        for flag in ["--help", "--version"] {
            let output = Command::new(&program).arg(flag).output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{} {flag}", program.display());
            assert!(!output.stdout.is_empty() && output.stderr.is_empty());
        }
        let help = Command::new(&program).arg("--help").output().unwrap();
        let help = String::from_utf8(help.stdout).unwrap();
        assert!(
            help.contains("ESCAPEMENT_"),
            "each flag names its variable: {help}"
        );
    }
}

#[tokio::test]
async fn a_worker_with_bad_flags_exits_with_64_and_says_which() {
    let directory = PrivateDirectory::new("end-to-end").unwrap();
    let cases: [(&[&str], &str); 4] = [
        (&["--no-such-flag"], "--no-such-flag"),
        (&["--orchestrator", "nonsense"], "--orchestrator"),
        (&["--root", "missing-directory"], "missing-directory"),
        (&["--actions", "no.such.action"], "no.such.action"),
    ];
    for (arguments, named) in cases {
        let mut command = Command::new(Binaries::build().unwrap().worker);
        command.args(arguments).current_dir(directory.path());
        let stderr = directory.join("worker.stderr");
        let mut process = ChildProcess::start("worker", &mut command, &stderr).unwrap();
        assert_eq!(
            process.exit(LIMIT).await.unwrap().code(),
            Some(64),
            "{arguments:?}: {}",
            process.stderr()
        );
        assert!(
            process.stderr().contains(named),
            "{arguments:?}: {}",
            process.stderr()
        );
    }
}
