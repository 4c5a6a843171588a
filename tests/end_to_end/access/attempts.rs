//! The token of an attempt as a credential: what its holder may hand in, read and report, and until when.

use super::credentials::{Token, policy, world_with};
use crate::plans::{RequestWords, plan, request, step};
use crate::status_details::reason;
use crate::world::World;
use escapement_tests::{ScriptedWorker, fresh_id};
use escapement_wire::v1::accepted_by::Kind as Accepted;
use escapement_wire::v1::principal::Kind;
use escapement_wire::v1::{
    AcceptedBy, ExplainExecutionRequest, GetExecutionRequest, ListExecutionsRequest, SubmitPlanRequest,
    ValidatePlanRequest, WhoAmIRequest,
};
use escapement_wire::worker::v1::outcome_ack::Verdict;
use escapement_wire::worker::v1::worker_service_client::WorkerServiceClient;
use escapement_wire::worker::v1::{
    Assignment, AttemptOutcome, ReportOutcomesRequest, Success, attempt_outcome::Outcome,
};
use serde_json::json;
use tonic::{Code, Request, Status};

/// Returns the credential of an attempt, written as the page says and not by the product's own code.
fn bearer(token: &[u8]) -> String {
    let mut text = format!("esa_{}", base64url(token));
    let mut crc = u32::MAX;
    for byte in text.bytes() {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 * (crc & 1));
        }
    }
    text += &base64url(&(!crc).to_be_bytes());
    text
}

fn base64url(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = (0..3).fold(0_u32, |bits, at| {
            bits << 8 | u32::from(chunk.get(at).copied().unwrap_or(0))
        });
        for at in 0..=chunk.len() {
            let digit = bits >> (18 - 6 * at) & 63;
            text.push(char::from(DIGITS[usize::try_from(digit).unwrap()]));
        }
    }
    text
}

pub(super) fn shows<T>(bearer: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    let value = format!("Bearer {bearer}").parse().unwrap();
    request.metadata_mut().insert("authorization", value);
    request
}

/// Returns the credential of this attempt.
pub(super) fn of(assignment: &Assignment) -> String {
    bearer(&assignment.attempt_token)
}

fn child(parent: &str, action: &str) -> SubmitPlanRequest {
    SubmitPlanRequest {
        parent_execution_id: Some(parent.to_owned()),
        ..request(plan([step(0, action)])).as_submission()
    }
}

/// A planner of one namespace and some actions, a worker, and an orchestrator that knows both.
struct Scene {
    world: World,
    planner: Token,
    worker: Token,
}

impl Scene {
    async fn start() -> Self {
        let (planner, worker) = (Token::new("planner"), Token::new("worker"));
        let rights = "roles = [\"submitter\"]\nnamespaces = [\"other\"]\nactions = [\"work.*\", \"nest\"]";
        let entries = [
            planner.entry("planner", rights),
            worker.entry("worker", "roles = [\"worker\"]"),
        ];
        let (world, _file) = world_with(&entries).await;
        Self {
            world,
            planner,
            worker,
        }
    }

    async fn connect(&self, actions: &[&str]) -> ScriptedWorker {
        let hello = ScriptedWorker::hello_for(ScriptedWorker::specs(actions), 8);
        let url = self.world.orchestrator.url();
        ScriptedWorker::open_showing(&url, hello, &self.worker.secret)
            .await
            .0
    }

    /// Hands in a plan with one step and returns its attempt.
    async fn attempt(&self, worker: &mut ScriptedWorker) -> Assignment {
        let submission = request(plan([step(0, "nest")])).as_submission();
        let mut plans = self.world.orchestrator.plans();
        plans.submit_plan(self.planner.shows(submission)).await.unwrap();
        worker.started().await
    }

    async fn submit(&self, bearer: &str, submission: SubmitPlanRequest) -> Result<AcceptedBy, Status> {
        let mut plans = self.world.orchestrator.plans();
        let answer = plans.submit_plan(shows(bearer, submission)).await?.into_inner();
        let execution = answer.execution.unwrap();
        assert_eq!(execution.namespace, "other");
        Ok(execution.accepted_by.unwrap())
    }

