//! Sinks in a stream of a real server of NATS.

mod by_tls;

use super::{Sinks, execute, world};
use crate::metrics::{address, scrape};
use crate::world::{LIMIT, World};
use escapement_tests::authority::Authority;
use escapement_tests::{Dice, NatsAccounts, NatsClient, NatsServer, PrivateDirectory, skip, tool, wait_for};
use serde_json::{Value, json};
use std::path::PathBuf;

fn program() -> Option<PathBuf> {
    let program = tool("nats-server", "`cargo verify` unpacks it");
    if program.is_none() {
        skip("sinks in NATS: there is no nats-server");
    }
    program
}

/// A server, and its directory, which goes after it.
pub(crate) struct Nats {
    pub(crate) server: NatsServer,
    roots: Option<String>,
    accounts: Option<NatsAccounts>,
    directory: PrivateDirectory,
}

impl Nats {
    pub(crate) async fn start(configuration: &str) -> Option<Self> {
        let directory = PrivateDirectory::new("nats").unwrap();
        let server = NatsServer::start(&program()?, directory.path(), configuration).await;
        Some(Self {
            server: server.unwrap(),
            roots: None,
            accounts: None,
            directory,
        })
    }

    /// Starts one that wants TLS, and whose certificate this authority has signed.
    async fn start_by_tls(authority: &Authority, more: &str) -> Option<Self> {
        let program = program()?;
        let directory = PrivateDirectory::new("nats").unwrap();
        let issued = authority.issue(&["localhost"]).unwrap();
        let files = issued.write(directory.path(), "server").unwrap();
        let configuration = format!(
            "tls {{ cert_file: \"{}\", key_file: \"{}\" }}\n{more}",
            files.cert.display(),
            files.key.display(),
        );
        let server = NatsServer::start(&program, directory.path(), &configuration).await;
        Some(Self {
            server: server.unwrap(),
            roots: Some(authority.pem()),
            accounts: None,
            directory,
        })
    }

    async fn client(&self) -> NatsClient {
        NatsClient::connect(self.server.port(), self.roots.as_deref(), self.accounts.as_ref())
            .await
            .unwrap()
    }

    /// Makes the stream, with further settings.
    pub(crate) async fn make_stream(&self, more: Value) {
        let mut settings = json!({
            "name": "EVENTS", "subjects": ["escapement.>"], "allow_direct": true,
            "retention": "limits", "storage": "file", "num_replicas": 1, "duplicate_window": 120_000_000_000_i64,
        });
        for (name, value) in more.as_object().unwrap() {
            settings[name] = value.clone();
        }
        let made = self
            .client()
            .await
            .ask("STREAM.CREATE.EVENTS", &settings)
            .await
            .unwrap();
        assert!(made.get("error").is_none(), "{made}");
    }

    /// Waits until the stream has so many messages: their headers and bodies.
    pub(crate) async fn messages(&self, count: usize) -> Vec<(String, Value)> {
        let what = format!("{count} messages");
        let there = wait_for(&what, LIMIT, async || {
            let messages = self.client().await.messages("EVENTS").await.unwrap();
            (messages.len() >= count).then_some(messages)
        });
        there.await.unwrap()
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://localhost:{}", self.server.port())
    }

    fn tls_url(&self) -> String {
        format!("tls://localhost:{}", self.server.port())
    }

    fn file(&self, name: &str, text: &str) -> String {
        let file = self.directory.join(name);
        std::fs::write(&file, text).unwrap();
        file.display().to_string()
    }
}

async fn start(sinks: impl FnOnce(Sinks) -> Sinks) -> (World, Sinks) {
    world(sinks, |settings| settings.flag("--metrics-listen", "127.0.0.1:0")).await
}

fn ids(messages: &[(String, Value)]) -> Vec<String> {
    let id = |(_, event): &(String, Value)| event["id"].as_str().unwrap().to_owned();
    messages.iter().map(id).collect()
}

async fn wait_for_refusals(world: &World, more_than: f64) {
    let address = address(world).await;
    let refused = wait_for("tries in vain", LIMIT, async || {
        let samples = scrape(&address).await;
        let tries = samples.get("escapement_events_total{sink=\"bus\",outcome=\"refused\"}")?;
        (*tries > more_than).then_some(())
    });
    refused.await.unwrap();
}

#[tokio::test]
async fn every_ending_comes_to_a_stream_once_and_in_order_across_kills_of_both() {
    let Some(mut nats) = Nats::start("").await else {
        return;
    };
    nats.make_stream(json!({})).await;
    let url = nats.url();
    let (mut world, _sinks) = start(|sinks| sinks.nats_sink("bus", &url, "")).await;
    let mut dice = Dice::new(5);
    let mut expected = Vec::new();
    for round in 0..4 {
        let worker = world
            .stock_worker(&format!("stock-{round}"), |settings| settings)
            .await;
        let before = expected.len();
        expected.extend(execute(&world, 6).await);
        // At some moment of the deliveries: with some of them done, and one perhaps under way.
        let n_more = usize::try_from(dice.roll(6)).unwrap();
        nats.messages(before + n_more).await;
        drop(worker);
        if round % 2 == 0 {
            nats.server.kill().unwrap();
            world.crash_and_restart().await;
            nats.server.restart().await.unwrap();
        } else {
            world.crash_and_restart().await;
        }
    }
    let messages = nats.messages(expected.len()).await;
    assert_eq!(
        ids(&messages),
        expected,
        "everything once, and in the order of settling"
    );
    let mut last = String::new();
    for (headers, event) in &messages {
        let id = event["id"].as_str().unwrap();
        assert!(
            headers.contains(&format!("\r\nNats-Msg-Id: {id}\r\n")),
            "{headers}"
        );
        assert!(
            headers.contains("\r\nContent-Type: application/cloudevents+json"),
            "{headers}"
        );
        let subject = format!("escapement.default.{}", event["type"].as_str().unwrap());
        assert!(
            headers.contains(&format!("Nats-Subject: {subject}\r\n")),
            "{headers}"
        );
        let place = event["sequence"].as_str().unwrap().to_owned();
        assert!(place > last);
        last = place;
    }
}

