//! Handlers that execute plans where a policy decides: by the token of their attempt, in the name of who handed in the outermost plan.

use super::credentials::{Token, policy};
use crate::plans::{RequestWords, StepWords, json_of, plan, request, step, step_id};
use crate::tls::SecureWorld;
use crate::world::LIMIT;
use escapement_tests::authority::replace;
use escapement_tests::{ChildProcess, PrivateDirectory, checkout, fresh_id, tool};
use escapement_wire::v1::accepted_by::Kind;
use escapement_wire::v1::plan_execution_service_client::PlanExecutionServiceClient;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::{Execution, GetExecutionRequest, ListExecutionsRequest, PlanResult};
use serde_json::{Value, json};
use std::process::Command;

/// Returns a plan document of one step.
fn document(action: &str) -> Value {
    json!({
        "id": fresh_id(), "version": 1, "created_at": 1_766_016_000_000_i64, "name": "nested",
        "context_requirements": ["region"],
        "steps": [{ "id": step_id(0), "action": action, "payload": {"from": "the child"} }],
    })
}

/// An orchestrator with TLS and a policy: a planner for one namespace and some actions, and workers by their certificate.
struct Scene {
    secure: SecureWorld,
    planner: Token,
    _directory: PrivateDirectory,
}

impl Scene {
    async fn start(nesting: &str) -> Self {
        let planner = Token::new("planner");
        let directory = PrivateDirectory::new("handlers").unwrap();
        let rules = directory.join("policy.toml");
        let rights =
            format!("roles = [\"submitter\"]\nnamespaces = [\"other\"]\nactions = [\"{nesting}\", \"echo\"]");
        let worker = "[[certificate]]\ndns = \"worker\"\nroles = [\"worker\"]\n".to_owned();
        replace(&rules, &policy(&[planner.entry("planner", &rights), worker])).unwrap();
        let secure = SecureWorld::start_with(|settings| {
            settings
                .flag("--access-policy", rules.display())
                .flag("--tls-client-auth", "required")
        })
        .await;
        Self {
            secure,
            planner,
            _directory: directory,
        }
    }

    /// Executes a plan of one step, which executes another one.
    async fn execute(&self, nesting: &str, action: &str) -> (String, PlanResult) {
        let step = step(0, nesting).payload(json!({ "plan": document(action) }));
        let request = request(plan([step]));
        let execution_id = request.id();
        let mut plans = PlanExecutionServiceClient::new(self.secure.world.orchestrator.channel());
        let answer = plans.execute_plan(self.planner.shows(request)).await.unwrap();
        (execution_id, answer.into_inner().result.unwrap())
    }

    /// Returns the children of an execution.
    async fn children(&self, execution_id: &str) -> Vec<Execution> {
        let mut plans = PlanExecutionServiceClient::new(self.secure.world.orchestrator.channel());
        let list = ListExecutionsRequest {
            parent_execution_id: Some(execution_id.to_owned()),
            ..ListExecutionsRequest::default()
        };
        let listed = plans.list_executions(self.planner.shows(list)).await.unwrap();
        let mut children = Vec::new();
        for listed in listed.into_inner().executions {
            let get = GetExecutionRequest {
                execution_id: listed.execution_id,
            };
            let shown = plans.get_execution(self.planner.shows(get)).await.unwrap();
            children.push(shown.into_inner().execution.unwrap());
        }
        children
    }

    /// Nests what the planner may have called, and what it may not.
    async fn hold(&self, nesting: &str) {
        let (execution_id, result) = self.execute(nesting, "echo").await;
        assert_eq!(result.status(), Status::Success, "{:?}", result.error);
        let output = &json_of(result.result_payload.as_ref())[step_id(0)];
        assert_eq!(output["result_payload"][step_id(0)], json!({"from": "the child"}));
        let [child]: [Execution; 1] = self.children(&execution_id).await.try_into().unwrap();
        let by = child.accepted_by.unwrap();
        assert_eq!(
            (by.name.as_str(), by.kind(), by.origin()),
            ("planner", Kind::Attempt, Kind::Token)
        );
        assert_eq!(child.namespace, "other");

        let (execution_id, result) = self.execute(nesting, "fail").await;
        assert_eq!(result.status(), Status::Failure, "{result:?}");
        let error = format!("{:?}", result.error.unwrap());
        assert!(
            error.contains("CHILD_REJECTED") && error.contains("plan.steps[0].action"),
            "{error}"
        );
        assert_eq!(self.children(&execution_id).await, []);
    }
}

#[tokio::test]
async fn the_stock_worker_nests_plans_by_the_tokens_of_its_attempts() {
    let scene = Scene::start("execute_plan").await;
    let (_, files) = scene.secure.issue("worker");
    let _worker = scene.secure.worker("worker", &files).await;
    scene.hold("execute_plan").await;
}

#[tokio::test]
async fn a_worker_in_python_nests_plans_by_the_tokens_of_its_attempts() {
    let Some(python) = tool("python/bin/python", "`cargo verify` installs it") else {
        return;
    };
    let scene = Scene::start("nest").await;
    let (_, files) = scene.secure.issue("worker");
    let mut command = Command::new(&python);
    command
        .arg(checkout::root().join("tests/clients/python/nesting.py"))
        .env("ESCAPEMENT_ORCHESTRATOR", scene.secure.world.orchestrator.url())
        .env("ESCAPEMENT_TLS_CA", &scene.secure.server_ca)
        .env("ESCAPEMENT_TLS_CERT", &files.cert)
        .env("ESCAPEMENT_TLS_KEY", &files.key)
        .env("ESCAPEMENT_TLS_SERVER_NAME", "localhost");
    let stderr = scene.secure.world.directory.join("python.stderr");
    let mut worker = ChildProcess::start("python", &mut command, &stderr).unwrap();
    scene.hold("nest").await;
    assert_eq!(worker.terminate(LIMIT).await.unwrap().code(), Some(0));
}
