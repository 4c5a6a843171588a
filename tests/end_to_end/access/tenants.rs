//! Every call about runs, by who has business in their namespace and by who has not.

mod calls;
mod neighbours;
mod wire;

use super::credentials::{Token, world_with};
use super::matrix::table;
use crate::runs::creation;
use crate::status_details::reason;
use crate::world::{LIMIT, World};
use bytes::Bytes;
use escapement_tests::wait_for;
use escapement_wire::runs::v1;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tonic::{Code, Status};
use wire::Elsewhere::{Hidden, NotFound, Refused};
use wire::Use::{Other, Read, Write};
use wire::{ask, made};

fn document(steps: &Value) -> Value {
    json!({"schema": "escapement.plan/1", "name": SECRET, "steps": steps})
}

fn asking() -> Value {
    document(&json!([{"key": "ask", "type": "user_input", "config": {"question": SECRET}}]))
}

fn run_request(request_id: &str, document: &Value) -> v1::CreateRunRequest {
    creation(request_id, document)
}

/// Everything there is, in the namespace of its owner.
struct Things {
    run_id: String,
    ended: String,
    plan_id: String,
    trigger_id: String,
    goal_id: String,
    input_request_id: String,
    artifact_id: String,
    revision_digest: String,
}

async fn things(world: &World, owner: &Token) -> Things {
    let session = v1::CreateSessionRequest {
        session_id: SESSION.to_owned(),
        ..Default::default()
    };
    let session: v1::CreateSessionResponse = ask(world, owner, "SessionService", "CreateSession", session)
        .await
        .unwrap();
    let session = session.session.unwrap();
    assert_eq!(
        (session.namespace.as_str(), session.user_id.as_str()),
        ("other", "owner")
    );
    let plan = v1::CreatePlanRequest {
        plan: Some(v1::Plan {
            goal: "g".to_owned(),
            ..Default::default()
        }),
        document: run_request("", &asking()).what.and_then(|what| match what {
            v1::create_run_request::What::Document(document) => Some(document),
            _ => None,
        }),
        ..Default::default()
    };
    let plan: v1::CreatePlanResponse = ask(world, owner, "PlanService", "CreatePlan", plan)
        .await
        .unwrap();
    let plan = plan.plan.unwrap();
    assert_eq!(
        (plan.namespace.as_str(), plan.created_by.unwrap().name.as_str()),
        ("other", "owner")
    );
    let goal = v1::CreateGoalRequest {
        goal: Some(v1::Goal {
            title: SECRET.to_owned(),
            ..Default::default()
        }),
        ..Default::default()
    };
    let goal: v1::CreateGoalResponse = ask(world, owner, "GoalService", "CreateGoal", goal)
        .await
        .unwrap();
    let trigger = v1::CreateTriggerRequest {
        trigger: Some(v1::Trigger {
            name: SECRET.to_owned(),
            config: Some(v1::trigger::Config::Event(v1::EventFilter {
                r#type: "ping".to_owned(),
                ..Default::default()
            })),
            run: Some(run_request("", &asking())),
            ..Default::default()
        }),
        ..Default::default()
    };
    let trigger: v1::CreateTriggerResponse = ask(world, owner, "TriggerService", "CreateTrigger", trigger)
        .await
        .unwrap();
    let trigger = trigger.trigger.unwrap();
    assert_eq!(
        (
            trigger.namespace.as_str(),
            trigger.saved_by.unwrap().name.as_str()
        ),
        ("other", "owner")
    );
    let make = |request_id| v1::CreateRunRequest {
        session_id: SESSION.to_owned(),
        name: SECRET.to_owned(),
        ..run_request(request_id, &asking())
    };
    let run: v1::CreateRunResponse = ask(world, owner, "RunService", "CreateRun", make("one"))
        .await
        .unwrap();
    let run = run.run.unwrap();
    assert_eq!((run.namespace.as_str(), run.user_id.as_str()), ("other", "owner"));
    assert_eq!(run.started_by.as_ref().unwrap().name, "owner");
    let ended: v1::CreateRunResponse = ask(world, owner, "RunService", "CreateRun", make("two"))
        .await
        .unwrap();
    let ended = ended.run.unwrap().run_id;
    let cancel = v1::CancelRunRequest {
        run_id: ended.clone(),
        ..Default::default()
    };
    let _cancelled: v1::CancelRunResponse = ask(world, owner, "RunService", "CancelRun", cancel)
        .await
        .unwrap();
    let asked = wait_for("the run asks", LIMIT, || {
        let list = v1::ListInputRequestsRequest {
            run_id: run.run_id.clone(),
            ..Default::default()
        };
        async move {
            let listed = ask(world, owner, "InboxService", "ListInputRequests", list).await;
            let listed: v1::ListInputRequestsResponse = listed.unwrap();
            listed.input_requests.into_iter().next()
        }
    });
    let asked = asked.await.unwrap();
    assert_eq!(asked.namespace, "other");
    let mut artifacts = v1::artifact_service_client::ArtifactServiceClient::new(world.orchestrator.channel());
    let header = v1::upload_request::Part::Header(v1::UploadHeader {
        run_id: run.run_id.clone(),
        r#type: "text".to_owned(),
        mime_type: "text/plain".to_owned(),
        name: "a.txt".to_owned(),
        ..Default::default()
    });
    let parts = [header, v1::upload_request::Part::Data(SECRET.into())];
    let parts = parts.map(|part| v1::UploadRequest { part: Some(part) });
    let uploaded = artifacts
        .upload(owner.shows(tokio_stream::iter(parts)))
        .await
        .unwrap();
    Things {
        ended,
        plan_id: plan.plan_id,
        trigger_id: trigger.trigger_id,
        goal_id: goal.goal.unwrap().goal_id,
        input_request_id: asked.input_request_id,
        artifact_id: uploaded.into_inner().artifact.unwrap().artifact_id,
        revision_digest: run.revision_digest,
        run_id: run.run_id,
    }
}

