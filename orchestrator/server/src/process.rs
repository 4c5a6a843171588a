//! The process from its arguments to its exit: settings, start, drain.

pub mod arguments;
pub(crate) mod drain;
pub(crate) mod figures;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod security;
pub(crate) mod stores;
