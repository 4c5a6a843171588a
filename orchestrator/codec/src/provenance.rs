//! Where a request came from: its namespace, who handed it in with which actions permitted, and the trace of the call.
//! Judges nobody: the caller of this says who somebody is and what they may see.
//!
//! The contract carries it as bytes that it never looks into. They are the fields of `StoredAcceptance` behind the certificate,
//! and are empty for a request of the default namespace that came without credentials and without a trace.

use escapement_model::Namespace;
use escapement_wire::v1;
use prost::Message;

/// Where a request came from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Provenance {
    /// What it belongs to.
    pub namespace: Namespace,
    /// Who handed it in, as verified; `None` if nobody proved who they are.
    pub accepted_by: Option<v1::AcceptedBy>,
    /// The trace of the call; `None` if it named none.
    pub trace_context: Option<v1::StoredTraceContext>,
    /// Patterns of the actions that plans of who handed it in may name; empty: every action.
    pub actions: Vec<String>,
}

impl Provenance {
    /// As the contract carries it, and as it stands in a record.
    pub fn encode(&self) -> Box<[u8]> {
        let stored = v1::StoredAcceptance {
            plan: None,
            certificate: None,
            namespace: match self.namespace.as_str() {
                Namespace::DEFAULT => String::new(),
                name => name.to_owned(),
            },
            accepted_by: self.accepted_by.clone(),
            trace_context: self.trace_context.clone(),
            actions: self.actions.clone(),
        };
        stored.encode_to_vec().into()
    }

    /// Reads what [`Provenance::encode`] made, also behind a whole stored request.
    /// What does not decode belongs to nobody's namespace: `None`.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() {
            return Some(Self::default());
        }
        Self::of_stored(v1::StoredAcceptance::decode(bytes).ok()?)
    }

    /// Reads what this process encoded, or has read from a record before.
    ///
    /// # Panics
    /// If it does not decode.
    pub fn known(bytes: &[u8]) -> Self {
        Self::decode(bytes).expect("the edge encoded it, or the record was read")
    }

    /// What a stored request says; `None` if its namespace is none.
    pub fn of_stored(stored: v1::StoredAcceptance) -> Option<Self> {
        let v1::StoredAcceptance {
            plan: _,
            certificate: _,
            namespace,
            accepted_by,
            trace_context,
            actions,
        } = stored;
        let namespace = match namespace.as_str() {
            "" => Namespace::default(),
            name => Namespace::parse(name)?,
        };
        Some(Self {
            namespace,
            accepted_by,
            trace_context,
            actions,
        })
    }
}

/// The trace of a call by what its metadata says; `None` without a `traceparent` of at most 256 bytes.
pub fn trace_context(traceparent: Option<&str>, tracestate: Option<&str>) -> Option<v1::StoredTraceContext> {
    let traceparent =
        traceparent.filter(|value| !value.is_empty() && value.len() <= TRACEPARENT_BYTES_MAX)?;
    let tracestate = tracestate.filter(|value| value.len() <= TRACESTATE_BYTES_MAX);
    Some(v1::StoredTraceContext {
        traceparent: traceparent.to_owned(),
        tracestate: tracestate.unwrap_or_default().to_owned(),
    })
}

/// Bytes of a `traceparent` that are kept; version 00 of the specification has 55.
const TRACEPARENT_BYTES_MAX: usize = 256;
/// Bytes of a `tracestate` that are kept; the specification asks for at least so many.
const TRACESTATE_BYTES_MAX: usize = 512;

#[cfg(test)]
mod tests;
