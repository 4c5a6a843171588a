//! Runs on a store in memory, with the services that triggers need. Effects of runs are not performed.

use escapement_transport::response_budget::ResponseBudget;
use std::time::Duration;

use bytes::Bytes;
use escapement_model::{Namespace, Opaque};
use escapement_runs::Config;
use escapement_runs_host::RunsHost;
use escapement_runs_shell::{Ending, Outgoing, RunsHandle, Setup, start};
use escapement_store::runs::{Definition, DefinitionChange, DefinitionKind, DefinitionPut};
use escapement_store_kit::runs::MemoryRunsDisk;
use escapement_wire::json::to_opaque;
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::create_run_request::What;
use escapement_wire::runs::v1::goal_service_server::GoalService;
use escapement_wire::runs::v1::plan_service_server::PlanService;
use escapement_wire::runs::v1::run_service_server::RunService;
use escapement_wire::runs::v1::session_service_server::SessionService;
use escapement_wire::runs::v1::trigger::Config as Kind;
use escapement_wire::runs::v1::trigger_service_server::TriggerService;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;
use tonic::{Code, Request};

use crate::run_service::Runs;
use crate::triggers::Triggers;
use crate::triggers::record::Kept;
use crate::{Goals, Plans, Sessions};

pub(super) struct World {
    pub(super) triggers: Triggers,
    pub(super) maker: Runs,
    handle: RunsHandle,
    _outgoing: UnboundedReceiver<Outgoing>,
}

