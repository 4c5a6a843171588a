//! Events and failures leave, or are dropped, and nothing else changes.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test fails by panicking and its name is its documentation"
)]

mod process;

use escapement_wire::v1;
use process::{Orchestrator, PATIENCE, TestDirectory, Worker, plan, request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::timeout;

/// Takes one POST and gives its body back.
async fn one_post(listener: TcpListener) -> serde_json::Value {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut received = Vec::new();
    loop {
        assert!(stream.read_buf(&mut received).await.unwrap() > 0, "closed early");
        let text = String::from_utf8(received.clone()).unwrap();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .unwrap();
        if body.len() == length.parse::<usize>().unwrap() {
            assert!(head.contains("application/cloudevents+json"), "{head}");
            stream
                .write_all(b"HTTP/1.1 204 No Content\r\n\r\n")
                .await
                .unwrap();
            return serde_json::from_str(body).unwrap();
        }
    }
}

#[tokio::test]
async fn a_failure_reaches_the_webhook_and_the_error_handler_in_the_words_of_the_contract() {
    let directory = TestDirectory::new("sinks");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/events", listener.local_addr().unwrap());
    let errors = directory.join("errors.jsonl");
    let arguments = ["--event-webhook", &url, "--error-handler-path", &errors];
    let orchestrator = Orchestrator::start(&directory, &arguments).await;
    let mut asked = request(plan(1, "copy"));
    asked.environment = None;
    let answer = orchestrator
        .plans()
        .await
        .execute_plan(process::execute(asked))
        .await
        .unwrap()
        .into_inner();
    let result = answer.result.unwrap();

    let event = timeout(PATIENCE, one_post(listener)).await.unwrap();
    assert_eq!(event["specversion"], "1.0");
    assert_eq!(event["type"], "plan_execution_failure");
    assert_eq!(event["id"], result.execution_id.as_str());
    assert_eq!(event["data"]["status"], "failure");
    assert_eq!(event["data"]["error"]["error_code"], "CONTEXT_MISSING");
    assert_eq!(event["data"]["completed_at"], result.completed_at);
    assert_eq!(orchestrator.stop().await, Some(0));
    let lines = std::fs::read_to_string(errors).unwrap();
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&lines).unwrap(),
        event["data"]
    );
    assert!(lines.ends_with('\n'));
}

#[tokio::test]
async fn a_webhook_that_is_dead_changes_nothing() {
    let directory = TestDirectory::new("dead-webhook");
    // Bound and never accepted from.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let orchestrator = Orchestrator::start(&directory, &["--event-webhook", &url]).await;
    let worker = Worker::start(&orchestrator, "copy").await;
    let mut plans = orchestrator.plans().await;
    for number in 1..=20 {
        let answer = plans
            .execute_plan(process::execute(request(plan(number, "copy"))))
            .await
            .unwrap();
        assert_eq!(
            answer.into_inner().result.unwrap().status,
            v1::plan_result::Status::Success as i32
        );
    }
    worker.stop().await;
    assert_eq!(orchestrator.stop().await, Some(0));
}
