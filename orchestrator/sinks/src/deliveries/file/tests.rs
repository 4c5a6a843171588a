#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::{Begin, Feed, SinksFile};
use crate::deliveries::way::Way;
use escapement_contract::Status;
use escapement_model::Namespace;
use std::path::Path;

const SECRET: &[u8] = b"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n";

fn read(sinks: &str, secret: &'static [u8]) -> Result<SinksFile, String> {
    let text = format!("version = 1\n{sinks}");
    SinksFile::parse(text.as_bytes(), &|_: &Path| secret)
}

/// Returns a sink of which one line is replaced, or that has one line more.
fn with(line: &str) -> String {
    let lines = [
        "name = \"crm\"",
        "kind = \"webhook\"",
        "url = \"http://127.0.0.1:1/events\"",
        "secret_file = \"/secrets/crm\"",
    ];
    let key = line.split(' ').next().unwrap();
    let others = lines.into_iter().filter(|other| !other.starts_with(key));
    let lines: Vec<&str> = others.chain([line]).collect();
    format!("[[sink]]\n{}\n", lines.join("\n"))
}

#[test]
fn a_sink_has_defaults_and_everything_can_be_set() {
    let file = read(&with("begin = \"oldest\""), SECRET).unwrap();
    assert_eq!(file.to_string(), "sinks crm");
    let sink = &file.sinks()[0];
    assert_eq!((sink.timeout.as_millis(), sink.data_bytes_max), (15_000, 262_144));
    assert_eq!(
        (sink.limits.pause_max_ms, sink.limits.give_up_after_ms),
        (14_400_000, 259_200_000)
    );
    let default = Namespace::default();
    assert!(sink.wanted.has(Status::Success.event_type(), &default, || None));

    let all = "types = [\"plan_execution_failure\"]\nnamespaces = [\"billing\"]\nbegin = \"newest\"\ntimeout_ms = 1000\n\
               pause_max_ms = 100\ngive_up_after_ms = 1000\ndata_bytes_max = 0\nallow_plaintext = true\n\
               url = \"http://10.0.0.1/\"";
    let text = with("url = \"http://10.0.0.1/\"").replace("url = \"http://10.0.0.1/\"", all);
    let two_secrets = [SECRET, SECRET].concat().leak();
    let file = read(&text, two_secrets).unwrap();
    let sink = &file.sinks()[0];
    let Way::Webhook(webhook) = &sink.way else {
        panic!("it is a webhook: {sink:?}");
    };
    assert_eq!((sink.begin, webhook.secrets.len()), (Begin::Newest, 2));
    let billing = Namespace::parse("billing").unwrap();
    assert!(sink.wanted.has(Status::Failure.event_type(), &billing, || None));
    assert!(!sink.wanted.has(Status::Failure.event_type(), &default, || None));
    assert!(!sink.wanted.has(Status::Success.event_type(), &billing, || None));
}

#[test]
fn a_sink_of_runs_knows_the_types_of_runs_alone() {
    let of_runs = |types: &str| {
        let text = with("feed = \"runs\"").replace("feed = \"runs\"", &format!("feed = \"runs\"\n{types}"));
        read(&text, SECRET)
    };
    let file = of_runs("types = [\"run_failed\"]").unwrap();
    let sink = &file.sinks()[0];
    let default = Namespace::default();
    assert_eq!(sink.feed, Feed::Runs);
    assert!(sink.wanted.has("run_failed", &default, || None));
    assert!(!sink.wanted.has("run_completed", &default, || None));
    let problem = of_runs("types = [\"plan_execution_failure\"]").unwrap_err();
    assert!(
        problem.contains("is none of run_completed, run_failed, run_cancelled"),
        "{problem}"
    );
    let file = read(&with("begin = \"oldest\""), SECRET).unwrap();
    assert_eq!(file.sinks()[0].feed, Feed::Executions, "unless it says so");
}

#[test]
fn what_is_wrong_is_named() {
    for (line, said) in [
        ("nane = \"x\"", "unknown field `nane`"),
        ("name = \"C R M\"", "sink[0].name must be 1 to 63"),
        ("kind = \"kafka\"", "sink[0].kind \"kafka\" is not known"),
        ("url = \"http://10.0.0.1/\"", "sink[0].url is not encrypted"),
        ("url = \"http://crm.example/\"", "sink[0].url is not encrypted"),
        (
            "url = \"https://user:word@crm.example/\"",
            "sink[0].url must not hold a user",
        ),
        (
            "url = \"ftp://127.0.0.1/\"",
            "sink[0].url must begin with https://",
        ),
        ("url = \"events\"", "sink[0].url must begin"),
        ("types = [\"ended\"]", "sink[0].types \"ended\" is none of"),
        ("namespaces = [\"A\"]", "sink[0].namespaces holds \"A\""),
        ("begin = \"now\"", "line 7: "),
        (
            "timeout_ms = 99",
            "sink[0].timeout_ms must be a whole number from 100 to 120000",
        ),
        ("timeout_ms = \"1 s\"", "line 7: "),
        ("pause_max_ms = 14400001", "sink[0].pause_max_ms must be"),
        ("give_up_after_ms = 0", "sink[0].give_up_after_ms must be"),
        ("data_bytes_max = 1048577", "sink[0].data_bytes_max must be"),
        (
            "ca_file = \"/nowhere/ca.pem\"\nurl = \"https://crm.example/\"",
            "ca_file",
        ),
    ] {
        let text = match line.contains("ca_file") {
            true => with("url = \"\"").replace("url = \"\"", line),
            false => with(line),
        };
        let problem = read(&text, SECRET).unwrap_err();
        assert!(problem.contains(said), "{line}: {problem}");
    }
    let twice = [with("timeout_ms = 100"), with("timeout_ms = 100")].concat();
    assert!(read(&twice, SECRET).unwrap_err().contains("sink[1].name \"crm\""));
    let many: String = (0..9).map(|n| with(&format!("name = \"s{n}\""))).collect();
    assert!(read(&many, SECRET).unwrap_err().contains("may have 8"));
    let other = SinksFile::parse(b"version = 2", &|_: &Path| SECRET);
    assert!(other.unwrap_err().contains("version is 2"));
    assert!(read("sink = [", SECRET).unwrap_err().starts_with("line "));
}

