//! The checks, one file per question.

mod heartbeats;
mod hello;
mod ordinary;
mod work;

use crate::catalogue::Check;

/// All of them.
pub(crate) const ALL: &[&[Check]] = &[ordinary::CHECKS, hello::CHECKS, heartbeats::CHECKS, work::CHECKS];
/// The check that runs where only rules are wanted.
pub(crate) const ORDINARY: &str = "an_ordinary_day";
