//! Saved plans, the inbox and what operators say of actions, as callers see them, over a store in memory.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

mod actions;
mod calls;
mod goals;
mod inbox;
mod nesting;
mod plans;
mod savers;
mod sessions;
mod steps;
mod world;