impl World {
    pub(super) fn new() -> Self {
        let (outgoing, received) = unbounded_channel();
        let config = Config {
            max_live_runs: 50,
            max_runs: 1000,
        };
        let (handle, _thread) = start(Setup::new(
            MemoryRunsDisk::new().open(),
            config.clone(),
            outgoing,
            Box::new(|why: Ending<'_>| panic!("{why:?}")),
        ))
        .unwrap();
        let maker = Runs::new(handle.clone(), config, ResponseBudget::default());
        Self {
            triggers: Triggers::new(maker.clone()),
            maker,
            handle,
            _outgoing: received,
        }
    }

    /// Makes a trigger; returns its id.
    pub(super) async fn trigger(&self, config: Kind, run: What, overlap: &str) -> String {
        create(&self.triggers, config, run, overlap).await
    }

    /// How many triggers an event fires.
    pub(super) async fn publish(&self, kind: &str, id: &str) -> Result<usize, Code> {
        let request = v1::PublishEventRequest {
            r#type: kind.to_owned(),
            id: id.to_owned(),
            ..v1::PublishEventRequest::default()
        };
        let told = self.triggers.publish_event(Request::new(request)).await;
        let told = told.map_err(|status| status.code())?;
        Ok(told.into_inner().firings.len())
    }

    pub(super) async fn firings(&self, trigger_id: &str) -> Vec<v1::Firing> {
        let request = v1::ListFiringsRequest {
            trigger_id: trigger_id.to_owned(),
            ..v1::ListFiringsRequest::default()
        };
        let listed = self.triggers.list_firings(Request::new(request)).await;
        listed.unwrap().into_inner().firings
    }

    /// Waits until the trigger has a firing.
    pub(super) async fn fires(&self, trigger_id: &str) -> v1::Firing {
        let fires = async {
            loop {
                if let Some(firing) = self.firings(trigger_id).await.pop() {
                    return firing;
                }
            }
        };
        timeout(PATIENCE, fires).await.expect("it fires")
    }

    /// Saves a plan of no steps; returns its id.
    pub(super) async fn plan(&self) -> String {
        let request = v1::CreatePlanRequest {
            plan: Some(v1::Plan {
                name: "A plan".to_owned(),
                goal: "to know".to_owned(),
                ..v1::Plan::default()
            }),
            ..v1::CreatePlanRequest::default()
        };
        let plans = Plans::new(self.handle.clone());
        let made = plans.create_plan(Request::new(request)).await;
        made.unwrap().into_inner().plan.unwrap().plan_id
    }

    /// Makes a goal and reaches it.
    pub(super) async fn reaches_a_goal(&self) {
        let goals = Goals::new(self.handle.clone());
        let request = v1::CreateGoalRequest {
            goal: Some(v1::Goal {
                title: "A goal".to_owned(),
                ..v1::Goal::default()
            }),
            ..v1::CreateGoalRequest::default()
        };
        let made = goals.create_goal(Request::new(request)).await.unwrap();
        let request = v1::UpdateGoalRequest {
            goal_id: made.into_inner().goal.unwrap().goal_id,
            state: v1::goal::State::Completed.into(),
            ..v1::UpdateGoalRequest::default()
        };
        goals.update_goal(Request::new(request)).await.unwrap();
    }

    /// Makes a session in which `on` is false.
    pub(super) async fn session(&self, session_id: &str) {
        let request = v1::CreateSessionRequest {
            session_id: session_id.to_owned(),
            state: Some(object(&json!({"on": false}))),
            ..v1::CreateSessionRequest::default()
        };
        let sessions = Sessions::new(self.handle.clone());
        sessions.create_session(Request::new(request)).await.unwrap();
    }

    /// Turns a session on or off.
    pub(super) async fn turn(&self, session_id: &str, on: bool) {
        let request = v1::MergeSessionStateRequest {
            session_id: session_id.to_owned(),
            patch: Some(object(&json!({"on": on}))),
            ..v1::MergeSessionStateRequest::default()
        };
        let sessions = Sessions::new(self.handle.clone());
        sessions.merge_session_state(Request::new(request)).await.unwrap();
    }

    pub(super) async fn cancel(&self, run_id: &str) {
        let request = v1::CancelRunRequest {
            run_id: run_id.to_owned(),
            ..v1::CancelRunRequest::default()
        };
        self.maker.cancel_run(Request::new(request)).await.unwrap();
    }

    /// Writes something that nothing can read in the place of a definition.
    pub(super) async fn damage(&self, kind: DefinitionKind, name: &str, owner: Option<&str>) {
        let put = DefinitionPut {
            namespace: Namespace::default(),
            owner: owner.map(str::to_owned),
            priority: 5,
            at: 1,
            record: Bytes::from_static(b"\xff"),
            contents: Vec::new(),
            pinned: Vec::new(),
        };
        let name = name.to_owned();
        self.changes(move |host| host.define(kind, &name, DefinitionChange::Put(put)))
            .await;
    }

    pub(super) async fn changes(&self, change: impl FnOnce(&mut RunsHost) + Send + 'static) {
        let change = move |host: &mut RunsHost, _| {
            change(host);
            Ok(())
        };
        self.handle.change(0, change).await.unwrap();
    }

    pub(super) async fn definitions(&self, kind: DefinitionKind) -> Vec<Definition> {
        let read = self
            .handle
            .readers()
            .read(move |reader| reader.definitions(kind, None, None, 100));
        read.await.unwrap().definitions
    }

    /// What a trigger remembers.
    pub(super) async fn kept(&self, trigger_id: &str) -> Kept {
        self.triggers.stored(trigger_id).await.unwrap().unwrap().1
    }
}

/// Makes a trigger with these triggers; returns its id.
pub(super) async fn create(triggers: &Triggers, config: Kind, run: What, overlap: &str) -> String {
    let made = triggers.create_trigger(Request::new(creation(config, run, overlap)));
    made.await.unwrap().into_inner().trigger.unwrap().trigger_id
}

pub(super) fn creation(config: Kind, run: What, overlap: &str) -> v1::CreateTriggerRequest {
    v1::CreateTriggerRequest {
        trigger: Some(v1::Trigger {
            name: "A trigger".to_owned(),
            config: Some(config),
            run: Some(v1::CreateRunRequest {
                what: Some(run),
                autonomy_level: Some(4),
                ..v1::CreateRunRequest::default()
            }),
            overlap: overlap.to_owned(),
            ..v1::Trigger::default()
        }),
        ..v1::CreateTriggerRequest::default()
    }
}

pub(super) fn on_event(kind: &str) -> Kind {
    Kind::Event(v1::EventFilter {
        r#type: kind.to_owned(),
        ..v1::EventFilter::default()
    })
}

/// A run of these steps.
pub(super) fn steps(steps: &Value) -> What {
    let document =
        json!({"schema": "escapement.plan/1", "name": "A test", "goal": "to know", "steps": steps});
    What::Document(object(&document))
}

/// A run that is completed at once.
pub(super) fn nothing() -> What {
    steps(&json!([]))
}

/// A run that lives until it is cancelled.
pub(super) fn question() -> What {
    steps(&json!([{"key": "ask", "type": "user_input", "config": {"question": "Well?"}}]))
}

pub(super) fn object(value: &Value) -> Opaque {
    to_opaque(value.as_object().unwrap())
}

pub(super) const PATIENCE: Duration = Duration::from_secs(20);
