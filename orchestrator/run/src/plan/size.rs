//! How many steps a plan has under a preset that says so.

use super::{Code, Plan, Violation, Violations};
use crate::presets::Preset;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

// RUN-11.6
/// What is wrong with the number of steps; `None` if nothing is. A decomposed question has neither a single step nor too many
/// for one to follow.
pub fn out_of_size(plan: &Plan, preset: &str) -> Option<Violations> {
    let n_steps = plan.steps.len();
    if preset != Preset::PlanMode.as_str() || PLAN_MODE_STEPS.contains(&n_steps) {
        return None;
    }
    let (least, most) = (PLAN_MODE_STEPS.start(), PLAN_MODE_STEPS.end());
    Violations::new(Vec::from([Violation {
        path: String::from("steps"),
        code: Code::PlanSize,
        message: format!("A plan under the preset plan_mode has {least} to {most} steps, not {n_steps}."),
    }]))
}

/// Steps of a plan under the preset `plan_mode`.
const PLAN_MODE_STEPS: RangeInclusive<usize> = 2..=7;
