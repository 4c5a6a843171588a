//! Plans against stubs: every kind of stub, limits, long plans, timelines, and a naive driver that must agree.
#![allow(clippy::unwrap_used, reason = "tests")]

mod agreement;
mod kinds;
mod limits;
mod scene;
mod timelines;
