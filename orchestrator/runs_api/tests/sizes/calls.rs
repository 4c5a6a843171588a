//! The services over runs on a store in memory, called with messages as bytes.

use escapement_transport::response_budget::ResponseBudget;
use std::sync::Arc;

use bytes::Bytes;
use escapement_access::Principal;
use escapement_runs::Config;
use escapement_runs_api::{Actions, Artifacts, Goals, Inbox, Plans, Runs, Sessions, Triggers};
use escapement_runs_shell::{Ending, Outgoing, RunsHandle, RunsThread, Setup, start};
use escapement_store_kit::runs::{MemoryRuns, MemoryRunsDisk};
use escapement_wire::runs::v1::action_service_server::ActionServiceServer;
use escapement_wire::runs::v1::artifact_service_server::ArtifactServiceServer;
use escapement_wire::runs::v1::goal_service_server::GoalServiceServer;
use escapement_wire::runs::v1::inbox_service_server::InboxServiceServer;
use escapement_wire::runs::v1::plan_service_server::PlanServiceServer;
use escapement_wire::runs::v1::run_service_server::RunServiceServer;
use escapement_wire::runs::v1::session_service_server::SessionServiceServer;
use escapement_wire::runs::v1::trigger_service_server::TriggerServiceServer;
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MethodDescriptor};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::tokio_stream::iter;
use tonic::{Code, Request, Status};
use tonic_types::StatusExt;

use crate::raw_codec::RawCodec;

/// The services, and what is there to be asked about.
pub(crate) struct World {
    disk: MemoryRunsDisk,
    handle: RunsHandle,
    thread: Option<RunsThread<MemoryRuns>>,
    _outgoing: UnboundedReceiver<Outgoing>,
    /// Ids that requests may name, each with its word.
    pub(crate) known: Vec<(&'static str, String)>,
    n_calls: usize,
    /// Caller of the next requests; `None` without a policy.
    pub(crate) principal: Option<Arc<Principal>>,
}

/// An answer to a call.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) code: Code,
    pub(crate) reason: String,
    pub(crate) fields: Vec<String>,
    message: String,
    answer: Bytes,
}

impl World {
    pub(crate) async fn new() -> Self {
        let disk = MemoryRunsDisk::new();
        let store = disk.open();
        let mut world = Self::over(disk, store);
        let run = json!({"document": document(), "user_id": "ada", "autonomy_level": 1});
        for word in ["RUN", "OTHER_RUN"] {
            let made = world.ask("RunService", "CreateRun", run.clone()).await;
            world.know(word, &made["run"]["run_id"]);
        }
        let waiting = world.known[0].1.clone();
        let cancel = json!({"run_id": world.known[1].1});
        world.ask("RunService", "CancelRun", cancel).await;
        // The run is admitted and asks for an approval of its plan.
        let asked = world
            .ask("InboxService", "ListInputRequests", json!({"run_id": waiting}))
            .await;
        world.know("REQUEST", &asked["input_requests"][0]["input_request_id"]);
        world.know("DIGEST", &asked["input_requests"][0]["subject_digest"]);
        let plan = json!({"plan": {"name": "Saved", "goal": "to know"}, "document": document()});
        let plan = world.ask("PlanService", "CreatePlan", plan).await;
        world.know("PLAN", &plan["plan"]["plan_id"]);
        world.know("REVISION", &plan["plan"]["revision_digest"]);
        let goal = world
            .ask("GoalService", "CreateGoal", json!({"goal": {"title": "A goal"}}))
            .await;
        world.know("GOAL", &goal["goal"]["goal_id"]);
        let trigger = json!({"trigger": trigger()});
        let trigger = world.ask("TriggerService", "CreateTrigger", trigger).await;
        world.know("TRIGGER", &trigger["trigger"]["trigger_id"]);
        for overlap in ["allow", "queue"] {
            let trigger = json!({"name": overlap, "overlap": overlap, "event": {"type": "happened"},
                "run": {"document": document()}});
            world
                .ask("TriggerService", "CreateTrigger", json!({"trigger": trigger}))
                .await;
        }
        world
            .ask(
                "SessionService",
                "CreateSession",
                json!({"session_id": "shared", "user_id": "ada"}),
            )
            .await;
        world
    }

    fn know(&mut self, word: &'static str, value: &Value) {
        let text = value.as_str().unwrap_or_else(|| panic!("{word}: {value}"));
        self.known.push((word, text.to_owned()));
    }

