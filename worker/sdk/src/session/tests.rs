//! Stories about the pure session under a virtual clock. Run no task and open no port.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bounds;
mod ending;
mod levels;
mod liveness;
pub(crate) mod spoken;
mod story;
mod stuck;
mod work;
