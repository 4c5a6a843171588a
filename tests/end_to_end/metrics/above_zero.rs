//! Every figure is seen above 0: each is made to happen once, on a real process, and the number is the one that happened.

use super::readiness::world_on_a_disk;
use super::{address, on_the_page, scrape};
use crate::access::credentials::{Token, policy};
use crate::access::issuers;
use crate::plans::{RequestWords, StepWords, WORK, plan, request, step, step_id};
use crate::runs;
use crate::sinks;
use crate::status_details::reason;
use crate::tls::connecting::shake_hands_without_alpn;
use crate::tls::{SecureWorld, client_tls};
use crate::world::{LIMIT, World};
use escapement_tests::authority::{Authority, replace};
use escapement_tests::{
    OrchestratorSettings, PrivateDirectory, Receiver, Reply, ScriptedWorker, TokenIssuer, wait_for,
};
use escapement_wire::v1::execution_error::Severity;
use escapement_wire::v1::plan_step::OnFailure;
use escapement_wire::v1::{ExecutePlanRequest, ListWorkersRequest};
use escapement_wire::worker::v1::outcome_ack::Verdict;
use escapement_wire::worker::v1::session_request::Message as ToOrchestrator;
use escapement_wire::worker::v1::{Assignment, AttemptOutcome, Outcomes};
use rustix::process::Signal;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tonic::Code;
use tonic::transport::Endpoint;

/// The most that each figure was seen at, by its name and those of its labels whose values are few and known.
#[derive(Default)]
struct Seen(BTreeMap<String, f64>);

impl Seen {
    /// Looks until these figures stand at these numbers in one scrape, and remembers all of it.
    async fn until(&mut self, address: &str, expected: &[(&str, f64)]) {
        let stands = async || {
            let samples = scrape(address).await;
            let is_so = |(name, value): &(&str, f64)| samples.get(*name) == Some(value);
            expected.iter().all(is_so).then_some(samples)
        };
        let Ok(samples) = wait_for("figures", LIMIT, stands).await else {
            panic!("not {expected:?}: {:#?}", scrape(address).await);
        };
        self.look(samples);
    }

    /// The same for figures whose numbers grow with time.
    async fn until_above_zero(&mut self, address: &str, expected: &[&str]) {
        let stands = async || {
            let samples = scrape(address).await;
            let is_seen = |figure: &&str| samples.get(*figure).is_some_and(|value| *value > 0.0);
            expected.iter().all(is_seen).then_some(samples)
        };
        let Ok(samples) = wait_for("figures above 0", LIMIT, stands).await else {
            panic!("not all of {expected:?}: {:#?}", scrape(address).await);
        };
        self.look(samples);
    }

    fn look(&mut self, samples: BTreeMap<String, f64>) {
        for (sample, value) in samples {
            if let Some(figure) = figure(&sample) {
                let most = self.0.entry(figure).or_default();
                *most = most.max(value);
            }
        }
    }

    fn merge(&mut self, other: Self) {
        self.look(other.0);
    }
}

/// Returns the figure of a sample; `None` for parts of histograms that their counts imply.
fn figure(sample: &str) -> Option<String> {
    let (name, labels) = sample.split_once('{').unwrap_or((sample, ""));
    if name.ends_with("_bucket") || name.ends_with("_sum") {
        return None;
    }
    let name = name.strip_suffix("_count").unwrap_or(name);
    let is_kept = |label: &&str| KEPT.contains(&label.split('=').next().unwrap_or_default());
    let labels: Vec<&str> = labels.trim_end_matches('}').split(',').filter(is_kept).collect();
    Some(match labels.is_empty() {
        true => name.to_owned(),
        false => format!("{name}{{{}}}", labels.join(",")),
    })
}

/// Labels whose values are known before anything happens.
const KEPT: [&str; 9] = [
    "answer",
    "file",
    "outcome",
    "reason",
    "signal",
    "state",
    "status",
    "transport",
    "what",
];

/// Figures that no test of a whole process sees above 0, and why.
const NEVER_SEEN: [&str; 5] = [
    // It takes a client that goes between the kernel's accept and the program's next line.
    r#"escapement_connections_refused_total{reason="broken"}"#,
    // It takes thousands of clients that never call; the tests of hostile strangers see it.
    r#"escapement_connections_refused_total{reason="displaced"}"#,
    // It takes an execution that is removed before its event was delivered; the tests of sinks see it.
    r#"escapement_events_total{outcome="dropped"}"#,
    // It takes a client that says nothing of HTTP/2; the tests of hostile handshakes see it.
    r#"escapement_handshake_failures_total{reason="no_http2"}"#,
    // It takes 1,025 handshakes at a time, more than many machines let a test have open.
    r#"escapement_handshake_failures_total{reason="too_many"}"#,
];