/// Returns a stream of NATS with these lines more.
fn in_nats(lines: &str) -> String {
    format!("[[sink]]\nname = \"bus\"\nkind = \"nats\"\n{lines}\n")
}

#[test]
fn a_stream_has_a_server_a_subject_and_perhaps_credentials() {
    let seed = b"SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";
    for (lines, expected) in [
        ("url = \"nats://localhost\"", ("localhost", 4222, false, false)),
        ("url = \"nats://[::1]:1/\"", ("::1", 1, false, false)),
        ("url = \"tls://bus.example\"", ("bus.example", 4222, true, false)),
        (
            "url = \"nats://bus.example:9\"\nallow_plaintext = true\ncredentials_file = \"/seed\"",
            ("bus.example", 9, false, true),
        ),
    ] {
        let file = read(&in_nats(&format!("subject = \"events\"\n{lines}")), seed).unwrap();
        let Way::Nats(nats) = &file.sinks()[0].way else {
            panic!("it is in NATS: {file:?}");
        };
        let found = (
            &*nats.host,
            nats.port,
            nats.tls.is_some(),
            nats.credentials.is_some(),
        );
        assert_eq!(found, expected, "{lines}");
    }
}

#[test]
fn what_is_wrong_with_a_stream_is_named() {
    let loopback = "url = \"nats://127.0.0.1\"\nsubject = \"events\"";
    let with_secret = format!("{loopback}\nsecret_file = \"/s\"");
    let with_credentials = format!("{loopback}\ncredentials_file = \"/c\"");
    for (lines, said) in [
        ("subject = \"events\"", "missing field `url`"),
        ("url = \"nats://127.0.0.1\"", "sink[0].subject is missing"),
        (
            &*with_secret,
            "sink[0].secret_file is not for a sink of kind nats",
        ),
        (
            &*with_credentials,
            "sink[0].credentials_file /c must hold the seed",
        ),
        (
            "subject = \"a.>\"\nurl = \"nats://127.0.0.1\"",
            "sink[0].subject must not hold * or >",
        ),
        (
            "subject = \"a\"\nurl = \"nats://bus.example\"",
            "sink[0].url is not encrypted and leads to another machine; give tls://",
        ),
        (
            "subject = \"a\"\nurl = \"http://127.0.0.1\"",
            "sink[0].url must begin with tls:// or nats://",
        ),
        (
            "subject = \"a\"\nurl = \"nats://127.0.0.1/events\"",
            "sink[0].url must end behind the port",
        ),
    ] {
        let problem = read(&in_nats(lines), SECRET).unwrap_err();
        assert!(problem.contains(said), "{lines}: {problem}");
    }
    for (line, said) in [
        ("subject = \"a\"", "subject is not for a sink of kind webhook"),
        (
            "credentials_file = \"/c\"",
            "credentials_file is not for a sink of kind webhook",
        ),
    ] {
        assert!(read(&with(line), SECRET).unwrap_err().contains(said), "{line}");
    }
    let unsigned = with("timeout_ms = 100").replace("secret_file = \"/secrets/crm\"\n", "");
    assert!(
        read(&unsigned, SECRET)
            .unwrap_err()
            .contains("sink[0].secret_file is missing")
    );
}

#[test]
fn a_secret_that_is_none_is_refused_and_never_told() {
    for secret in [
        &b""[..],
        b"hunter2",
        b"whsec_aHVudGVyMg==",
        &[0xff],
        &SECRET.repeat(3),
    ] {
        let secret = secret.to_vec().leak();
        let problem = read(&with("timeout_ms = 100"), secret).unwrap_err();
        assert!(problem.contains("sink[0].secret_file /secrets/crm"), "{problem}");
        assert!(
            !problem.contains("hunter") && !problem.contains("aHVu"),
            "{problem}"
        );
    }
    let file = read(&with("timeout_ms = 100"), SECRET).unwrap();
    assert!(!format!("{file:?}").contains("AAEC"));
}
