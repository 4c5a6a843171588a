//! What runs ask, whom they ask, and which answer wins.

use std::sync::Arc;

use escapement_access::{Grant, NamespaceScope, Principal, PrincipalKind, Role};
use escapement_run::spec::Policy;
use escapement_wire::json::from_opaque;
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::approval::{self, Approve, Deny};
use escapement_wire::runs::v1::inbox_service_server::InboxService;
use escapement_wire::runs::v1::input_request::State;
use escapement_wire::runs::v1::respond_to_input_request::Answer;
use escapement_wire::runs::v1::responder::Kind;
use escapement_wire::runs::v1::watch_inbox_response::{Change, Told};
use serde_json::json;
use tokio_stream::StreamExt;
use tonic::{Code, Request, Status};
use tonic_types::StatusExt;

use crate::calls::{create, document, named, put};
use crate::world::{World, told};

/// A run of ada's that waits for the approval of its plan.
async fn asking(world: &World) -> String {
    asking_in(world, "", 1).await
}

/// As [`asking`], the run of that number in this namespace.
async fn asking_in(world: &World, namespace: &str, n: u8) -> String {
    let plan = create(world, named("Asks")).await.unwrap();
    let steps = json!([{"key": "a", "type": "tool_call", "config": {"tool_name": "mail.send"}}]);
    put(world, &plan.plan_id, &document(&steps)).await.unwrap();
    let made = world.run_in(namespace, &plan.plan_id, n, Policy::default());
    made.await.unwrap().to_string()
}

async fn list(world: &World, user_id: &str, kind: &str) -> Vec<v1::InputRequest> {
    let request = v1::ListInputRequestsRequest {
        user_id: user_id.to_owned(),
        kind: kind.to_owned(),
        ..v1::ListInputRequestsRequest::default()
    };
    let answer = world.inbox.list_input_requests(Request::new(request)).await;
    answer.unwrap().into_inner().input_requests
}

async fn decide(
    world: &World,
    asked: &v1::InputRequest,
    (who, kind): (&str, Kind),
    decision: approval::Decision,
) -> Result<v1::InputRequest, Status> {
    respond(
        world,
        Request::new(decision_of(asked, Some((who, kind)), decision)),
    )
    .await
}

async fn respond(
    world: &World,
    request: Request<v1::RespondToInputRequest>,
) -> Result<v1::InputRequest, Status> {
    let answer = world.inbox.respond_to_input(request).await?;
    Ok(answer.into_inner().input_request.unwrap())
}

/// The decision of this responder; of none if no name is given.
fn decision_of(
    asked: &v1::InputRequest,
    responder: Option<(&str, Kind)>,
    decision: approval::Decision,
) -> v1::RespondToInputRequest {
    v1::RespondToInputRequest {
        input_request_id: asked.input_request_id.clone(),
        subject_digest: asked.subject_digest.clone(),
        answer: Some(Answer::Approval(v1::Approval {
            decision: Some(decision),
        })),
        responder: responder.map(|(who, kind)| v1::Responder {
            id: who.to_owned(),
            kind: kind.into(),
            verified: false,
        }),
        ..v1::RespondToInputRequest::default()
    }
}

/// The request, of a caller who has proved this name.
fn by<T>(name: &str, is_agent: bool, message: T) -> Request<T> {
    by_token_of("", name, is_agent, message)
}

/// The request, of a caller whom this issuer names so; empty for the policy itself.
fn by_token_of<T>(issuer: &str, name: &str, is_agent: bool, message: T) -> Request<T> {
    let roles = [Role::Submitter].into_iter().collect();
    let mut grant = Grant::new(roles, NamespaceScope::All);
    grant.is_agent = is_agent;
    let mut principal = Principal::anonymous(vec![grant]);
    (principal.name, principal.issuer) = (name.into(), issuer.into());
    principal.kind = match issuer {
        "" => PrincipalKind::Token,
        _ => PrincipalKind::Jwt,
    };
    let mut request = Request::new(message);
    request.extensions_mut().insert(Arc::new(principal));
    request
}

