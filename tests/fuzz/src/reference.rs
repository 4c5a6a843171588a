//! The second validator, and the words between the contract crate and the second interpreter. Adds nothing.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "it is code of tests, and only some of it is used here"
)]

#[path = "../../contract/reference/border.rs"]
pub(crate) mod border;
#[path = "../../contract/reference/validate.rs"]
pub(crate) mod validate;
