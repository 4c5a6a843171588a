//! What `deploy/` ships, run as it is written there: real files, real programs, real plans.
//! Builds no program: it uses those of the workspace.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps says at which line its assumption broke"
)]

mod bare;
mod chart;
mod compose;
mod containers;
mod elf;
mod images;
mod monitoring;
mod packages;
mod runbooks;
mod sealed;
mod stage;
mod supply;
mod units;
