//! A terminal event while it waits for those who want it: the attributes and the result, and nothing else of its execution.

use crate::limits::EVENT_DATA_BYTES_MAX;
use crate::turns::Wanted;
use escapement_codec::event_json::{self, Ending};
use escapement_codec::execution;
use escapement_codec::provenance::Provenance;
use escapement_contract::PlanResult;
use escapement_model::Namespace;
use escapement_wire::v1;
use prost::Message;
use serde_json::Value;

/// The event. Made once, and shared by all sinks.
#[derive(Debug)]
pub struct TerminalEvent {
    /// Without the result.
    attributes: v1::CloudEvent,
    /// `None` if it is too large for an event; then `attributes` say where it is.
    data: Option<PlanResult>,
    /// About what it takes.
    bytes: usize,
    namespace: Namespace,
    /// Who handed in its execution, or the outermost one above it; `None` if that was not proved.
    owner: Option<String>,
}

impl TerminalEvent {
    /// The event of the result of an execution that came from there, from that source. The result goes with it unless it has more than
    /// 1 MiB.
    //
    pub fn of(result: &PlanResult, provenance: Provenance, source: &str) -> Self {
        let namespace = provenance.namespace;
        let attributes = event_json::event_attributes(&Ending::of(result), &namespace, source);
        let data_bytes = execution::result(result).encoded_len();
        let has_data = data_bytes <= EVENT_DATA_BYTES_MAX;
        Self {
            bytes: attributes.encoded_len() + if has_data { data_bytes } else { 0 },
            attributes: if has_data {
                attributes
            } else {
                by_reference(attributes)
            },
            data: has_data.then(|| result.clone()),
            namespace,
            owner: provenance.accepted_by.map(|by| by.name),
        }
    }

    /// Returns true if it is one of those that somebody wants.
    pub(crate) fn is_wanted(&self, by: &Wanted) -> bool {
        by.has(&self.attributes.r#type, &self.namespace, || self.owner.clone())
    }

    /// About what it takes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// For a subscriber.
    pub fn to_wire(&self) -> v1::CloudEvent {
        v1::CloudEvent {
            data: self.data.as_ref().map(execution::result),
            ..self.attributes.clone()
        }
    }

    /// For a subscriber, if there is no room for the result now.
    pub fn to_wire_without_data(&self) -> v1::CloudEvent {
        by_reference(self.attributes.clone())
    }

    /// In CloudEvents 1.0 structured form.
    pub fn to_json(&self) -> Value {
        event_json::event(&self.attributes, self.data.as_ref())
    }
}

/// The same event, with the place of its data instead of the data.
pub(crate) fn by_reference(attributes: v1::CloudEvent) -> v1::CloudEvent {
    v1::CloudEvent {
        dataref: format!(
            "/escapement.v1.PlanExecutionService/GetExecution?execution_id={}",
            attributes.id
        ),
        datacontenttype: String::new(),
        data: None,
        ..attributes
    }
}
