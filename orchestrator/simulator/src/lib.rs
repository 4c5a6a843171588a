//! What would become of a plan: the core of the contract against stubbed outcomes on a virtual clock.
//! Knows no rule of its own, reads no clock, waits for nothing, stores nothing.
#![no_std]
#![warn(clippy::too_many_lines)]

extern crate alloc;

mod driver;
mod stubs;
mod timeline;

pub use driver::{CONTEXT_BYTES_PER_INPUT, Simulation, TooLong, WORKER, simulate};
pub use stubs::{AttemptStub, End, Stubs};
pub use timeline::{Activity, Ended, Span, Timeline, timeline};
