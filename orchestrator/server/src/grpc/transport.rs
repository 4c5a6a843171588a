//! Connections, and what a call may take of the process before its message is known: places, bytes, time. Knows no service.

pub(crate) mod body_prefetch;
pub(crate) mod call_limits;
pub(crate) mod call_slots;
pub(crate) mod connection;
pub(crate) mod connection_abort;
pub(crate) mod fair_stream;
pub(crate) mod listen;
pub(crate) mod request_body;
pub(crate) mod response_budget;
