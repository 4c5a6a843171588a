//! `execute_plan`, against a plan service that answers as it is told.

use super::{closed, context_with, input, kind, with_root};
use escapement_sdk::testing::{ContextBuilder, take_warnings};
use escapement_sdk::{StepContext, StepError};
use escapement_wire::v1::plan_execution_service_server::{PlanExecutionService, PlanExecutionServiceServer};
use escapement_wire::v1::plan_result::Status as PlanStatus;
use escapement_wire::v1::{
    ExecutePlanRequest, ExecutePlanResponse, Execution, ExecutionError, ExplainExecutionRequest,
    ExplainExecutionResponse, ExportExecutionRequest, ExportExecutionResponse, GetExecutionRequest,
    GetExecutionResponse, ListAuditEntriesRequest, ListAuditEntriesResponse, ListExecutionsRequest,
    ListExecutionsResponse, PlanResult, ReplayExecutionRequest, ReplayExecutionResponse, SimulatePlanRequest,
    SimulatePlanResponse, SubmitPlanRequest, SubmitPlanResponse, ValidatePlanRequest, ValidatePlanResponse,
    WaitExecutionRequest, WaitExecutionResponse, WatchExecutionRequest, WatchExecutionResponse,
};
use escapement_worker::handlers::execute_plan::{Output, run};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

/// What the service answers, in order, and what it was asked.
#[derive(Default)]
struct Script {
    submits: VecDeque<Result<(), Status>>,
    waits: VecDeque<Result<Option<PlanResult>, Status>>,
    submitted: Vec<SubmitPlanRequest>,
    waited: Vec<String>,
}

#[derive(Clone)]
struct Service(Arc<Mutex<Script>>, Arc<std::net::TcpListener>);

impl Default for Service {
    fn default() -> Self {
        Self::new([], [])
    }
}

type Answer<T> = Result<Response<T>, Status>;
type Items<T> = Pin<Box<dyn tonic::codegen::tokio_stream::Stream<Item = Result<T, Status>> + Send>>;

/// What no worker calls, as `async_trait` would write it.
macro_rules! not_asked_for {
    ($($name:ident: $asked:ty => $answer:ty,)*) => {$(
        fn $name<'a, 't>(
            &'a self,
            _: Request<$asked>,
        ) -> Pin<Box<dyn Future<Output = Answer<$answer>> + Send + 't>>
        where
            'a: 't,
            Self: 't,
        {
            Box::pin(async { Err(Status::unimplemented("not asked for")) })
        }
    )*};
}

#[tonic::async_trait]
impl PlanExecutionService for Service {
    type WatchExecutionStream = Items<WatchExecutionResponse>;
    type ExportExecutionStream = Items<ExportExecutionResponse>;

    not_asked_for! {
        explain_execution: ExplainExecutionRequest => ExplainExecutionResponse,
        replay_execution: ReplayExecutionRequest => ReplayExecutionResponse,
        export_execution: ExportExecutionRequest => Self::ExportExecutionStream,
        simulate_plan: SimulatePlanRequest => SimulatePlanResponse,
        execute_plan: ExecutePlanRequest => ExecutePlanResponse,
        validate_plan: ValidatePlanRequest => ValidatePlanResponse,
        get_execution: GetExecutionRequest => GetExecutionResponse,
        list_executions: ListExecutionsRequest => ListExecutionsResponse,
        watch_execution: WatchExecutionRequest => Self::WatchExecutionStream,
        list_audit_entries: ListAuditEntriesRequest => ListAuditEntriesResponse,
    }

    async fn submit_plan(&self, request: Request<SubmitPlanRequest>) -> Answer<SubmitPlanResponse> {
        let mut script = self.0.lock().unwrap();
        script.submitted.push(request.into_inner());
        script
            .submits
            .pop_front()
            .expect("a further submit is not in the script")?;
        Ok(Response::new(SubmitPlanResponse::default()))
    }

