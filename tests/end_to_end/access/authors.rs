//! What runs do in the names of their authors: which actions they call, who approves them, and whose they are.

use super::credentials::{Token, policy, world_with, world_with_profiles};
use crate::plans::{RequestWords, plan, request, step};
use crate::runs::creation;
use crate::status_details::reason;
use crate::world::{LIMIT, World};
use escapement_tests::{ScriptedWorker, wait_for};
use escapement_wire::runs::v1::approval::{Approve, Decision};
use escapement_wire::runs::v1::create_run_request::What;
use escapement_wire::runs::v1::inbox_service_client::InboxServiceClient;
use escapement_wire::runs::v1::respond_to_input_request::Answer;
use escapement_wire::runs::v1::run::State;
use escapement_wire::runs::v1::run_service_client::RunServiceClient;
use escapement_wire::runs::v1::{
    Approval, CreateRunRequest, GetInputRequestRequest, GetRunRequest, InputRequest,
    ListInputRequestsRequest, ListRunsRequest, Planner, Policy, RespondToInputRequest, Run, WaitRunRequest,
};
use escapement_wire::v1::ListExecutionsRequest;
use escapement_wire::worker::v1::Assignment;
use serde_json::{Value, json};
use std::time::Duration;
use tonic::transport::Channel;
use tonic::{Code, Status};

/// Workers need no credentials here.
const WORKERS: &str = "[anonymous]\nroles = [\"worker\"]\n";

fn runs(world: &World) -> RunServiceClient<Channel> {
    RunServiceClient::new(world.orchestrator.channel())
}

fn calling(actions: &[&str], asks: bool) -> Value {
    let mut steps = Vec::new();
    if asks {
        steps.push(json!({"key": "ask", "type": "user_input", "config": {"question": "Go on?"}}));
    }
    for (n, action) in actions.iter().enumerate() {
        let depends_on = if asks { vec!["ask"] } else { Vec::new() };
        steps.push(
            json!({"key": format!("call_{n}"), "type": "tool_call", "depends_on": depends_on,
            "config": {"tool_name": action}}),
        );
    }
    json!({"schema": "escapement.plan/1", "name": "Calls", "steps": steps})
}

async fn created(world: &World, token: &Token, request: CreateRunRequest) -> Result<Run, Status> {
    let created = runs(world).create_run(token.shows(request)).await?;
    Ok(created.into_inner().run.unwrap())
}

async fn ended(world: &World, token: &Token, run_id: &str) -> Run {
    let wait = WaitRunRequest {
        run_id: run_id.to_owned(),
        timeout_ms: Some(30_000),
    };
    runs(world)
        .wait_run(token.shows(wait))
        .await
        .unwrap()
        .into_inner()
        .run
        .unwrap()
}

async fn asked(world: &World, token: &Token) -> InputRequest {
    asked_by(world, token, "").await
}

/// Returns the first thing that this run asks, or any.
async fn asked_by(world: &World, token: &Token, run_id: &str) -> InputRequest {
    let asked = wait_for("the run asks", LIMIT, || {
        let mut inbox = InboxServiceClient::new(world.orchestrator.channel());
        let list = token.shows(ListInputRequestsRequest {
            run_id: run_id.to_owned(),
            ..ListInputRequestsRequest::default()
        });
        async move {
            let listed = inbox.list_input_requests(list).await.unwrap().into_inner();
            listed.input_requests.into_iter().next()
        }
    });
    asked.await.unwrap()
}

async fn answer(world: &World, token: &Token, asked: &InputRequest, answer: Answer) -> Result<(), Status> {
    let answer = RespondToInputRequest {
        input_request_id: asked.input_request_id.clone(),
        subject_digest: asked.subject_digest.clone(),
        answer: Some(answer),
        ..RespondToInputRequest::default()
    };
    let mut inbox = InboxServiceClient::new(world.orchestrator.channel());
    inbox.respond_to_input(token.shows(answer)).await.map(drop)
}

