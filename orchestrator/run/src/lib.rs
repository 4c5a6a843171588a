//! The law of one run: a plan that is executed step by step, each attempt of each unit as an execution of its own.
//! Does no I/O, reads no clock, draws no random number, waits for nothing, logs nothing, evaluates no expression of a user:
//! it is `no_std`, and the compiler checks it. Knows neither the contract's core nor the engine; it is a caller.
#![no_std]
#![warn(clippy::too_many_lines)]

extern crate alloc;

pub mod plan;
pub mod template;
