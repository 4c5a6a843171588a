//! Stories about the pure session under a virtual clock. Run no task and open no port.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod chaos;
mod ending;
mod liveness;
mod story;
mod work;
