//! Tokens of issuers: keys in a file and by URL, rotation, and the end of a token.

use super::credentials::world_with;
use crate::status_details::reason;
use crate::world::LIMIT;
use escapement_tests::authority::{Authority, replace};
use escapement_tests::{PrivateDirectory, TokenIssuer, wait_for};
use escapement_wire::v1::event_service_client::EventServiceClient;
use escapement_wire::v1::plan_execution_service_client::PlanExecutionServiceClient;
use escapement_wire::v1::{ListExecutionsRequest, SubscribeEventsRequest};
use serde_json::{Value, json};
use std::cell::Cell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tonic::transport::Endpoint;
use tonic::{Code, Request};
use tonic_types::StatusExt;

/// Returns a request that shows the token.
fn showing<T>(token: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    let header = format!("Bearer {token}").parse().unwrap();
    request.metadata_mut().insert("authorization", header);
    request
}

/// Returns the claims of somebody whose token ends that many seconds from now.
fn claims(sub: &str, seconds: u64) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    json!({"iss": "https://issuer.example", "aud": "escapement", "sub": sub, "exp": now.as_secs() + seconds})
}

/// Returns the entry of a policy for the issuer whose keys are there.
pub(crate) fn entry(keys: &str) -> String {
    entry_of("https://issuer.example", keys)
}

fn entry_of(issuer: &str, keys: &str) -> String {
    format!(
        "[[jwt]]\nissuer = \"{issuer}\"\naudience = \"escapement\"\n{keys}\nleeway_ms = 0\n\
         [[jwt.grant]]\nwhen = {{ sub = \"anna\" }}\nroles = [\"viewer\"]\n"
    )
}

#[tokio::test]
async fn keys_in_a_file_are_read_again_and_a_connection_ends_with_its_key() {
    let (old, new) = (
        TokenIssuer::start("old").await.unwrap(),
        TokenIssuer::start("new").await.unwrap(),
    );
    let directory = PrivateDirectory::new("keys").unwrap();
    let file = directory.join("keys.json");
    replace(&file, &old.key_set()).unwrap();
    let (world, _policy) = world_with(&[entry(&format!("jwks_file = \"{}\"", file.display()))]).await;
    let mut plans = world.orchestrator.plans();
    let list = ListExecutionsRequest::default;
    let token = old.token(&claims("anna", 3_600));
    assert!(plans.list_executions(showing(&token, list())).await.is_ok());
    let stranger = old.token(&claims("bob", 3_600));
    let refused = plans
        .list_executions(showing(&stranger, list()))
        .await
        .unwrap_err();
    assert_eq!(reason(&refused, Code::PermissionDenied), "ROLE_MISSING");
    let unknown = new.token(&claims("anna", 3_600));
    let refused = plans
        .list_executions(showing(&unknown, list()))
        .await
        .unwrap_err();
    assert_eq!(reason(&refused, Code::Unauthenticated), "CREDENTIALS_INVALID");
    let mut events = world.orchestrator.events();
    let subscribed = events
        .subscribe_events(showing(&token, SubscribeEventsRequest::default()))
        .await;
    let mut subscribed = subscribed.unwrap().into_inner();

    replace(&file, &new.key_set()).unwrap();
    let ended = tokio::time::timeout(LIMIT, subscribed.message()).await.unwrap();
    assert!(!matches!(ended, Ok(Some(_))), "{ended:?}");
    assert!(plans.list_executions(showing(&unknown, list())).await.is_ok());
    let refused = plans.list_executions(showing(&token, list())).await.unwrap_err();
    assert_eq!(reason(&refused, Code::Unauthenticated), "CREDENTIALS_INVALID");
}

#[tokio::test]
async fn keys_by_url_come_over_tls_and_a_storm_of_unknown_ones_asks_for_nothing() {
    let authority = Authority::new("cluster").unwrap();
    let own = authority.issue(&["localhost"]).unwrap();
    let issuer = TokenIssuer::start_encrypted("one", &own).await.unwrap();
    let directory = PrivateDirectory::new("keys").unwrap();
    let (ca, shown) = (directory.join("ca.pem"), directory.join("token"));
    replace(&ca, &authority.pem()).unwrap();
    replace(&shown, "of.the.pod\n").unwrap();
    let keys = format!(
        "jwks_url = \"{}\"\njwks_ca_file = \"{}\"\njwks_token_file = \"{}\"",
        issuer.url(),
        ca.display(),
        shown.display()
    );
    let (world, _policy) = world_with(&[entry(&keys)]).await;
    let plans = world.orchestrator.plans();
    let list = ListExecutionsRequest::default;
    let token = issuer.token(&claims("anna", 3_600));
    wait_for("the keys", LIMIT, async || {
        match plans.clone().list_executions(showing(&token, list())).await {
            Ok(_) => Some(()),
            Err(status) => {
                assert_eq!(reason(&status, Code::Unavailable), "KEYS_UNAVAILABLE");
                let details = status.get_error_details();
                assert!(details.retry_info().is_some(), "it says when to ask again");
                None
            }
        }
    })
    .await
    .unwrap();
    for n in 0..100 {
        let unknown = issuer.token_of(&format!("unknown-{n}"), &claims("anna", 3_600));
        // A refused credential too many ends the connection, and the next call makes another one.
        let refused = plans.clone().list_executions(showing(&unknown, list())).await;
        assert!(refused.is_err());
    }
    assert_eq!(issuer.questions(), [Some("Bearer of.the.pod".to_owned())]);
}