#[tokio::test]
async fn a_request_is_listed_for_its_user_and_kind_and_its_first_valid_answer_wins() {
    let world = World::new();
    let run_id = asking(&world).await;
    for (user_id, kind, count) in [
        ("", "", 1),
        ("ada", "approval", 1),
        ("ada", "question", 0),
        ("bob", "", 0),
    ] {
        assert_eq!(list(&world, user_id, kind).await.len(), count, "{user_id} {kind}");
    }
    let asked = list(&world, "ada", "approval").await.remove(0);
    assert_eq!((&asked.run_id, asked.step_key.as_str()), (&run_id, ""));
    assert_eq!(asked.state(), State::Open);

    let approve = || approval::Decision::Approve(Approve {});
    let (bob, robot) = (("bob", Kind::Person), ("robot", Kind::Agent));
    let other = v1::InputRequest {
        subject_digest: "00".repeat(32),
        ..asked.clone()
    };
    for (asked, who, code, reason) in [
        (&other, bob, Code::FailedPrecondition, "DIGEST_MISMATCH"),
        (&asked, robot, Code::PermissionDenied, "NOT_AN_APPROVER"),
    ] {
        let refused = told(&decide(&world, asked, who, approve()).await.unwrap_err());
        assert_eq!((refused.0, refused.1.as_str()), (code, reason));
        assert_eq!(list(&world, "ada", "").await.len(), 1, "it stays open: {reason}");
    }
    let answered = decide(&world, &asked, bob, approve()).await.unwrap();
    assert_eq!(answered.state(), State::Answered);
    assert!(answered.closed_at.is_some());
    // What is open now is what the plan's step asks.
    let open = list(&world, "", "").await;
    assert_eq!((open.len(), open[0].step_key.as_str()), (1, "a"));
    let again = decide(&world, &asked, bob, approve()).await.unwrap();
    assert_eq!(again, answered, "the same answer changes nothing");
    let late = decide(&world, &asked, bob, approval::Decision::Deny(Deny {})).await;
    assert_eq!(told(&late.unwrap_err()).1, "ALREADY_ANSWERED");
}

#[tokio::test]
async fn a_watcher_sees_what_is_open_and_what_becomes_of_it() {
    let world = World::new();
    asking(&world).await;
    let watch = async |user_id: &str| {
        let request = v1::WatchInboxRequest {
            user_id: user_id.to_owned(),
            ..v1::WatchInboxRequest::default()
        };
        let answers = world.inbox.watch_inbox(Request::new(request)).await;
        answers.unwrap().into_inner()
    };
    let mut answers = watch("ada").await;
    let mut next = async || {
        loop {
            if let Some(Told::InputRequest(request)) = answers.next().await.unwrap().unwrap().told {
                return request;
            }
        }
    };
    let asked = next().await;
    assert_eq!(asked.state(), State::Open);
    let deny = approval::Decision::Deny(Deny {});
    decide(&world, &asked, ("bob", Kind::Person), deny).await.unwrap();
    let ended = next().await;
    assert_eq!(
        (ended.input_request_id, ended.state),
        (asked.input_request_id, State::Answered.into())
    );
}

/// Returns the events of the inbox that a watcher gets after this cursor.
async fn watch(
    world: &World,
    after_cursor: i64,
) -> Result<impl StreamExt<Item = Result<v1::WatchInboxResponse, Status>>, Status> {
    let request = v1::WatchInboxRequest {
        after_cursor,
        ..v1::WatchInboxRequest::default()
    };
    let answers = world.inbox.watch_inbox(Request::new(request)).await?;
    Ok(answers.into_inner())
}

#[tokio::test]
async fn a_watcher_that_comes_back_is_told_each_opening_and_end_since() {
    let world = World::new();
    let mut answers = watch(&world, 0).await.unwrap();
    let beginning = answers.next().await.unwrap().unwrap();
    assert_eq!(
        beginning.told,
        Some(Told::Heartbeat(v1::InboxHeartbeat { open: 0 }))
    );
    assert_eq!(beginning.change(), Change::Unspecified);
    asking(&world).await;
    let opened = answers.next().await.unwrap().unwrap();
    assert_eq!(opened.change(), Change::Opened);
    let asked = list(&world, "ada", "approval").await.remove(0);
    assert_eq!(opened.told, Some(Told::InputRequest(asked.clone())));
    let approve = approval::Decision::Approve(Approve {});
    decide(&world, &asked, ("bob", Kind::Person), approve)
        .await
        .unwrap();

    // The plan's approval has ended since, and its step's is open.
    let mut told = Vec::new();
    let mut again = watch(&world, beginning.cursor).await.unwrap();
    while told.len() < 3 {
        told.push(again.next().await.unwrap().unwrap());
    }
    let changes: Vec<_> = told.iter().map(v1::WatchInboxResponse::change).collect();
    assert_eq!(changes, [Change::Opened, Change::Ended, Change::Opened]);
    let is_about = |answer: &v1::WatchInboxResponse| match &answer.told {
        Some(Told::InputRequest(request)) => (
            request.input_request_id == asked.input_request_id,
            request.state(),
        ),
        other => panic!("{other:?}"),
    };
    let about: Vec<_> = told.iter().map(is_about).collect();
    let (answered, open) = (State::Answered, State::Open);
    assert_eq!(about, [(true, answered), (true, answered), (false, open)]);
    for (behind, answer) in told.iter().enumerate() {
        let mut rest = watch(&world, answer.cursor).await.unwrap();
        for expected in &told[behind + 1..] {
            assert_eq!(rest.next().await.unwrap().unwrap(), *expected);
        }
    }
    let mut anew = watch(&world, 0).await.unwrap();
    let first = anew.next().await.unwrap().unwrap();
    assert_eq!((first.cursor, first.change()), (0, Change::IsOpen));
    let then = anew.next().await.unwrap().unwrap();
    assert_eq!(then.told, Some(Told::Heartbeat(v1::InboxHeartbeat { open: 1 })));
    assert_eq!(then.cursor, told[2].cursor);
}