#[tokio::test]
async fn every_figure_of_the_page_is_seen_above_zero() {
    let (mut seen, sessions, secure, callers, store, traces, sinks) = tokio::join!(
        of_executions(),
        of_sessions(),
        of_tls(),
        of_callers(),
        of_the_store(),
        of_telemetry(),
        of_sinks()
    );
    for other in [sessions, secure, callers, store, traces, sinks] {
        seen.merge(other);
    }
    let named: BTreeSet<String> = seen
        .0
        .keys()
        .map(|figure| figure.split('{').next().unwrap().to_owned())
        .collect();
    assert_eq!(named, on_the_page(), "all of them are shown");
    // What runs come to is told by a story of theirs.
    let other = seen
        .0
        .iter()
        .filter(|(figure, _)| !figure.starts_with("escapement_run"));
    // What waits for the engine is taken within microseconds, but not on a busy machine.
    let other = other.filter(|(figure, _)| *figure != "escapement_engine_lane_depth");
    let at_zero = other.filter(|(_, most)| **most <= 0.0);
    let at_zero: Vec<&str> = at_zero.map(|(figure, _)| figure.as_str()).collect();
    assert_eq!(at_zero, NEVER_SEEN);
}

/// Returns a sink that takes its events, one that refuses them, and one that is away.
async fn of_sinks() -> Seen {
    let (takes, refuses) = (
        Receiver::start(204).await.unwrap(),
        Receiver::start(400).await.unwrap(),
    );
    let hangs = Receiver::start_with(|_| Reply::Silence).await.unwrap();
    let away = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let away_url = format!("http://{}/", away.local_addr().unwrap());
    let (mut world, sinks) = sinks::world(
        |sinks| {
            let sinks = sinks.sink("takes", &takes.url("/"), "");
            let sinks = sinks.sink("refuses", &refuses.url("/"), "give_up_after_ms = 1000");
            sinks.sink("away", &away_url, "timeout_ms = 100")
        },
        |settings| {
            let settings = counting(settings).flag("--tls-reload-interval-ms", 0);
            settings.flag("--event-webhook", hangs.url("/"))
        },
    )
    .await;
    let address = address(&world).await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    worker.keep_alive(Duration::from_secs(1));
    world.submit(&work(1)).await;
    worker.complete_next(json!({})).await;
    let mut seen = Seen::default();
    let expected = [
        r#"escapement_event_queue_bytes{queue="webhook"}"#,
        r#"escapement_events_total{sink="takes",outcome="delivered"}"#,
        r#"escapement_events_total{sink="refuses",outcome="given_up"}"#,
        r#"escapement_event_feed_lag{sink="away"}"#,
        r#"escapement_event_feed_lag_seconds{sink="away"}"#,
    ];
    seen.until_above_zero(&address, &expected).await;

    let reloads = |outcome| format!(r#"escapement_reloads_total{{what="sinks",outcome="{outcome}"}}"#);
    let sinks = sinks.sink("another", &takes.url("/"), "");
    world.orchestrator.process.signal(Signal::HUP).unwrap();
    seen.until(&address, &[(&reloads("replaced"), 1.0)]).await;
    let _sinks = sinks.sink("wrong", &takes.url("/"), "nane = 1");
    world.orchestrator.process.signal(Signal::HUP).unwrap();
    seen.until(&address, &[(&reloads("refused"), 1.0)]).await;
    seen
}

fn counting(settings: OrchestratorSettings) -> OrchestratorSettings {
    settings.flag("--metrics-listen", "127.0.0.1:0")
}

fn work(n_steps: usize) -> ExecutePlanRequest {
    request(plan((0..n_steps).map(|number| step(number, WORK)))).concurrent(3)
}

/// What waits, what runs, how it ends, and outcomes that come too late.
async fn of_executions() -> Seen {
    let mut seen = Seen::default();
    let world = World::start_with(|settings| {
        counting(settings)
            .flag("--max-running-executions", 1)
            .flag("--max-queued-in-memory", 1)
            .flag("--scrub-interval-ms", 100)
    });
    let world = world.await;
    let address = address(&world).await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 2).await;
    worker.keep_alive(Duration::from_secs(1));
    let nothing = json!({ "schema": "escapement.plan/1", "name": "Nothing", "steps": [] });
    runs::create(&world.orchestrator, runs::creation("first", &nothing)).await;
    let free = format!(r#"escapement_action_free_slots{{action="{WORK}"}}"#);
    seen.until(&address, &[(&free, 2.0)]).await;
    world.submit(&work(3)).await;
    let first = worker.started().await;
    let second = worker.started().await;
    let partial = plan([step(0, WORK), step(1, WORK).on_failure(OnFailure::Skip)]);
    for queued in [work(1), work(1), request(partial)] {
        world.submit(&queued).await;
    }
    let waiting = format!(r#"escapement_steps_waiting{{action="{WORK}"}}"#);
    let in_flight = format!(r#"escapement_attempts_in_flight{{action="{WORK}"}}"#);
    let expected = [
        (r#"escapement_executions{state="queued"}"#, 3.0),
        (r#"escapement_executions{state="running"}"#, 1.0),
        ("escapement_executions_parked", 2.0),
        ("escapement_executions_max", 200_000.0),
        ("escapement_ready", 1.0),
        (waiting.as_str(), 1.0),
        (in_flight.as_str(), 2.0),
    ];
    seen.until(&address, &expected).await;
    let oldest = format!(r#"escapement_step_oldest_wait_seconds{{action="{WORK}"}}"#);
    seen.until_above_zero(&address, &[&oldest]).await;

    assert_eq!(worker.succeed(&first, json!({})).await, Verdict::Accepted);
    assert_eq!(worker.succeed(&first, json!({})).await, Verdict::Duplicate);
    worker.succeed(&second, json!({})).await;
    worker.complete_next(json!({})).await;
    let broken = worker.started().await;
    worker.fail(&broken, "BROKEN", Severity::Fatal).await;
    let unread = worker.started().await;
    let says_nothing = AttemptOutcome {
        attempt_token: unread.attempt_token,
        ..AttemptOutcome::default()
    };
    let items = vec![says_nothing];
    worker.send(ToOrchestrator::Outcomes(Outcomes { items })).await;
    for _ in 0..2 {
        let assignment = worker.started().await;
        match assignment.step_id == step_id(1) {
            true => worker.fail(&assignment, "BUSY", Severity::Error).await,
            false => worker.succeed(&assignment, json!({})).await,
        };
    }
    let nobodys = Assignment {
        attempt_token: vec![9; first.attempt_token.len()].into(),
        ..Assignment::default()
    };
    assert_eq!(worker.succeed(&nobodys, json!({})).await, Verdict::Unknown);

    // The handler goes on although it was told to stop.
    let late = request(plan([step(0, WORK).timeout_ms(100)]));
    world.submit(&late).await;
    let stuck = worker.started().await;
    worker.cancel_of(&stuck).await;
    seen.until(&address, &[("escapement_stuck_handlers", 1.0)]).await;
    let verdict = worker.succeed(&stuck, json!({})).await;
    assert_eq!(verdict, Verdict::AlreadyEnded);
    let expected = [
        (
            r#"escapement_executions_settled_total{namespace="default",status="failure"}"#,
            3.0,
        ),
        (
            r#"escapement_executions_settled_total{namespace="default",status="partial"}"#,
            1.0,
        ),
        (
            r#"escapement_executions_settled_total{namespace="default",status="success"}"#,
            1.0,
        ),
        (r#"escapement_late_outcomes_total{answer="already_ended"}"#, 1.0),
        (r#"escapement_late_outcomes_total{answer="duplicate"}"#, 1.0),
        (r#"escapement_late_outcomes_total{answer="invalid"}"#, 1.0),
        (r#"escapement_late_outcomes_total{answer="unknown"}"#, 1.0),
        ("escapement_workers_lost_total", 0.0),
    ];
    seen.until(&address, &expected).await;
    let store = rusqlite::Connection::open(world.directory.join("store/store.db")).unwrap();
    store.busy_timeout(LIMIT).unwrap();
    let damaged = "UPDATE accepted_record SET record = x'00' WHERE number = 1";
    assert_eq!(store.execute(damaged, ()).unwrap(), 1);
    seen.until(&address, &[("escapement_store_damaged", 1.0)]).await;
    seen
}

/// Workers that drain, that fall silent, and that are gone.
async fn of_sessions() -> Seen {
    let mut seen = Seen::default();
    let world = World::start_with(|settings| counting(settings).flag("--lease-ms", 1_000)).await;
    let address = address(&world).await;
    let mut odd = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let again = odd.next_hello();
    odd.send(ToOrchestrator::Hello(again)).await;
    let error = r#"escapement_session_errors_total{error="protocol_violation"}"#;
    seen.until(&address, &[(error, 1.0)]).await;
    drop(odd);
    let mut drains = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    drains.keep_alive(Duration::from_millis(200));
    world.submit(&work(1)).await;
    let unstarted = drains.assignment().await;
    drains.drain(60_000).await;
    seen.until(
        &address,
        &[(r#"escapement_worker_sessions{state="draining"}"#, 1.0)],
    )
    .await;
    drains.goodbye().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    worker.keep_alive(Duration::from_millis(200));
    let verdict = worker.succeed(&unstarted, json!({})).await;
    assert_eq!(verdict, Verdict::Stale, "it was handed out again");
    worker.started().await;
    // It answers a heartbeat behind the start, so it knows of that.
    worker.n_assignments_sent().await;
    drop(worker);
    seen.until(
        &address,
        &[(r#"escapement_worker_sessions{state="suspect"}"#, 1.0)],
    )
    .await;
    // The one that said goodbye had an attempt, too.
    let expected = [
        ("escapement_workers_lost_total", 2.0),
        (r#"escapement_late_outcomes_total{answer="stale"}"#, 1.0),
        (r#"escapement_attempts_total{action="work",outcome="lost"}"#, 1.0),
        (
            r#"escapement_attempts_total{action="work",outcome="returned"}"#,
            1.0,
        ),
    ];
    seen.until(&address, &expected).await;
    seen
}

async fn speak(address: SocketAddr, words: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(words).await.unwrap();
    stream
}

/// Connections with TLS, handshakes that fail, and files that are replaced.
async fn of_tls() -> Seen {
    let mut seen = Seen::default();
    let secure = SecureWorld::start_that_looks_as_told(|settings| {
        counting(settings).flag("--tls-reload-interval-ms", 0)
    });
    let mut secure = secure.await;
    let address = address(&secure.world).await;
    let served = secure.world.orchestrator.address();
    let known = secure.clients.issue(&["known"]).unwrap();
    let _mutual = secure.connect(Some(&known)).await.unwrap();
    let _tls = secure.connect(None).await.unwrap();
    seen.until(&address, &[(r#"escapement_connections{transport="tls"}"#, 1.0)])
        .await;

    let _slow = speak(served, &[0x16]).await;
    let _plain = speak(served, b"PRI * HTTP/2.0").await;
    let stranger = Authority::new("strangers").unwrap().issue(&["stranger"]).unwrap();
    let tls = client_tls(&secure.servers, Some(&stranger));
    let url = secure.world.orchestrator.url();
    let stranger = Endpoint::from_shared(url).unwrap().tls_config(tls).unwrap();
    let _refused = stranger.connect().await;
    shake_hands_without_alpn(&secure).await;

    for (cert, outcome) in [("no certificate", "refused"), ("", "replaced")] {
        let issued = secure.servers.issue(&["localhost"]).unwrap();
        match cert {
            "" => drop(issued.write(secure.world.directory.path(), "server").unwrap()),
            nonsense => replace(&secure.own.cert, nonsense).unwrap(),
        }
        secure.world.orchestrator.process.signal(Signal::HUP).unwrap();
        let counted = format!(r#"escapement_reloads_total{{what="certificates",outcome="{outcome}"}}"#);
        seen.until(&address, &[(&counted, 1.0)]).await;
    }
    let expected = [
        (r#"escapement_handshake_failures_total{reason="handshake"}"#, 1.0),
        (r#"escapement_handshake_failures_total{reason="no_alpn"}"#, 1.0),
        (
            r#"escapement_handshake_failures_total{reason="plaintext_on_tls"}"#,
            1.0,
        ),
        (r#"escapement_handshake_failures_total{reason="too_slow"}"#, 1.0),
        (
            r#"escapement_handshake_failures_total{reason="tls_on_plaintext"}"#,
            0.0,
        ),
    ];
    seen.until(&address, &expected).await;
    seen
}

/// Callers that are refused, a policy that is replaced, and connections that are too many.
async fn of_callers() -> Seen {
    let mut seen = Seen::default();
    let (token, over) = (Token::new("operator"), Token::new("over"));
    let issuer = TokenIssuer::start("issuer").await.unwrap();
    let entries = [
        token.entry("operator", "roles = [\"operator\"]"),
        over.entry("over", "roles = [\"operator\"]\nexpires = 2020-01-01T00:00:00Z"),
        issuers::entry(&format!("jwks_url = \"{}\"", issuer.url())),
    ];
    let directory = PrivateDirectory::new("figures").unwrap();
    let file = directory.join("policy.toml");
    std::fs::write(&file, policy(&entries)).unwrap();
    let world = World::start_in(directory, |settings| {
        counting(settings)
            .flag("--max-connections", 8)
            .flag("--access-policy", file.display())
            .flag("--tls-reload-interval-ms", 0)
    });
    let mut world = world.await;
    let address = address(&world).await;
    let came = r#"escapement_jwks_last_success_timestamp_seconds{issuer="https://issuer.example"}"#;
    seen.until_above_zero(&address, &[came]).await;
    let mut fleet = world.orchestrator.fleet();
    fleet
        .list_workers(token.shows(ListWorkersRequest {}))
        .await
        .unwrap();
    let asked = || ListWorkersRequest {};
    for (request, why) in [
        (tonic::Request::new(asked()), "CREDENTIALS_MISSING"),
        (Token::new("unknown").shows(asked()), "CREDENTIALS_INVALID"),
        (over.shows(asked()), "CREDENTIALS_EXPIRED"),
    ] {
        let refused = fleet.list_workers(request).await.unwrap_err();
        assert_eq!(reason(&refused, Code::Unauthenticated), why);
        let counted = format!(r#"escapement_auth_failures_total{{reason="{why}"}}"#);
        seen.until(&address, &[(&counted, 1.0)]).await;
    }
    for (text, outcome) in [
        ("version = 2\n".to_owned(), "refused"),
        (policy(&entries[..1]), "replaced"),
    ] {
        std::fs::write(&file, text).unwrap();
        world.orchestrator.process.signal(Signal::HUP).unwrap();
        let counted = format!(r#"escapement_reloads_total{{what="policy",outcome="{outcome}"}}"#);
        seen.until(&address, &[(&counted, 1.0)]).await;
    }
    let served = world.orchestrator.address();
    // One is the caller's own.
    let mut open = Vec::new();
    for _ in 0..9 {
        open.push(TcpStream::connect(served).await.unwrap());
    }
    let refused = r#"escapement_connections_refused_total{reason="too_many"}"#;
    seen.until(&address, &[(refused, 2.0)]).await;
    seen
}

/// Returns a full disk, and a client that comes with TLS where none is spoken.
async fn of_the_store() -> Seen {
    let mut seen = Seen::default();
    let (world, layer) = world_on_a_disk().await;
    let address = address(&world).await;
    let _encrypted = speak(world.orchestrator.address(), b"\x16\x03\x01\x02\x00").await;
    world.submit(&work(1)).await;
    layer.set_full(true).unwrap();
    world.try_submit(&work(1)).await.unwrap_err();
    let expected = [
        ("escapement_store_full", 1.0),
        (
            r#"escapement_submissions_refused_total{refusal="STORE_FULL"}"#,
            1.0,
        ),
        ("escapement_ready", 0.0),
        (
            r#"escapement_handshake_failures_total{reason="tls_on_plaintext"}"#,
            1.0,
        ),
    ];
    seen.until(&address, &expected).await;
    seen
}

/// Nobody listens where traces and the log are to go.
async fn of_telemetry() -> Seen {
    let mut seen = Seen::default();
    let nobody = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", nobody.local_addr().unwrap());
    drop(nobody);
    let world = World::start_with(|settings| {
        counting(settings)
            .flag("--otlp-endpoint", endpoint)
            .flag("--otlp-signals", "traces,logs")
            .flag("--trace-ratio", 1)
    });
    let world = world.await;
    let address = address(&world).await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    for _ in 0..2 {
        world.submit(&work(1)).await;
        worker.complete_next(json!({})).await;
    }
    let dropped = r#"escapement_telemetry_dropped_total{signal="traces"}"#;
    seen.until(&address, &[(dropped, 2.0)]).await;
    let lines = r#"escapement_telemetry_dropped_total{signal="logs"}"#;
    seen.until_above_zero(&address, &[lines]).await;
    seen
}
