//! Runs and what is kept beside them, each as large as it may be. Sends nothing.

use crate::large::object_of;
use escapement_model::Opaque;
use escapement_tests::plans::object;
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::create_run_request::What;
use escapement_wire::runs::v1::trigger::Config;
use serde_json::{Value, json};

/// A plan of these steps.
pub(crate) fn document(steps: &Value) -> Opaque {
    object(json!({"schema": "escapement.plan/1", "name": "large", "steps": steps}))
}

/// A run of a document that asks nobody whether it may.
pub(crate) fn creation(document: Opaque) -> v1::CreateRunRequest {
    v1::CreateRunRequest {
        what: Some(What::Document(document)),
        autonomy_level: Some(4),
        ..v1::CreateRunRequest::default()
    }
}

/// A run that asks whether it may do what it shows: as much as lists show.
pub(crate) fn approval(n: usize) -> v1::CreateRunRequest {
    let call = json!({"tool_name": "send", "tool_args": {"text": "x".repeat(32_000)}});
    let steps = json!([{"key": "send", "type": "tool_call", "config": call}]);
    v1::CreateRunRequest {
        name: format!("run {n}"),
        autonomy_level: Some(2),
        metadata: Some(object_of(METADATA_BYTES)),
        ..creation(document(&steps))
    }
}

/// As large as a trigger may be.
pub(crate) fn trigger(n: usize, config: Config) -> v1::Trigger {
    let question = json!([{"key": "ask", "type": "user_input", "config": {"question": "?"}}]);
    let run = v1::CreateRunRequest {
        input: Some(object_of(TRIGGER_BYTES)),
        ..creation(document(&question))
    };
    v1::Trigger {
        name: format!("trigger {n}"),
        config: Some(config),
        run: Some(run),
        ..v1::Trigger::default()
    }
}

/// A schedule that is due once a year.
pub(crate) fn yearly() -> Config {
    Config::Schedule(v1::Schedule {
        cron: "0 0 1 1 *".to_owned(),
        ..v1::Schedule::default()
    })
}

/// What describes a saved plan.
pub(crate) fn plan(n: usize) -> v1::Plan {
    v1::Plan {
        name: format!("plan {n}"),
        goal: "large".to_owned(),
        metadata: Some(object_of(METADATA_BYTES)),
        ..v1::Plan::default()
    }
}

/// As large as a profile may be.
pub(crate) fn profile(n: usize) -> v1::ActionProfile {
    let name = |at: usize, n_chars: usize| format!("{at:02}{}", "\u{1f552}".repeat(n_chars - 2));
    v1::ActionProfile {
        action: format!("action {n:04}"),
        produces: (0..16).map(|at| name(at, 255)).collect(),
        alternatives: (0..16).map(|at| name(at, 100)).collect(),
        ..v1::ActionProfile::default()
    }
}

/// What the metadata may have, less what an object has beside its text.
const METADATA_BYTES: usize = (64 << 10) - 64;
/// What a trigger may have, less what it says beside its input.
const TRIGGER_BYTES: usize = 895 << 10;