    async fn wait_execution(&self, request: Request<WaitExecutionRequest>) -> Answer<WaitExecutionResponse> {
        let mut script = self.0.lock().unwrap();
        script.waited.push(request.into_inner().execution_id);
        let result = script
            .waits
            .pop_front()
            .expect("a further wait is not in the script")?;
        let execution = Some(Execution {
            result,
            ..Execution::default()
        });
        Ok(Response::new(WaitExecutionResponse { execution }))
    }
}

impl Service {
    fn new(
        submits: impl IntoIterator<Item = Result<(), Status>>,
        waits: impl IntoIterator<Item = Result<Option<PlanResult>, Status>>,
    ) -> Self {
        let script = Script {
            submits: submits.into_iter().collect(),
            waits: waits.into_iter().collect(),
            ..Script::default()
        };
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Self(Arc::new(Mutex::new(script)), Arc::new(listener))
    }

    /// Returns the attempt that asks it.
    fn parent(&self) -> StepContext {
        ContextBuilder::new("execute_plan")
            .environment(&json!({ "project": "x" }))
            .orchestrator(&format!("http://{}", self.1.local_addr().unwrap()))
            .build()
    }

    /// Serves until the test ends.
    fn serve(&self) {
        let listener = TcpListener::from_std(self.1.try_clone().unwrap()).unwrap();
        let server = Server::builder().add_service(PlanExecutionServiceServer::new(self.clone()));
        tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    }

    async fn run(&self, payload: Value, context: &StepContext) -> Result<Output, StepError> {
        self.serve();
        run(input(payload), context.clone(), Arc::new(closed())).await
    }
}

fn result(status: PlanStatus) -> PlanResult {
    PlanResult {
        execution_id: "e".to_owned(),
        plan_id: "p".to_owned(),
        status: status.into(),
        steps_executed: 1,
        steps_total: 2,
        error: (status != PlanStatus::Success).then(|| ExecutionError {
            error_code: "BOOM".to_owned(),
            ..ExecutionError::default()
        }),
        ..PlanResult::default()
    }
}

fn plan() -> Value {
    json!({
        "version": 1, "name": "child", "context_requirements": ["project"],
        "steps": [{ "id": "0b6a1b52-2f0e-4c0e-9d3e-5a1d6d1f7a02", "action": "echo", "payload": {} }]
    })
}

#[tokio::test]
async fn a_child_s_result_is_the_output_in_the_contract_s_spelling() {
    let service = Service::new([Ok(())], [Ok(None), Ok(Some(result(PlanStatus::Success)))]);
    let context = service.parent();
    let output = service.run(json!({ "plan": plan() }), &context).await.unwrap();
    let output = serde_json::to_value(output).unwrap();
    assert_eq!(
        (&output["status"], &output["steps_total"]),
        (&json!("success"), &json!(2))
    );
    let script = service.0.lock().unwrap();
    let sent = &script.submitted[0];
    assert_eq!(sent.parent_execution_id.as_deref(), Some(context.execution_id()));
    assert_eq!(sent.environment.as_ref(), Some(context.environment_encoded()));
    assert_eq!(script.waited, vec![sent.execution_id.clone().unwrap(); 2]);
}

#[tokio::test]
async fn an_orchestrator_that_is_away_for_a_while_is_asked_again_with_the_same_request() {
    let away = || Err(Status::unavailable("restarting"));
    let success = Ok(Some(result(PlanStatus::Success)));
    let service = Service::new([away(), Ok(())], [Err(Status::unavailable("gone")), success]);
    service
        .run(json!({ "plan": plan() }), &service.parent())
        .await
        .unwrap();
    let script = service.0.lock().unwrap();
    assert_eq!(script.submitted.len(), 2);
    assert_eq!(script.submitted[0], script.submitted[1]);
}

