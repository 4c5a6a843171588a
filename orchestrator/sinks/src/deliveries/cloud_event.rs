//! What is sent: an event in CloudEvents 1.0 structured form, the same at each repetition. Sends nothing.

use super::message::Message;
use super::page::Content;
use crate::event::by_reference;
use crate::feed::ending;
use bytes::Bytes;
use escapement_codec::{audit_from_wire, event_json, stored};
use escapement_contract::PlanResult;
use escapement_model::Namespace;
use escapement_store::StoredExecution;
use escapement_wire::runs::v1 as runs;
use serde_json::{Value, json};

/// Of what a sink gets, from that source.
pub(crate) fn message_of(content: &Content, source: &str) -> Message {
    let namespace = match content {
        Content::Ending { execution, .. } => Some(execution.summary.namespace.clone()),
        Content::RunEnding { event, .. } => Namespace::parse(&event.namespace),
        Content::Lost { .. } | Content::OtherStore { .. } => None,
    };
    let (id, event) = match content {
        Content::Ending { place, execution } => {
            let mut event = of_ending(execution, source);
            event["sequence"] = Value::from(sequence(*place));
            (execution.summary.execution_id.to_string(), event)
        }
        Content::RunEnding { place, event, .. } => {
            let mut json = of_run(event);
            json["sequence"] = Value::from(sequence(*place));
            (event.id.clone(), json)
        }
        Content::Lost { first, last } => {
            let data = json!({"first": first, "last": last});
            notice(
                format!("lost-{first}-{last}"),
                "events_lost",
                *last,
                &data,
                source,
            )
        }
        Content::OtherStore { place } => {
            let data = json!({"last": place});
            notice(
                format!("restored-{place}"),
                "events_begin_anew",
                *place,
                &data,
                source,
            )
        }
    };
    Message {
        id,
        kind: event["type"].as_str().unwrap_or_default().to_owned(),
        namespace,
        body: Bytes::from(event.to_string()),
    }
}

fn of_ending(execution: &StoredExecution, source: &str) -> Value {
    let ending = ending(execution).expect("what has no ending is passed");
    let attributes = event_json::event_attributes(&ending, &execution.summary.namespace, source);
    match execution.result.as_ref().and_then(result) {
        Some(result) => event_json::event(&attributes, Some(&result)),
        None => event_json::event(&by_reference(attributes), None),
    }
}

fn of_run(event: &runs::CloudEvent) -> Value {
    let texts = [
        ("id", &event.id),
        ("source", &event.source),
        ("specversion", &event.specversion),
        ("type", &event.r#type),
        ("subject", &event.subject),
        ("time", &event.time),
        ("datacontenttype", &event.datacontenttype),
        ("dataref", &event.dataref),
        ("namespace", &event.namespace),
    ];
    let texts = texts.into_iter().filter(|(_, text)| !text.is_empty());
    let texts = texts.map(|(name, text)| (name.to_owned(), Value::from(text.as_str())));
    let data = event.data.as_ref();
    let data = data.map(|data| ("data".to_owned(), run_ending(data)));
    Value::Object(texts.chain(data).collect())
}

fn run_ending(ending: &runs::RunEnding) -> Value {
    let error = ending.error.as_ref();
    json!({
        "run_id": ending.run_id,
        "state": ending.state().as_str_name(),
        "outcome": ending.outcome().as_str_name(),
        "error_type": ending.error_type().as_str_name(),
        "reason": ending.reason,
        "error": error.map(|error| json!({"code": error.code, "message": error.message})),
        "user_id": ending.user_id,
        "plan_id": ending.plan_id,
        "goal_id": ending.goal_id,
        "trigger_id": ending.trigger_id,
        "parent_run_id": ending.parent_run_id,
        "created_at": ending.created_at,
        "completed_at": ending.completed_at,
        "last_sequence": ending.last_sequence,
    })
}

/// `None` if it does not read, which is told when its execution is asked for.
fn result(stored: &Bytes) -> Option<PlanResult> {
    let wire = stored::decode_result(stored).ok()?;
    audit_from_wire::result(wire).ok()
}

fn notice(id: String, kind: &str, place: u64, data: &Value, source: &str) -> (String, Value) {
    let event = json!({
        "specversion": "1.0",
        "id": id,
        "source": source,
        "type": kind,
        "datacontenttype": "application/json",
        "sequence": sequence(place),
        "data": data,
    });
    (id, event)
}

/// Texts of the same length, so that their order is that of the numbers.
fn sequence(place: u64) -> String {
    format!("{place:020}")
}
