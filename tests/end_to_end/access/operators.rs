//! What operators did is listed, with who it was, in a chain that anybody can recompute.

use super::credentials::{Token, policy, world_that_looks};
use crate::plans::{RequestWords, plan, request, step};
use crate::status_details::reason;
use crate::world::{LIMIT, World};
use escapement_tests::{ScriptedWorker, wait_for};
use escapement_wire::v1::access_service_client::AccessServiceClient;
use escapement_wire::v1::reloaded_files::Result as Reloaded;
use escapement_wire::v1::{
    DeclareWorkerDeadRequest, DrainWorkerRequest, ForgetActionRequest, ListOperatorActionsRequest,
    ListWorkersRequest, OperatorAction, ReloadRequest, WaitExecutionRequest,
};
use rustix::process::Signal;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use tonic::Code;

fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.map(byte).collect()
}

/// Recomputes the chain through these acts, which are all that there are, by the words of the API.
fn assert_chained(actions: &[OperatorAction]) {
    let mut entries = BTreeMap::new();
    for action in actions {
        let OperatorAction {
            name,
            kind,
            issuer,
            peer,
            rpc,
            request,
            ..
        } = action;
        let texts = vec![name, kind, issuer, peer, rpc, request];
        entries.insert(
            action.number,
            (
                action.at,
                &action.boot_id,
                0,
                texts,
                &action.previous_hash,
                &action.hash,
            ),
        );
        if let Some(done) = &action.outcome {
            let texts = vec![&done.outcome];
            entries.insert(
                done.number,
                (
                    done.at,
                    &done.boot_id,
                    action.number,
                    texts,
                    &done.previous_hash,
                    &done.hash,
                ),
            );
        }
    }
    let mut last = "00".repeat(32);
    for ((number, entry), expected) in entries.into_iter().zip(1..) {
        let (at, boot_id, intent, texts, previous_hash, hash) = entry;
        assert_eq!((number, previous_hash), (expected, &last));
        let mut chained = bytes(previous_hash);
        chained.extend(number.to_be_bytes());
        chained.extend(at.to_be_bytes());
        chained.extend(bytes(boot_id));
        chained.extend(intent.to_be_bytes());
        for text in texts {
            chained.extend(u32::try_from(text.len()).unwrap().to_be_bytes());
            chained.extend(text.as_bytes());
        }
        assert_eq!(bytes(hash), Sha256::digest(chained).to_vec());
        last.clone_from(hash);
    }
}

fn outcome(action: &OperatorAction) -> Value {
    serde_json::from_str(&action.outcome.as_ref().unwrap().outcome).unwrap()
}

async fn listed(world: &World, token: &Token, filter: ListOperatorActionsRequest) -> Vec<OperatorAction> {
    let mut access = AccessServiceClient::new(world.orchestrator.channel());
    let (mut all, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = ListOperatorActionsRequest {
            page_size: Some(2),
            page_token,
            ..filter.clone()
        };
        let page = access
            .list_operator_actions(token.shows(request))
            .await
            .unwrap()
            .into_inner();
        all.extend(page.actions);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return all;
        }
    }
}

#[tokio::test]
async fn what_operators_do_is_listed_with_who_it_was_and_what_came_of_it() {
    let (anna, bo) = (Token::new("anna"), Token::new("bo"));
    let entries = [
        anna.entry("anna", "roles = [\"operator\"]"),
        bo.entry("bo", "roles = [\"admin\"]"),
    ];
    let (mut world, file) = world_that_looks(&entries, 0).await;
    let mut fleet = world.orchestrator.fleet();
    let drain = DrainWorkerRequest {
        worker_id: "nobody".to_owned(),
        ..DrainWorkerRequest::default()
    };
    let refused = fleet.drain_worker(anna.shows(drain)).await.unwrap_err();
    assert_eq!(reason(&refused, Code::NotFound), "NO_SUCH_WORKER");
    let forget = ForgetActionRequest {
        name: "gone".to_owned(),
    };
    fleet.forget_action(bo.shows(forget)).await.unwrap();
    // What is no request at all is refused before anything is recorded.
    let wrong = DeclareWorkerDeadRequest::default();
    assert!(fleet.declare_worker_dead(anna.shows(wrong)).await.is_err());

    let mut access = AccessServiceClient::new(world.orchestrator.channel());
    let reload = async |access: &mut AccessServiceClient<_>| {
        let answer = access.reload(bo.shows(ReloadRequest {})).await;
        let files = answer.unwrap().into_inner().files;
        assert_eq!((files.len(), files[0].what.as_str()), (1, "policy"));
        assert_eq!(files[0].paths, [file.display().to_string()]);
        files.into_iter().next().unwrap()
    };
    let unchanged = reload(&mut access).await;
    assert_eq!(
        (unchanged.result(), unchanged.sha256.len()),
        (Reloaded::Unchanged, 64)
    );
    std::fs::write(&file, "version = 1\nsurprise = 1\n").unwrap();
    let refused = reload(&mut access).await;
    assert_eq!(refused.result(), Reloaded::Refused);
    let problems = refused.problems.join("\n");
    assert!(problems.contains("line 2: surprise is no key"), "{problems}");
    std::fs::write(&file, policy(&entries) + "# more\n").unwrap();
    let replaced = reload(&mut access).await;
    assert_eq!(replaced.result(), Reloaded::Replaced);
    assert_ne!(replaced.sha256, unchanged.sha256);
    std::fs::write(&file, policy(&entries)).unwrap();
    world.orchestrator.process.signal(Signal::HUP).unwrap();

    let all = ListOperatorActionsRequest::default;
    let complete = async || {
        let actions = listed(&world, &anna, all()).await;
        (actions.first()?.rpc == "reload/hangup" && actions[0].outcome.is_some()).then_some(actions)
    };
    let actions = wait_for("the hangup to be recorded", LIMIT, complete)
        .await
        .unwrap();
    let who = |action: &OperatorAction| (action.name.clone(), action.kind.clone());
    let by = |name: &str, kind: &str| (name.to_owned(), kind.to_owned());
    let expected = [
        by("", "process"),
        by("bo", "token"),
        by("bo", "token"),
        by("bo", "token"),
        by("bo", "token"),
        by("anna", "token"),
    ];
    assert_eq!(actions.iter().map(who).collect::<Vec<_>>(), expected);
    let [hangup, replaced_by_call, refused_by_call, _, forgotten, drained] = &actions[..] else {
        panic!("six");
    };
    assert!(hangup.request.contains(&unchanged.sha256), "{hangup:?}");
    assert_eq!(outcome(replaced_by_call)["answer"][0]["result"], "replaced");
    assert_eq!(outcome(refused_by_call)["answer"][0]["result"], "refused");
    assert_eq!(forgotten.rpc, "escapement.v1.FleetService/ForgetAction");
    assert_eq!(forgotten.request, json!({"name": "gone"}).to_string());
    assert_eq!(outcome(forgotten)["code"], "OK");
    assert_eq!(outcome(drained)["code"], "NOT_FOUND");
    assert!(drained.peer.starts_with("127.0.0.1:"), "{drained:?}");
    assert_chained(&actions);

    let by_name = ListOperatorActionsRequest {
        name: "anna".to_owned(),
        ..all()
    };
    assert_eq!(listed(&world, &bo, by_name).await, actions[5..]);
    let by_rpc = ListOperatorActionsRequest {
        rpc: forgotten.rpc.clone(),
        ..all()
    };
    assert_eq!(listed(&world, &bo, by_rpc).await, actions[4..5]);
    let other_filter = ListOperatorActionsRequest {
        page_token: "7".to_owned(),
        ..all()
    };
    let refused = access
        .list_operator_actions(bo.shows(other_filter))
        .await
        .unwrap_err();
    assert_eq!(reason(&refused, Code::InvalidArgument), "PAGE_TOKEN_INVALID");
}

