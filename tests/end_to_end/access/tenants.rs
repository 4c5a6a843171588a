//! Every call about what lies in a namespace, by who has business there and by who has not.

pub(super) mod calls;
pub(super) mod contract_calls;
mod foreign_ids;
mod neighbours;
mod pairs;
mod users;
pub(super) mod wire;

use super::credentials::{Token, world_with};
use super::matrix::{mark, table};
use crate::plans::{RequestWords, plan, request, step};
use crate::runs::creation;
use crate::status_details::reason;
use crate::world::{LIMIT, World};
use bytes::Bytes;
use contract_calls::contract_calls;
use escapement_tests::authority::replace;
use escapement_tests::{PrivateDirectory, ScriptedWorker, TokenIssuer, wait_for};
use escapement_wire::json::to_opaque;
use escapement_wire::runs::v1;
use escapement_wire::v1::WaitExecutionRequest;
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};
use tonic::{Code, Status};
use wire::Elsewhere::{Hidden, NotFound, NotHere, Same};
use wire::Use::{Other, Payloads, Read, Write};
use wire::{Call, ask, shown};

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
pub(super) struct Things {
    run_id: String,
    ended: String,
    plan_id: String,
    trigger_id: String,
    goal_id: String,
    input_request_id: String,
    artifact_id: String,
    revision_digest: String,
}

pub(super) async fn things(world: &World, owner: &Token) -> Things {
    let session = v1::CreateSessionRequest {
        session_id: SESSION.to_owned(),
        state: Some(to_opaque(json!({"said": SECRET}).as_object().unwrap())),
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

/// Returns an execution in the namespace of its owner, settled.
pub(super) async fn execution(world: &World, owner: &Token, worker: &mut ScriptedWorker) -> String {
    let mut submission = request(plan([step(0, "work")])).as_submission();
    submission.namespace = "other".to_owned();
    let mut plans = world.orchestrator.plans();
    let accepted = plans.submit_plan(owner.shows(submission)).await.unwrap();
    let execution_id = accepted.into_inner().execution.unwrap().execution_id;
    worker.complete_next(json!({"said": SECRET})).await;
    let wait = WaitExecutionRequest {
        execution_id: execution_id.clone(),
        timeout_ms: Some(20_000),
    };
    plans.wait_execution(owner.shows(wait)).await.unwrap();
    execution_id
}

/// Everything that there is, and a text that stands in each answer about it.
pub(super) struct Secrets<'a> {
    pub(super) things: &'a Things,
    pub(super) execution_id: &'a str,
}

impl Secrets<'_> {
    /// Returns true if the answer tells of what there is.
    pub(super) fn are_in(&self, answer: &[u8]) -> bool {
        let Things { run_id, ended, .. } = self.things;
        let told = [SECRET, run_id, ended, self.execution_id];
        told.iter().any(|text| holds(answer, text))
    }
}

/// Returns true if so is the call answered to those who have no business in the namespace and a role for the call elsewhere.
pub(super) fn is_elsewhere(secrets: &Secrets<'_>, call: &Call, found: &Result<Bytes, Status>) -> bool {
    let code = found.as_ref().err().map(Status::code);
    match call.elsewhere {
        NotFound => code == Some(Code::NotFound),
        NotHere => code == Some(Code::PermissionDenied),
        Hidden => found.as_ref().is_ok_and(|answer| !secrets.are_in(answer)),
        Same => !matches!(code, Some(Code::PermissionDenied | Code::NotFound)),
    }
}

/// Returns true if so is the call answered to those who may make it.
pub(super) fn is_through(secrets: &Secrets<'_>, call: &Call, found: &Result<Bytes, Status>) -> bool {
    let refusals = [Code::PermissionDenied, Code::Unauthenticated, Code::NotFound];
    match (found, call.kind) {
        (Ok(answer), Read | Payloads) => call.elsewhere != Hidden || secrets.are_in(answer),
        (Err(_), Read | Payloads) => false,
        (Ok(_), Write | Other) => true,
        (Err(status), Write | Other) => !refusals.contains(&status.code()),
    }
}