#[tokio::test]
async fn a_repeated_attempt_attaches_to_the_child_that_is_there() {
    for status in [
        Status::already_exists("other times"),
        Status::failed_precondition("plan id used"),
    ] {
        let service = Service::new([Err(status)], [Ok(Some(result(PlanStatus::Success)))]);
        service
            .run(json!({ "plan": plan() }), &service.parent())
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn ids_that_belong_to_somebody_else_are_refused_for_good() {
    let service = Service::new(
        [Err(Status::failed_precondition("plan id used"))],
        [Err(Status::not_found("no"))],
    );
    let error = service
        .run(json!({ "plan": plan() }), &service.parent())
        .await
        .unwrap_err();
    assert_eq!(kind(&error), "CHILD_REJECTED fatal");
    assert!(error.message().contains("plan id used"), "{error}");

    let service = Service::new([Err(Status::already_exists("taken"))], []);
    let payload = json!({ "plan": plan(), "execution_id": "0b6a1b52-2f0e-4c0e-9d3e-5a1d6d1f7a09" });
    assert_eq!(
        service.run(payload, &service.parent()).await.unwrap_err().code(),
        "CHILD_REJECTED"
    );
}

#[tokio::test]
async fn a_plan_that_breaks_a_rule_is_an_invalid_payload() {
    let service = Service::new([Err(Status::invalid_argument("no steps"))], []);
    let error = service
        .run(json!({ "plan": plan() }), &service.parent())
        .await
        .unwrap_err();
    assert_eq!(error.code(), "INVALID_PAYLOAD");
    for payload in [
        json!({}),
        json!({ "plan": { "steps": 1 } }),
        json!({ "plan": {}, "plan_file": "x" }),
    ] {
        let error = Service::default()
            .run(payload, &service.parent())
            .await
            .unwrap_err();
        assert_eq!(error.code(), "INVALID_PAYLOAD");
    }
}

#[tokio::test]
async fn a_partial_child_warns_and_a_failed_child_fails() {
    let service = Service::new([Ok(())], [Ok(Some(result(PlanStatus::Partial)))]);
    let context = service.parent();
    service.run(json!({ "plan": plan() }), &context).await.unwrap();
    assert_eq!(take_warnings(&context)[0].code(), "CHILD_PARTIAL");

    let service = Service::new([Ok(())], [Ok(Some(result(PlanStatus::Failure)))]);
    let error = service
        .run(json!({ "plan": plan() }), &service.parent())
        .await
        .unwrap_err();
    assert_eq!(kind(&error), "CHILD_FAILED");
    assert_eq!(error.diagnostics()["error"]["error_code"], "BOOM");
}

#[tokio::test]
async fn an_orchestrator_that_stays_away_ends_the_step_within_its_time() {
    // Nobody listens at the address of the context.
    let context = context_with(Duration::from_millis(300));
    let error = run(input(json!({ "plan": plan() })), context, Arc::new(closed()))
        .await
        .unwrap_err();
    assert_eq!(kind(&error), "CHILD_UNAVAILABLE");
}

#[tokio::test]
async fn files_carry_the_plan_in_and_the_result_out() {
    let (config, directory) = with_root();
    std::fs::write(directory.path().join("plan.json"), plan().to_string()).unwrap();
    let service = Service::new([Ok(())], [Ok(Some(result(PlanStatus::Success)))]);
    service.serve();
    let payload = json!({ "plan_file": "plan.json", "output_file": "out/result.json" });
    let output = serde_json::to_value(
        run(input(payload), service.parent(), Arc::new(config))
            .await
            .unwrap(),
    )
    .unwrap();
    assert_eq!(
        (&output["status"], &output["steps_executed"]),
        (&json!("success"), &json!(1))
    );
    let written = std::fs::read(directory.path().join("out/result.json")).unwrap();
    assert_eq!(
        serde_json::from_slice::<Value>(&written).unwrap()["status"],
        "success"
    );
}