#[tokio::test]
async fn a_worker_that_is_declared_dead_stands_on_the_record_before_its_attempt_is_lost() {
    let [anna, worker, planner] = ["anna", "worker", "planner"].map(Token::new);
    let entries = [
        anna.entry("anna", "roles = [\"operator\"]"),
        worker.entry("worker", "roles = [\"worker\"]"),
        planner.entry("planner", "roles = [\"submitter\"]"),
    ];
    let (mut world, _file) = world_that_looks(&entries, 0).await;
    let url = world.orchestrator.url();
    let hello = ScriptedWorker::hello_for(ScriptedWorker::specs(&["work"]), 1);
    let (mut session, _) = ScriptedWorker::open_showing(&url, hello, &worker.secret).await;
    let submission = request(plan([step(0, "work")])).as_submission();
    let mut plans = world.orchestrator.plans();
    let accepted = plans.submit_plan(planner.shows(submission)).await.unwrap();
    let execution_id = accepted.into_inner().execution.unwrap().execution_id;
    session.started().await;
    // Otherwise the attempt may be handed back, and is not lost.
    session.is_heard().await;
    let list = anna.shows(ListWorkersRequest::default());
    let workers = world.orchestrator.fleet().list_workers(list).await.unwrap();
    let instance_id = workers.into_inner().workers[0].instance_id.clone();
    let declare = |force| DeclareWorkerDeadRequest {
        instance_id: instance_id.clone(),
        force,
    };
    // Who may not is not on the record, nor is who is told that the worker lives: nothing was tried.
    let refused = world
        .orchestrator
        .fleet()
        .declare_worker_dead(planner.shows(declare(true)))
        .await;
    assert_eq!(
        reason(&refused.unwrap_err(), Code::PermissionDenied),
        "ROLE_MISSING"
    );
    let alive = world
        .orchestrator
        .fleet()
        .declare_worker_dead(anna.shows(declare(false)))
        .await;
    assert_eq!(alive.unwrap_err().code(), Code::FailedPrecondition);
    let dead = world
        .orchestrator
        .fleet()
        .declare_worker_dead(anna.shows(declare(true)))
        .await;
    assert_eq!(dead.unwrap().into_inner().attempts_lost, 1);
    // Nothing more is written: what is there now was there when the answer came.
    world.crash_and_restart().await;

    let actions = listed(&world, &anna, ListOperatorActionsRequest::default()).await;
    let [forced] = &actions[..] else {
        panic!("one: {actions:?}");
    };
    assert_eq!((forced.name.as_str(), forced.kind.as_str()), ("anna", "token"));
    assert_eq!(forced.rpc, "escapement.v1.FleetService/DeclareWorkerDead");
    let asked: Value = serde_json::from_str(&forced.request).unwrap();
    assert_eq!(asked, json!({"instance_id": instance_id, "force": true}));
    assert_eq!(outcome(forced)["code"], "OK");
    assert_eq!(outcome(forced)["answer"]["attempts_lost"], 1);
    assert_chained(&actions);
    // The intent comes before what it led to, and the outcome behind it.
    let wait = WaitExecutionRequest {
        execution_id,
        timeout_ms: Some(20_000),
    };
    let mut plans = world.orchestrator.plans();
    let waited = plans.wait_execution(planner.shows(wait)).await.unwrap();
    let result = waited.into_inner().execution.unwrap().result.unwrap();
    assert_eq!(result.error.unwrap().error_code, "WORKER_LOST");
    let done = forced.outcome.as_ref().unwrap();
    assert!(forced.at <= result.completed_at && forced.number < done.number && forced.at <= done.at);
}
