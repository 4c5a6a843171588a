//! Which actions there are, who offers them, and what becomes of a step whose action nobody offers.

use crate::plans::{RequestWords, plan, request, step};
use crate::world::{LIMIT, World};
use escapement_tests::{ChildProcess, PrivateDirectory, ScriptedWorker, checkout, tool, wait_for};
use escapement_wire::v1::action_traits::{Effect, Risk};
use escapement_wire::v1::worker::State;
use escapement_wire::v1::{Action, ActionTraits, ListActionsRequest, ListWorkersRequest, Worker};
use escapement_wire::worker::v1::ActionSpec;
use serde_json::{Value, json};
use std::process::Command;

async fn workers(world: &World) -> Vec<Worker> {
    world
        .orchestrator
        .fleet()
        .list_workers(ListWorkersRequest {})
        .await
        .unwrap()
        .into_inner()
        .workers
}

async fn actions(world: &World) -> Vec<Action> {
    world
        .orchestrator
        .fleet()
        .list_actions(ListActionsRequest {})
        .await
        .unwrap()
        .into_inner()
        .actions
}

#[tokio::test]
async fn operators_see_workers_and_their_actions_while_they_work() {
    let world = World::start().await;
    assert_eq!((workers(&world).await, actions(&world).await), (vec![], vec![]));
    let traits = ActionTraits {
        effect: Effect::World.into(),
        risk: Risk::Safe.into(),
        produces: vec!["image".to_owned()],
        ..ActionTraits::default()
    };
    let specs = vec![
        ActionSpec {
            name: "b.work".to_owned(),
            description: "Works.".to_owned(),
            input_schema: r#"{"type":"object"}"#.to_owned(),
            max_in_flight: 2,
            traits: Some(Box::new(traits.clone())),
            ..ActionSpec::default()
        },
        ActionSpec {
            name: "a.work".to_owned(),
            ..ActionSpec::default()
        },
    ];
    let mut worker = ScriptedWorker::connect_with(&world.orchestrator, specs, 3).await;
    world
        .submit(&request(plan([step(0, "b.work"), step(1, "b.work"), step(2, "b.work")])).concurrent(3))
        .await;
    let first = worker.started().await;
    worker.started().await;
    assert_eq!(
        worker.n_assignments_sent().await,
        0,
        "the action's own limit is 2"
    );

    let [shown]: [Worker; 1] = workers(&world).await.try_into().unwrap();
    assert_eq!(
        (shown.worker_id.as_str(), shown.build.as_str()),
        ("scripted", "scripted/1")
    );
    assert_eq!(
        (shown.state(), shown.max_in_flight, shown.in_flight),
        (State::Active, 3, 2)
    );
    assert_eq!(shown.actions, ["a.work", "b.work"]);
    assert_eq!(shown.labels["kind"], "scripted");
    assert!(
        shown.session_age_ms >= 0 && shown.heartbeat_age_ms >= 0,
        "{shown:?}"
    );
    assert!(!shown.session_id.is_empty() && !shown.instance_id.is_empty());

    let [a, b]: [Action; 2] = actions(&world).await.try_into().unwrap();
    assert_eq!(
        (a.name.as_str(), a.workers, a.free_slots, a.in_flight, a.waiting),
        ("a.work", 1, 1, 0, 0)
    );
    assert_eq!(
        (b.name.as_str(), b.workers, b.free_slots, b.in_flight, b.waiting),
        ("b.work", 1, 0, 2, 1)
    );
    assert_eq!(
        (b.description.as_str(), b.input_schema.as_str()),
        ("Works.", r#"{"type":"object"}"#)
    );
    assert_eq!((&a.traits, &b.traits), (&None, &Some(traits)));

    worker.succeed(&first, json!({})).await;
    worker.started().await;
    let b = &actions(&world).await[1];
    assert_eq!((b.in_flight, b.waiting), (2, 0));
}

#[tokio::test]
async fn a_stock_worker_shows_its_actions_with_their_schemas() {
    let world = World::start().await;
    let worker = world.stock_worker("stock", |settings| settings).await;
    let [shown]: [Worker; 1] = workers(&world).await.try_into().unwrap();
    assert_eq!(
        (shown.worker_id.as_str(), shown.state()),
        ("stock", State::Active)
    );
    for action in ["delay", "echo", "execute_plan", "fail"] {
        assert!(shown.actions.iter().any(|name| name == action), "{shown:?}");
    }
    for action in actions(&world).await {
        assert!(!action.description.is_empty(), "{action:?}");
        serde_json::from_str::<serde_json::Value>(&action.input_schema).unwrap();
        // The most careful words are as good as none.
        let traits = action.traits.unwrap_or_default();
        let expected = match action.name.as_str() {
            "delay" | "echo" | "fail" | "json.filter" | "template.fill" => (Effect::Pure, Risk::Safe),
            "file.read" | "file.stat" => (Effect::World, Risk::Safe),
            _ => (Effect::SideEffect, Risk::Unusual),
        };
        assert_eq!((traits.effect(), traits.risk()), expected, "{}", action.name);
    }
    worker.stop().await.unwrap();
    let gone = async || workers(&world).await.is_empty().then_some(());
    wait_for("the worker to be gone", LIMIT, gone).await.unwrap();
}

/// A worker with one handler of its own, as the page of the worker in Python says.
const GREETER: &str = r#"
import sys
from escapement_worker import Worker, log_to_stderr

def greet(payload, attempt):
    """Greets somebody."""
    return {"text": f"Hello, {payload['name']}!"}

greet.traits = {"effect": "world", "risk": "safe", "idempotent": True, "output_schema": '{"type": "object"}',
                "produces": ["text"], "alternatives": ["echo"]}
greet.input_schema = {"type": "object", "required": ["name"]}

log_to_stderr()
sys.exit(Worker(sys.argv[1], {"greet": greet}).run() or 0)
"#;

#[tokio::test]
async fn a_worker_in_python_says_what_its_actions_are_like_and_what_they_take() {
    let Some(python) = tool("python/bin/python", "`cargo verify` installs it") else {
        return;
    };
    let world = World::start().await;
    let directory = PrivateDirectory::new("python").unwrap();
    let mut command = Command::new(python);
    command
        .args(["-c", GREETER, &world.orchestrator.url()])
        .env("PYTHONPATH", checkout::root().join("worker/python"))
        .env("XDG_CACHE_HOME", directory.path())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env_remove("ESCAPEMENT_PROTO_DIR");
    let worker = ChildProcess::start("python", &mut command, &directory.join("stderr")).unwrap();
    let offered = async || {
        let mut actions = actions(&world).await.into_iter();
        actions.find(|action| action.name == "greet")
    };
    let Ok(greet) = wait_for("the action", LIMIT, offered).await else {
        panic!("{}", worker.stderr());
    };
    assert_eq!(greet.description, "Greets somebody.");
    let schema: Value = serde_json::from_str(&greet.input_schema).unwrap();
    assert_eq!(schema, json!({"type": "object", "required": ["name"]}));
    let traits = ActionTraits {
        effect: Effect::World.into(),
        risk: Risk::Safe.into(),
        idempotent: true,
        output_schema: r#"{"type": "object"}"#.to_owned(),
        produces: vec!["text".to_owned()],
        alternatives: vec!["echo".to_owned()],
        ..ActionTraits::default()
    };
    assert_eq!(greet.traits, Some(traits));
}
