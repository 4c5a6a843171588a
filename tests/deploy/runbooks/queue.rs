//! Alerts of what waits and of how it ends.

use super::machine::Machine;
use super::page::commands;
use escapement_tests::plans::{StepWords, echo, fail, step};
use escapement_wire::v1::PlanStep;
use escapement_wire::v1::plan_result::Status;
use serde_json::json;
use tonic::Code;

fn delay(ms: u64) -> PlanStep {
    step(0, "delay").payload(json!({ "ms": ms }))
}

const QUEUED: &str = r#"escapement_executions{state="queued"}"#;
const RUNNING: &str = r#"escapement_executions{state="running"}"#;

#[tokio::test]
async fn a_queue_near_its_limit_lets_more_in() {
    let settings = "ESCAPEMENT_MAX_QUEUED_EXECUTIONS=10\nESCAPEMENT_DECLARE_ACTIONS=echo\n";
    let Some(mut machine) = Machine::with(settings).await else {
        return;
    };
    for _ in 0..10 {
        machine.submit(echo(0, json!({}))).await;
    }
    machine.until(QUEUED, |count| count == 10.0).await;
    assert_eq!(machine.figure("escapement_executions_max").await, 10.0);
    let refused = machine.try_submit(echo(0, json!({}))).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    let said = machine.follow_page("QueueNearLimit").await;
    assert!(
        said.contains(r#"escapement_action_workers{action="echo"} 0"#),
        "{said}"
    );
    machine
        .until("escapement_executions_max", |max| max > 10.0 / 0.8)
        .await;
    machine.submit(echo(0, json!({}))).await;
    assert_eq!(machine.figure(QUEUED).await, 11.0);
}

#[tokio::test]
async fn executions_that_wait_for_a_place_get_one() {
    let Some(mut machine) = Machine::with("ESCAPEMENT_MAX_RUNNING_EXECUTIONS=1\n").await else {
        return;
    };
    machine.systemctl("start escapement-worker").await;
    let mut all = Vec::new();
    for _ in 0..5 {
        all.push(machine.submit(delay(3_000)).await);
    }
    machine.until(QUEUED, |count| count == 4.0).await;
    let said = machine.follow_page("QueueSlow").await;
    let slots = said
        .lines()
        .find(|line| line.starts_with(r#"escapement_action_free_slots{action="delay"}"#));
    assert!(!slots.unwrap().ends_with(" 0"), "there are slots: {said}");
    machine.until(RUNNING, |count| count == 4.0).await;
    for id in all {
        machine.result_of(&id).await;
    }
}

#[tokio::test]
async fn an_action_that_is_starved_gets_slots() {
    let Some(mut machine) = Machine::with("").await else {
        return;
    };
    machine.set("worker", "ESCAPEMENT_MAX_IN_FLIGHT=1\n");
    machine.systemctl("start escapement-worker").await;
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(machine.submit(delay(2_000)).await);
    }
    let waiting = r#"escapement_steps_waiting{action="delay"}"#;
    machine.until(waiting, |count| count == 2.0).await;
    let slots = r#"escapement_action_free_slots{action="delay"}"#;
    assert_eq!(machine.figure(slots).await, 0.0);
    machine.follow_page("ActionStarved").await;
    machine.until(slots, |count| count > 60.0).await;
    assert_eq!(machine.figure(waiting).await, 0.0);
    for id in all {
        assert_eq!(machine.result_of(&id).await.status(), Status::Success);
    }
}

#[tokio::test]
async fn an_action_without_workers_gets_them() {
    let Some(mut machine) = Machine::with("ESCAPEMENT_DECLARE_ACTIONS=echo\n").await else {
        return;
    };
    let waits = machine.submit(echo(0, json!({}))).await;
    let demand = r#"escapement_action_demand{action="echo"}"#;
    machine.until(demand, |count| count == 1.0).await;
    let workers = r#"escapement_action_workers{action="echo"}"#;
    assert_eq!(machine.figure(workers).await, 0.0);

    let said = machine.follow_page("ActionWithoutWorkers").await;
    assert!(said.contains(&format!("{workers} 1")), "{said}");
    assert_eq!(machine.result_of(&waits).await.status(), Status::Success);
    machine.until(demand, |count| count == 0.0).await;
}

#[tokio::test]
async fn executions_that_fail_say_why() {
    let Some(mut machine) = Machine::with("").await else {
        return;
    };
    machine.systemctl("start escapement-worker").await;
    let mut all = Vec::new();
    for number in 0..20 {
        let step = match number % 2 {
            0 => fail(0, "BROKEN"),
            _ => echo(0, json!({})),
        };
        all.push(machine.submit(step).await);
    }
    for id in &all {
        machine.result_of(id).await;
    }
    let failed = r#"escapement_executions_settled_total{namespace="default",status="failure"}"#;
    machine.until(failed, |count| count == 10.0).await;
    let said = machine.follow(&commands("FailureRatio"));
    // Ten in the list, and one explained.
    assert!(said.matches("BROKEN").count() > 10, "{said}");
    let explained = said.rsplit_once("\"steps\": [").unwrap().1;
    assert!(explained.contains("BROKEN"), "{explained}");
    assert!(all.iter().any(|id| said.contains(id.as_str())), "{said}");
}
