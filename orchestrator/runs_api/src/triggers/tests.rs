//! Triggers over runs on a store in memory: what damage, other callers and clocks do to them.

mod chains;
mod clocks;
mod costs;
mod damage;
mod fired;
mod known;
mod waiting;
mod world;
