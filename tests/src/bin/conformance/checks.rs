//! The checks, one file per question.

mod cancels;
mod capacity;
mod drain;
mod heartbeats;
mod hello;
mod lease;
mod ordinary;
mod outcomes;
mod payloads;
mod peers;
mod reconnecting;
mod snapshots;
mod transport;
mod violations;
mod work;

use crate::catalogue::Check;

/// All of them.
pub(crate) const ALL: &[&[Check]] = &[
    ordinary::CHECKS,
    hello::CHECKS,
    heartbeats::CHECKS,
    work::CHECKS,
    payloads::CHECKS,
    capacity::CHECKS,
    outcomes::CHECKS,
    cancels::CHECKS,
    snapshots::CHECKS,
    lease::CHECKS,
    drain::CHECKS,
    reconnecting::CHECKS,
    violations::CHECKS,
    transport::CHECKS,
    peers::CHECKS,
];
/// The check that runs where only rules are wanted.
pub(crate) const ORDINARY: &str = "an_ordinary_day";