    async fn get(&self, bearer: &str, execution_id: &str) -> Result<(), Status> {
        let execution_id = execution_id.to_owned();
        let mut plans = self.world.orchestrator.plans();
        let asked = shows(bearer, GetExecutionRequest { execution_id });
        plans.get_execution(asked).await.map(drop)
    }

    async fn report(&self, request: Request<ReportOutcomesRequest>) -> Result<Verdict, Status> {
        let mut client = WorkerServiceClient::new(self.world.orchestrator.channel());
        let answer = client.report_outcomes(request).await?.into_inner();
        Ok(answer.items[0].verdict())
    }
}

fn outcome(assignment: &Assignment) -> ReportOutcomesRequest {
    let outcome = AttemptOutcome {
        attempt_token: assignment.attempt_token.clone(),
        run_time_ms: 1,
        outcome: Some(Outcome::Success(Success::default())),
    };
    ReportOutcomesRequest { items: vec![outcome] }
}

#[tokio::test]
async fn an_attempt_nests_in_its_own_execution_with_the_rights_of_who_handed_that_in() {
    let scene = Scene::start().await;
    let mut worker = scene.connect(&["nest", "work.one", "billing.charge"]).await;
    let own = scene.attempt(&mut worker).await;
    let bearer = of(&own);
    let mut access = scene.world.orchestrator.access();
    let told = access.who_am_i(shows(&bearer, WhoAmIRequest {})).await.unwrap();
    let told = told.into_inner().principal.unwrap();
    let rights = told.attempt_rights.clone().unwrap();
    assert_eq!((told.name.as_str(), told.kind()), ("planner", Kind::Attempt));
    assert_eq!(
        (&rights.execution_id, rights.namespace.as_str()),
        (&own.execution_id, "other")
    );
    assert_eq!(rights.actions, ["nest", "work.*"]);

    let by = scene
        .submit(&bearer, child(&own.execution_id, "nest"))
        .await
        .unwrap();
    assert_eq!(
        (by.name.as_str(), by.kind(), by.origin()),
        ("planner", Accepted::Attempt, Accepted::Token)
    );
    // The rights go down with the executions.
    let nested = worker.started().await;
    let by = scene
        .submit(&of(&nested), child(&nested.execution_id, "work.one"))
        .await
        .unwrap();
    assert_eq!((by.name.as_str(), by.origin()), ("planner", Accepted::Token));
    let grandchild = worker.started().await;

    let refused = scene
        .submit(&bearer, child(&own.execution_id, "billing.charge"))
        .await
        .unwrap_err();
    assert_eq!(reason(&refused, Code::PermissionDenied), "ACTION_NOT_PERMITTED");
    for parent in [&nested.execution_id, &fresh_id()] {
        let refused = scene
            .submit(&bearer, child(parent, "work.one"))
            .await
            .unwrap_err();
        assert_eq!(reason(&refused, Code::PermissionDenied), "PARENT_NOT_PERMITTED");
    }
    let elsewhere = SubmitPlanRequest {
        namespace: "default".to_owned(),
        ..child(&own.execution_id, "work.one")
    };
    let refused = scene.submit(&bearer, elsewhere).await.unwrap_err();
    assert_eq!(
        reason(&refused, Code::PermissionDenied),
        "NAMESPACE_NOT_PERMITTED"
    );
    let alone = SubmitPlanRequest {
        parent_execution_id: None,
        ..child("", "work.one")
    };
    let refused = scene.submit(&bearer, alone).await.unwrap_err();
    assert_eq!(reason(&refused, Code::PermissionDenied), "PARENT_NOT_PERMITTED");
    let question = |action| ValidatePlanRequest {
        plan: Some(plan([step(0, action)])),
        ..ValidatePlanRequest::default()
    };
    let mut plans = scene.world.orchestrator.plans();
    assert!(
        plans
            .validate_plan(shows(&bearer, question("work.one")))
            .await
            .is_ok()
    );
    let refused = plans
        .validate_plan(shows(&bearer, question("echo")))
        .await
        .unwrap_err();
    assert_eq!(reason(&refused, Code::PermissionDenied), "ACTION_NOT_PERMITTED");

    // Itself and its children, and no grandchild, nor what is above or beside it.
    assert!(scene.get(&bearer, &own.execution_id).await.is_ok());
    assert!(scene.get(&bearer, &nested.execution_id).await.is_ok());
    for (bearer, unseen) in [
        (&bearer, &grandchild),
        (&of(&nested), &own),
        (&of(&grandchild), &nested),
    ] {
        let refused = scene.get(bearer, &unseen.execution_id).await.unwrap_err();
        assert_eq!(reason(&refused, Code::NotFound), "EXECUTION_NOT_FOUND");
    }
    let explain = ExplainExecutionRequest {
        execution_id: own.execution_id.clone(),
        ..ExplainExecutionRequest::default()
    };
    let refused = plans
        .explain_execution(shows(&bearer, explain))
        .await
        .unwrap_err();
    assert_eq!(reason(&refused, Code::PermissionDenied), "ROLE_MISSING");
    let list = ListExecutionsRequest::default();
    let refused = plans.list_executions(shows(&bearer, list)).await.unwrap_err();
    assert_eq!(reason(&refused, Code::PermissionDenied), "ROLE_MISSING");

    // A worker's own token hands in nothing.
    let submission = child(&own.execution_id, "work.one");
    let refused = plans
        .submit_plan(scene.worker.shows(submission))
        .await
        .unwrap_err();
    assert_eq!(reason(&refused, Code::PermissionDenied), "ROLE_MISSING");
}

