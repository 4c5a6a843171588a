//! Both stores: what they promise together, and what each does alone.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod conformance;
mod conversion;
mod earlier;
mod embedded;
mod examine;
mod killed;
mod memory;
mod migrations;
mod opened;
mod operators;
mod parts;
mod removal;
mod runs_conformance;
mod runs_embedded;
mod runs_endings;
mod runs_namespaces;
mod scratch;
mod surroundings;
