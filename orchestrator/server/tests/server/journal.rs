//! The session journal of a real process: what it tells, in which order, and what it never tells.

use crate::process::{Orchestrator, PATIENCE, Session, TestDirectory, request, short_plan, success};
use escapement_model::opaque::StructBuilder;
use escapement_wire::worker::v1 as worker;
use escapement_wire::worker::v1::session_request::Message as Request;
use escapement_wire::worker::v1::session_response::Message;
use serde_json::Value;
use tokio::time::timeout;

/// Stands in every payload, environment, output and error here, and nowhere else.
const SECRET: &str = "swordfish-8d41c7-and-more";

fn lines(path: &str) -> Vec<Value> {
    let content = std::fs::read_to_string(path).unwrap();
    assert!(!content.contains(SECRET), "{content}");
    let complete = content.rsplit_once('\n').map_or("", |(complete, _)| complete);
    complete
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Waits until the file has a line like this, while the process goes on.
async fn told(path: &str, dir: &str, m: &str) -> Vec<Value> {
    let told = async {
        loop {
            let lines = lines(path);
            if lines.iter().any(|line| line["dir"] == dir && line["m"] == m) {
                return lines;
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, told).await.unwrap()
}

#[tokio::test]
async fn a_session_is_told_in_order_at_once_and_without_what_is_the_callers() {
    let directory = TestDirectory::new("journal");
    let journal = directory.join("journal.jsonl");
    let orchestrator = Orchestrator::start(&directory, &["--session-journal", &journal]).await;
    let (mut session, _) = Session::open(&orchestrator, "copy").await;
    let secret = || StructBuilder::new().text("key", SECRET).build();
    let mut asked = request(short_plan(1, "copy"));
    asked.environment = Some(secret());
    asked.plan.as_mut().unwrap().steps[0].payload = Some(secret());
    orchestrator.plans().await.submit_plan(asked).await.unwrap();
    let assignment = session.assignment().await;
    let token = assignment.attempt_token;
    session.start(&token).await;
    let mut items = vec![success(token.clone(), secret())];
    items.push(worker::AttemptOutcome {
        attempt_token: SECRET.into(),
        ..worker::AttemptOutcome::default()
    });
    session.say(Request::Outcomes(worker::Outcomes { items })).await;
    for _ in 0..2 {
        assert!(matches!(session.next().await, Some(Message::OutcomeAcks(_))));
    }
    let items = vec![success(token.clone(), secret()), success(SECRET.into(), secret())];
    let reported = worker::ReportOutcomesRequest { items };
    orchestrator
        .reports()
        .await
        .report_outcomes(reported)
        .await
        .unwrap();
    let goodbye = worker::Goodbye {
        reason: SECRET.to_owned(),
    };
    session.say(Request::Goodbye(goodbye)).await;
    assert_eq!(session.next().await, None);

    let lines = told(&journal, "shell", "closed").await;
    let order: Vec<(u64, &str, &str)> = lines
        .iter()
        .map(|line| {
            let text = |key: &str| line[key].as_str().unwrap();
            (line["s"].as_u64().unwrap(), text("dir"), text("m"))
        })
        .collect();
    // The answers to one batch of outcomes come in no order that anybody promises.
    let acks = order.iter().position(|line| *line == (1, "out", "outcome_acks"));
    let unknown = order
        .iter()
        .position(|line| *line == (1, "out", "unknown_outcomes"));
    let answers = [acks.unwrap(), unknown.unwrap()];
    assert_eq!(answers.iter().min(), Some(&7));
    assert_eq!(answers.iter().max(), Some(&8));
    assert_eq!(
        order[..7],
        [
            (0, "shell", "boot"),
            (1, "shell", "opened"),
            (1, "in", "hello"),
            (1, "out", "welcome"),
            (1, "out", "assignments"),
            (1, "in", "attempt_acks"),
            (1, "in", "outcomes"),
        ]
    );
    assert_eq!(
        order[9..],
        [
            (0, "call", "report_outcomes"),
            (0, "reply", "report_outcomes"),
            (1, "in", "goodbye"),
            (1, "out", "close"),
            (1, "shell", "closed"),
        ]
    );
    let hex: String = token.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(lines[4]["items"][0]["token"], hex.as_str());
    assert_eq!(
        lines[4]["items"][0]["execution"],
        assignment.execution_id.as_str()
    );
    assert_eq!(lines[6]["items"], serde_json::json!([[hex, "success"]]));
    assert_eq!(lines[6]["unreadable"], 1);
    assert_eq!(lines[9]["call"], lines[10]["call"]);
    assert_eq!(lines[10]["verdicts"], serde_json::json!(["duplicate"]));
    let times: Vec<u64> = lines.iter().map(|line| line["t"].as_u64().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    assert_eq!(orchestrator.stop().await, Some(0));
}

#[tokio::test]
async fn the_next_process_goes_on_in_the_same_file() {
    let directory = TestDirectory::new("journal-again");
    let journal = directory.join("journal.jsonl");
    for _ in 0..2 {
        let orchestrator = Orchestrator::start(&directory, &["--session-journal", &journal]).await;
        let (_session, _) = Session::open(&orchestrator, "copy").await;
        assert_eq!(orchestrator.stop().await, Some(0));
    }
    let lines = lines(&journal);
    let boots: Vec<&Value> = lines.iter().filter(|line| line["m"] == "boot").collect();
    assert_eq!(boots.len(), 2);
    assert_ne!(boots[0]["boot"], boots[1]["boot"]);
    let n_told = lines.iter().filter(|line| line["m"] == "reconnect").count();
    assert!(n_told >= 2, "what a drain says is there: {lines:?}");
}

#[tokio::test]
async fn what_a_message_led_to_stands_right_behind_it() {
    let directory = TestDirectory::new("journal-order");
    let journal = directory.join("journal.jsonl");
    let orchestrator = Orchestrator::start(&directory, &["--session-journal", &journal]).await;
    let (mut session, _) = Session::open(&orchestrator, "copy").await;
    for n in 1..=200 {
        let heartbeat = worker::Heartbeat {
            n,
            ..worker::Heartbeat::default()
        };
        // Many come together, and so are handled together.
        session.say(Request::Heartbeat(heartbeat)).await;
    }
    let goodbye = worker::Goodbye::default();
    session.say(Request::Goodbye(goodbye)).await;
    while session.next().await.is_some() {}

    let lines = told(&journal, "in", "goodbye").await;
    let told_about = |m: &str| lines.iter().filter(|line| line["m"] == m).count();
    assert_eq!((told_about("heartbeat"), told_about("heartbeat_ack")), (200, 200));
    for pair in lines.windows(2).filter(|pair| pair[0]["m"] == "heartbeat") {
        assert_eq!(
            (&pair[1]["m"], &pair[1]["n"]),
            (&Value::from("heartbeat_ack"), &pair[0]["n"])
        );
    }
    assert_eq!(orchestrator.stop().await, Some(0));
}
