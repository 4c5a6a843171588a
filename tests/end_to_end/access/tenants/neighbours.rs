//! Two tenants that have the same things side by side: what one does is nothing to the triggers and the sub-plans of the other.

use super::super::credentials::{Token, world_with};
use super::wire::ask;
use super::{asking, document, run_request};
use crate::status_details::reason;
use crate::world::{LIMIT, World};
use escapement_tests::wait_for;
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::run_service_client::RunServiceClient;
use escapement_wire::runs::v1::trigger::Config;
use serde_json::json;
use tonic::{Code, Status};

/// Two who act for the same users, each in its own namespace.
fn tenants() -> ([Token; 2], [String; 2]) {
    let [owner, stranger] = ["owner", "stranger"].map(Token::new);
    let rights = "roles = [\"submitter\"]\nuser = \"*\"\nnamespaces";
    let entries = [
        owner.entry("owner", &format!("{rights} = [\"other\"]")),
        stranger.entry("stranger", &format!("{rights} = [\"default\"]")),
    ];
    ([owner, stranger], entries)
}

/// Creates a trigger whose runs wait for an answer, so that what they come to fires nothing.
pub(super) async fn trigger(world: &World, token: &Token, config: Config) -> v1::Trigger {
    let trigger = v1::CreateTriggerRequest {
        trigger: Some(v1::Trigger {
            name: "t".to_owned(),
            config: Some(config),
            run: Some(run_request("", &asking())),
            ..Default::default()
        }),
        ..Default::default()
    };
    let made = ask::<_, v1::CreateTriggerResponse>(world, token, "TriggerService", "CreateTrigger", trigger);
    made.await.unwrap().trigger.unwrap()
}

pub(super) fn event(kind: &str) -> Config {
    Config::Event(v1::EventFilter {
        r#type: kind.to_owned(),
        ..Default::default()
    })
}

pub(super) async fn firings(world: &World, token: &Token, trigger: &v1::Trigger) -> Vec<v1::Firing> {
    let list = v1::ListFiringsRequest {
        trigger_id: trigger.trigger_id.clone(),
        ..Default::default()
    };
    let listed = ask::<_, v1::ListFiringsResponse>(world, token, "TriggerService", "ListFirings", list);
    listed.await.unwrap().firings
}

pub(super) async fn publish(
    world: &World,
    token: &Token,
    namespace: &str,
) -> Result<Vec<v1::Firing>, Status> {
    let event = v1::PublishEventRequest {
        r#type: "ping".to_owned(),
        id: "1".to_owned(),
        namespace: namespace.to_owned(),
        ..Default::default()
    };
    let told = ask::<_, v1::PublishEventResponse>(world, token, "TriggerService", "PublishEvent", event);
    told.await.map(|told| told.firings)
}

/// Creates a run of the plan and waits for its end.
pub(super) async fn run_to_its_end(world: &World, token: &Token, steps: &serde_json::Value) -> v1::Run {
    let request = run_request("", &document(steps));
    let created = ask::<_, v1::CreateRunResponse>(world, token, "RunService", "CreateRun", request);
    let run_id = created.await.unwrap().run.unwrap().run_id;
    let wait = v1::WaitRunRequest {
        run_id,
        timeout_ms: Some(20_000),
    };
    let mut runs = RunServiceClient::new(world.orchestrator.channel());
    let ended = runs.wait_run(token.shows(wait)).await.unwrap();
    ended.into_inner().run.unwrap()
}

