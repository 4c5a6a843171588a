//! The trace that a run belongs to. Changes nothing of what the run does or sends.

use alloc::boxed::Box;
use alloc::string::String;
use prost::Message;

/// What a call says of its trace, as W3C Trace Context has it.
#[derive(Clone, PartialEq, Message)]
pub struct TraceContext {
    /// At most 256 bytes.
    #[prost(string, tag = "1")]
    pub traceparent: String,
    /// At most 512 bytes; may be empty.
    #[prost(string, tag = "2")]
    pub tracestate: String,
}

impl TraceContext {
    /// What these headers say; `None` without a `traceparent` that is kept.
    pub fn of(traceparent: Option<&str>, tracestate: Option<&str>) -> Option<Box<Self>> {
        let kept = |text: &&str, bytes_max| !text.is_empty() && text.len() <= bytes_max;
        let traceparent = traceparent.filter(|text| kept(text, TRACEPARENT_BYTES_MAX))?;
        let tracestate = tracestate.filter(|text| kept(text, TRACESTATE_BYTES_MAX));
        Some(Box::new(Self {
            traceparent: String::from(traceparent),
            tracestate: String::from(tracestate.unwrap_or_default()),
        }))
    }
}

/// Bytes of a `traceparent` that are kept; version 00 of the specification has 55.
const TRACEPARENT_BYTES_MAX: usize = 256;
/// Bytes of a `tracestate` that are kept; the specification asks for at least so many.
const TRACESTATE_BYTES_MAX: usize = 512;
