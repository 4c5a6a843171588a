//! Stories of many executions and many workers, on a virtual clock.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub, reason = "tests")]

mod accepting;
mod admission;
mod auditor;
mod chaos;
mod deaf;
mod dice;
mod dispatching;
mod draining;
mod explaining;
mod holding;
mod limits;
mod losing;
mod namespaces;
mod odd_workers;
mod operators;
mod parking;
mod persisting;
mod plans;
mod planting;
mod puppet;
mod refusing;
mod registering;
mod reporting;
mod shares;
mod sizes;
mod snapshots;
mod space;
mod watching;
mod world;
