//! The checker on histories written by hand and on random ones. Starts no process.

mod accused;
mod acquitted;
mod legal;
mod random;
mod told;
