//! Somebody who is one user in one namespace and another one in the next: each is nobody in the other's.

use super::super::credentials::{Token, world_with};
use super::wire::{Elsewhere, Use, ask, call, shown};
use super::{asking, run_request};
use crate::status_details::reason;
use crate::world::World;
use escapement_tests::authority::replace;
use escapement_tests::{PrivateDirectory, TokenIssuer};
use escapement_wire::runs::v1;
use prost::Message;
use serde_json::json;
use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};
use tonic::{Code, Status};

/// A service that knows its users, and somebody with a grant for each of two namespaces.
struct Scene {
    world: World,
    service: Token,
    both: String,
    _issuer: TokenIssuer,
    /// Of the keys.
    _directory: PrivateDirectory,
}

impl Scene {
    async fn new() -> Self {
        let service = Token::new("service");
        let issuer = TokenIssuer::start("one").await.unwrap();
        let directory = PrivateDirectory::new("pairs").unwrap();
        let keys = directory.join("keys.json");
        replace(&keys, &issuer.key_set()).unwrap();
        let grant = |namespace: &str, user: &str| {
            format!(
                "[[jwt.grant]]\nwhen = {{ sub = \"both\" }}\nroles = [\"submitter\"]\n\
                 namespaces = [\"{namespace}\"]\nuser = \"{user}\"\n"
            )
        };
        let entries = [
            service.entry(
                "service",
                "roles = [\"submitter\"]\nnamespaces = [\"default\", \"other\"]\nuser = \"*\"",
            ),
            format!(
                "[[jwt]]\nissuer = \"https://issuer.example\"\naudience = \"escapement\"\njwks_file = \"{}\"\n",
                keys.display()
            ),
            grant("default", "alice"),
            grant("other", "bob"),
        ];
        let exp = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + 3_600;
        let claims = json!({"iss": "https://issuer.example", "aud": "escapement", "sub": "both", "exp": exp});
        let both = issuer.token(&claims);
        let (world, _file) = world_with(&entries).await;
        Self {
            world,
            service,
            both,
            _issuer: issuer,
            _directory: directory,
        }
    }

    /// Returns a run of that user that asks a question; gives its id.
    async fn run_of(&self, namespace: &str, user_id: &str) -> String {
        let request = v1::CreateRunRequest {
            namespace: namespace.to_owned(),
            user_id: user_id.to_owned(),
            ..run_request("", &asking())
        };
        let made =
            ask::<_, v1::CreateRunResponse>(&self.world, &self.service, "RunService", "CreateRun", request);
        made.await.unwrap().run.unwrap().run_id
    }

    /// Asks as who has the two grants.
    async fn ask<A: Message + Default>(
        &self,
        service: &str,
        method: &str,
        message: &impl Message,
    ) -> Result<A, Status> {
        let call = call(service, method, message, Elsewhere::NotFound, Use::Read);
        Ok(A::decode(shown(&self.world, &call, &self.both).await?).unwrap())
    }
}

#[tokio::test]
async fn a_user_of_one_namespace_is_nobody_in_another() {
    let scene = Scene::new().await;
    let mut runs = Vec::new();
    for (namespace, user) in [
        ("default", "alice"),
        ("default", "bob"),
        ("other", "alice"),
        ("other", "bob"),
    ] {
        runs.push(scene.run_of(namespace, user).await);
    }
    let own = BTreeSet::from([runs[0].clone(), runs[3].clone()]);
    let listed: v1::ListRunsResponse = scene
        .ask("RunService", "ListRuns", &v1::ListRunsRequest::default())
        .await
        .unwrap();
    let found: BTreeSet<String> = listed.runs.into_iter().map(|run| run.run_id).collect();
    assert_eq!(found, own);
    let listed: v1::ListInputRequestsResponse = scene
        .ask(
            "InboxService",
            "ListInputRequests",
            &v1::ListInputRequestsRequest::default(),
        )
        .await
        .unwrap();
    let found: BTreeSet<String> = listed
        .input_requests
        .into_iter()
        .map(|asked| asked.run_id)
        .collect();
    assert!(found.is_subset(&own), "{found:?}");
    let stats: v1::GetRunStatsResponse = scene
        .ask("RunService", "GetRunStats", &v1::GetRunStatsRequest::default())
        .await
        .unwrap();
    assert_eq!(stats.total, 2);

    // Bob is asked for where Alice is meant: this list, and every other one with such fields.
    macro_rules! refused {
        ($service:literal, $method:literal, $request:ident) => {
            #[allow(
                clippy::needless_update,
                reason = "some of these requests have other fields"
            )]
            let asked = v1::$request {
                namespace: "default".to_owned(),
                user_id: "bob".to_owned(),
                ..Default::default()
            };
            let refused = scene
                .ask::<v1::ListRunsResponse>($service, $method, &asked)
                .await;
            let refused = refused.expect_err($method);
            assert_eq!(
                reason(&refused, Code::PermissionDenied),
                "USER_NOT_PERMITTED",
                "{}",
                $method
            );
        };
    }
    refused!("RunService", "ListRuns", ListRunsRequest);
    refused!("RunService", "GetRunStats", GetRunStatsRequest);
    refused!("RunService", "WatchNotices", WatchNoticesRequest);
    refused!("PlanService", "ListPlans", ListPlansRequest);
    refused!("GoalService", "ListGoals", ListGoalsRequest);
    refused!("TriggerService", "ListTriggers", ListTriggersRequest);
    refused!("InboxService", "ListInputRequests", ListInputRequestsRequest);
    refused!("InboxService", "WatchInbox", WatchInboxRequest);
    let in_his_name = v1::CreateRunRequest {
        namespace: "default".to_owned(),
        user_id: "bob".to_owned(),
        ..run_request("", &asking())
    };
    let refused = scene
        .ask::<v1::CreateRunResponse>("RunService", "CreateRun", &in_his_name)
        .await;
    assert_eq!(
        reason(&refused.unwrap_err(), Code::PermissionDenied),
        "USER_NOT_PERMITTED"
    );
}