#[tokio::test]
async fn a_cursor_that_no_watch_had_is_refused() {
    let world = World::new();
    asking(&world).await;
    for (cursor, code, reason) in [
        (i64::MAX, Code::FailedPrecondition, "CURSOR_GONE"),
        (-1, Code::InvalidArgument, "INVALID_ARGUMENT"),
    ] {
        let refused = watch(&world, cursor).await.err().expect("it is refused");
        let refused = told(&refused);
        assert_eq!((refused.0, refused.1.as_str()), (code, reason));
    }
}

/// Answers the only open request of ada's in this shape; returns the sentence of the refusal.
async fn refusal_of(world: &World, answer: Answer) -> String {
    let asked = list(world, "ada", "").await.remove(0);
    let request = v1::RespondToInputRequest {
        answer: Some(answer),
        ..decision_of(
            &asked,
            Some(("bob", Kind::Person)),
            approval::Decision::Approve(Approve {}),
        )
    };
    let refused = respond(world, Request::new(request)).await.unwrap_err();
    let found = told(&refused);
    assert_eq!(
        (found.0, found.1.as_str()),
        (Code::InvalidArgument, "ANSWER_INVALID")
    );
    assert_eq!(list(world, "ada", "").await.len(), 1, "it stays open");
    refused.message().to_owned()
}

// RUN-6.12, RUN-6.5
#[tokio::test]
async fn the_approval_of_a_plan_shows_the_plan_and_takes_an_approval_alone() {
    let world = World::new();
    asking(&world).await;
    let asked = list(&world, "ada", "approval").await.remove(0);
    assert!(asked.revision_digest.starts_with("sha256:"), "{asked:?}");
    let document = from_opaque(&asked.subject.clone().unwrap()).unwrap();
    assert_eq!(document["steps"][0]["config"]["tool_name"], "mail.send");
    let request = v1::GetInputRequestRequest {
        input_request_id: asked.input_request_id.clone(),
    };
    let got = world
        .inbox
        .get_input_request(Request::new(request))
        .await
        .unwrap();
    let got = got.into_inner().input_request.unwrap();
    assert_eq!(
        (got.subject, got.subject_digest),
        (asked.subject, asked.subject_digest)
    );
    for answer in [
        Answer::Text("yes".to_owned()),
        Answer::Extend(true),
        Answer::Confirm(true),
    ] {
        let sentence = refusal_of(&world, answer).await;
        assert!(sentence.contains("only approval,"), "{sentence}");
    }
}

// RUN-6.5
#[tokio::test]
async fn a_text_is_no_choice_and_a_choice_is_no_text() {
    let shapes = || [Answer::Text("tea".to_owned()), Answer::Choice("tea".to_owned())];
    for (input_type, right, wrong) in [("choice", 1, 0), ("text", 0, 1)] {
        let world = World::new();
        let plan = create(&world, named("Asks")).await.unwrap();
        let mut config = json!({"question": "Which?", "input_type": input_type});
        if input_type == "choice" {
            config["options"] = json!(["tea", "coffee"]);
        }
        let steps = json!([{"key": "q", "type": "user_input", "config": config}]);
        put(&world, &plan.plan_id, &document(&steps)).await.unwrap();
        world
            .run_in("", &plan.plan_id, 1, Policy::default())
            .await
            .unwrap();
        let sentence = refusal_of(&world, shapes()[wrong].clone()).await;
        assert!(sentence.contains(&format!("only {input_type}")), "{sentence}");
        let asked = list(&world, "ada", "").await.remove(0);
        let request = v1::RespondToInputRequest {
            answer: Some(shapes()[right].clone()),
            ..decision_of(
                &asked,
                Some(("bob", Kind::Person)),
                approval::Decision::Approve(Approve {}),
            )
        };
        assert!(respond(&world, Request::new(request)).await.is_ok());
    }
}