#[tokio::test]
async fn a_rotation_at_the_address_is_followed_and_an_issuer_that_is_away_keeps_its_keys() {
    let authority = Authority::new("cluster").unwrap();
    let own = authority.issue(&["localhost"]).unwrap();
    let old = TokenIssuer::start_encrypted("old", &own).await.unwrap();
    let away = TokenIssuer::start_encrypted("away", &own).await.unwrap();
    let new = TokenIssuer::start("new").await.unwrap();
    let directory = PrivateDirectory::new("keys").unwrap();
    let ca = directory.join("ca.pem");
    replace(&ca, &authority.pem()).unwrap();
    let keys = |issuer: &TokenIssuer| {
        let (url, ca) = (issuer.url(), ca.display());
        format!("jwks_url = \"{url}\"\njwks_ca_file = \"{ca}\"")
    };
    let entries = [entry(&keys(&old)), entry_of("https://away.example", &keys(&away))];
    let (world, _policy) = world_with(&entries).await;
    let plans = world.orchestrator.plans();
    let lists = async |token: &str| {
        let list = showing(token, ListExecutionsRequest::default());
        plans.clone().list_executions(list).await
    };
    let mut of_away = claims("anna", 3_600);
    of_away["iss"] = "https://away.example".into();
    let (of_old, of_new) = (
        old.token(&claims("anna", 3_600)),
        new.token(&claims("anna", 3_600)),
    );
    let known_of_away = away.token(&of_away);
    for token in [&of_old, &known_of_away] {
        wait_for("the keys", LIMIT, async || lists(token).await.ok())
            .await
            .unwrap();
    }
    // On a connection of its own, which no refusal ends.
    let channel = Endpoint::from_shared(world.orchestrator.url()).unwrap();
    let mut events = EventServiceClient::new(channel.connect().await.unwrap());
    let subscribed = events.subscribe_events(showing(&of_old, SubscribeEventsRequest::default()));
    let mut subscribed = subscribed.await.unwrap().into_inner();

    old.answer_with(new.key_set());
    let unknown_of_away = away.token_of("unknown", &of_away);
    drop(away);
    // Meanwhile others show one unknown key after the other.
    let n_unknown = Cell::new(0);
    let followed = wait_for("the new key", ROTATION, async || {
        n_unknown.set(n_unknown.get() + 1);
        let unknown = old.token_of(&format!("unknown-{}", n_unknown.get()), &claims("anna", 3_600));
        assert!(lists(&unknown).await.is_err() && lists(&unknown_of_away).await.is_err());
        lists(&of_new).await.ok()
    });
    followed.await.unwrap();
    assert_eq!(
        old.questions().len(),
        2,
        "{n_unknown:?} unknown keys are one question"
    );
    let ended = tokio::time::timeout(LIMIT, subscribed.message()).await.unwrap();
    assert!(
        !matches!(ended, Ok(Some(_))),
        "its key has left the set: {ended:?}"
    );
    // On a connection that no refusal has ended or is about to end.
    let channel = Endpoint::from_shared(world.orchestrator.url()).unwrap();
    let mut afresh = PlanExecutionServiceClient::new(channel.connect().await.unwrap());
    let list = showing(&of_old, ListExecutionsRequest::default());
    let refused = afresh.list_executions(list).await.unwrap_err();
    assert_eq!(reason(&refused, Code::Unauthenticated), "CREDENTIALS_INVALID");
    let stderr = || world.orchestrator.process.stderr();
    let said = async || {
        stderr()
            .contains("keys of an issuer of tokens cannot be had")
            .then_some(())
    };
    wait_for("a question to who is away", ROTATION, said)
        .await
        .unwrap();
    let list = showing(&known_of_away, ListExecutionsRequest::default());
    let believed = afresh.list_executions(list).await;
    assert!(believed.is_ok(), "its keys are believed for a day: {believed:?}");
}

/// Longer than the 30 s in which an issuer is asked once, and the 10 s for which a refusal is remembered.
const ROTATION: Duration = Duration::from_secs(60);

#[tokio::test]
async fn what_a_token_began_ends_with_it() {
    let issuer = TokenIssuer::start("one").await.unwrap();
    let directory = PrivateDirectory::new("keys").unwrap();
    let file = directory.join("keys.json");
    replace(&file, &issuer.key_set()).unwrap();
    let (world, _policy) = world_with(&[entry(&format!("jwks_file = \"{}\"", file.display()))]).await;
    let token = issuer.token(&claims("anna", 3));
    let mut events = world.orchestrator.events();
    let subscribed = events
        .subscribe_events(showing(&token, SubscribeEventsRequest::default()))
        .await;
    let mut subscribed = subscribed.unwrap().into_inner();
    let ended = tokio::time::timeout(LIMIT, subscribed.message()).await.unwrap();
    assert!(!matches!(ended, Ok(Some(_))), "{ended:?}");
    let again = showing(&token, ListExecutionsRequest::default());
    let refused = world
        .orchestrator
        .plans()
        .list_executions(again)
        .await
        .unwrap_err();
    assert_eq!(reason(&refused, Code::Unauthenticated), "CREDENTIALS_EXPIRED");
}
