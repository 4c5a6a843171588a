//! Alerts of certificates, of credentials, and of what is sent to others.

use super::machine::Machine;
use super::page::{blocks, commands};
use crate::stage::LIMIT;
use escapement_tests::plans::echo;
use escapement_tests::{Receiver, Reply, skip, wait_for};
use escapement_wire::v1::ListWorkersRequest;
use escapement_wire::v1::plan_result::Status;
use serde_json::json;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

/// Makes an authority, and of it a certificate for a day, which the page's own commands do but for the days.
fn certificates(machine: &Machine) {
    let page = commands("CertificateExpires");
    let made = page.split_once("openssl req").unwrap().1.lines().next().unwrap();
    let made = made.replace("-days 90", "-days 1").replace("next.", "server.");
    machine.follow(&format!(
        "cd /etc/escapement
         openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj /CN=ca -keyout ca.key -out ca.pem
         openssl req{made}"
    ));
}

#[tokio::test]
async fn a_certificate_that_ends_is_replaced_also_after_half_of_a_pair_was_refused() {
    if Command::new("openssl").arg("version").output().is_err() {
        return skip("openssl is not installed");
    }
    let Some(mut machine) = Machine::new("").await else {
        return;
    };
    certificates(&machine);
    machine.set(
        "orchestrator",
        "ESCAPEMENT_TLS_CERT=/etc/escapement/server.pem\nESCAPEMENT_TLS_KEY=/etc/escapement/server.key\n",
    );
    machine.systemctl("start escapement-orchestrator").await;
    let left = async || {
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
        machine
            .figure("escapement_tls_certificate_expiry_timestamp_seconds")
            .await
            - now
    };
    assert!(left().await < 86_400.0, "the alert fires");
    // Somebody has put another key there.
    machine.follow("cd /etc/escapement; cp ca.key other; mv other server.key");
    let refused = r#"escapement_reloads_total{what="certificates",outcome="refused"}"#;
    machine.until(refused, |count| count >= 1.0).await;

    let said = machine.follow(&commands("CertificateExpires"));
    assert!(left().await > 86_400.0 * 89.0, "{said}");
    let ends: Vec<&str> = said
        .lines()
        .filter(|line| line.starts_with("notAfter="))
        .collect();
    assert!(
        ends.len() == 2 && ends[0] != ends[1],
        "another one is shown: {said}"
    );
}

const POLICY: &str = "version = 1\n\n[[token]]\nname = \"caller\"\nroles = [\"viewer\"]\nsha256 = ";

/// A policy that knows one token.
fn policy(machine: &Machine) -> String {
    let made = machine.follow("orchestrator token new --name caller");
    let made: serde_json::Value = serde_json::from_str(&made).unwrap();
    format!("{POLICY}\"{}\"\n", made["sha256"].as_str().unwrap())
}

const WITH_POLICY: &str =
    "ESCAPEMENT_ACCESS_POLICY=/etc/escapement/policy.toml\nESCAPEMENT_TLS_RELOAD_INTERVAL_MS=1000\n";

#[tokio::test]
async fn a_policy_that_is_refused_is_named_and_replaced_when_it_is_mended() {
    let Some(mut machine) = Machine::new("").await else {
        return;
    };
    let policy = policy(&machine);
    machine.write("etc/escapement/policy.toml", &policy);
    machine.set("orchestrator", WITH_POLICY);
    machine.systemctl("start escapement-orchestrator").await;
    machine.write(
        "etc/escapement/policy.toml",
        &policy.replace("viewer", "onlooker"),
    );
    let refused = r#"escapement_reloads_total{what="policy",outcome="refused"}"#;
    machine.until(refused, |count| count >= 1.0).await;

    let [look, see] = &blocks("ReloadRefused")[..] else {
        panic!("it has two parts");
    };
    let output = machine.tried(look);
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert_eq!(output.status.code(), Some(64), "{said}");
    assert!(
        said.matches("is no role").count() >= 2,
        "the log and the command: {said}"
    );
    machine.write("etc/escapement/policy.toml", &format!("{policy}# mended\n"));
    machine.follow(look);
    let said = machine.follow_block(see).await;
    assert!(said.contains(r#"what="policy""#), "{said}");
}

#[tokio::test]
async fn calls_with_wrong_credentials_are_counted_and_their_address_is_told() {
    let Some(mut machine) = Machine::new("").await else {
        return;
    };
    machine.write("etc/escapement/policy.toml", &policy(&machine));
    machine.set("orchestrator", WITH_POLICY);
    machine.systemctl("start escapement-orchestrator").await;
    let mut fleet = machine.orchestrator().fleet();
    let failures = r#"escapement_auth_failures_total{reason="CREDENTIALS_INVALID"}"#;
    while machine.figure(failures).await <= 30.0 {
        let mut asked = tonic::Request::new(ListWorkersRequest {});
        let shown = "Bearer esc_this_is_nobodys_token".parse().unwrap();
        asked.metadata_mut().insert("authorization", shown);
        // After some its connection is cut, too.
        fleet.list_workers(asked).await.unwrap_err();
    }
    let said = machine.follow(&commands("AuthFailures"));
    let counted = said.lines().find_map(|line| line.strip_prefix(failures));
    assert!(counted.unwrap().trim().parse::<f64>().unwrap() > 30.0, "{said}");
    let told = said.lines().rfind(|line| line.contains("credentials refused"));
    assert!(told.is_some_and(|line| line.contains("127.0.0.1")), "{said}");
}

#[tokio::test]
async fn keys_that_do_not_come_say_why() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = nobody.local_addr().unwrap();
    drop(nobody);
    let Some(mut machine) = Machine::new("").await else {
        return;
    };
    let issuer = format!(
        "[[jwt]]\nissuer = \"https://issuer.example\"\naudience = \"escapement\"\njwks_url = \"http://{address}/\"\n\
         [[jwt.grant]]\nwhen = {{ sub = \"anna\" }}\nroles = [\"viewer\"]\n"
    );
    let policy = policy(&machine) + &issuer;
    machine.write("etc/escapement/policy.toml", &policy);
    machine.set("orchestrator", WITH_POLICY);
    machine.systemctl("start escapement-orchestrator").await;
    let commands = commands("KeysStale");
    let told = async || machine.tried(&commands).status.success().then_some(());
    wait_for("a line about the keys", LIMIT, told).await.unwrap();
    let said = machine.follow(&commands);
    let came = r#"escapement_jwks_last_success_timestamp_seconds{issuer="https://issuer.example"} 0"#;
    assert!(
        said.contains(came) && said.contains(&address.to_string()),
        "{said}"
    );
}

#[tokio::test]
async fn traces_that_are_dropped_say_why() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = nobody.local_addr().unwrap();
    drop(nobody);
    let settings = format!("OTEL_EXPORTER_OTLP_ENDPOINT=http://{endpoint}\nOTEL_TRACES_SAMPLER_ARG=1\n");
    let Some(mut machine) = Machine::with(&settings).await else {
        return;
    };
    machine.systemctl("start escapement-worker").await;
    let id = machine.submit(echo(0, json!({}))).await;
    assert_eq!(machine.result_of(&id).await.status(), Status::Success);
    let dropped = r#"escapement_telemetry_dropped_total{signal="traces"}"#;
    machine.until(dropped, |count| count > 0.0).await;
    let said = machine.follow(&commands("TelemetryDropped"));
    assert!(
        said.contains("\"why\":") && said.to_lowercase().contains("connect"),
        "{said}"
    );
}

