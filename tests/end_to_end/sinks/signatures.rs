//! Signatures, checked by the lines of Python that the page shows.

use super::{SECRET, execute, wait_for_taken, world};
use escapement_tests::{ReceivedRequest, Receiver, checkout, tool};
use serde_json::{Value, json};
use std::io::Write as _;
use std::process::{Command, Stdio};

/// The Python of the page, with what asks it.
fn program() -> String {
    let page = std::fs::read_to_string(checkout::root().join("deploy/EVENTS.md")).unwrap();
    let (_, code) = page.split_once("```python\n").unwrap();
    let (code, _) = code.split_once("```").unwrap();
    format!(
        "import json, sys\n{code}\n\
         asked = [(one['secret'], one['headers'], one['body'].encode()) for one in json.load(sys.stdin)]\n\
         print(json.dumps([is_ours(*one) for one in asked]))\n"
    )
}

/// What Python makes of each.
fn believed(asked: &Value) -> Option<Value> {
    let python = tool("python/bin/python", "`cargo verify` installs it")?;
    let mut reader = Command::new(python)
        .args(["-c", &program()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = reader.stdin.take().unwrap();
    stdin.write_all(asked.to_string().as_bytes()).unwrap();
    drop(stdin);
    let output = reader.wait_with_output().unwrap();
    assert!(output.status.success());
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

fn asked(secret: &str, request: &ReceivedRequest) -> Value {
    let body = std::str::from_utf8(&request.body).unwrap();
    json!({"secret": secret, "headers": request.headers, "body": body})
}

#[tokio::test]
async fn every_delivery_is_signed_with_each_secret_and_nothing_else_is_believed() {
    const NEXT: &str = "whsec_ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=";
    let receiver = Receiver::start(204).await.unwrap();
    let (world, _sinks) = world(
        |sinks| {
            std::fs::write(&sinks.secret, format!("{SECRET}\n{NEXT}\n")).unwrap();
            sinks.sink("crm", &receiver.url("/events?of=crm"), "")
        },
        |settings| settings.flag("--event-source", "/escapement/test"),
    )
    .await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    execute(&world, 3).await;
    let received = wait_for_taken(&receiver, 3).await;
    assert_eq!(received[0].path, "/events?of=crm");
    assert!(received[0].headers["content-type"].starts_with("application/cloudevents+json"));
    let first = super::event(&received[0]);
    assert_eq!(
        (&first["source"], &first["sequence"]),
        (&"/escapement/test".into(), &"00000000000000000001".into())
    );
    let mut cases: Vec<Value> = received.iter().map(|request| asked(SECRET, request)).collect();
    cases.push(asked(NEXT, &received[0]));
    let n_right = cases.len();
    let mut another = received[0].clone();
    another
        .headers
        .insert("webhook-id".to_owned(), "another".to_owned());
    cases.push(asked(SECRET, &another));
    let mut another = received[0].clone();
    another.body = [&another.body[..], b" "].concat().into();
    cases.push(asked(SECRET, &another));
    cases.push(asked(
        "whsec_QEFCQ0RFRkdISUpLTE1OT1BRUlNUVVZXWFlaW1xdXl8=",
        &received[0],
    ));
    let expected: Vec<bool> = (0..cases.len()).map(|index| index < n_right).collect();
    let Some(found) = believed(&Value::from(cases)) else {
        return;
    };
    assert_eq!(found, Value::from(expected));
}
