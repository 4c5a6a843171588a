//! Workers and actions as operators see them, to the wire.

use crate::execution::count;
use escapement_engine::{ActionView, SessionState, WorkerView};
use escapement_wire::v1;

/// One worker session.
pub fn worker(view: &WorkerView) -> v1::Worker {
    let state = match view.state {
        SessionState::Active => v1::worker::State::Active,
        SessionState::Suspect => v1::worker::State::Suspect,
        SessionState::Draining => v1::worker::State::Draining,
    };
    v1::Worker {
        worker_id: view.worker_id.as_ref().to_owned(),
        instance_id: view.instance_id.to_hex(),
        session_id: view.session_id.to_hex(),
        state: state as i32,
        max_in_flight: count(view.max_in_flight),
        in_flight: count(view.in_flight),
        actions: view
            .actions
            .iter()
            .map(|action| action.as_ref().to_owned())
            .collect(),
        labels: view.labels.clone(),
        build: view.build.clone(),
        heartbeat_age_ms: i64::try_from(view.heartbeat_age_ms).unwrap_or(i64::MAX),
        session_age_ms: i64::try_from(view.session_age_ms).unwrap_or(i64::MAX),
        stopping: count(view.stopping),
        stopping_age_ms: i64::try_from(view.stopping_age_ms).unwrap_or(i64::MAX),
    }
}

/// One action.
pub fn action(view: &ActionView) -> v1::Action {
    v1::Action {
        name: view.name.as_ref().to_owned(),
        description: view.description.as_ref().to_owned(),
        input_schema: view.input_schema.as_ref().to_owned(),
        workers: count(view.workers),
        free_slots: count(view.free_slots),
        in_flight: count(view.in_flight),
        waiting: count(view.waiting),
        declared: view.is_declared,
        registered_for_ms: view
            .registered_for_ms
            .map(|ms| i64::try_from(ms).unwrap_or(i64::MAX)),
        traits: crate::traits::of_all(&view.traits),
    }
}
