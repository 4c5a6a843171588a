//! Results and events as JSON, with the contract's field names and plain integers.
//! Used by the sinks and the CloudEvents of `SubscribeEvents`; results of all other calls are never decoded.

use escapement_contract::{ExecutionError, PlanResult, Status};
use escapement_model::opaque::ValueView;
use escapement_model::{ExecutionId, Namespace, Opaque, PlanId};
use escapement_wire::json::from_opaque;
use escapement_wire::time::rfc3339;
use escapement_wire::v1;
use serde_json::{Map, Value, json};

/// Returns a result.
pub fn result(result: &PlanResult) -> Value {
    let PlanResult {
        plan_id,
        execution_id,
        status,
        completed_at,
        duration_ms,
        steps_executed,
        steps_total,
        result_payload,
        error,
    } = result;
    json!({
        "plan_id": plan_id.to_string(),
        "execution_id": execution_id.to_string(),
        "status": status.as_str(),
        "completed_at": completed_at,
        "duration_ms": duration_ms,
        "steps_executed": steps_executed,
        "steps_total": steps_total,
        "result_payload": outputs(result_payload),
        "error": error.as_ref().map(self::error),
    })
}

/// Returns the terminal event in CloudEvents 1.0 structured form. An attribute that is empty is left out.
pub fn event(attributes: &v1::CloudEvent, data: Option<&PlanResult>) -> Value {
    let texts = [
        ("id", &attributes.id),
        ("source", &attributes.source),
        ("specversion", &attributes.specversion),
        ("type", &attributes.r#type),
        ("subject", &attributes.subject),
        ("time", &attributes.time),
        ("datacontenttype", &attributes.datacontenttype),
        ("dataref", &attributes.dataref),
        ("namespace", &attributes.namespace),
    ];
    let texts = texts.into_iter().filter(|(_, text)| !text.is_empty());
    let texts = texts.map(|(name, text)| (name.to_owned(), Value::from(text.as_str())));
    let data = data.map(|data| ("data".to_owned(), result(data)));
    Value::Object(texts.chain(data).collect())
}

/// What the terminal event of an execution is made of, besides its result.
#[derive(Clone, Copy, Debug)]
pub struct Ending {
    /// Which.
    pub execution_id: ExecutionId,
    /// Plan.
    pub plan_id: PlanId,
    /// How it ended.
    pub status: Status,
    /// When, Unix milliseconds.
    pub completed_at: i64,
}

impl Ending {
    /// Of a result.
    pub fn of(result: &PlanResult) -> Self {
        Self {
            execution_id: result.execution_id,
            plan_id: result.plan_id,
            status: result.status,
            completed_at: result.completed_at,
        }
    }
}

/// Where events say that they come from, unless the operator says otherwise.
pub const SOURCE: &str = "/escapement";

/// Returns the attributes of the terminal event; `data` is left out. `source` is the same after a restart, since receivers drop repeats by
/// source and id.
pub fn event_attributes(ending: &Ending, namespace: &Namespace, source: &str) -> v1::CloudEvent {
    v1::CloudEvent {
        id: ending.execution_id.to_string(),
        source: source.to_owned(),
        //
        specversion: "1.0".to_owned(),
        r#type: ending.status.event_type().to_owned(),
        subject: ending.plan_id.to_string(),
        time: rfc3339(ending.completed_at),
        datacontenttype: "application/json".to_owned(),
        data: None,
        dataref: String::new(),
        namespace: namespace.as_str().to_owned(),
    }
}

fn error(error: &ExecutionError) -> Value {
    let ExecutionError {
        code,
        message,
        step_id,
        severity,
        cause,
        context,
    } = error;
    json!({
        "error_code": code,
        "message": message,
        "step_id": step_id.map(|id| id.to_string()),
        "severity": severity.as_str(),
        "recoverable": error.recoverable(),
        "cause": cause.as_deref().map(self::error),
        "context": object(context),
    })
}

/// Output by output, because each may be as deep as the limit and `result_payload` is deeper by the messages around it.
fn outputs(payload: &Opaque) -> Value {
    let mut outputs = Map::new();
    for (key, value) in payload.entries().flatten() {
        let ValueView::Struct(bytes) = value else { continue };
        let output = Opaque::from_encoded(bytes::Bytes::copy_from_slice(bytes));
        outputs.insert(key.to_owned(), object(&output));
    }
    Value::Object(outputs)
}

fn object(object: &Opaque) -> Value {
    match from_opaque(object) {
        Ok(object) => Value::Object(object),
        Err(malformed) => json!({ "dropped": malformed.to_string() }),
    }
}
