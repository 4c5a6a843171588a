//! Handle by which a program changes and observes its running worker. Sends nothing.

use crate::error::WorkerError;
use crate::session::worker_state::WorkerState;
use escapement_model::limits::SESSION_IN_FLIGHT_MAX;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::watch;

/// Changes how much work a running worker takes, and which. Cheap to clone; from
/// [`Worker::handle`](crate::Worker::handle).
///
/// Each change is sent to the orchestrator at once, and again on every new session.
/// Running attempts continue: a level below their number means no new work until enough have ended.
///
/// ```
/// # use escapement_sdk::{StepContext, Worker, WorkerError};
/// # use serde_json::{Value, json};
/// # fn example() -> Result<(), WorkerError> {
/// let worker = Worker::builder("http://127.0.0.1:7400")
///     .handler("greet", |_: Value, _: StepContext| async { Ok(json!({})) })
///     .build()?;
/// let handle = worker.handle();
/// handle.set_capacity(0)?; // Paused.
/// handle.set_actions_enabled(&["greet"], false)?;
/// # Ok(())
/// # }
/// # example().unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct WorkerHandle {
    overrides: Arc<watch::Sender<CapacityOverrides>>,
    unacknowledged: Arc<AtomicUsize>,
}

/// The present wishes, which replace all earlier ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct CapacityOverrides {
    max_in_flight: Option<u32>,
    actions: BTreeMap<String, ActionOverride>,
}

#[derive(Clone, Debug)]
struct ActionOverride {
    max_in_flight: Option<u32>,
    enabled: bool,
}

impl WorkerHandle {
    pub(crate) fn new<'name>(names: impl Iterator<Item = &'name String>) -> Self {
        let own = ActionOverride {
            max_in_flight: None,
            enabled: true,
        };
        let overrides = CapacityOverrides {
            max_in_flight: None,
            actions: names.map(|name| (name.clone(), own.clone())).collect(),
        };
        Self {
            overrides: Arc::new(watch::Sender::new(overrides)),
            unacknowledged: Arc::default(),
        }
    }

    /// Sets the maximum of concurrent handlers, 0 to 4096. 0 pauses all actions except those that wait.
    ///
    /// # Errors
    /// [`WorkerError::InvalidConfiguration`] for more than 4096.
    pub fn set_capacity(&self, max_in_flight: u32) -> Result<(), WorkerError> {
        check(max_in_flight)?;
        self.overrides
            .send_modify(|overrides| overrides.max_in_flight = Some(max_in_flight));
        Ok(())
    }

    /// Sets the maximum of concurrent attempts of one action, 0 to 4096. 0 pauses the action.
    ///
    /// # Errors
    /// [`WorkerError::InvalidConfiguration`] for more than 4096, or an action without a handler.
    pub fn set_action_capacity(&self, name: &str, max_in_flight: u32) -> Result<(), WorkerError> {
        check(max_in_flight)?;
        self.change(&[name], |own| own.max_in_flight = Some(max_in_flight))
    }

    /// Offers actions, or takes them back as if they had no handler.
    ///
    /// # Errors
    /// [`WorkerError::InvalidConfiguration`] for an action without a handler; then nothing is changed.
    pub fn set_actions_enabled(&self, names: &[&str], enabled: bool) -> Result<(), WorkerError> {
        self.change(names, |own| own.enabled = enabled)
    }

    /// Returns the number of outcomes that the worker keeps because their orchestrators have not acknowledged them. It is mostly
    /// 0, and grows
    /// while an orchestrator cannot be reached or takes no writes.
    pub fn unacknowledged_outcomes(&self) -> usize {
        self.unacknowledged.load(Ordering::Relaxed)
    }

    pub(crate) fn show_unacknowledged(&self, count: usize) {
        self.unacknowledged.store(count, Ordering::Relaxed);
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<CapacityOverrides> {
        self.overrides.subscribe()
    }

    fn change(&self, names: &[&str], change: impl Fn(&mut ActionOverride)) -> Result<(), WorkerError> {
        let mut result = Ok(());
        self.overrides.send_if_modified(|overrides| {
            if let Some(unknown) = names.iter().find(|name| !overrides.actions.contains_key(**name)) {
                let detail = format!("action {unknown:?} has no handler");
                result = Err(WorkerError::InvalidConfiguration(detail));
                return false;
            }
            for name in names {
                change(overrides.actions.get_mut(*name).expect("all were found"));
            }
            true
        });
        result
    }
}

impl CapacityOverrides {
    pub(crate) fn apply_to(&self, worker_state: &mut WorkerState) {
        if let Some(max_in_flight) = self.max_in_flight {
            worker_state.set_max_in_flight(max_in_flight);
        }
        for (name, own) in &self.actions {
            if let Some(max_in_flight) = own.max_in_flight {
                worker_state.set_action_capacity(name, max_in_flight);
            }
            worker_state.set_enabled(name, own.enabled);
        }
    }
}

fn check(max_in_flight: u32) -> Result<(), WorkerError> {
    if max_in_flight <= SESSION_IN_FLIGHT_MAX {
        return Ok(());
    }
    let detail = format!("max_in_flight is at most {SESSION_IN_FLIGHT_MAX}");
    Err(WorkerError::InvalidConfiguration(detail))
}
