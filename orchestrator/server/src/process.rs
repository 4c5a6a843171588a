//! The process from its arguments to its exit: settings, start, drain, and what the binary does beside serving.

pub mod commands;
pub(crate) mod drain;
pub(crate) mod run;