#[tokio::test]
async fn runs_and_all_that_belongs_to_them_are_found_in_their_namespace_alone() {
    let [owner, reader, operator, stranger] = ["owner", "reader", "operator", "stranger"].map(Token::new);
    let entries = [
        owner.entry("owner", "roles = [\"submitter\"]\nnamespaces = [\"other\"]"),
        reader.entry("reader", "roles = [\"viewer\"]\nnamespaces = [\"other\"]"),
        operator.entry("operator", "roles = [\"operator\"]\npayloads = true"),
        stranger.entry("stranger", "roles = [\"submitter\"]"),
    ];
    let (world, _file) = world_with(&entries).await;
    let things = things(&world, &owner).await;
    let calls = calls::calls(&things);
    let known: BTreeSet<&str> = calls.iter().map(|call| call.path.as_str()).collect();
    let of_page = table()
        .into_keys()
        .filter(|path| path.starts_with("/escapement.runs."));
    let without: Vec<String> = of_page.filter(|path| !known.contains(path.as_str())).collect();
    assert!(without.is_empty(), "these calls are not made here: {without:?}");

    let mut wrong = Vec::new();
    for call in &calls {
        let found = made(&world, call, &stranger).await;
        let is_right = match (&found, call.elsewhere) {
            (Err(status), NotFound) => status.code() == Code::NotFound,
            (Err(status), Refused) => status.code() == Code::PermissionDenied,
            (Err(status), Hidden) => !status.message().contains(SECRET),
            (Ok(answer), Hidden) => !holds(answer, SECRET) && !holds(answer, &things.run_id),
            (Ok(_), NotFound | Refused) => false,
        };
        if !is_right {
            wrong.push(format!("{} by a stranger: {found:?}", call.path));
        }
    }
    // The same calls by who reads there, and by who reads everywhere: nothing has changed so far.
    for (who, token) in [("a reader", &reader), ("an operator", &operator)] {
        for call in &calls {
            let is_right = |found: &Result<Bytes, Status>| match (call.kind, found) {
                (Read, found) => found.is_ok(),
                (Write, Err(status)) => status.code() == Code::PermissionDenied,
                (Write, Ok(_)) => false,
                (Other, _) => true,
            };
            if call.kind == Write && who != "a reader" {
                continue;
            }
            let found = made(&world, call, token).await;
            if !is_right(&found) {
                wrong.push(format!("{} by {who}: {found:?}", call.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{} cells:\n{}", wrong.len(), wrong.join("\n"));
}

/// True if the text stands in the message.
fn holds(message: &[u8], text: &str) -> bool {
    message
        .windows(text.len())
        .any(|window| window == text.as_bytes())
}

#[tokio::test]
async fn what_is_named_indirectly_is_not_found_either() {
    let [owner, stranger] = ["owner", "stranger"].map(Token::new);
    let entries = [
        owner.entry("owner", "roles = [\"submitter\"]\nnamespaces = [\"other\"]"),
        stranger.entry("stranger", "roles = [\"submitter\"]"),
    ];
    let (world, _file) = world_with(&entries).await;
    let things = things(&world, &owner).await;
    let create = |what, session_id: &str| v1::CreateRunRequest {
        what: Some(what),
        session_id: session_id.to_owned(),
        autonomy_level: Some(4),
        ..Default::default()
    };
    let plan = v1::create_run_request::What::PlanId(things.plan_id.clone());
    let revision = v1::create_run_request::What::RevisionDigest(things.revision_digest.clone());
    let own = run_request("", &document(&json!([]))).what.unwrap();
    for (request, why) in [
        (create(plan.clone(), ""), "PLAN_NOT_FOUND"),
        (create(revision, ""), "REVISION_NOT_FOUND"),
        (create(own, SESSION), "SESSION_NOT_FOUND"),
    ] {
        let trigger = v1::CreateTriggerRequest {
            trigger: Some(v1::Trigger {
                name: "t".to_owned(),
                config: Some(v1::trigger::Config::Event(v1::EventFilter {
                    r#type: "ping".to_owned(),
                    ..Default::default()
                })),
                run: Some(request.clone()),
                ..Default::default()
            }),
            ..Default::default()
        };
        let refused =
            ask::<_, v1::CreateRunResponse>(&world, &stranger, "RunService", "CreateRun", request).await;
        assert_eq!(reason(&refused.unwrap_err(), Code::NotFound), why);
        let refused = ask::<_, v1::CreateTriggerResponse>(
            &world,
            &stranger,
            "TriggerService",
            "CreateTrigger",
            trigger,
        )
        .await;
        assert_eq!(reason(&refused.unwrap_err(), Code::NotFound), why);
    }
    let goal = v1::CreateGoalRequest {
        goal: Some(v1::Goal {
            title: "mine".to_owned(),
            parent_id: things.goal_id.clone(),
            ..Default::default()
        }),
        ..Default::default()
    };
    let refused =
        ask::<_, v1::CreateGoalResponse>(&world, &stranger, "GoalService", "CreateGoal", goal).await;
    assert_eq!(
        reason(&refused.unwrap_err(), Code::InvalidArgument),
        "GOAL_NOT_FOUND"
    );

    // A plan runs other plans of its own namespace alone, by their ids and by their digests.
    for config in [
        json!({"plan_id": things.plan_id}),
        json!({"revision_digest": things.revision_digest}),
    ] {
        let steps = json!([{"key": "below", "type": "sub_plan", "config": config}]);
        let request = run_request("", &document(&steps));
        let created = ask(&world, &stranger, "RunService", "CreateRun", request).await;
        let created: v1::CreateRunResponse = created.unwrap();
        let wait = v1::WaitRunRequest {
            run_id: created.run.unwrap().run_id,
            timeout_ms: Some(20_000),
        };
        let mut runs = v1::run_service_client::RunServiceClient::new(world.orchestrator.channel());
        let ended = runs
            .wait_run(stranger.shows(wait))
            .await
            .unwrap()
            .into_inner()
            .run
            .unwrap();
        assert_eq!(ended.state(), v1::run::State::Failed, "{ended:?}");
        assert!(ended.error.unwrap().message.contains("PLAN_NOT_FOUND"));
    }

    // Names and ids of requests are unique in a namespace.
    let session = v1::CreateSessionRequest {
        session_id: SESSION.to_owned(),
        ..Default::default()
    };
    let made =
        ask::<_, v1::CreateSessionResponse>(&world, &stranger, "SessionService", "CreateSession", session)
            .await;
    assert_eq!(made.unwrap().session.unwrap().namespace, "default");
    let again = run_request("one", &document(&json!([])));
    let made = ask::<_, v1::CreateRunResponse>(&world, &stranger, "RunService", "CreateRun", again).await;
    assert_eq!(made.unwrap().run.unwrap().namespace, "default");
}

/// Stands in everything that the owner has.
const SECRET: &str = "nobody else may know this";
const SESSION: &str = "their session";
