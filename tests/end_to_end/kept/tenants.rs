//! What a tenant of an earlier version left behind: an execution and a run, accepted in a namespace and in somebody's name.

use super::{kept, wanted};
use crate::access::credentials::{Token, policy, world_with};
use crate::backup::command;
use crate::plans::{RequestWords, echo, plan, request};
use crate::runs::creation;
use crate::status_details::reason;
use crate::world::World;
use escapement_tests::{PrivateDirectory, documents};
use escapement_wire::runs::v1::run::State;
use escapement_wire::runs::v1::run_service_client::RunServiceClient;
use escapement_wire::runs::v1::{GetRunRequest, Run, WaitRunRequest};
use escapement_wire::v1::{Execution, GetExecutionRequest, PlanResult, ReplayExecutionRequest};
use serde_json::{Value, json};
use std::path::Path;
use tonic::{Code, Status};

/// Returns the owner, somebody of another namespace, and whoever works.
fn entries(owner: &Token, neighbour: &Token) -> [String; 3] {
    [
        owner.entry("owner", "roles = [\"submitter\"]\nnamespaces = [\"other\"]"),
        neighbour.entry("neighbour", "roles = [\"submitter\"]"),
        "[anonymous]\nroles = [\"worker\"]\n".to_owned(),
    ]
}

/// Writes a backup of the store of a tenant, and what it was told.
async fn keep(folder: &Path) {
    let [owner, neighbour] = ["owner", "neighbour"].map(Token::new);
    let (world, _file) = world_with(&entries(&owner, &neighbour)).await;
    let worker = world.stock_worker("stock", |settings| settings).await;
    let asked = request(plan([echo(0, json!({ "a": 1 }))]));
    let id = asked.id();
    let mut shown = owner.shows(asked);
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        .parse()
        .unwrap();
    shown.metadata_mut().insert("traceparent", trace);
    let result = world.orchestrator.plans().execute_plan(shown).await.unwrap();
    let result = result.into_inner().result.unwrap();
    let say = json!({ "key": "say", "type": "tool_call", "config": { "tool_name": "echo", "tool_args": { "a": 1 } } });
    let document = json!({ "schema": "escapement.plan/1", "name": "kept", "steps": [say] });
    let mut runs = RunServiceClient::new(world.orchestrator.channel());
    let created = runs
        .create_run(owner.shows(creation("kept", &document)))
        .await
        .unwrap();
    let wait = WaitRunRequest {
        run_id: created.into_inner().run.unwrap().run_id,
        timeout_ms: Some(20_000),
    };
    let run = runs
        .wait_run(owner.shows(wait))
        .await
        .unwrap()
        .into_inner()
        .run
        .unwrap();
    assert_eq!(run.state(), State::Completed, "{run:?}");
    worker.stop().await.unwrap();
    let told = json!({
        "owner": owner.secret,
        "neighbour": neighbour.secret,
        "execution": id,
        "result": documents::to_json("escapement.v1.PlanResult", &result),
        "run": run.run_id,
    });
    std::fs::write(folder.join("tenants.json"), format!("{told:#}\n")).unwrap();
    let [store, backup] = [world.directory.join("store"), folder.join("tenants.backup")];
    let backed_up = said(&["backup", "--store-path", text(&store), "--to", text(&backup)]).await;
    assert_eq!(backed_up, Some(0));
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

async fn said(arguments: &[&str]) -> Option<i32> {
    let said = command(arguments).await;
    if said.code != Some(0) {
        eprintln!("{arguments:?}: {said:?}");
    }
    said.code
}

async fn execution(world: &World, token: &Token, id: &str) -> Result<Execution, Status> {
    let get = GetExecutionRequest {
        execution_id: id.to_owned(),
    };
    let found = world.orchestrator.plans().get_execution(token.shows(get)).await?;
    Ok(found.into_inner().execution.unwrap())
}

async fn run(world: &World, token: &Token, id: &str) -> Result<Run, Status> {
    let get = GetRunRequest {
        run_id: id.to_owned(),
    };
    let mut runs = RunServiceClient::new(world.orchestrator.channel());
    Ok(runs.get_run(token.shows(get)).await?.into_inner().run.unwrap())
}

#[tokio::test]
async fn what_a_tenant_of_an_earlier_version_left_is_still_its_own_and_replays() {
    if let Some(folder) = wanted().filter(|folder| !folder.join("tenants.backup").exists()) {
        keep(&folder).await;
    }
    for folder in kept() {
        let told = std::fs::read_to_string(folder.join("tenants.json")).unwrap();
        let told: Value = serde_json::from_str(&told).unwrap();
        let word = |key: &str| told[key].as_str().unwrap();
        let [owner, neighbour] = ["owner", "neighbour"].map(|key| Token::hashed(word(key)).unwrap());
        let directory = PrivateDirectory::new("kept-tenants").unwrap();
        let [store, records] = ["store", "records"].map(|name| directory.join(name));
        let backup = folder.join("tenants.backup");
        assert_eq!(
            said(&["restore", "--from", text(&backup), "--store-path", text(&store)]).await,
            Some(0)
        );
        assert_eq!(said(&["check", "--store-path", text(&store)]).await, Some(0));
        let exported = [
            "export",
            "--all",
            "--store-path",
            text(&store),
            "--to",
            text(&records),
        ];
        assert_eq!(said(&exported).await, Some(0));
        // The execution, the run, and the execution of its one step.
        let files: Vec<_> = std::fs::read_dir(&records).unwrap().collect();
        assert_eq!(files.len(), 3);
        for file in files {
            assert_eq!(said(&["verify", text(&file.unwrap().path())]).await, Some(0));
        }

        let rules = directory.join("policy.toml");
        std::fs::write(&rules, policy(&entries(&owner, &neighbour))).unwrap();
        let flag = rules.display().to_string();
        let world = World::start_in(directory, |settings| settings.flag("--access-policy", flag)).await;
        let found = execution(&world, &owner, word("execution")).await.unwrap();
        let accepted_by = found.accepted_by.unwrap();
        assert_eq!(
            (found.namespace.as_str(), accepted_by.name.as_str()),
            ("other", "owner")
        );
        let result: PlanResult = documents::from_json("escapement.v1.PlanResult", &told["result"]).unwrap();
        assert_eq!(found.result.unwrap(), result);
        let replay = ReplayExecutionRequest {
            execution_id: word("execution").to_owned(),
        };
        let replayed = world
            .orchestrator
            .plans()
            .replay_execution(owner.shows(replay))
            .await;
        assert!(replayed.unwrap().into_inner().identical);
        let found = run(&world, &owner, word("run")).await.unwrap();
        let started_by = found.started_by.unwrap();
        assert_eq!(
            (found.namespace.as_str(), started_by.name.as_str()),
            ("other", "owner")
        );

        let refused = execution(&world, &neighbour, word("execution"))
            .await
            .unwrap_err();
        assert_eq!(reason(&refused, Code::NotFound), "EXECUTION_NOT_FOUND");
        let refused = run(&world, &neighbour, word("run")).await.unwrap_err();
        assert_eq!(reason(&refused, Code::NotFound), "RUN_NOT_FOUND");
    }
}
