//! Tokens of workers that are rotated: two under one name, and one of another name.

use super::credentials::{Token, policy, world_with};
use crate::plans::{RequestWords, StepWords, plan, request, step};
use crate::world::{LIMIT, World};
use escapement_tests::{ChildProcess, checkout, tool, wait_for};
use escapement_wire::v1::plan_execution_service_client::PlanExecutionServiceClient;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::{GetExecutionRequest, PlanResult, WaitExecutionRequest};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;
use tonic::transport::Channel;

const SUBMITTER: &str = "roles = [\"submitter\"]";
const WORKER: &str = "roles = [\"worker\"]";

/// Caller that submits plans of one step.
struct Planner<'w> {
    token: Token,
    plans: PlanExecutionServiceClient<Channel>,
    world: &'w World,
}

impl Planner<'_> {
    async fn submit(&mut self, ms: u64) -> String {
        let step = step(0, "delay").payload(json!({ "ms": ms }));
        let submission = self.token.shows(request(plan([step])).as_submission());
        let accepted = self.plans.submit_plan(submission).await.unwrap();
        accepted.into_inner().execution.unwrap().execution_id
    }

    async fn started(&self, execution_id: &str) {
        let has_started = async || {
            let execution_id = execution_id.to_owned();
            let asked = self.token.shows(GetExecutionRequest { execution_id });
            let asked = self.plans.clone().get_execution(asked).await;
            asked.unwrap().into_inner().execution.unwrap().started_at
        };
        wait_for("the start", LIMIT, has_started).await.unwrap();
    }

    async fn end(&mut self, execution_id: String) -> PlanResult {
        let timeout_ms = Some(60_000);
        let waits = self.token.shows(WaitExecutionRequest {
            execution_id,
            timeout_ms,
        });
        let waited = self.plans.wait_execution(waits).await.unwrap();
        waited.into_inner().execution.unwrap().result.unwrap()
    }

    async fn succeeds(&mut self) {
        let execution_id = self.submit(0).await;
        let result = self.end(execution_id).await;
        assert_eq!(result.status(), Status::Success, "{result:?}");
    }

    fn n_sessions(&self) -> usize {
        self.world
            .orchestrator
            .process
            .stderr()
            .matches("worker session begins")
            .count()
    }

    /// Waits until the policy was read so often in all.
    async fn read(&self, n_times: usize) {
        let is_read = async || {
            let log = self.world.orchestrator.process.stderr();
            (log.matches("files read again").count() >= n_times).then_some(())
        };
        wait_for("another policy", LIMIT, is_read).await.unwrap();
    }
}

#[tokio::test]
async fn two_tokens_of_one_name_overlap_while_they_are_rotated() {
    let [planner, old, new] = ["planner", "worker", "worker"].map(Token::new);
    let of_planner = planner.entry("planner", SUBMITTER);
    let (world, file) = world_with(&[of_planner.clone(), old.entry("worker", WORKER)]).await;
    let (token, plans) = (planner, world.orchestrator.plans());
    let mut planner = Planner {
        token,
        plans,
        world: &world,
    };
    let token_file = file.with_file_name("worker.token");
    std::fs::write(&token_file, &old.secret).unwrap();
    let with_token = async |id: &str, file: &Path| {
        let flag = file.display();
        world
            .stock_worker(id, |settings| settings.flag("--token-file", flag))
            .await
    };
    let worker = with_token("old", &token_file).await;

    let both = format!("previous_sha256 = \"{}\"\n{WORKER}", old.digest());
    std::fs::write(&file, policy(&[of_planner.clone(), new.entry("worker", &both)])).unwrap();
    planner.read(1).await;
    planner.succeeds().await;
    assert_eq!(planner.n_sessions(), 1, "the old token is as good as before");
    let new_file = file.with_file_name("new.token");
    std::fs::write(&new_file, &new.secret).unwrap();
    drop(with_token("new", &new_file).await);

    // A running step outlives the old token.
    let execution_id = planner.submit(4_000).await;
    planner.started(&execution_id).await;
    std::fs::write(&token_file, &new.secret).unwrap();
    std::fs::write(&file, policy(&[of_planner, new.entry("worker", WORKER)])).unwrap();
    let result = planner.end(execution_id).await;
    assert_eq!(result.status(), Status::Success, "{result:?}");
    planner.succeeds().await;
    drop(worker);
}

/// Starts a worker, has its token file replaced by another name's token, and holds that it works on as another instance.
async fn come_back_as_another(start: impl AsyncFnOnce(&World, PathBuf) -> ChildProcess) {
    let [planner, one, another] = ["planner", "one", "another"].map(Token::new);
    let of_planner = planner.entry("planner", SUBMITTER);
    let (world, file) = world_with(&[of_planner.clone(), one.entry("one", WORKER)]).await;
    let (token, plans) = (planner, world.orchestrator.plans());
    let mut planner = Planner {
        token,
        plans,
        world: &world,
    };
    let token_file = file.with_file_name("worker.token");
    std::fs::write(&token_file, &one.secret).unwrap();
    let mut worker = start(&world, token_file.clone()).await;
    planner.succeeds().await;
    let lost = planner.submit(600_000).await;
    planner.started(&lost).await;

    std::fs::write(&token_file, &another.secret).unwrap();
    std::fs::write(&file, policy(&[of_planner, another.entry("another", WORKER)])).unwrap();
    // Not even the same process continues an attempt of the old name.
    let result = planner.end(lost).await;
    assert_eq!(result.error.unwrap().error_code, "WORKER_LOST");
    planner.succeeds().await;
    assert!(worker.is_running());
    let log = world.orchestrator.process.stderr();
    assert!(
        log.contains("principal=\"another\"") || log.contains("principal=another"),
        "{log}"
    );
    assert_eq!(worker.terminate(LIMIT).await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn a_stock_worker_with_another_names_token_returns_as_a_new_instance() {
    come_back_as_another(async |world, token_file| {
        let flag = token_file.display();
        let worker = world.stock_worker("stock", |settings| settings.flag("--token-file", flag));
        worker.await.process
    })
    .await;
}

#[tokio::test]
async fn a_python_worker_with_another_names_token_returns_as_a_new_instance() {
    let Some(python) = tool("python/bin/python", "`cargo verify` installs it") else {
        return;
    };
    come_back_as_another(async |world, token_file| {
        let mut command = Command::new(&python);
        command
            .arg(checkout::root().join("worker/python/escapement_worker.py"))
            .env("ESCAPEMENT_ORCHESTRATOR", world.orchestrator.url())
            .env("ESCAPEMENT_TOKEN_FILE", token_file);
        ChildProcess::start("python", &mut command, &world.directory.join("python.stderr")).unwrap()
    })
    .await;
}
