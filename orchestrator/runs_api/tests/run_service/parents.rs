//! Runs that name a parent execution: only a running one of their namespace, visible to the caller, lets their attempts pass others.
//! Stands in for the executor, and executes nothing.

use escapement_transport::response_budget::ResponseBudget;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::fake::{FakeContract, Submission, never};
use crate::world::{Client, call, reason, run_of, violations};
use escapement_access::{Grant, NamespaceScope, Principal, PrincipalKind, Role};
use escapement_model::Namespace;
use escapement_runs::Config;
use escapement_runs_api::Runs;
use escapement_runs_shell::{EffectsConfig, Ending, PortRefusal, RunsThread, Setup, perform, start};
use escapement_store_kit::runs::{MemoryRuns, MemoryRunsDisk};
use escapement_wire::runs::v1::run_service_client::RunServiceClient;
use escapement_wire::runs::v1::run_service_server::RunServiceServer;
use escapement_wire::runs::v1::{self, ForkRunRequest, PreviewRunRequest};
use escapement_wire::v1::Execution;
use escapement_wire::v1::execution::State;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tonic::{Code, Request};

const RUNNING: &str = "11111111-1111-4111-8111-111111111111";
const QUEUED: &str = "22222222-2222-4222-8222-222222222222";
const SETTLED: &str = "33333333-3333-4333-8333-333333333333";
const ELSEWHERE: &str = "44444444-4444-4444-8444-444444444444";
const INVENTED: &str = "55555555-5555-4555-8555-555555555555";

/// Limit of concurrent attempts, and of concurrent nested ones.
const ATTEMPTS_MAX: usize = 3;

struct World {
    client: Client,
    contract: FakeContract,
    submitted: mpsc::UnboundedReceiver<Submission>,
    /// Answers to the attempts that exhaust the limit.
    others: Vec<oneshot::Sender<PortRefusal>>,
    _thread: RunsThread<MemoryRuns>,
}