#[tokio::test]
async fn the_token_of_an_attempt_ends_with_it_and_a_changed_one_is_none() {
    let scene = Scene::start().await;
    let mut worker = scene.connect(&["nest"]).await;
    let own = scene.attempt(&mut worker).await;
    let other = scene.attempt(&mut worker).await;
    let bearer = of(&own);
    assert!(scene.get(&bearer, &own.execution_id).await.is_ok());
    let refused = scene.get(&of(&other), &own.execution_id).await.unwrap_err();
    assert_eq!(reason(&refused, Code::NotFound), "EXECUTION_NOT_FOUND");

    // A bit in the middle, with the check as it was and with the right one.
    let mut flipped = own.attempt_token.to_vec();
    flipped[8] ^= 1;
    let typo = bearer.replacen(&bearer[14..15], if &bearer[14..15] == "A" { "B" } else { "A" }, 1);
    for wrong in [typo, self::bearer(&flipped), "esa_".to_owned()] {
        let refused = scene.get(&wrong, &own.execution_id).await.unwrap_err();
        assert_eq!(reason(&refused, Code::Unauthenticated), "CREDENTIALS_INVALID");
    }

    assert_eq!(worker.succeed(&own, json!({})).await, Verdict::Accepted);
    let submission = child(&own.execution_id, "nest");
    let ended = scene.submit(&bearer, submission).await.unwrap_err();
    assert_eq!(reason(&ended, Code::Unauthenticated), "CREDENTIALS_EXPIRED");
    let ended = scene.get(&bearer, &own.execution_id).await.unwrap_err();
    assert_eq!(reason(&ended, Code::Unauthenticated), "CREDENTIALS_EXPIRED");
}