#[tokio::test]
async fn a_run_calls_what_its_author_may_and_its_executions_have_that_name_and_namespace() {
    let (planner, operator) = (Token::new("planner"), Token::new("operator"));
    let rights = "roles = [\"submitter\"]\nnamespaces = [\"other\"]\nactions = [\"echo\"]";
    let entries = [
        WORKERS.to_owned(),
        planner.entry("planner", rights),
        operator.entry("operator", "roles = [\"operator\"]"),
    ];
    let (world, _file) = world_with(&entries).await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    let refused = created(
        &world,
        &planner,
        creation("one", &calling(&["echo", "fail"], false)),
    )
    .await;
    let refused = refused.unwrap_err();
    assert_eq!(reason(&refused, Code::PermissionDenied), "ACTION_NOT_PERMITTED");
    // The step that calls it is named, not the document as a whole.
    let step = "document.steps[1].config.tool_name: the action \"fail\"";
    assert!(refused.message().starts_with(step), "{}", refused.message());

    let run = created(&world, &planner, creation("one", &calling(&["echo"], false)))
        .await
        .unwrap();
    let run = ended(&world, &planner, &run.run_id).await;
    assert_eq!(run.state(), State::Completed, "{run:?}");
    let mut plans = world.orchestrator.plans();
    let list = ListExecutionsRequest {
        namespace: "other".to_owned(),
        ..ListExecutionsRequest::default()
    };
    let listed = plans
        .list_executions(operator.shows(list))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(listed.executions.len(), 1);
    let ask = escapement_wire::v1::GetExecutionRequest {
        execution_id: listed.executions[0].execution_id.clone(),
    };
    let shown = plans
        .get_execution(planner.shows(ask))
        .await
        .unwrap()
        .into_inner();
    let shown = shown.execution.unwrap();
    assert_eq!(shown.namespace, "other");
    assert_eq!(shown.accepted_by.unwrap().name, "planner");
}

// RUN-9.8
#[tokio::test]
async fn a_visible_parent_of_another_namespace_is_refused() {
    let (both, other) = (Token::new("both"), Token::new("other"));
    let entries = [
        both.entry(
            "both",
            "roles = [\"submitter\"]\nnamespaces = [\"default\", \"other\"]",
        ),
        other.entry("other", "roles = [\"submitter\"]\nnamespaces = [\"other\"]"),
    ];
    let (world, _file) = world_with(&entries).await;
    let mut submission = request(plan([step(0, "work")])).as_submission();
    submission.namespace = "default".to_owned();
    let mut plans = world.orchestrator.plans();
    let accepted = plans.submit_plan(both.shows(submission)).await.unwrap();
    let within = |request_id: &str, namespace: &str| CreateRunRequest {
        namespace: namespace.to_owned(),
        parent_execution_id: { accepted.get_ref().execution.as_ref() }
            .unwrap()
            .execution_id
            .clone(),
        ..creation(request_id, &calling(&["work"], false))
    };
    let refused = created(&world, &both, within("one", "other")).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
    assert!(
        refused.message().starts_with("parent_execution_id"),
        "{refused:?}"
    );
    created(&world, &both, within("two", "default")).await.unwrap();
    created(&world, &other, within("three", "other")).await.unwrap();
}

#[tokio::test]
async fn a_policy_that_takes_an_action_away_takes_it_from_runs_that_live_also_after_a_restart() {
    let planner = Token::new("planner");
    let entry = |actions: &str| {
        let rights = format!("roles = [\"submitter\"]\nactions = [{actions}]");
        [WORKERS.to_owned(), planner.entry("planner", &rights)]
    };
    let (mut world, file) = world_with(&entry("\"echo\", \"fail\"")).await;
    let run = created(&world, &planner, creation("one", &calling(&["echo"], true)))
        .await
        .unwrap();
    let question = asked(&world, &planner).await;
    std::fs::write(&file, policy(&entry("\"fail\""))).unwrap();
    world.crash_and_restart().await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    answer(&world, &planner, &question, Answer::Text("yes".to_owned()))
        .await
        .unwrap();
    let run = ended(&world, &planner, &run.run_id).await;
    assert_eq!(run.state(), State::Failed, "{run:?}");
    assert_eq!(run.error.unwrap().code, "ACTION_NOT_PERMITTED");
}