    fn over(disk: MemoryRunsDisk, store: MemoryRuns) -> Self {
        let (outgoing, received) = unbounded_channel();
        let config = Config {
            max_live_runs: 100_000,
            max_runs: 100_000,
        };
        let (handle, thread) = start(Setup::new(
            store,
            config,
            outgoing,
            Box::new(|why: Ending<'_>| panic!("the thread of runs has ended: {why:?}")),
        ))
        .unwrap();
        Self {
            disk,
            handle,
            thread: Some(thread),
            _outgoing: received,
            known: Vec::new(),
            n_calls: 0,
            principal: None,
        }
    }

    /// Returns an answer in JSON.
    async fn ask(&mut self, service: &str, method: &str, request: Value) -> Value {
        let pool = DescriptorPool::decode(escapement_wire::DESCRIPTORS).unwrap();
        let service = pool
            .get_service_by_name(&format!("escapement.runs.v1.{service}"))
            .unwrap();
        let method = service.methods().find(|it| it.name() == method).unwrap();
        let request = DynamicMessage::deserialize(method.input(), request).unwrap();
        let told = self.call(&method, &request).await;
        assert_eq!(told.code, Code::Ok, "{}: {told:?}", method.name());
        let answer = DynamicMessage::decode(method.output(), told.answer).unwrap();
        serde_json::to_value(&answer).unwrap()
    }

    pub(crate) async fn call(&mut self, method: &MethodDescriptor, request: &DynamicMessage) -> Told {
        self.n_calls += 1;
        let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
        let path = PathAndQuery::try_from(path).unwrap();
        let request = Bytes::from(request.encode_to_vec());
        let (runs, answers) = (self.handle.clone(), ResponseBudget::default());
        let config = Config {
            max_live_runs: 100_000,
            max_runs: 100_000,
        };
        macro_rules! of {
            ($server:expr) => {{
                let server = $server.max_decoding_message_size(BYTES_MAX);
                let mut client = Grpc::new(server).max_decoding_message_size(BYTES_MAX);
                client.ready().await.unwrap();
                match (method.is_client_streaming(), method.is_server_streaming()) {
                    (false, false) => {
                        let mut request = Request::new(request);
                        if let Some(principal) = &self.principal {
                            request.extensions_mut().insert(Arc::clone(principal));
                        }
                        client.unary(request, path, RawCodec).await
                    }
                    (true, _) => {
                        let parts = Request::new(iter([request, data_of_upload()]));
                        client.client_streaming(parts, path, RawCodec).await
                    }
                    // The stream may never end, so its messages are not read.
                    (false, true) => {
                        let opened = client
                            .server_streaming(Request::new(request), path, RawCodec)
                            .await;
                        opened.map(|stream| stream.map(|_| Bytes::new()))
                    }
                }
            }};
        }
        let answered = match method.parent_service().name() {
            "RunService" => of!(RunServiceServer::new(Runs::new(runs, config, answers))),
            "PlanService" => of!(PlanServiceServer::new(Plans::new(runs))),
            "InboxService" => of!(InboxServiceServer::new(Inbox::new(runs, answers))),
            "ActionService" => of!(ActionServiceServer::new(Actions::new(runs))),
            "ArtifactService" => of!(ArtifactServiceServer::new(Artifacts::new(runs, answers))),
            "GoalService" => of!(GoalServiceServer::new(Goals::new(runs))),
            "SessionService" => of!(SessionServiceServer::new(Sessions::new(runs))),
            "TriggerService" => of!(TriggerServiceServer::new(Triggers::new(Runs::new(
                runs, config, answers
            )))),
            other => panic!("{other} is served by nobody here"),
        };
        match answered {
            Ok(answer) => Told {
                code: Code::Ok,
                reason: String::new(),
                fields: Vec::new(),
                message: String::new(),
                answer: answer.into_inner(),
            },
            Err(status) => Told::of(&status),
        }
    }

    /// Checks that the thread of runs takes another run, and that the next process does so with the durable
    /// state.
    pub(crate) async fn goes_on_after_a_kill(mut self, method: &str) {
        self.principal = None;
        let run = json!({"document": document()});
        self.ask("RunService", "CreateRun", run.clone()).await;
        let store = self.disk.crash();
        self.handle.stop();
        // Its store is dead, so its end may be a panic.
        let _store = self.thread.take().map(RunsThread::join);
        let mut next = Self::over(self.disk, store);
        next.ask("RunService", "CreateRun", run).await;
        let listed = next.ask("RunService", "ListRuns", json!({"page_size": 1})).await;
        assert!(listed["runs"].is_array(), "{method}: {listed}");
        next.handle.stop();
        assert!(next.thread.take().unwrap().join().is_ok(), "{method}");
    }
}

impl Told {
    fn of(status: &Status) -> Self {
        let details = status.get_error_details();
        let fields = details.bad_request().map(|bad| {
            let violations = bad.field_violations.iter();
            violations.map(|violation| violation.field.clone()).collect()
        });
        Self {
            code: status.code(),
            reason: details
                .error_info()
                .map(|info| info.reason.clone())
                .unwrap_or_default(),
            fields: fields.unwrap_or_default(),
            message: status.message().chars().take(200).collect(),
            answer: Bytes::new(),
        }
    }

    /// Checks that the call was done, or refused for its content with the name of what is invalid.
    pub(crate) fn is_an_answer(&self, method: &str, field: &str) {
        match self.code {
            Code::Ok
            | Code::NotFound
            | Code::AlreadyExists
            | Code::FailedPrecondition
            | Code::Aborted
            | Code::PermissionDenied => {}
            // A reason of its own says what is invalid.
            Code::InvalidArgument => {
                let is_named = !["", "INVALID_ARGUMENT", "REQUEST_TOO_LARGE"].contains(&self.reason.as_str());
                assert!(is_named || !self.fields.is_empty(), "{method}, {field}: {self:?}");
            }
            _ => panic!("{method}, {field}: {:?}: {}", self.code, self.message),
        }
    }
}

/// Returns the part of an upload that follows its header.
fn data_of_upload() -> Bytes {
    let data = b"a note for the run";
    let mut part = vec![0x12, data.len() as u8];
    part.extend_from_slice(data);
    part.into()
}

pub(crate) fn document() -> Value {
    json!({"schema": "escapement.plan/1", "name": "A test", "goal": "to know",
        "steps": [{"key": "a", "type": "tool_call", "config": {"tool_name": "x.do", "tool_args": {}}}]})
}

pub(crate) fn trigger() -> Value {
    json!({"name": "Nightly", "schedule": {"cron": "0 3 * * *"}, "run": {"document": document()}})
}

/// Bytes of a message, as the transport of the server has it.
const BYTES_MAX: usize = 24 << 20;
