#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::protocol::Reply;
use super::{Credentials, NatsTarget, Publisher, Subject, judged};
use crate::deliveries::message::Message;
use bytes::Bytes;
use escapement_delivery::Answer;
use escapement_model::Namespace;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// The pair of the documentation of NATS.
const SEED: &str = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";
const PUBLIC: &str = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4";

fn message(body: &str) -> Message {
    Message {
        id: "one".to_owned(),
        kind: "plan_execution_success".to_owned(),
        namespace: Namespace::parse("billing"),
        body: Bytes::copy_from_slice(body.as_bytes()),
    }
}

#[test]
fn a_subject_has_places_for_namespace_and_type() {
    let subject = Subject::parse("escapement.{namespace}.{type}").unwrap();
    let mut message = message("");
    assert_eq!(subject.of(&message), "escapement.billing.plan_execution_success");
    message.namespace = None;
    assert_eq!(subject.of(&message), "escapement._.plan_execution_success");
    assert_eq!(Subject::parse("all").unwrap().of(&message), "all");
}

#[test]
fn a_subject_that_servers_would_refuse_is_refused() {
    for (text, said) in [
        ("", "empty word"),
        ("a..b", "empty word"),
        (".a", "empty word"),
        ("a.", "empty word"),
        ("a.*", "* or >"),
        ("a.>", "* or >"),
        ("a b", "without spaces"),
        ("a\r\nPUB b", "without spaces"),
        ("\u{e9}", "printable ASCII"),
        ("{kind}", "neither {namespace} nor {type}"),
        ("{type", "neither {namespace} nor {type}"),
        ("$JS.API.STREAM.DELETE.x", "must not begin with $"),
        (&"a".repeat(257), "256 bytes"),
    ] {
        let problem = Subject::parse(text).unwrap_err();
        assert!(problem.contains(said), "{text}: {problem}");
    }
}

#[test]
fn a_seed_alone_shows_its_key_and_one_with_a_token_the_token() {
    let bare = Credentials::parse(format!("{SEED}\n").as_bytes()).unwrap();
    let said = bare.answer("challenge");
    assert_eq!(said["nkey"], PUBLIC);
    assert!(said["sig"].as_str().is_some_and(|text| text.len() == 86) && !said.contains_key("jwt"));

    let file = format!(
        "-----BEGIN NATS USER JWT-----\neyJ0.eyJz.c2ln\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{SEED}\n------END USER NKEY SEED------\n"
    );
    let signed = Credentials::parse(file.as_bytes()).unwrap();
    let said = signed.answer("challenge");
    assert_eq!((&said["jwt"], said.get("nkey")), (&"eyJ0.eyJz.c2ln".into(), None));
    assert!(!format!("{signed:?}").contains("eyJ0"));
}

#[test]
fn what_is_no_seed_of_a_user_is_refused_and_never_told() {
    let account = "SAANDLKMXL6CUS3CP52WIXBEDN6YJ545GDKC65U5JZPPV6WH6ESWUA6YAI";
    let mistyped = SEED.replace("FSNV", "FSNW");
    for text in ["", "hunter2", account, &mistyped, &SEED[..57], PUBLIC] {
        let problem = Credentials::parse(text.as_bytes()).unwrap_err();
        assert!(problem.contains("seed of a user"), "{text}: {problem}");
    }
    assert!(Credentials::parse(&[0xff]).is_err());
}

#[test]
fn an_answer_says_whether_it_is_about_the_event_or_about_the_stream() {
    let failed = Answer::Failed { retry_after_ms: None };
    for (body, answer) in [
        (r#"{"stream":"S","seq":1}"#, Answer::Taken),
        (r#"{"stream":"S","seq":1,"duplicate":true}"#, Answer::Taken),
        (
            r#"{"error":{"code":400,"err_code":10054,"description":"too large"}}"#,
            Answer::Refused,
        ),
        (
            r#"{"error":{"code":503,"description":"maximum messages exceeded"}}"#,
            failed,
        ),
        (r#"{"error":{"code":503},"stream":"S","seq":0}"#, failed),
        (r#"{"stream":"S"}"#, failed),
        ("{}", failed),
        ("yes", failed),
        ("", failed),
    ] {
        assert_eq!(judged(&Reply::Body(body.into())).0, answer, "{body}");
    }
    assert_eq!(judged(&Reply::NobodyListens).0, failed);
    assert_eq!(judged(&Reply::Denied(String::new())).0, Answer::Refused);
    assert_eq!(judged(&Reply::TooLarge { bytes_max: 1 }).0, Answer::Refused);
}

/// What becomes of a message that goes to a server which says this, and hears nothing.
async fn publish_to(says: &'static [u8]) -> Result<Answer, String> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = NatsTarget {
        host: "127.0.0.1".to_owned(),
        port: listener.local_addr().unwrap().port(),
        tls: None,
        subject: Subject::parse("events").unwrap(),
        credentials: None,
    };
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(says).await.unwrap();
        stream.shutdown().await.unwrap();
        // Until the client has gone.
        let _heard = stream.read_to_end(&mut Vec::new()).await;
    });
    let posted = Publisher::default().publish(&target, &message("{}")).await;
    serving.await.unwrap();
    posted.map(|(answer, _)| answer)
}

#[tokio::test]
async fn a_server_that_breaks_the_protocol_is_left() {
    for (says, said) in [
        (&b""[..], "closed the connection"),
        (b"SSH-2.0-OpenSSH\r\n", "no server of NATS"),
        (b"INFO {", "does not end"),
        (b"INFO {}\r\n", "INFO: missing field `max_payload`"),
        (b"INFO {\"max_payload\":-1}\r\n", "INFO: "),
        (b"INFO {\"max_payload\":100}\r\n", "knows no headers"),
        (
            b"INFO {\"max_payload\":100,\"headers\":true,\"tls_required\":true}\r\n",
            "must begin with tls://",
        ),
        (
            b"INFO {\"max_payload\":100,\"headers\":true}\r\nPONG\r\n",
            "more than INFO",
        ),
        (b"\xff\xfe\r\n", "no text"),
        (b"MSG s 1 18446744073709551615\r\n", "a message that is none"),
        (b"MSG s 1 65537\r\n", "a message that is none"),
        (b"HMSG s 1 9 8\r\n", "a message that is none"),
        (b"MSG\r\n", "a message that is none"),
        (b"-ERR 'Authorization Violation'\r\n", "no server of NATS"),
        (&[b'x'; 70_000], "does not end"),
    ] {
        let problem = publish_to(says).await.unwrap_err();
        assert!(
            problem.contains(said),
            "{}: {problem}",
            String::from_utf8_lossy(&says[..says.len().min(80)])
        );
    }
}