/// A file with one sink, which is tried again as soon as it may be.
pub(super) fn sink(machine: &Machine, receiver: &Receiver, more: &str) {
    let secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    machine.write("etc/escapement/sink.secret", secret);
    let text = machine.here(&format!(
        "version = 1\n[[sink]]\nname = \"crm\"\nkind = \"webhook\"\nurl = \"{}\"\n\
         secret_file = \"/etc/escapement/sink.secret\"\n{more}\n",
        receiver.url("/")
    ));
    machine.write("etc/escapement/sinks.toml", &text);
}

pub(super) const WITH_SINKS: &str = "ESCAPEMENT_EVENTS=/etc/escapement/sinks.toml\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sink_that_lags_gets_all_when_it_is_repaired() {
    let Some(mut machine) = Machine::new("").await else {
        return;
    };
    let status = Arc::new(AtomicU16::new(503));
    let answered = Arc::clone(&status);
    let receiver = Receiver::start_with(move |_| Reply::Status(answered.load(Ordering::Relaxed)));
    let receiver = receiver.await.unwrap();
    sink(&machine, &receiver, "");
    machine.set("orchestrator", WITH_SINKS);
    machine.systemctl("start escapement-orchestrator").await;
    machine.systemctl("start escapement-worker").await;
    let id = machine.submit(echo(0, json!({}))).await;
    machine.result_of(&id).await;
    let lag = r#"escapement_event_feed_lag{sink="crm"}"#;
    machine.until(lag, |count| count == 1.0).await;
    let lag_seconds = r#"escapement_event_feed_lag_seconds{sink="crm"}"#;
    machine.until(lag_seconds, |seconds| seconds > 0.0).await;
    let [look, repair] = &blocks("SinkLags")[..] else {
        panic!("it has two parts");
    };
    let refused = async || machine.tried(look).status.success().then_some(());
    wait_for("a refusal in the log", LIMIT, refused).await.unwrap();
    assert!(machine.follow(look).contains("503"));
    status.store(204, Ordering::Relaxed);
    machine.follow_block(repair).await;
    assert_eq!(machine.figure(lag_seconds).await, 0.0);
    let delivered = receiver.received();
    let last = String::from_utf8_lossy(&delivered.last().unwrap().body).into_owned();
    assert!(last.contains(&id), "{last}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_that_a_sink_lost_are_read_from_the_feed() {
    let Some(mut machine) = Machine::new("").await else {
        return;
    };
    let receiver = Receiver::start(400).await.unwrap();
    sink(&machine, &receiver, "give_up_after_ms = 1000\npause_max_ms = 100");
    machine.set("orchestrator", WITH_SINKS);
    machine.systemctl("start escapement-orchestrator").await;
    machine.systemctl("start escapement-worker").await;
    let id = machine.submit(echo(0, json!({}))).await;
    machine.result_of(&id).await;
    let given_up = r#"escapement_events_total{sink="crm",outcome="given_up"}"#;
    machine.until(given_up, |count| count == 1.0).await;
    let said = machine.follow(&commands("EventsLost"));
    assert!(said.contains("\"place\":"), "{said}");
    let read = said.rsplit_once("event is given up").unwrap().1;
    assert!(
        read.contains("plan_execution_success") && read.contains(&id),
        "{said}"
    );
}
