//! The services over runs on a store in memory. Effects of runs are not performed.

use escapement_transport::response_budget::ResponseBudget;
use std::sync::Arc;

use escapement_model::{Opaque, RunId};
use escapement_run::presets::Preset;
use escapement_run::spec::{Policy, Spec};
use escapement_runs::{Config, NewRun};
use escapement_runs_api::{Actions, Inbox, Plans};
use escapement_runs_host::Create;
use escapement_runs_shell::saved::find_plan;
use escapement_runs_shell::{CallError, Ending, Outgoing, RunsHandle, RunsThread, Setup, WantedPlan, start};
use escapement_store_kit::runs::{MemoryRuns, MemoryRunsDisk};
use escapement_wire::json::to_opaque;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tonic::{Code, Status};
use tonic_types::StatusExt;

pub(crate) struct World {
    pub(crate) plans: Plans,
    pub(crate) inbox: Inbox,
    pub(crate) actions: Actions,
    pub(crate) runs: RunsHandle,
    pub(crate) disk: MemoryRunsDisk,
    thread: RunsThread<MemoryRuns>,
    _outgoing: UnboundedReceiver<Outgoing>,
}

impl World {
    pub(crate) fn new() -> Self {
        let disk = MemoryRunsDisk::new();
        let store = disk.open();
        Self::over(disk, store)
    }

    fn over(disk: MemoryRunsDisk, store: MemoryRuns) -> Self {
        let (outgoing, received) = unbounded_channel();
        let (runs, thread) = start(Setup::new(
            store,
            Config {
                max_live_runs: 100,
                max_runs: 1000,
            },
            outgoing,
            Box::new(|why: Ending<'_>| panic!("{why:?}")),
        ))
        .unwrap();
        Self {
            plans: Plans::new(runs.clone()),
            inbox: Inbox::new(runs.clone(), ResponseBudget::default()),
            actions: Actions::new(runs.clone()),
            runs,
            disk,
            thread,
            _outgoing: received,
        }
    }

    /// What is not durable is lost.
    pub(crate) fn killed(self) -> Self {
        let store = self.disk.crash();
        self.runs.stop();
        // Its store is dead, so its end may be a panic.
        let _store = self.thread.join();
        Self::over(self.disk, store)
    }

    /// Makes a run of the newest revision of a saved plan.
    pub(crate) async fn run_of(&self, plan_id: &str, n: u8, policy: Policy) -> Result<RunId, CallError> {
        self.run_in("", plan_id, n, policy).await
    }

    /// As [`World::run_of`], in this namespace; empty for the default one.
    pub(crate) async fn run_in(
        &self,
        namespace: &str,
        plan_id: &str,
        n: u8,
        policy: Policy,
    ) -> Result<RunId, CallError> {
        let wanted = WantedPlan {
            namespace: escapement_model::Namespace::default(),
            user_id: String::new(),
            plan_id: Some(plan_id.to_owned()),
            revision_digest: None,
            own_actions: vec!["llm.chat".to_owned()],
        };
        let plan = self
            .runs
            .readers()
            .read(move |reader| Ok(find_plan(reader, &wanted)));
        let plan = plan.await.unwrap().unwrap();
        let create = Create {
            run: NewRun {
                run_id: id(n),
                spec: Spec {
                    limits: Preset::Standard.limits(1),
                    policy,
                    autonomy_level: 1,
                    priority: 5,
                    user_id: "ada".to_owned(),
                    llm_action: "llm.chat".to_owned(),
                    namespace: namespace.to_owned(),
                    ..Spec::default()
                },
                plan: Arc::clone(&plan),
                profiles: Vec::new(),
            },
            request: None,
            saved_plan: Some(plan_id.to_owned()),
        };
        self.runs.create(create).await.map(|created| created.run_id)
    }
}

pub(crate) fn id(n: u8) -> RunId {
    RunId::from_random([n; 16])
}

/// An object in JSON.
pub(crate) fn object(value: &Value) -> Opaque {
    to_opaque(value.as_object().unwrap())
}

/// Code, reason and the fields that are named, in their order.
pub(crate) fn told(status: &Status) -> (Code, String, Vec<String>) {
    let details = status.get_error_details();
    let reason = details
        .error_info()
        .map(|info| info.reason.clone())
        .unwrap_or_default();
    let fields = details.bad_request().map(|bad| {
        let violations = bad.field_violations.iter();
        violations.map(|violation| violation.field.clone()).collect()
    });
    (status.code(), reason, fields.unwrap_or_default())
}
