//! What an operator sees of an orchestrator without asking it: figures for Prometheus, and probes.
//!
//! Figures about executions are counted when their writes are durable, so a figure tells what the store holds. Figures about
//! what stands now are asked for at each scrape. Everything counts from the start of the process.
//! Labels are bounded: what is beyond a bound is counted under `_other`. Ids, names of plans, users and workers are never labels.

mod catalogue;
mod connections;
mod families;
mod figures;
mod gauges;
mod kinds;
mod known;
mod label;
mod listener;
mod of_runs;
mod runs;
mod settled;

pub use self::catalogue::{CATALOGUE, Entry, Kind};
pub use self::figures::Metrics;
pub use self::gauges::{Look, Source};
pub use self::label::Label;
pub use self::listener::Figures;
pub use escapement_figures::Endpoint;

#[cfg(test)]
mod tests;
