//! Alerts of runs and of the people that they ask.

use super::machine::Machine;
use super::page::{blocks, commands};
use crate::stage::asks;
use escapement_tests::documents;
use escapement_wire::runs::v1::trigger_service_client::TriggerServiceClient;
use escapement_wire::runs::v1::{CreateTriggerRequest, FireTriggerRequest};
use serde_json::json;
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

#[tokio::test]
async fn a_trigger_behind_a_run_that_asks_fires_again_once_that_has_ended() {
    let Some(mut machine) = Machine::with("").await else {
        return;
    };
    let question = json!({ "key": "ask", "type": "user_input", "config": { "question": "Well?" } });
    let document = json!({ "schema": "escapement.plan/1", "name": "asks", "steps": [question] });
    let run = json!({ "document": document, "autonomy_level": 4 });
    let trigger = json!({ "name": "nightly", "schedule": { "cron": "0 3 1 1 *" }, "run": run });
    let asked = json!({ "trigger": trigger });
    let asked: CreateTriggerRequest =
        documents::from_json("escapement.runs.v1.CreateTriggerRequest", &asked).unwrap();
    let mut triggers = TriggerServiceClient::new(machine.orchestrator().channel());
    let made = triggers.create_trigger(asked).await.unwrap().into_inner();
    let trigger_id = made.trigger.unwrap().trigger_id;
    let fire = FireTriggerRequest {
        trigger_id: trigger_id.clone(),
        ..FireTriggerRequest::default()
    };
    let first = triggers.fire_trigger(fire.clone()).await.unwrap().into_inner();
    let run_id = first.firing.unwrap().run_id;
    let skipped = triggers.fire_trigger(fire.clone()).await.unwrap().into_inner();
    assert_eq!(skipped.firing.unwrap().reason, "OVERLAP");
    let counted = r#"escapement_run_trigger_causes_total{trigger="manual",firing="skipped"}"#;
    machine.until(counted, |count| count == 1.0).await;
    let [which, why, ends] = &blocks("TriggersSkipped")[..] else {
        panic!("it has three parts");
    };
    let listed = machine.follow_block(which).await;
    assert!(listed.contains(&trigger_id), "{listed}");
    let why = why
        .replace("TRIGGER", &trigger_id)
        .replace("RUN\"", &format!("{run_id}\""));
    let said = machine.follow_block(&why).await;
    assert!(
        said.contains("OVERLAP") && said.contains("asks a question"),
        "{said}"
    );
    let ends = ends.replace("RUN\"", &format!("{run_id}\""));
    machine.follow_block(&ends).await;
    let again = triggers.fire_trigger(fire).await.unwrap().into_inner();
    assert_eq!(again.firing.unwrap().status, "started");
}