#[tokio::test]
async fn a_stream_that_is_missing_or_full_is_waited_for() {
    let Some(nats) = Nats::start("").await else {
        return;
    };
    let url = nats.url();
    let (world, _sinks) = start(|sinks| sinks.nats_sink("bus", &url, "")).await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    let expected = execute(&world, 3).await;
    wait_for_refusals(&world, 1.0).await;
    nats.make_stream(json!({"max_msgs": 2, "discard": "new"})).await;
    assert_eq!(ids(&nats.messages(2).await), expected[..2]);
    wait_for_refusals(&world, 4.0).await;
    let mut client = nats.client().await;
    let purged = client.ask("STREAM.PURGE.EVENTS", &json!({})).await.unwrap();
    assert_eq!(purged["success"], true);
    let third = wait_for("the third event", LIMIT, async || {
        let next = json!({"seq": 3});
        nats.client()
            .await
            .ask("STREAM.MSG.GET.EVENTS", &next)
            .await
            .ok()?
            .get("message")
            .cloned()
    });
    third.await.unwrap();
}

#[tokio::test]
async fn a_server_that_wants_a_key_and_tls_gets_both() {
    let authority = Authority::new("nats").unwrap();
    let users = format!(
        "authorization {{ users: [\n\
         {{ user: admin, password: admin }},\n\
         {{ nkey: {PUBLIC}, permissions: {{ publish: [\"escapement.default.>\"], subscribe: [\"_INBOX.>\"] }} }}\n] }}"
    );
    let Some(nats) = Nats::start_by_tls(&authority, &users).await else {
        return;
    };
    nats.make_stream(json!({})).await;
    let credentials = nats.file("nats.seed", SEED);
    let another = nats.file("another.seed", ANOTHER_SEED);
    let roots = nats.file("roots.pem", &authority.pem());
    let url = nats.tls_url();
    let (world, _sinks) = start(|sinks| {
        let trusted = format!("ca_file = {roots:?}\ngive_up_after_ms = 1000");
        let sinks = sinks.nats_sink("bus", &url, &format!("{trusted}\ncredentials_file = {another:?}"));
        let sinks = sinks.nats_sink("nobody", &url, &trusted);
        let sinks = sinks.nats_sink("plain", &nats.url(), "");
        sinks.nats_sink(
            "known",
            &url,
            &format!("{trusted}\ncredentials_file = {credentials:?}"),
        )
    })
    .await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    let expected = execute(&world, 3).await;
    assert_eq!(ids(&nats.messages(3).await), expected);
    let address = address(&world).await;
    let refused = wait_for("who is not let in", LIMIT, async || {
        let samples = scrape(&address).await;
        let figure = |sink, outcome| {
            let name = format!("escapement_events_total{{sink=\"{sink}\",outcome=\"{outcome}\"}}");
            samples.get(&name).copied()
        };
        assert_eq!(figure("known", "refused").unwrap_or_default(), 0.0);
        let strangers = ["bus", "nobody", "plain"].map(|sink| figure(sink, "refused"));
        strangers.iter().all(|tries| *tries > Some(1.0)).then_some(())
    });
    refused.await.unwrap();
    assert_eq!(nats.messages(3).await.len(), 3);
}

#[tokio::test]
async fn a_user_shows_the_token_of_its_account() {
    let accounts = NatsAccounts::new().unwrap();
    let Some(mut nats) = Nats::start(&accounts.configuration()).await else {
        return;
    };
    let credentials = |seed| {
        format!(
            "-----BEGIN NATS USER JWT-----\n{}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n",
            accounts.token(PUBLIC)
        )
    };
    let known = nats.file("known.creds", &credentials(SEED));
    let stolen = nats.file("stolen.creds", &credentials(ANOTHER_SEED));
    nats.accounts = Some(accounts);
    nats.make_stream(json!({})).await;
    let url = nats.url();
    let (world, _sinks) = start(|sinks| {
        let sinks = sinks.nats_sink("bus", &url, &format!("credentials_file = {stolen:?}"));
        sinks.nats_sink("known", &url, &format!("credentials_file = {known:?}"))
    })
    .await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    let expected = execute(&world, 2).await;
    assert_eq!(ids(&nats.messages(2).await), expected);
    wait_for_refusals(&world, 1.0).await;
    assert_eq!(nats.messages(2).await.len(), 2);
}

/// The pair of the documentation of NATS.
const SEED: &str = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";
const PUBLIC: &str = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4";
/// A user whom the server does not know.
const ANOTHER_SEED: &str = "SUAAAAICAMCAKBQHBAEQUCYMBUHA6EARCIJRIFIWC4MBSGQ3DQOR4H776Y";
