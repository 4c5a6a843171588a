//! Tokens of issuers: keys in a file and by URL, rotation, and the end of a token.

use super::credentials::world_with;
use crate::status_details::reason;
use crate::world::LIMIT;
use escapement_tests::authority::{Authority, replace};
use escapement_tests::{PrivateDirectory, TokenIssuer, wait_for};
use escapement_wire::v1::{ListExecutionsRequest, SubscribeEventsRequest};
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};
use tonic::{Code, Request};
use tonic_types::StatusExt;

/// A request that shows the token.
fn showing<T>(token: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    let header = format!("Bearer {token}").parse().unwrap();
    request.metadata_mut().insert("authorization", header);
    request
}

/// The claims of somebody whose token ends that many seconds from now.
fn claims(sub: &str, seconds: u64) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    json!({"iss": "https://issuer.example", "aud": "escapement", "sub": sub, "exp": now.as_secs() + seconds})
}

/// The entry of a policy for an issuer whose keys are there.
fn entry(keys: &str) -> String {
    format!(
        "[[jwt]]\nissuer = \"https://issuer.example\"\naudience = \"escapement\"\n{keys}\nleeway_ms = 0\n\
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