#[tokio::test]
async fn what_another_tenant_does_fires_no_trigger() {
    let ([owner, stranger], entries) = tenants();
    let (world, _file) = world_with(&entries).await;
    let condition = Config::Condition(v1::Condition {
        expression: "input.runs.completed > 0".to_owned(),
        check_interval_ms: Some(LOOK_MS),
        ..Default::default()
    });
    let pinged = trigger(&world, &owner, event("ping")).await;
    let completed = trigger(&world, &owner, event("run_completed")).await;
    let counted = trigger(&world, &owner, condition).await;
    let all = [&pinged, &completed, &counted];

    assert_eq!(publish(&world, &stranger, "").await.unwrap(), []);
    let refused = publish(&world, &stranger, "other").await.unwrap_err();
    assert_eq!(
        reason(&refused, Code::PermissionDenied),
        "NAMESPACE_NOT_PERMITTED"
    );
    let of_stranger = run_to_its_end(&world, &stranger, &json!([])).await;
    assert_eq!(of_stranger.state(), v1::run::State::Completed);
    assert_eq!(of_stranger.user_id, pinged.user_id, "the same user, elsewhere");
    // The condition is looked at after that run has ended.
    let looked = async || {
        let get = v1::GetTriggerRequest {
            trigger_id: counted.trigger_id.clone(),
            ..Default::default()
        };
        let told = ask::<_, v1::GetTriggerResponse>(&world, &owner, "TriggerService", "GetTrigger", get);
        let next = told.await.unwrap().trigger.unwrap().next_fire_at;
        (next > of_stranger.completed_at.unwrap() + LOOK_MS).then_some(())
    };
    wait_for("a look at the condition", LIMIT, looked).await.unwrap();
    for trigger in all {
        assert_eq!(firings(&world, &owner, trigger).await, [], "{trigger:?}");
    }

    // The same by who has them fires each once, and nothing of the other's.
    let own = trigger(&world, &stranger, event("ping")).await;
    let fired = publish(&world, &owner, "").await.unwrap();
    assert_eq!(fired.len(), 1);
    assert_eq!(fired[0].trigger_id, pinged.trigger_id);
    let of_owner = run_to_its_end(&world, &owner, &json!([])).await;
    assert_eq!(of_owner.state(), v1::run::State::Completed);
    for trigger in all {
        let fired = async || firings(&world, &owner, trigger).await.pop();
        let fired = wait_for("a firing", LIMIT, fired).await.unwrap();
        let get = v1::GetRunRequest { run_id: fired.run_id };
        let found = ask::<_, v1::GetRunResponse>(&world, &owner, "RunService", "GetRun", get.clone()).await;
        let found = found.unwrap().run.unwrap();
        let by = found.started_by.unwrap().name;
        assert_eq!((found.namespace.as_str(), by.as_str()), ("other", "owner"));
        let hidden = ask::<_, v1::GetRunResponse>(&world, &stranger, "RunService", "GetRun", get).await;
        assert_eq!(reason(&hidden.unwrap_err(), Code::NotFound), "RUN_NOT_FOUND");
        assert_eq!(firings(&world, &owner, trigger).await.len(), 1);
    }
    assert_eq!(firings(&world, &stranger, &own).await, []);
}

#[tokio::test]
async fn a_sub_plan_is_that_of_its_own_namespace_and_so_is_its_run() {
    let ([owner, stranger], entries) = tenants();
    let (world, _file) = world_with(&entries).await;
    let saved = async |token: &Token| {
        let plan = v1::CreatePlanRequest {
            plan: Some(v1::Plan {
                goal: "g".to_owned(),
                ..Default::default()
            }),
            document: match run_request("", &document(&json!([]))).what {
                Some(v1::create_run_request::What::Document(document)) => Some(document),
                _ => None,
            },
            ..Default::default()
        };
        let made = ask::<_, v1::CreatePlanResponse>(&world, token, "PlanService", "CreatePlan", plan);
        made.await.unwrap().plan.unwrap()
    };
    let below = |config| json!([{"key": "below", "type": "sub_plan", "config": config}]);
    let plan = saved(&owner).await;
    let by_digest = below(json!({"revision_digest": plan.revision_digest}));
    let by_id = below(json!({"plan_id": plan.plan_id}));
    let nothing = run_to_its_end(&world, &stranger, &by_digest).await;
    assert_eq!(nothing.state(), v1::run::State::Failed, "{nothing:?}");
    // The very same plan, once it is the stranger's too; the other one still is not there.
    let same = saved(&stranger).await;
    assert_eq!(same.revision_digest, plan.revision_digest);
    for (token, steps, state) in [
        (&owner, &by_digest, v1::run::State::Completed),
        (&owner, &by_id, v1::run::State::Completed),
        (&stranger, &by_digest, v1::run::State::Completed),
        (&stranger, &by_id, v1::run::State::Failed),
    ] {
        let run = run_to_its_end(&world, token, steps).await;
        assert_eq!(run.state(), state, "{run:?}");
        let list = v1::ListRunsRequest {
            parent_run_id: run.run_id.clone(),
            ..Default::default()
        };
        for (reader, sees) in [
            (&owner, run.namespace == "other"),
            (&stranger, run.namespace == "default"),
        ] {
            let listed =
                ask::<_, v1::ListRunsResponse>(&world, reader, "RunService", "ListRuns", list.clone());
            let listed = listed.await.unwrap().runs;
            let n_expected = usize::from(sees && state == v1::run::State::Completed);
            assert_eq!(listed.len(), n_expected, "{listed:?}");
            for child in listed {
                assert_eq!(
                    (child.namespace, child.user_id, child.started_by),
                    (run.namespace.clone(), run.user_id.clone(), run.started_by.clone())
                );
            }
        }
    }
}

/// Between two looks at the condition; as often as can be.
const LOOK_MS: i64 = 1_000;
