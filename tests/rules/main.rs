//! All executions of all small plans: every graph of up to four steps, every `on_failure`, policies, slots and
//! limits, every outcome, loss and limit in every order. Draws no random number and knows no story.
//!
//! What is compared: `lockstep` gives each input to the contract crate and to the second interpreter, and compares
//! whether they accept it, what they want done, what they add to the audit trail, and field by field where they stand
//! then; where an execution ends, also the results. Its `invariants` hold for both, whatever they agree on.
//!
//! Why states may be taken as one:
//! - The record, the list of errors and the outputs are only appended to and read when the result is made. Each
//!   transition appends the same on both sides, so whole records are the same whatever way led to a state.
//! - `key::whole` is everything else, and the compiler sees to it that `AbstractState` leaves out no field.
//! - The plan's limit is as good as far away while it is further off than a step's timer reaches; from there time
//!   may jump to the last millisecond before it and beyond it, so that near limits are explored as well.
//! - `key::rest` forgets steps that ended. In plans of up to three steps, explored without it, all states that it
//!   takes as one are seen to lead to the same; plans of four steps, explored with it, rely on that.
//! - Plans with other orders of their lists are those whose lists are in canonical order with other names:
//!   `relabel` plays both side by side.
//!
//! `ESCAPEMENT_LONG=1 cargo test --release -p escapement-tests --test rules -- --nocapture` takes all plans of four steps
//! and three attempts in those of three: a few minutes on two cores. Otherwise there is a share of the plans of four
//! steps.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps says at which line its assumption broke"
)]
#![allow(clippy::print_stdout, reason = "the counts are what somebody runs this for")]

mod explore;
mod key;
mod moves;
mod plans;
mod relabel;
mod seen;
mod table;
mod transitions;
mod walks;
