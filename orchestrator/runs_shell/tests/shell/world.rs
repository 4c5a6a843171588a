//! A thread of runs on a store in memory, and a test that does what leaves it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use escapement_model::opaque::{ListBuilder, StructBuilder};
use escapement_model::{Opaque, RunId};
use escapement_run::journal::OutcomeClass;
use escapement_run::outcome::{AttemptOutcome, value_of_object};
use escapement_run::plan;
use escapement_run::presets::Preset;
use escapement_run::spec::{ActionProfile, EffectClass, Risk, Spec};
use escapement_run::{Input, ShownState};
use escapement_runs::{Config, NewRun};
use escapement_runs_host::Create;
use escapement_runs_shell::{Attempt, Ending, Outgoing, Returned, RunsHandle, RunsThread, Setup, start};
use escapement_store::StoreFault;
use escapement_store::runs::{
    BatchOutcome, ClientRequest, DefinitionOutcome, DefinitionWrite, RunBatch, RunReader, RunRemoval,
    RunRemoved, RunStore, RunsRemoved,
};
use escapement_store_kit::runs::{MemoryRuns, MemoryRunsDisk};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;

pub(crate) struct World {
    pub(crate) disk: MemoryRunsDisk,
    /// Runs whose rows are damaged as far as writes build on them.
    pub(crate) damaged: Damaged,
    pub(crate) handle: RunsHandle,
    pub(crate) outgoing: UnboundedReceiver<Outgoing>,
    thread: RunsThread<Damageable>,
}

pub(crate) type Damaged = Arc<Mutex<BTreeSet<RunId>>>;

/// A store that finds the runs damaged that a test names.
pub(crate) struct Damageable {
    store: MemoryRuns,
    damaged: Damaged,
}

impl RunStore for Damageable {
    fn commit(&mut self, batch: &RunBatch) -> Result<BatchOutcome, StoreFault> {
        let damaged = self.damaged.lock().unwrap();
        match batch.writes().iter().any(|write| damaged.contains(&write.run_id)) {
            true => Err(StoreFault::CorruptRun {
                number: 1,
                part: "journal",
            }),
            false => self.store.commit(batch),
        }
    }

    fn remove_ended(&mut self, policy: &RunRemoval, now_unix_ms: i64) -> Result<RunsRemoved, StoreFault> {
        self.store.remove_ended(policy, now_unix_ms)
    }

    fn remove_run(&mut self, id: RunId, now_unix_ms: i64) -> Result<RunRemoved, StoreFault> {
        self.store.remove_run(id, now_unix_ms)
    }

    fn discard_run(&mut self, id: RunId, state: u8, now_unix_ms: i64) -> Result<RunRemoved, StoreFault> {
        self.store.discard_run(id, state, now_unix_ms)
    }

    fn define(&mut self, write: &DefinitionWrite) -> Result<DefinitionOutcome, StoreFault> {
        self.store.define(write)
    }

    fn reader(&self) -> Result<Box<dyn RunReader>, StoreFault> {
        self.store.reader()
    }
}

impl World {
    pub(crate) fn new() -> Self {
        let disk = MemoryRunsDisk::new();
        let store = disk.open();
        Self::over(disk, store)
    }

