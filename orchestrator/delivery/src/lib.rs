//! When events go to one sink: one at a time, in the order of ending, until it takes them; and what is remembered of that.
//! Does no I/O, reads no clock, draws no random number, and never looks into an event: time and chance are arguments.
//! It is `no_std`, and the compiler checks it.
//!
//! What it promises, whatever comes in and wherever it is cut short and begun anew from what was saved last:
//! the sink is given everything that stands behind its cursor, in that order, each at least once; the cursor passes an event only if the
//! sink took it, or refused it for longer than the limit; one event is under way at a time; no more is held than one page.

#![no_std]
#![warn(clippy::too_many_lines)]

extern crate alloc;

mod cursor;

mod pause;

mod delivery;

pub use cursor::Cursor;
pub use delivery::{Answer, Came, Delivery, Item, Next};
pub use pause::{Limits, Now};

#[cfg(test)]
mod tests;