impl World {
    /// Creates a world whose limit is exhausted by other attempts.
    async fn full() -> Self {
        let (outgoing, received) = mpsc::unbounded_channel();
        let config = Config {
            max_live_runs: 50,
            max_runs: 1000,
        };
        let (handle, thread) = start(Setup::new(
            MemoryRunsDisk::new().open(),
            config.clone(),
            outgoing,
            Box::new(|why: Ending<'_>| panic!("{why:?}")),
        ))
        .unwrap();
        let (contract, submitted) = FakeContract::new();
        let effects = EffectsConfig {
            max_executions: ATTEMPTS_MAX,
            waiting_bytes: 0,
        };
        perform(contract.clone(), &handle, effects, received, &Handle::current());
        for action in ["a.other", "a.note", "a.nested", "a.forked"] {
            handle.seen().add(action);
        }
        let service = Runs::new(handle, config, ResponseBudget::default());
        let mut world = Self {
            client: RunServiceClient::new(RunServiceServer::new(service)),
            contract,
            submitted,
            others: Vec::new(),
            _thread: thread,
        };
        for (id, state, namespace) in [
            (RUNNING, State::Running, "default"),
            (QUEUED, State::Queued, "default"),
            (SETTLED, State::Settled, "default"),
            (ELSEWHERE, State::Running, "elsewhere"),
        ] {
            world.knows(id, state, namespace);
        }
        for _ in 0..ATTEMPTS_MAX {
            world.create("a.other", "").await;
            let answer = world.next("a.other").await;
            world.others.push(answer);
        }
        world
    }

    fn knows(&self, id: &'static str, state: State, namespace: &str) {
        let execution = Execution {
            execution_id: id.to_owned(),
            state: state.into(),
            namespace: namespace.to_owned(),
            ..Execution::default()
        };
        self.contract.know(execution);
    }

    /// Makes a run of one call, and returns its id.
    async fn create(&mut self, action: &str, parent: &str) -> String {
        let made = self.client.create_run(run_in(action, parent)).await;
        made.unwrap().into_inner().run.unwrap().run_id
    }

    /// Waits for the next submission, which is of that action.
    async fn next(&mut self, action: &str) -> oneshot::Sender<PortRefusal> {
        let next = timeout(Duration::from_secs(30), self.submitted.recv()).await;
        let (submitted, answer) = next.expect("something is submitted").unwrap();
        assert_eq!(submitted, action);
        answer
    }

    /// Ends an attempt, so that what waits has its turn.
    fn end_another(&mut self) {
        self.others.pop().unwrap().send(never()).unwrap();
    }
}

fn run_in(action: &str, parent: &str) -> v1::CreateRunRequest {
    v1::CreateRunRequest {
        parent_execution_id: parent.to_owned(),
        ..run_of(json!([call("a", action, &[])]))
    }
}

/// Creates a request of a caller that submits plans to that namespace only.
fn by_stranger_of<T>(namespace: &str, request: T) -> Request<T> {
    let namespace = Namespace::parse(namespace).unwrap();
    let namespaces = NamespaceScope::Named(BTreeSet::from([namespace]));
    let roles = [Role::Submitter].into_iter().collect();
    let principal = Principal {
        name: "stranger".into(),
        kind: PrincipalKind::Token,
        issuer: "".into(),
        valid_until_ms: None,
        grants: vec![Grant::new(roles, namespaces)],
    };
    let mut request = Request::new(request);
    request.extensions_mut().insert(Arc::new(principal));
    request
}

// RUN-9.8
#[tokio::test(flavor = "multi_thread")]
async fn only_a_parent_that_runs_lets_a_run_pass_others() {
    let mut world = World::full().await;
    for parent in [INVENTED, QUEUED, SETTLED] {
        world.create("a.note", parent).await;
    }
    world.create("a.nested", &RUNNING.to_uppercase()).await;
    let _open = world.next("a.nested").await;
    world.end_another();
    for _ in [INVENTED, QUEUED, SETTLED] {
        let answer = world.next("a.note").await;
        answer.send(never()).unwrap();
    }
}

// RUN-9.8
#[tokio::test(flavor = "multi_thread")]
async fn a_visible_parent_of_another_namespace_is_never() {
    let mut world = World::full().await;
    let refused = world
        .client
        .create_run(run_in("a.note", ELSEWHERE))
        .await
        .unwrap_err();
    let expected = [("parent_execution_id".to_owned(), "INVALID_ARGUMENT".to_owned())];
    assert_eq!(violations(&refused), expected);
    assert!(
        refused.message().contains("is of another namespace"),
        "{refused:?}"
    );
    let preview = PreviewRunRequest {
        run: Some(run_in("a.note", ELSEWHERE)),
    };
    let refused = world.client.preview_run(preview).await.unwrap_err();
    assert_eq!(violations(&refused), expected);

    let note = by_stranger_of("default", run_in("a.note", ELSEWHERE));
    world.client.create_run(note).await.unwrap();
    world.create("a.nested", RUNNING).await;
    let _open = world.next("a.nested").await;
}

// RUN-9.8
#[tokio::test(flavor = "multi_thread")]
async fn an_invisible_parent_of_another_namespace_is_a_note() {
    let mut world = World::full().await;
    let asked = v1::CreateRunRequest {
        namespace: "elsewhere".to_owned(),
        ..run_in("a.note", RUNNING)
    };
    let note = by_stranger_of("elsewhere", asked);
    world.client.create_run(note).await.unwrap();
    let asked = v1::CreateRunRequest {
        namespace: "elsewhere".to_owned(),
        ..run_in("a.nested", ELSEWHERE)
    };
    let nested = by_stranger_of("elsewhere", asked);
    world.client.create_run(nested).await.unwrap();
    let _open = world.next("a.nested").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_request_gets_the_same_answer_after_its_parent_has_changed() {
    let mut world = World::full().await;
    let request = v1::CreateRunRequest {
        request_id: "the same".to_owned(),
        ..run_in("a.note", INVENTED)
    };
    let made = world
        .client
        .create_run(request.clone())
        .await
        .unwrap()
        .into_inner();
    world.knows(INVENTED, State::Running, "elsewhere");
    let again = world
        .client
        .create_run(request.clone())
        .await
        .unwrap()
        .into_inner();
    assert_eq!(made.run.unwrap().run_id, again.run.unwrap().run_id);
    let other = v1::CreateRunRequest {
        priority: Some(9),
        ..request
    };
    let other = world.client.create_run(other).await.unwrap_err();
    assert_eq!(
        (other.code(), reason(&other).as_str()),
        (Code::AlreadyExists, "REQUEST_ID_REUSED")
    );
}

// RUN-9.8
#[tokio::test(flavor = "multi_thread")]
async fn a_fork_passes_others_only_while_its_parent_runs() {
    let mut world = World::full().await;
    let run_id = world.create("a.forked", RUNNING).await;
    let answer = world.next("a.forked").await;
    answer.send(never()).unwrap();
    let wait = v1::WaitRunRequest {
        run_id: run_id.clone(),
        timeout_ms: Some(30_000),
    };
    world.client.wait_run(wait).await.unwrap();
    let fork = ForkRunRequest {
        run_id,
        allow_repeat_effects: true,
        ..ForkRunRequest::default()
    };
    world.client.fork_run(fork.clone()).await.unwrap();
    let answer = world.next("a.forked").await;
    answer.send(never()).unwrap();

    world.knows(RUNNING, State::Settled, "default");
    world.client.fork_run(fork).await.unwrap();
    world.knows(QUEUED, State::Running, "default");
    world.create("a.nested", QUEUED).await;
    let _open = world.next("a.nested").await;
    world.end_another();
    world.next("a.forked").await;
}
