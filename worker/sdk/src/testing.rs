//! Contexts for testing handlers without a worker, and a worker without I/O for simulations.
//! Not used by a worker that runs.

use crate::caller::{Caller, Way};
use crate::clock;
use crate::context::{Facts, StepContext};
use crate::error::StepError;
use escapement_credentials::Credentials;
use escapement_model::{AttemptToken, Opaque, headers};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The worker as a state machine, for simulations of many of them under a virtual clock.
///
/// It is the very machine that a running worker consists of; only streams, handler tasks and the clock are missing.
/// A simulation obeys every [`machine::Command`], delivers messages both ways, and says which handler tasks ended:
///
/// ```
/// use escapement_sdk::testing::machine::{Command, Machine, OrchestratorId};
/// use escapement_sdk::{StepContext, Worker};
/// use serde_json::{Value, json};
///
/// # fn main() -> Result<(), escapement_sdk::WorkerError> {
/// let worker = Worker::builder("http://simulated:7400")
///     .handler("work", |_: Value, _: StepContext| async { Ok(json!({})) })
///     .build()?;
/// let mut machine = Machine::of(0, &worker);
/// let to = OrchestratorId::CONFIGURED;
/// machine.handle_timeout(0);
/// assert!(matches!(machine.poll_command(), Some((id, Command::Connect)) if id == to));
/// let hello = machine.poll_transmit(0, to).expect("Hello is sent first");
/// assert_eq!((hello.seq, machine.tasks()), (1, 0));
/// # Ok(())
/// # }
/// ```
pub mod machine {
    pub use crate::machine::{Machine, OrchestratorId};
    pub use crate::session::{Command, TaskEnd, TaskStart};
}

/// Builds a [`StepContext`] that belongs to no worker.
///
/// ```
/// use escapement_sdk::testing::ContextBuilder;
/// use serde_json::json;
///
/// let context = ContextBuilder::new("greet").environment(&json!({"language": "en"})).build();
/// assert_eq!(context.environment().unwrap()["language"], "en");
/// ```
#[derive(Clone, Debug)]
pub struct ContextBuilder {
    facts: Facts,
}

impl ContextBuilder {
    /// Creates a first attempt of this action with a minute left, an empty environment and no headers.
    pub fn new(action: impl Into<String>) -> Self {
        Self {
            facts: Facts {
                action: action.into(),
                execution_id: "11111111-1111-4111-8111-111111111111".to_owned(),
                plan_id: "22222222-2222-4222-8222-222222222222".to_owned(),
                step_id: "33333333-3333-4333-8333-333333333333".to_owned(),
                attempt: 1,
                deadline: clock::now() + Duration::from_secs(60),
                environment: Opaque::default(),
                headers: BTreeMap::new(),
                traceparent: None,
                caller: caller("http://127.0.0.1:1"),
            },
        }
    }

    /// Sets the environment.
    ///
    /// # Panics
    /// If it is not an object.
    #[must_use]
    pub fn environment(mut self, environment: &Value) -> Self {
        let object: &Map<String, Value> = environment.as_object().expect("an environment is an object");
        self.facts.environment = escapement_wire::json::to_opaque(object);
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.facts.headers.insert(name.into(), value.into());
        self
    }

    /// Sets the number of the attempt, elsewhere than in a run.
    #[must_use]
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.facts.attempt = attempt;
        self
    }

    /// Makes it this attempt of a run, with the key that all attempts of the unit have.
    #[must_use]
    pub fn run_attempt(self, idempotency_key: impl Into<String>, attempt: u32) -> Self {
        self.header(headers::IDEMPOTENCY_KEY, idempotency_key)
            .header(headers::ATTEMPT, attempt.to_string())
    }

    /// Sets what is left of the attempt's time.
    #[must_use]
    pub fn time_left(mut self, time_left: Duration) -> Self {
        self.facts.deadline = clock::now().saturating_add(time_left);
        self
    }

    /// Sets the address of the orchestrator that [`StepContext::caller`] calls; by default no server listens there.
    #[must_use]
    pub fn orchestrator(mut self, address: &str) -> Self {
        self.facts.caller = caller(address);
        self
    }

    /// Sets the execution's id.
    #[must_use]
    pub fn execution_id(mut self, execution_id: impl Into<String>) -> Self {
        self.facts.execution_id = execution_id.into();
        self
    }

    /// Returns the context.
    pub fn build(self) -> StepContext {
        StepContext::new(self.facts)
    }
}

fn caller(address: &str) -> Caller {
    let way = Way::new(address.to_owned(), Credentials::new());
    Caller::new(Arc::new(way), AttemptToken::new([7; 16]), [])
}

/// Cancels the attempt, as the orchestrator would.
pub fn cancel(context: &StepContext) {
    context.cancel();
}

/// Lets all workers of this process see what they see after their machine has slept for that long.
pub fn sleep_machine(slept: Duration) {
    clock::sleep_machine(slept);
}

/// Takes the warnings that the handler has added so far.
pub fn take_warnings(context: &StepContext) -> Vec<StepError> {
    context.take_warnings()
}
