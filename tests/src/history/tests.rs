//! The checker on histories written by hand. Starts no process.

mod accused;
mod acquitted;
mod told;
