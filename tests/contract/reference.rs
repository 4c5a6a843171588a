//! The rules a second time, as plainly as they can be written: slow scans, no indexes, no queues.
//! Shares no code with the contract crate beyond the types at its border.

pub(crate) mod errors;
pub(crate) mod interpret;
pub(crate) mod timers;
pub(crate) mod validate;