#[tokio::test]
async fn who_started_a_run_in_another_name_does_not_approve_it() {
    let (front, anna) = (Token::new("front"), Token::new("anna"));
    let entries = [
        front.entry("front", "roles = [\"submitter\"]\nuser = \"*\""),
        anna.entry("anna", "roles = [\"submitter\"]"),
    ];
    let (world, _file) = world_with_profiles(&entries, &["echo"]).await;
    let request = CreateRunRequest {
        user_id: "ben".to_owned(),
        autonomy_level: Some(1),
        policy: Some(Policy {
            four_eyes: Some(true),
            ..Policy::default()
        }),
        ..creation("one", &calling(&["echo"], false))
    };
    let refused = created(&world, &anna, request.clone()).await.unwrap_err();
    assert_eq!(reason(&refused, Code::PermissionDenied), "USER_NOT_PERMITTED");
    let run = created(&world, &front, request).await.unwrap();
    assert_eq!(
        (run.user_id.as_str(), run.started_by.unwrap().name.as_str()),
        ("ben", "front")
    );
    let question = asked(&world, &anna).await;
    let refused = answer(&world, &front, &question, approve()).await.unwrap_err();
    assert_eq!(reason(&refused, Code::PermissionDenied), "SELF_APPROVAL");
    answer(&world, &anna, &question, approve()).await.unwrap();
}

fn approve() -> Answer {
    Answer::Approval(Approval {
        decision: Some(Decision::Approve(Approve {})),
    })
}

// RUN-6.8
#[tokio::test]
async fn another_credential_of_who_started_a_run_does_not_approve_it_either() {
    let [anna, phone, tablet, ben, robot] = ["anna", "phone", "tablet", "ben", "robot"].map(Token::new);
    let of_anna = "roles = [\"submitter\"]\nuser = \"anna\"";
    let entries = [
        anna.entry("anna", "roles = [\"submitter\"]"),
        phone.entry("phone", of_anna),
        tablet.entry("tablet", of_anna),
        ben.entry("ben", "roles = [\"submitter\"]"),
        robot.entry("robot", "roles = [\"submitter\"]\nagent = true"),
    ];
    let (world, _file) = world_with_profiles(&entries, &["echo"]).await;
    let gated = |request_id: &str, four_eyes, quorum| CreateRunRequest {
        autonomy_level: Some(1),
        policy: Some(Policy {
            four_eyes: Some(four_eyes),
            quorum: Some(quorum),
            ..Policy::default()
        }),
        ..creation(request_id, &calling(&["echo"], false))
    };
    for (n, starter) in [&anna, &phone].into_iter().enumerate() {
        let run = created(&world, starter, gated(&format!("own {n}"), true, 1))
            .await
            .unwrap();
        assert_eq!(run.user_id, "anna");
        let question = asked_by(&world, &ben, &run.run_id).await;
        for own in [&anna, &phone, &tablet] {
            let refused = answer(&world, own, &question, approve()).await.unwrap_err();
            assert_eq!(reason(&refused, Code::PermissionDenied), "SELF_APPROVAL");
        }
        let refused = answer(&world, &robot, &question, approve()).await.unwrap_err();
        assert_eq!(reason(&refused, Code::PermissionDenied), "NOT_AN_APPROVER");
        answer(&world, &ben, &question, approve()).await.unwrap();
    }

    // Nor are two credentials of one user two in a quorum.
    let run = created(&world, &anna, gated("two", false, 2)).await.unwrap();
    let question = asked_by(&world, &anna, &run.run_id).await;
    for own in [&phone, &anna, &tablet] {
        answer(&world, own, &question, approve()).await.unwrap();
        let still = asked_by(&world, &ben, &run.run_id).await;
        assert_eq!(still.input_request_id, question.input_request_id);
        assert_eq!(still.decisions.len(), 1, "{still:?}");
    }
    answer(&world, &ben, &question, approve()).await.unwrap();
    let get = GetInputRequestRequest {
        input_request_id: question.input_request_id,
    };
    let mut inbox = InboxServiceClient::new(world.orchestrator.channel());
    let question = inbox
        .get_input_request(ben.shows(get))
        .await
        .unwrap()
        .into_inner();
    let question = question.input_request.unwrap();
    assert_eq!(
        question.state(),
        escapement_wire::runs::v1::input_request::State::Answered
    );
}

