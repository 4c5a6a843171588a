//! The threads around the store: one writes, some read, one looks for damage.

pub(crate) mod loader;
pub(crate) mod readers;
pub(crate) mod retention;
pub(crate) mod writer;
