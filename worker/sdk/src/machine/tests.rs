//! Stories about whole workers under a virtual clock. Run no task and open no port.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod boundaries;
mod chaos;
mod peers;
mod stage;
