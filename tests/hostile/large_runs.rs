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

/// A plan of nearly 1 MiB: 1,024 questions, each behind a hundred others. Other plans have other names.
pub(crate) fn dense_document(name: &str) -> Opaque {
    let key = |n: usize| format!("k{n:03x}");
    let steps = (0..1_024).map(|n: usize| {
        let before: Vec<String> = (n.saturating_sub(REFERENCES)..n).map(key).collect();
        json!({"key": key(n), "type": "user_input", "config": {"question": "?"}, "depends_on": before})
    });
    let steps: Vec<Value> = steps.collect();
    object(json!({"schema": "escapement.plan/1", "name": name, "steps": steps}))
}

/// A run of a document that asks nobody whether it may.
pub(crate) fn creation(document: Opaque) -> v1::CreateRunRequest {
    v1::CreateRunRequest {
        what: Some(What::Document(document)),
        autonomy_level: Some(4),
        ..v1::CreateRunRequest::default()
    }
}

/// A run that asks a question.
pub(crate) fn question(question: &str) -> v1::CreateRunRequest {
    let config = json!({"question": question});
    let steps = json!([{"key": "ask", "type": "user_input", "config": config}]);
    creation(document(&steps))
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
    let run = v1::CreateRunRequest {
        input: Some(object_of(TRIGGER_BYTES)),
        ..question("?")
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

/// Profile of the action of approvals, so that their runs do not wait for a worker to describe it.
pub(crate) fn profile_of_approvals() -> v1::ActionProfile {
    v1::ActionProfile {
        action: "send".to_owned(),
        ..v1::ActionProfile::default()
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

/// A run that asks one question, with as many of these references as that has room for.
pub(crate) fn references(reference: &str, input: Opaque) -> v1::CreateRunRequest {
    let n_each = 990 / reference.len();
    let options: Vec<String> = (0..100)
        .map(|n| format!("{n}{}", reference.repeat(n_each)))
        .collect();
    let config = json!({"question": "Which?", "input_type": "choice", "options": options});
    v1::CreateRunRequest {
        input: Some(input),
        ..creation(document(
            &json!([{"key": "ask", "type": "user_input", "config": config}]),
        ))
    }
}

const REFERENCES: usize = 100;
/// What the metadata may have, less what an object has beside its text.
const METADATA_BYTES: usize = (64 << 10) - 64;
/// What a trigger may have, less what it says beside its input.
const TRIGGER_BYTES: usize = 895 << 10;
