//! What a plan may name, what is not found, and what a change of the policy does.

use super::credentials::{Token, policy, world_that_looks, world_with};
use crate::plans::{RequestWords, plan, request, step};
use crate::status_details::reason;
use crate::world::{LIMIT, World};
use escapement_tests::{OrchestratorSettings, PrivateDirectory, ScriptedWorker, fresh_id, wait_for};
use escapement_wire::v1::fleet_service_client::FleetServiceClient;
use escapement_wire::v1::{
    GetExecutionRequest, ListWorkersRequest, SubscribeEventsRequest, ValidatePlanRequest,
};
use rustix::process::Signal;
use tonic::Code;
use tonic::transport::Endpoint;
use tonic_types::StatusExt;

#[tokio::test]
async fn a_plan_names_only_actions_that_its_submitter_may_name() {
    let token = Token::new("planner");
    let entry = token.entry("planner", "roles = [\"submitter\"]\nactions = [\"billing.*\"]");
    let (world, _file) = world_with(&[entry]).await;
    let mut plans = world.orchestrator.plans();
    let submission = request(plan([step(0, "billing.charge"), step(1, "echo")])).as_submission();
    let refused = plans.submit_plan(token.shows(submission)).await.unwrap_err();
    assert_eq!(reason(&refused, Code::PermissionDenied), "ACTION_NOT_PERMITTED");
    let details = refused.get_error_details();
    assert_eq!(
        details.error_info().unwrap().metadata["field"],
        "plan.steps[1].action"
    );
    let submission = request(plan([step(0, "billing.charge")])).as_submission();
    let accepted = plans.submit_plan(token.shows(submission)).await.unwrap();
    assert!(accepted.into_inner().execution.is_some());
}

#[tokio::test]
async fn no_action_is_suggested_that_the_caller_may_not_list() {
    let [planner, viewer, worker] = ["planner", "viewer", "worker"].map(Token::new);
    let entries = [
        planner.entry("planner", "roles = [\"submitter\"]\nactions = [\"billing.*\"]"),
        viewer.entry("viewer", "roles = [\"viewer\"]"),
        worker.entry("worker", "roles = [\"worker\"]"),
    ];
    let (world, _file) = world_with(&entries).await;
    let hello = ScriptedWorker::hello_for(ScriptedWorker::specs(&["billing.charge", "filling.charge"]), 4);
    let url = world.orchestrator.url();
    let _worker = ScriptedWorker::open_showing(&url, hello, &worker.secret).await;
    let suggested = async |token: &Token| {
        let misspelt = ValidatePlanRequest {
            plan: Some(plan([step(0, "billing.charg")])),
            ..ValidatePlanRequest::default()
        };
        let validated = world
            .orchestrator
            .plans()
            .validate_plan(token.shows(misspelt))
            .await;
        let mut suggested = validated.unwrap().into_inner().action_suggestions;
        suggested.remove(0).suggestions
    };
    assert_eq!(suggested(&planner).await, ["billing.charge"]);
    assert_eq!(suggested(&viewer).await, ["billing.charge", "filling.charge"]);
}

#[tokio::test]
async fn what_lies_in_another_namespace_is_not_found() {
    let (one, other) = (Token::new("one"), Token::new("other"));
    let entries = [
        one.entry("one", "roles = [\"submitter\"]"),
        other.entry("other", "roles = [\"submitter\"]\nnamespaces = [\"other\"]"),
    ];
    let (world, _file) = world_with(&entries).await;
    let mut plans = world.orchestrator.plans();
    let submission = request(plan([step(0, "work")])).as_submission();
    let accepted = plans.submit_plan(one.shows(submission)).await.unwrap();
    let execution_id = accepted.into_inner().execution.unwrap().execution_id;
    let ask = GetExecutionRequest { execution_id };
    assert!(plans.get_execution(one.shows(ask.clone())).await.is_ok());
    let refused = plans.get_execution(other.shows(ask)).await.unwrap_err();
    assert_eq!(reason(&refused, Code::NotFound), "EXECUTION_NOT_FOUND");
}

