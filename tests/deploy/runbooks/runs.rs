//! Alerts of runs and of the people that they ask.

use super::machine::Machine;
use super::page::{blocks, commands};
use crate::stage::asks;
use tonic::Code;

const WAITING: &str = r#"escapement_runs{state="waiting"}"#;

#[tokio::test]
async fn runs_near_their_limit_end_or_get_room() {
    let Some(mut machine) = Machine::with("ESCAPEMENT_MAX_RUNS=2\n").await else {
        return;
    };
    let first = asks(machine.orchestrator()).await.unwrap();
    asks(machine.orchestrator()).await.unwrap();
    machine.until(WAITING, |count| count == 2.0).await;
    let refused = asks(machine.orchestrator()).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    let [ends, lets_in] = &blocks("RunsNearLimit")[..] else {
        panic!("it has two parts");
    };
    let said = machine
        .follow_block(&ends.replace("RUN\"", &format!("{first}\"")))
        .await;
    assert!(said.contains(&format!("\"run_id\": \"{first}\"")), "{said}");
    machine.until(WAITING, |count| count == 1.0).await;
    asks(machine.orchestrator()).await.unwrap();
    asks(machine.orchestrator()).await.unwrap_err();
    machine.follow_block(lets_in).await;
    machine.until("escapement_runs_max", |max| max == 400_000.0).await;
    asks(machine.orchestrator()).await.unwrap();
}

#[tokio::test]
async fn a_person_that_is_waited_for_answers() {
    let Some(mut machine) = Machine::with("").await else {
        return;
    };
    let run_id = asks(machine.orchestrator()).await.unwrap();
    let oldest = "escapement_run_input_request_oldest_timestamp_seconds";
    machine.until(oldest, |asked_at| asked_at > 0.0).await;
    let commands = commands("PeopleWait");
    let (list, _) = commands.split_once('\n').unwrap();
    let listed = machine.follow(list);
    assert!(listed.contains(&run_id), "{listed}");
    let (_, id) = listed.split_once("\"input_request_id\": \"").unwrap();
    let (id, _) = id.split_once('"').unwrap();
    machine
        .follow_block(&commands.replace("REQUEST\"", &format!("{id}\"")))
        .await;
    machine.until(oldest, |asked_at| asked_at == 0.0).await;
}