#[tokio::test]
async fn a_user_of_the_policy_finds_its_own_runs_alone() {
    let (anna, ben, service) = (Token::new("anna"), Token::new("ben"), Token::new("service"));
    let entries = [
        anna.entry("anna", "roles = [\"submitter\"]\nuser = true"),
        ben.entry("ben", "roles = [\"submitter\"]\nuser = true"),
        service.entry("service", "roles = [\"submitter\"]"),
    ];
    let (world, _file) = world_with_profiles(&entries, &["echo"]).await;
    let run = created(&world, &anna, creation("one", &calling(&["echo"], true)))
        .await
        .unwrap();
    assert_eq!(run.user_id, "anna");
    let get = || GetRunRequest {
        run_id: run.run_id.clone(),
    };
    let refused = runs(&world).get_run(ben.shows(get())).await.unwrap_err();
    assert_eq!(reason(&refused, Code::NotFound), "RUN_NOT_FOUND");
    for (token, n) in [(&anna, 1), (&ben, 0), (&service, 1)] {
        let listed = runs(&world)
            .list_runs(token.shows(ListRunsRequest::default()))
            .await
            .unwrap();
        assert_eq!(listed.into_inner().runs.len(), n);
    }
    assert!(runs(&world).get_run(service.shows(get())).await.is_ok());
}

/// The names of the actions that a planner is offered.
fn offered(asked: &Assignment) -> Vec<String> {
    let question = escapement_wire::json::from_opaque(asked.payload.as_ref().unwrap()).unwrap();
    let actions = question["actions"].as_array().unwrap();
    let names = actions
        .iter()
        .map(|action| action["name"].as_str().unwrap().to_owned());
    names.collect()
}

#[tokio::test]
async fn a_planner_is_offered_what_its_author_may_have_called_and_nothing_else() {
    let planner = Token::new("planner");
    let entry = |actions: &str| {
        let rights = format!("roles = [\"submitter\"]\nactions = [{actions}]");
        [WORKERS.to_owned(), planner.entry("planner", &rights)]
    };
    let (world, file) = world_with(&entry("\"plan.*\", \"work.*\"")).await;
    let actions = ["billing.charge", "plan.make", "work.one", "work.two"];
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &actions, 4).await;
    worker.keep_alive(Duration::from_secs(1));
    let request = CreateRunRequest {
        what: Some(What::Goal("Charge it".to_owned())),
        planner: Some(Planner {
            action: "plan.make".to_owned(),
            ..Planner::default()
        }),
        autonomy_level: Some(4),
        ..CreateRunRequest::default()
    };
    let run = created(&world, &planner, request).await.unwrap();
    let asked = worker.started().await;
    assert_eq!(offered(&asked), ["plan.make", "work.one", "work.two"]);

    // A plan with another action is refused before any of it is called, and the policy now gives less.
    let changed = async || {
        let said = world.orchestrator.process.stderr();
        said.contains("files read again").then_some(())
    };
    std::fs::write(&file, policy(&entry("\"plan.*\", \"work.one\""))).unwrap();
    wait_for("the narrower policy", LIMIT, changed).await.unwrap();
    let forbidden = json!({"plan": calling(&["work.one", "billing.charge"], false)});
    worker.succeed(&asked, forbidden).await;
    let again = worker.started().await;
    assert_eq!(
        (again.action.as_str(), offered(&again)),
        ("plan.make", vec!["plan.make".to_owned(), "work.one".to_owned()])
    );
    let question = escapement_wire::json::from_opaque(again.payload.as_ref().unwrap()).unwrap();
    let violations = question["previous"][0]["violations"].to_string();
    assert!(violations.contains("steps[1]"), "{violations}");

    let permitted = json!({"plan": calling(&["work.one"], false)});
    worker.succeed(&again, permitted).await;
    let called = worker.complete_next(json!({})).await;
    assert_eq!(called.action, "work.one");
    let run = ended(&world, &planner, &run.run_id).await;
    assert_eq!(run.state(), State::Completed, "{run:?}");
}
