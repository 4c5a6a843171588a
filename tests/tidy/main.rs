//! Checks of the checkout itself: what the code may use, what may depend on what, what must be documented.
//! Runs none of the code that it checks.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps says at which line its assumption broke"
)]

mod architecture;
mod circles;
mod dependencies;
mod english;
mod layout;
mod licences;
mod links;
mod metadata;
mod protos;
mod requirements;
mod rules;
mod source;
mod targets;
mod words;

/// Fails with one line for each finding, and with what to do about them.
#[track_caller]
fn assert_none(findings: &[String], instead: &str) {
    assert!(
        findings.is_empty(),
        "{} found; {instead}\n{}",
        findings.len(),
        findings.join("\n")
    );
}
