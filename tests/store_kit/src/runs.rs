//! The same for stores of runs.

pub mod conformance;
mod memory;

pub use self::memory::{MemoryRuns, MemoryRunsDisk};
