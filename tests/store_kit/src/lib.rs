//! Stores in memory, and the suite that every store passes. For tests: no program depends on it.
//! The disk is a model: it can fail, and it loses what was not synced.

pub mod conformance;
pub mod earlier;
pub mod frozen;
pub mod memory;
pub mod runs;

pub use memory::{Memory, MemoryDisk, MemoryFault};
