//! The second validator and the second interpreter, which the tests of the contract bring. Adds nothing.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "it is code of tests, and only some of it is used here"
)]

#[path = "../../contract/reference/errors.rs"]
pub(crate) mod errors;
#[path = "../../contract/reference/interpret.rs"]
pub(crate) mod interpret;
#[path = "../../contract/reference/timers.rs"]
pub(crate) mod timers;
#[path = "../../contract/reference/validate.rs"]
pub(crate) mod validate;
