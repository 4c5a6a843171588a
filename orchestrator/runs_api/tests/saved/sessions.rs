//! Sessions of namespaces, by callers who have no business in each other's.

use escapement_transport::response_budget::ResponseBudget;
use std::collections::BTreeSet;
use std::sync::Arc;

use escapement_access::{Grant, NamespaceScope, Principal, PrincipalKind, Role};
use escapement_model::Namespace;
use escapement_runs::Config;
use escapement_runs_api::{Runs, Sessions, Triggers};
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::create_run_request::What;
use escapement_wire::runs::v1::run_service_server::RunService;
use escapement_wire::runs::v1::session_service_server::SessionService;
use escapement_wire::runs::v1::trigger_service_server::TriggerService;
use serde_json::json;
use tonic::{Code, Request, Status};

use crate::calls::document;
use crate::world::{World, object, told};

/// The request of somebody who hands in to this namespace alone.
fn of<T>(name: &str, namespace: &str, message: T) -> Request<T> {
    let namespace = Namespace::parse(namespace).unwrap();
    let roles = [Role::Submitter].into_iter().collect();
    let principal = Principal {
        name: name.into(),
        kind: PrincipalKind::Token,
        issuer: "".into(),
        valid_until_ms: None,
        grants: vec![Grant::new(
            roles,
            NamespaceScope::Named(BTreeSet::from([namespace])),
        )],
    };
    let mut request = Request::new(message);
    request.extensions_mut().insert(Arc::new(principal));
    request
}

fn refused<T: std::fmt::Debug>(answer: Result<T, Status>, field: &str) {
    let expected = (Code::InvalidArgument, "INVALID_ARGUMENT".to_owned());
    let (code, reason, fields) = told(&answer.map(|_| ()).unwrap_err());
    assert_eq!(((code, reason), fields), (expected, vec![field.to_owned()]));
}

#[tokio::test]
async fn an_id_of_a_session_reaches_no_other_namespace() {
    let world = World::new();
    let sessions = Sessions::new(world.runs.clone());
    let config = Config {
        max_live_runs: 100,
        max_runs: 1000,
    };
    let runs = Runs::new(world.runs.clone(), config, ResponseBudget::default());
    let create = v1::CreateSessionRequest {
        session_id: "theirs".to_owned(),
        state: Some(object(&json!({"said": "a secret"}))),
        ..v1::CreateSessionRequest::default()
    };
    sessions
        .create_session(of("owner", "other", create))
        .await
        .unwrap();

    // A session of another namespace is kept under its namespace, this character and its id.
    let session_id = "other\u{1f}theirs".to_owned();
    let get = v1::GetSessionRequest {
        session_id: session_id.clone(),
        ..v1::GetSessionRequest::default()
    };
    refused(
        sessions.get_session(of("stranger", "default", get)).await,
        "session_id",
    );
    let merge = v1::MergeSessionStateRequest {
        session_id: session_id.clone(),
        patch: Some(object(&json!({"said": "nothing"}))),
        ..v1::MergeSessionStateRequest::default()
    };
    let merged = sessions.merge_session_state(of("stranger", "default", merge));
    refused(merged.await, "session_id");
    let delete = v1::DeleteSessionRequest {
        session_id: session_id.clone(),
        ..v1::DeleteSessionRequest::default()
    };
    refused(
        sessions.delete_session(of("stranger", "default", delete)).await,
        "session_id",
    );
    let watch = v1::WatchNoticesRequest {
        session_id: session_id.clone(),
        ..v1::WatchNoticesRequest::default()
    };
    let watched = runs.watch_notices(of("stranger", "default", watch)).await;
    refused(watched.map(|_| ()), "session_id");
    let trigger = v1::Trigger {
        name: "listens".to_owned(),
        config: Some(v1::trigger::Config::Condition(v1::Condition {
            expression: "input.session.said == 'a secret'".to_owned(),
            session_id,
            ..v1::Condition::default()
        })),
        run: Some(v1::CreateRunRequest {
            what: Some(What::Document(object(&document(&json!([]))))),
            ..v1::CreateRunRequest::default()
        }),
        ..v1::Trigger::default()
    };
    let create = v1::CreateTriggerRequest {
        trigger: Some(trigger),
        ..v1::CreateTriggerRequest::default()
    };
    let triggers = Triggers::new(runs);
    let made = triggers.create_trigger(of("stranger", "default", create)).await;
    refused(made, "trigger.condition.session_id");

    let get = v1::GetSessionRequest {
        session_id: "theirs".to_owned(),
        ..v1::GetSessionRequest::default()
    };
    let found = sessions.get_session(of("owner", "other", get)).await.unwrap();
    let state = found.into_inner().session.unwrap().state;
    assert_eq!(state, Some(object(&json!({"said": "a secret"}))));
}