/// Those who have other roles elsewhere, and another user of the same namespace.
struct Mixed {
    world: World,
    owner: Token,
    narrow: Token,
    neighbour: Token,
    /// Shows two grants: it reads there, and hands in elsewhere.
    both: String,
    _issuer: TokenIssuer,
    /// Of the keys.
    _directory: PrivateDirectory,
}

impl Mixed {
    async fn new() -> Self {
        let [owner, narrow, neighbour] = ["owner", "narrow", "neighbour"].map(Token::new);
        let issuer = TokenIssuer::start("one").await.unwrap();
        let directory = PrivateDirectory::new("tenants").unwrap();
        replace(&directory.join("keys.json"), &issuer.key_set()).unwrap();
        let there = "roles = [\"submitter\"]\nnamespaces = [\"other\"]";
        let entries = [
            "[anonymous]\nroles = [\"worker\"]\n".to_owned(),
            owner.entry("owner", there),
            narrow.entry("narrow", "roles = [\"operator\", \"submitter\"]"),
            neighbour.entry("neighbour", &format!("{there}\nuser = true")),
            format!(
                "[[jwt]]\nissuer = \"https://issuer.example\"\naudience = \"escapement\"\njwks_file = \"{}\"\n\
                 [[jwt.grant]]\nwhen = {{ sub = \"both\" }}\nroles = [\"viewer\"]\nnamespaces = [\"other\"]\n\
                 [[jwt.grant]]\nwhen = {{ sub = \"both\" }}\nroles = [\"submitter\"]\n",
                directory.join("keys.json").display()
            ),
        ];
        let exp = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + 3_600;
        let claims = json!({"iss": "https://issuer.example", "aud": "escapement", "sub": "both", "exp": exp});
        let both = issuer.token(&claims);
        let (world, _file) = world_with(&entries).await;
        Self {
            world,
            owner,
            narrow,
            neighbour,
            both,
            _issuer: issuer,
            _directory: directory,
        }
    }
}

#[tokio::test]
async fn roles_elsewhere_and_another_users_role_give_nothing_here() {
    let mixed = Mixed::new().await;
    let world = &mixed.world;
    let things = things(world, &mixed.owner).await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &["work"], 1).await;
    let execution_id = execution(world, &mixed.owner, &mut worker).await;
    let secrets = Secrets {
        things: &things,
        execution_id: &execution_id,
    };
    let of_runs = calls::calls(&things);
    let of_contract = contract_calls(&execution_id, None);
    let all = || {
        of_runs
            .iter()
            .chain(&of_contract)
            .filter(|call| call.elsewhere != Same)
    };
    let table = table();
    let mut wrong = Vec::new();
    let is_refused = |found: &Result<Bytes, Status>| {
        let status = found.as_ref().err();
        status.is_some_and(|status| status.code() == Code::PermissionDenied)
    };
    for call in all() {
        let found = shown(world, call, &mixed.neighbour.secret).await;
        let is_right = match (mark(&table[&call.path], "submitter"), call.elsewhere) {
            ("-", _) => is_refused(&found),
            // It may create things of its own, and ask about those.
            (_, NotHere) => match &found {
                Ok(answer) => !secrets.are_in(answer),
                Err(status) => status.code() != Code::PermissionDenied && !status.message().contains(SECRET),
            },
            _ => is_elsewhere(&secrets, call, &found),
        };
        if !is_right {
            wrong.push(format!("{} by another user: {found:?}", call.path));
        }
    }
    for call in all() {
        for (who, role, bearer) in [
            ("who reads here and hands in elsewhere", "viewer", &mixed.both),
            (
                "an operator who hands in elsewhere",
                "operator",
                &mixed.narrow.secret,
            ),
        ] {
            let is_let_in = !matches!(mark(&table[&call.path], role), "-" | "p");
            let made = if is_let_in {
                call.by_permitted()
            } else {
                call.clone()
            };
            let found = shown(world, &made, bearer).await;
            let is_right = match is_let_in {
                true => is_through(&secrets, call, &found),
                false => is_refused(&found),
            };
            if !is_right {
                wrong.push(format!("{} by {who}: {found:?}", call.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{} cells:\n{}", wrong.len(), wrong.join("\n"));
}

/// Returns true if the text stands in the message.
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
pub(super) const SECRET: &str = "nobody else may know this";
const SESSION: &str = "their session";
