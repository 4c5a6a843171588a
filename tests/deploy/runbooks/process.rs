//! Alerts of the orchestrator's process.

use super::machine::Machine;
use super::page::commands;
use crate::stage::LIMIT;
use escapement_tests::plans::{StepWords, echo, step};
use escapement_tests::wait_for;
use escapement_wire::v1::WhoAmIRequest;
use escapement_wire::v1::access_service_client::AccessServiceClient;
use escapement_wire::v1::plan_result::Status;
use rustix::process::Signal;
use serde_json::json;
use std::collections::BTreeSet;
use tonic::transport::Endpoint;

#[tokio::test]
async fn an_orchestrator_that_is_not_ready_says_what_holds_it_up() {
    let Some(mut machine) = Machine::with("").await else {
        return;
    };
    machine.systemctl("start escapement-worker").await;
    let holds = machine
        .submit(step(0, "delay").payload(json!({ "ms": 4_000 })))
        .await;
    let running = r#"escapement_attempts_in_flight{action="delay"}"#;
    machine.until(running, |count| count == 1.0).await;
    machine.process().signal(Signal::TERM).unwrap();
    let drains = async || (machine.probe("/readyz").await.0 == 503).then_some(());
    wait_for("the drain", LIMIT, drains).await.unwrap();
    let said = machine.follow(&commands("NotReady"));
    assert!(
        said.contains("starts or drains") && said.contains(&holds),
        "{said}"
    );
    let exit = machine.process().exit(LIMIT).await.unwrap();
    assert_eq!(exit.code(), Some(0), "it ends with what held it up");
}

#[tokio::test]
async fn restarts_are_seen_in_the_log_and_lose_nothing() {
    let Some(mut machine) = Machine::with("ESCAPEMENT_DECLARE_ACTIONS=echo\n").await else {
        return;
    };
    let accepted = machine.submit(echo(0, json!({ "a": 1 }))).await;
    let mut starts = BTreeSet::new();
    for _ in 0..3 {
        starts.insert(machine.figure("process_start_time_seconds").await.to_bits());
        machine.process().kill().unwrap();
        machine.systemctl("start escapement-orchestrator").await;
    }
    starts.insert(machine.figure("process_start_time_seconds").await.to_bits());
    assert_eq!(starts.len(), 4, "the alert counts three changes");
    let said = machine.follow(&commands("EscapementRestarts"));
    assert_eq!(said.matches("\"message\":\"starting\"").count(), 4, "{said}");
    let memory = said
        .lines()
        .find_map(|line| line.strip_prefix("process_resident_memory_bytes "));
    assert!(
        memory.is_some_and(|bytes| bytes.parse::<f64>().unwrap() > 1e6),
        "{said}"
    );
    machine.systemctl("start escapement-worker").await;
    assert_eq!(machine.result_of(&accepted).await.status(), Status::Success);
}

#[tokio::test]
async fn open_files_near_their_limit_are_counted_and_the_limit_raised() {
    let Some(mut machine) = Machine::new("").await else {
        return;
    };
    let folder = machine
        .directory
        .join("etc/systemd/system/escapement-orchestrator.service.d");
    std::fs::create_dir_all(folder).unwrap();
    machine.write(
        "etc/systemd/system/escapement-orchestrator.service.d/open-files.conf",
        "[Service]\nLimitNOFILE=700\n",
    );
    machine.systemctl("start escapement-orchestrator").await;
    let mut open = Vec::new();
    let shares = async |machine: &Machine| {
        let most = machine.figure("process_max_fds").await;
        machine.figure("process_open_fds").await / most
    };
    while shares(&machine).await <= 0.8 {
        assert!(open.len() < 700, "{}", shares(&machine).await);
        for _ in 0..40 {
            // Connections on which nobody calls would give way to each other.
            let endpoint = Endpoint::from_shared(machine.orchestrator().url()).unwrap();
            let channel = endpoint.connect().await.unwrap();
            let mut access = AccessServiceClient::new(channel.clone());
            access.who_am_i(WhoAmIRequest::default()).await.unwrap();
            open.push(channel);
        }
    }
    let said = machine.follow_page("OpenFilesNearLimit").await;
    let files = said.lines().next().unwrap().trim();
    assert!(files.parse::<usize>().unwrap() > 560, "{said}");
    assert!(said.contains(" 127.0.0.1"), "{said}");
    let raised = machine.open_files();
    assert!(raised > 700);
    assert_eq!(machine.figure("process_max_fds").await, raised as f64);
    assert!(shares(&machine).await < 0.8);
}