#[tokio::test]
async fn an_outcome_without_a_session_is_taken_from_the_attempt_and_from_the_principal_of_its_worker() {
    let thief = Token::new("thief");
    let (planner, worker_token) = (Token::new("planner"), Token::new("worker"));
    let entries = [
        planner.entry("planner", "roles = [\"submitter\"]\nnamespaces = [\"other\"]"),
        worker_token.entry("worker", "roles = [\"worker\"]"),
        thief.entry("thief", "roles = [\"worker\"]"),
    ];
    let (world, _file) = world_with(&entries).await;
    let scene = Scene {
        world,
        planner,
        worker: worker_token,
    };
    let mut worker = scene.connect(&["nest"]).await;
    let first = scene.attempt(&mut worker).await;
    let second = scene.attempt(&mut worker).await;
    let nobody = scene.report(Request::new(outcome(&first))).await.unwrap_err();
    assert_eq!(reason(&nobody, Code::Unauthenticated), "CREDENTIALS_MISSING");
    let refused = scene
        .report(scene.planner.shows(outcome(&first)))
        .await
        .unwrap_err();
    assert_eq!(reason(&refused, Code::PermissionDenied), "ROLE_MISSING");
    assert_eq!(
        scene.report(thief.shows(outcome(&first))).await.unwrap(),
        Verdict::Unknown
    );
    assert_eq!(
        scene.report(shows(&of(&second), outcome(&first))).await.unwrap(),
        Verdict::Unknown
    );
    assert_eq!(
        scene.report(shows(&of(&first), outcome(&first))).await.unwrap(),
        Verdict::Accepted
    );
    assert_eq!(
        scene.report(scene.worker.shows(outcome(&second))).await.unwrap(),
        Verdict::Accepted
    );
    let again = scene.report(scene.worker.shows(outcome(&second))).await.unwrap();
    assert_eq!(again, Verdict::Duplicate);
}

#[tokio::test]
async fn without_a_policy_the_token_of_an_attempt_gives_what_it_gives_with_one() {
    let world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &["nest"], 4).await;
    let accepted = world.submit(&request(plan([step(0, "nest")]))).await;
    assert_eq!(accepted.accepted_by, None);
    let own = worker.started().await;
    let mut plans = world.orchestrator.plans();
    let submission = child(&own.execution_id, "nest");
    let nested = plans.submit_plan(shows(&of(&own), submission)).await.unwrap();
    let nested = nested.into_inner().execution.unwrap();
    let by = nested.accepted_by.unwrap();
    assert_eq!(
        (by.name.as_str(), by.kind(), by.origin()),
        ("anonymous", Accepted::Attempt, Accepted::Unspecified)
    );
    let list = ListExecutionsRequest::default();
    let refused = plans
        .list_executions(shows(&of(&own), list.clone()))
        .await
        .unwrap_err();
    assert_eq!(reason(&refused, Code::PermissionDenied), "ROLE_MISSING");
    // Any other token means nothing here, and a caller without one may do everything.
    assert!(
        plans
            .list_executions(shows("esc_whatever", list.clone()))
            .await
            .is_ok()
    );
    assert!(plans.list_executions(list).await.is_ok());
}

#[tokio::test]
async fn what_was_queued_over_a_restart_nests_with_the_rights_that_it_was_accepted_with() {
    let planner = Token::new("planner");
    let worker = Token::new("worker");
    let narrow = planner.entry(
        "planner",
        "roles = [\"submitter\"]\nactions = [\"nest\", \"work.*\"]",
    );
    let of_worker = worker.entry("worker", "roles = [\"worker\"]");
    let (mut world, file) = world_with(&[narrow, of_worker.clone()]).await;
    let submission = request(plan([step(0, "nest")])).as_submission();
    let mut plans = world.orchestrator.plans();
    plans.submit_plan(planner.shows(submission)).await.unwrap();
    // The policy of the next start gives the planner less, and what is accepted keeps what it had.
    let less = planner.entry("planner", "roles = [\"submitter\"]\nactions = [\"nest\"]");
    std::fs::write(&file, policy(&[less, of_worker])).unwrap();
    world.crash_and_restart().await;
    let hello = ScriptedWorker::hello_for(ScriptedWorker::specs(&["nest", "work.one"]), 8);
    let url = world.orchestrator.url();
    let mut session = ScriptedWorker::open_showing(&url, hello, &worker.secret).await.0;
    let own = session.started().await;
    let mut plans = world.orchestrator.plans();
    let permitted = plans
        .submit_plan(shows(&of(&own), child(&own.execution_id, "work.one")))
        .await;
    assert!(permitted.is_ok(), "{permitted:?}");
    let refused = plans
        .submit_plan(shows(&of(&own), child(&own.execution_id, "echo")))
        .await;
    assert_eq!(
        reason(&refused.unwrap_err(), Code::PermissionDenied),
        "ACTION_NOT_PERMITTED"
    );
}