    fn over(disk: MemoryRunsDisk, store: MemoryRuns) -> Self {
        let (outgoing, received) = unbounded_channel();
        let damaged = Damaged::default();
        let store = Damageable {
            store,
            damaged: Arc::clone(&damaged),
        };
        let (handle, thread) = start(Setup::new(
            store,
            Config {
                max_live_runs: 10,
                max_runs: 100,
            },
            outgoing,
            Box::new(|why: Ending<'_>| panic!("{why:?}")),
        ))
        .unwrap();
        Self {
            disk,
            damaged,
            handle,
            outgoing: received,
            thread,
        }
    }

    /// What is not durable is lost; the next start takes up the rest.
    pub(crate) fn killed(self) -> Self {
        let store = self.disk.crash();
        self.handle.stop();
        // Its store is dead, so its end may be a panic.
        let _store = self.thread.join();
        Self::over(self.disk, store)
    }

    /// What leaves next.
    pub(crate) async fn next(&mut self) -> Outgoing {
        let next = timeout(PATIENCE, self.outgoing.recv()).await;
        next.expect("something leaves").unwrap()
    }

    /// Returns the attempt that is submitted next.
    pub(crate) async fn next_submission(&mut self) -> Outgoing {
        let next = self.next().await;
        assert!(matches!(next, Outgoing::Submit(_)), "{next:?}");
        next
    }

    /// Settles the attempt that is submitted next, and returns its action.
    pub(crate) async fn settle_next(&mut self) -> String {
        self.settle_next_with(&Opaque::default()).await
    }

    pub(crate) async fn settle_next_with(&mut self, output: &Opaque) -> String {
        let attempt = self.next_submission().await;
        self.settle(attempt, output)
    }

    /// Settles an attempt, and returns its action.
    pub(crate) fn settle(&self, attempt: Outgoing, output: &Opaque) -> String {
        let Outgoing::Submit(Attempt {
            run_id,
            execution_id,
            request,
            ..
        }) = attempt
        else {
            panic!("{attempt:?}");
        };
        let outcome = AttemptOutcome {
            class: OutcomeClass::Completed,
            output: Some(value_of_object(output)),
            code: String::new(),
            message: String::new(),
            pause: false,
            ..AttemptOutcome::default()
        };
        let input = Input::Settled {
            execution_id,
            outcome,
        };
        self.handle.returned(Returned::Input(run_id, input));
        action_of(&request)
    }

    /// Waits until the run has this end.
    pub(crate) async fn ended(&self, run_id: RunId, expected: ShownState) {
        let mut follow = self.handle.follow(run_id);
        loop {
            let look = self
                .handle
                .look(run_id, |run, _| (run.shown(), run.state().stage().is_end()));
            let (shown, is_end) = look.await.unwrap();
            if is_end {
                assert_eq!(shown, expected);
                return;
            }
            timeout(PATIENCE, follow.moved())
                .await
                .expect("it goes on")
                .unwrap();
        }
    }
}

/// The actions of the tests begin with `x.` and have one letter.
fn action_of(request: &[u8]) -> String {
    let at = request.windows(2).position(|pair| pair == b"x.").unwrap();
    String::from_utf8(request[at..at + 3].to_vec()).unwrap()
}

pub(crate) fn id(n: u8) -> RunId {
    RunId::from_random([n; 16])
}

pub(crate) fn step(key: &str, kind: &str, config: StructBuilder) -> StructBuilder {
    StructBuilder::new()
        .text("key", key)
        .text("type", kind)
        .object("config", config.build().as_encoded())
}

pub(crate) fn call(action: &str) -> StructBuilder {
    StructBuilder::new().text("tool_name", action)
}

pub(crate) fn list(items: impl IntoIterator<Item = StructBuilder>) -> ListBuilder {
    items.into_iter().fold(ListBuilder::new(), |list, item| {
        list.object(item.build().as_encoded())
    })
}

pub(crate) fn document(steps: ListBuilder) -> Opaque {
    StructBuilder::new()
        .text("schema", "escapement.plan/1")
        .text("name", "Test")
        .list("steps", steps)
        .build()
}

pub(crate) fn new_run(run_id: RunId, document: &Opaque) -> NewRun {
    let plan = Arc::new(plan::read(document).unwrap());
    let profile = |action: &str| ActionProfile {
        action: action.to_owned(),
        effect: EffectClass::Pure.into(),
        risk: Risk::Safe.into(),
        seen: true,
        ..ActionProfile::default()
    };
    NewRun {
        run_id,
        spec: Spec {
            limits: Preset::Standard.limits(1),
            policy: Preset::Standard.policy(),
            autonomy_level: 4,
            priority: 5,
            user_id: "ada".to_owned(),
            ..Spec::default()
        },
        plan,
        profiles: ["x.a", "x.b", "x.c"].map(profile).into(),
    }
}

pub(crate) fn create(run_id: RunId, document: &Opaque) -> Create {
    Create {
        run: new_run(run_id, document),
        request: Some(ClientRequest {
            key: format!("request of {run_id}"),
            digest: [1; 32],
        }),
        saved_plan: None,
    }
}

/// Creates a run at level 2 with one call of an action without a description.
pub(crate) fn unknown_call(action: &str) -> Create {
    let mut create = create(id(1), &document(list([step("a", "tool_call", call(action))])));
    create.run.spec.autonomy_level = 2;
    create.run.profiles = vec![ActionProfile {
        action: action.to_owned(),
        unknown: true,
        ..ActionProfile::default()
    }];
    create
}

const PATIENCE: Duration = Duration::from_secs(10);
