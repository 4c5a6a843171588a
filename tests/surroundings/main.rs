//! Every program of the project in unusual surroundings: without a log, at its limits, under foreign signals and clocks.
//! What must hold: it serves, or says in a sentence why not and exits with the documented code; and nothing that was acknowledged is lost.
//!
//! A [`Place`](place::Place) is a line of shell, so that a row of a table is a line as well.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps says at which line its assumption broke"
)]

mod place;
mod stage;

mod clocks;
mod commands;
mod directories;
mod limits;
mod orchestrators;
mod refusals;
mod signals;
mod workers;
