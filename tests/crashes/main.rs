//! Real crashes of the real orchestrator: killed and failed at every call that changes a file, killed under load,
//! with damaged files and with a full disk. What somebody was told must hold afterwards, whatever happened.
//!
//! `ESCAPEMENT_LONG=1` sweeps every call in every way. `ESCAPEMENT_KILLS` says how many kills under load there are,
//! `ESCAPEMENT_SEEDS_FROM` the first round's seed, and `ESCAPEMENT_REPORT` names a file for the figures.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps says at which line its assumption broke"
)]

mod acts;
mod caller;
mod hand;
mod stage;
#[path = "../records/rows/tables.rs"]
mod tables;
mod told;
mod world;

mod checkpoint;
mod conversion;
mod failing;
mod files;
mod full_disk;
mod joint;
mod kills;
mod operators;
mod order;
mod sweep;
mod syncs;

/// Returns true if there is time for every case.
fn is_long() -> bool {
    std::env::var_os("ESCAPEMENT_LONG").is_some()
}