#[tokio::test]
async fn a_parent_that_the_caller_may_not_know_of_is_as_one_that_is_not_there() {
    let [one, other, both] = ["one", "other", "both"].map(Token::new);
    let entries = [
        one.entry("one", "roles = [\"submitter\"]\nuser = true"),
        other.entry("other", "roles = [\"submitter\"]\nnamespaces = [\"other\"]"),
        both.entry(
            "both",
            "roles = [\"submitter\"]\nnamespaces = [\"default\", \"other\"]",
        ),
    ];
    let (world, _file) = world_with(&entries).await;
    let plans = world.orchestrator.plans();
    let submit = async |token: &Token, parent: Option<&str>, namespace: &str| {
        let mut submission = request(plan([step(0, "work")])).as_submission();
        submission.parent_execution_id = parent.map(str::to_owned);
        submission.namespace = namespace.to_owned();
        let submitted = plans.clone().submit_plan(token.shows(submission)).await;
        submitted.map(|accepted| accepted.into_inner().execution.unwrap())
    };
    let elsewhere = submit(&other, None, "").await.unwrap().execution_id;
    let absent = fresh_id();
    for parent in [&elsewhere, &absent] {
        for namespace in ["", "default"] {
            let child = submit(&one, Some(parent), namespace).await.unwrap();
            let told = (child.namespace.as_str(), child.parent_execution_id.as_deref());
            assert_eq!(told, ("default", Some(parent.as_str())));
        }
    }
    // Who may know of it is told.
    assert_eq!(
        submit(&both, Some(&elsewhere), "").await.unwrap().namespace,
        "other"
    );
    let refused = submit(&both, Some(&elsewhere), "default").await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
}

#[tokio::test]
async fn a_changed_policy_holds_at_once_and_a_broken_one_changes_nothing() {
    let token = Token::new("viewer");
    let entry = token.entry("viewer", "roles = [\"viewer\"]");
    let (world, file) = world_with(std::slice::from_ref(&entry)).await;
    let mut events = world.orchestrator.events();
    let subscribed = events
        .subscribe_events(token.shows(SubscribeEventsRequest::default()))
        .await;
    let mut subscribed = subscribed.unwrap().into_inner();

    std::fs::write(&file, "version = 1\nsurprise = 1\n").unwrap();
    let stderr = || world.orchestrator.process.stderr();
    wait_for("the broken policy is refused", LIMIT, async || {
        stderr()
            .contains("surprise is no key that a policy has here")
            .then_some(())
    })
    .await
    .unwrap();
    let again = events
        .subscribe_events(token.shows(SubscribeEventsRequest::default()))
        .await;
    assert!(again.is_ok(), "{again:?}");

    std::fs::write(&file, policy(&[])).unwrap();
    let ended = tokio::time::timeout(LIMIT, subscribed.message()).await.unwrap();
    assert!(!matches!(ended, Ok(Some(_))), "{ended:?}");
    // The connection goes with its stream. A call that is still on it is cut; one on a new connection is refused.
    let refused = wait_for("a call to be refused", LIMIT, async || {
        let request = token.shows(SubscribeEventsRequest::default());
        let answer = world.orchestrator.events().subscribe_events(request).await;
        answer
            .err()
            .filter(|status| status.code() == Code::Unauthenticated)
    });
    assert_eq!(
        reason(&refused.await.unwrap(), Code::Unauthenticated),
        "CREDENTIALS_INVALID"
    );
}

/// Sends SIGHUP and waits for what the orchestrator logs of it.
async fn hang_up(world: &mut World, text: &str) {
    let process = &mut world.orchestrator.process;
    process.signal(Signal::HUP).unwrap();
    let is_said = async || process.stderr().contains(text).then_some(());
    wait_for(text, LIMIT, is_said).await.unwrap();
}