#[tokio::test]
async fn who_has_proved_a_name_answers_under_it_and_under_no_other() {
    let world = World::new();
    asking(&world).await;
    let asked = list(&world, "ada", "approval").await.remove(0);
    let approve = |responder| decision_of(&asked, responder, approval::Decision::Approve(Approve {}));

    let as_ada = approve(Some(("ada", Kind::Person)));
    let refused = respond(&world, by("bob", false, as_ada)).await.unwrap_err();
    assert_eq!(told(&refused).0, Code::PermissionDenied);
    let details = refused.get_error_details();
    let why = details.error_info().unwrap();
    assert_eq!(why.reason, "RESPONDER_NOT_PERMITTED");
    assert_eq!(why.metadata["field"], "responder.id");

    // Saying that it is a person makes no person of an agent.
    for said in [None, Some(("", Kind::Person)), Some(("robot", Kind::Service))] {
        let refused = respond(&world, by("robot", true, approve(said)))
            .await
            .unwrap_err();
        let refused = told(&refused);
        assert_eq!(
            (refused.0, refused.1.as_str()),
            (Code::PermissionDenied, "NOT_AN_APPROVER")
        );
    }
    assert_eq!(list(&world, "ada", "approval").await.len(), 1, "it stays open");

    // Without credentials there is no name but the one that is said.
    let nobody = respond(&world, Request::new(approve(None))).await.unwrap_err();
    assert_eq!(told(&nobody).2, ["responder"]);

    let answered = respond(&world, by("bob", false, approve(None))).await.unwrap();
    let responder = answered.decisions[0].responder.clone().unwrap();
    let bob = v1::Responder {
        id: "bob".to_owned(),
        kind: Kind::Person.into(),
        verified: true,
    };
    assert_eq!((answered.state(), responder), (State::Answered, bob));
}

#[tokio::test]
async fn what_is_said_in_a_name_is_no_repetition_of_what_was_said_by_its_holder() {
    let world = World::new();
    asking(&world).await;
    let asked = list(&world, "ada", "approval").await.remove(0);
    let with_id = |decision| v1::RespondToInputRequest {
        request_id: "once".to_owned(),
        ..decision_of(&asked, Some(("bob", Kind::Person)), decision)
    };
    let approve = || with_id(approval::Decision::Approve(Approve {}));
    let deny = || with_id(approval::Decision::Deny(Deny {}));
    let first = respond(&world, by("bob", false, approve())).await.unwrap();
    let again = v1::RespondToInputRequest {
        responder: None,
        ..approve()
    };
    let again = respond(&world, by("bob", false, again)).await.unwrap();
    assert_eq!(again, first, "the name that is left out is the same one");
    let reused = respond(&world, by("bob", false, deny())).await.unwrap_err();
    assert_eq!(told(&reused).1, "REQUEST_ID_REUSED");
    let other = respond(&world, Request::new(deny())).await.unwrap_err();
    assert_eq!(told(&other).1, "ALREADY_ANSWERED");
}

#[tokio::test]
async fn an_id_of_an_answer_is_of_its_issuer_and_namespace_alone() {
    let world = World::new();
    let issuers = ["", "https://one.example", "https://two.example"];
    for (n, namespace, issuer) in [
        (1, "", issuers[0]),
        (2, "other", issuers[0]),
        (3, "", issuers[1]),
        (4, "other", issuers[1]),
        (5, "", issuers[2]),
    ] {
        let run_id = asking_in(&world, namespace, n).await;
        let open = list(&world, "ada", "approval").await;
        let asked = open.iter().find(|asked| asked.run_id == run_id).unwrap();
        let answer = || v1::RespondToInputRequest {
            request_id: "once".to_owned(),
            ..decision_of(asked, None, approval::Decision::Deny(Deny {}))
        };
        let denied = respond(&world, by_token_of(issuer, "bob", false, answer())).await;
        let denied = denied.unwrap_or_else(|status| panic!("{namespace:?} {issuer:?}: {status:?}"));
        assert_eq!(denied.state(), State::Answered);
        let again = respond(&world, by_token_of(issuer, "bob", false, answer())).await;
        assert_eq!(again.unwrap(), denied);
    }
}