#[tokio::test]
async fn sighup_has_the_policy_read_and_drains_nothing() {
    let (one, other) = (Token::new("one"), Token::new("other"));
    let entries = [&one, &other].map(|token| token.entry("operator", "roles = [\"operator\"]"));
    let (mut world, file) = world_that_looks(&entries[..1], 0).await;
    let fleet = world.orchestrator.fleet();
    let asks = async |token: &Token| {
        let ask = token.shows(ListWorkersRequest::default());
        fleet.clone().list_workers(ask).await
    };
    assert!(asks(&one).await.is_ok());
    let refused = asks(&other).await.unwrap_err();
    assert_eq!(reason(&refused, Code::Unauthenticated), "CREDENTIALS_INVALID");

    std::fs::write(&file, "version = 2\n").unwrap();
    hang_up(&mut world, "changed files are refused").await;
    assert!(asks(&one).await.is_ok(), "what is wrong changes nothing");

    std::fs::write(&file, policy(&entries[1..])).unwrap();
    hang_up(&mut world, "files read again").await;
    // On another connection: the one before is told to go.
    let fleet = FleetServiceClient::new(
        Endpoint::from_shared(world.orchestrator.url())
            .unwrap()
            .connect_lazy(),
    );
    let asks = async |token: &Token| {
        let ask = token.shows(ListWorkersRequest::default());
        fleet.clone().list_workers(ask).await
    };
    let is_let_in = async || asks(&other).await.ok();
    wait_for("the new policy to hold", LIMIT, is_let_in)
        .await
        .unwrap();
    let refused = asks(&one).await.unwrap_err();
    assert_eq!(reason(&refused, Code::Unauthenticated), "CREDENTIALS_INVALID");
}

#[tokio::test]
async fn a_policy_that_does_not_hold_never_starts() {
    let directory = PrivateDirectory::new("access").unwrap();
    let file = directory.join("policy.toml");
    std::fs::write(
        &file,
        "version = 1\n[[token]]\nname = \"a\"\nroles = [\"boss\"]\n",
    )
    .unwrap();
    let settings = OrchestratorSettings::new(directory.path());
    let mut process = settings.flag("--access-policy", file.display()).launch().unwrap();
    let status = process.exit(LIMIT).await.unwrap();
    let said = process.stderr();
    assert_eq!(status.code(), Some(64), "{said}");
    assert!(said.contains("line 2: token[0].sha256 is required"), "{said}");
    assert!(said.contains("line 4: token[0].roles[0] is no role"), "{said}");
}

#[tokio::test]
async fn without_a_policy_nobody_is_asked() {
    let world = World::start().await;
    let token = Token::new("anybody");
    let submission = request(plan([step(0, "work")])).as_submission();
    let accepted = world
        .orchestrator
        .plans()
        .submit_plan(token.shows(submission))
        .await;
    assert!(accepted.is_ok());
}

#[tokio::test]
async fn what_token_hash_says_of_a_token_is_what_the_policy_takes() {
    let made = Token::new("planner");
    // As a shell pipes it, with the end of its line.
    let hashed = Token::hashed(&format!("{}\n", made.secret)).unwrap();
    let (world, _file) = world_with(&[hashed.entry("planner", "roles = [\"submitter\"]")]).await;
    let submission = || request(plan([step(0, "echo")])).as_submission();
    let mut plans = world.orchestrator.plans();
    plans.submit_plan(made.shows(submission())).await.unwrap();

    let another = Token::new("another");
    let refused = plans.submit_plan(another.shows(submission())).await.unwrap_err();
    assert_eq!(reason(&refused, Code::Unauthenticated), "CREDENTIALS_INVALID");
    // A token with a slip of the pen has no digest, and is not repeated.
    let slip = made.secret.replacen("esc_", "esc_x", 1);
    let refused = Token::hashed(&slip).map(drop).unwrap_err();
    assert!(
        refused.starts_with("Some(") && !refused.contains(&slip),
        "{refused}"
    );
}
