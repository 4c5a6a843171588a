//! How long steps and plans take at the most. Leaves the plan's limit aside.
//!
//! Sums are of 128 bits and never overflow: a step has fewer than 2^31 attempts and as many delays of less than 2^63 ms each,
//! a plan has 2^10 steps, and a sum is multiplied by at most 2^10 slots.

use crate::plan::{Plan, RetryPolicy, StepIndex};
use alloc::vec;
use alloc::vec::Vec;

/// By step: milliseconds that it holds its slot at the most, not counting what it waits for workers.
pub(super) fn of_steps(plan: &Plan) -> Vec<u128> {
    let n_attempts = plan.retry_policy.max_attempts;
    let delays_ms = delays_ms(&plan.retry_policy, n_attempts - 1);
    let steps = (0..).map(StepIndex).zip(&plan.steps);
    let worst_ms = steps.map(|(index, step)| match step.timeout_ms {
        // nothing but the plan's limit bounds it, whatever its attempts.
        None => u128::from(plan.timeout_ms),
        //
        Some(timeout_ms) => match plan.attempts_max(index) {
            1 => u128::from(timeout_ms),
            n_attempts => u128::from(timeout_ms) * u128::from(n_attempts) + delays_ms,
        },
    });
    worst_ms.collect()
}

/// The chain of dependencies that takes longest. Among equals the one whose last step comes first in canonical order, and so backwards.
pub(super) fn critical_path(plan: &Plan, worst_ms: &[u128]) -> Vec<StepIndex> {
    // By step: when it ends at the latest if slots are free, and the dependency that it waits for longest.
    let mut ends_ms = vec![0; worst_ms.len()];
    let mut after = vec![None; worst_ms.len()];
    let mut last = plan.order.canonical[0];
    for step in &plan.order.canonical {
        let mut longest: Option<StepIndex> = None;
        for dependency in &plan.step(*step).depends_on {
            let is_longer = longest.is_none_or(|longest| {
                let ends = |step: StepIndex| ends_ms[step.as_usize()];
                (ends(*dependency), plan.position(longest)) > (ends(longest), plan.position(*dependency))
            });
            if is_longer {
                longest = Some(*dependency);
            }
        }
        after[step.as_usize()] = longest;
        let starts_ms = longest.map_or(0, |dependency| ends_ms[dependency.as_usize()]);
        ends_ms[step.as_usize()] = starts_ms + worst_ms[step.as_usize()];
        if ends_ms[step.as_usize()] > ends_ms[last.as_usize()] {
            last = *step;
        }
    }
    let mut path: Vec<StepIndex> =
        core::iter::successors(Some(last), |step| after[step.as_usize()]).collect();
    path.reverse();
    path
}

/// Returns the milliseconds of all steps at the most, given the length of the longest chain. At most as many slots as steps.
pub(super) fn of_all(plan: &Plan, worst_ms: &[u128], chain_ms: u128, n_slots: u32) -> u128 {
    // of each chain one step at a time is ready or holds a slot.
    // So with a slot for each chain a step that is ready finds one, and only dependencies make a step wait.
    if n_slots as usize >= n_chains(plan) {
        return chain_ms;
    }
    // Graham's bound of list scheduling.
    // While a slot is free no step is ready, one that cannot run included.
    // So whatever step ends last, something that it waits for holds a slot: all times with a free slot fit into one chain, P <= L.
    // In the rest of the time, F, every slot is held, so m * F + P <= W. Together F + P <= (W + (m - 1) * P) / m.
    // Nothing in this depends on how long steps really take or which of them fail, as long as none takes longer than it may.
    // To run the plan with the longest durations would prove nothing:
    // with several slots a step that ends early can make the plan end later.
    // Milliseconds are whole, so what is left of the division cannot be used.
    let work_ms: u128 = worst_ms.iter().sum();
    let n_slots = u128::from(n_slots);
    (work_ms + (n_slots - 1) * chain_ms) / n_slots
}

/// Returns a number of chains of dependencies that have all steps together; not always the least one, which costs more to find.
fn n_chains(plan: &Plan) -> usize {
    let mut is_last = vec![true; plan.steps.len()];
    for step in &plan.order.canonical {
        let dependencies = plan.step(*step).depends_on.iter();
        if let Some(before) = dependencies
            .rev()
            .find(|dependency| is_last[dependency.as_usize()])
        {
            is_last[before.as_usize()] = false;
        }
    }
    is_last.into_iter().filter(|is_last| *is_last).count()
}

/// Returns the milliseconds of the delays before the first `n_retries` retries together, at most this much.
/// The cost has a bound: beyond the first retries whole runs of them count with their longest delay.
fn delays_ms(policy: &RetryPolicy, n_retries: u32) -> u128 {
    //
    let max_ms = u128::from(policy.max_backoff_ms());
    let is_constant = policy.backoff_multiplier == 1.0 || policy.backoff_ms == 0;
    if is_constant && n_retries > 0 {
        return u128::from(policy.delay_ms(1)) * u128::from(n_retries);
    }
    let mut sum_ms = 0;
    for n in 1..=n_retries.min(EXACT_DELAYS) {
        let delay_ms = u128::from(policy.delay_ms(n));
        if delay_ms == max_ms {
            // None is longer.
            return sum_ms + max_ms * u128::from(n_retries - n + 1);
        }
        sum_ms += delay_ms;
    }
    let mut n_done = n_retries.min(EXACT_DELAYS);
    let run = (n_retries - n_done).div_ceil(RUNS);
    while n_done < n_retries {
        let n_last = n_retries.min(n_done + run);
        // Powers are rounded, so an earlier delay of a run may be longer than the last one by less than one in 2^20.
        let last_ms = u128::from(policy.delay_ms(n_last));
        let longest_ms = (last_ms + (last_ms >> 18) + 1).min(max_ms);
        sum_ms += longest_ms * u128::from(n_last - n_done);
        n_done = n_last;
    }
    sum_ms
}

/// So many delays are summed up one by one.
const EXACT_DELAYS: u32 = 256;
/// The others in so many runs.
const RUNS: u32 = 64;

#[cfg(test)]
mod tests {
    //! The sum of delays against the delays themselves.

    use super::{EXACT_DELAYS, delays_ms};
    use crate::plan::RetryPolicy;
    use alloc::vec::Vec;

    fn policy(backoff_ms: u64, backoff_multiplier: f64, max_backoff_ms: u64) -> RetryPolicy {
        RetryPolicy {
            max_attempts: u32::MAX >> 1,
            backoff_ms,
            backoff_multiplier,
            max_backoff_ms,
            retryable_error_codes: Vec::new(),
        }
    }

    fn one_by_one(policy: &RetryPolicy, n_retries: u32) -> u128 {
        (1..=n_retries).map(|n| u128::from(policy.delay_ms(n))).sum()
    }

    //
    #[test]
    fn the_sum_of_delays_is_never_too_small_and_exact_for_few_or_capped_ones() {
        let multipliers = [1.0, 1.0 + f64::EPSILON, 1.000_1, 1.01, 1.5, 2.0, 1e300];
        for multiplier in multipliers {
            for (backoff_ms, max_ms) in [
                (0, 0),
                (0, 9),
                (7, 7),
                (9, 7),
                (1, 60_000),
                (250, 1 << 62),
                (1 << 60, 1 << 62),
            ] {
                let policy = policy(backoff_ms, multiplier, max_ms);
                for n_retries in [0, 1, 2, 3, 10, EXACT_DELAYS, EXACT_DELAYS + 1, 1_000, 20_000] {
                    let (sum_ms, exact_ms) = (delays_ms(&policy, n_retries), one_by_one(&policy, n_retries));
                    assert!(
                        sum_ms >= exact_ms,
                        "{policy:?} {n_retries}: {sum_ms} < {exact_ms}"
                    );
                    if n_retries <= EXACT_DELAYS || multiplier == 1.0 || multiplier >= 1.5 {
                        assert_eq!(sum_ms, exact_ms, "{policy:?} {n_retries}");
                    }
                    assert!(
                        sum_ms <= exact_ms + exact_ms / 5 + u128::from(n_retries),
                        "{policy:?} {n_retries}"
                    );
                }
            }
        }
    }

    //
    #[test]
    fn the_sum_of_two_billion_delays_costs_no_more_than_a_few_hundred() {
        let n_retries = u32::MAX >> 1;
        assert_eq!(
            delays_ms(&policy(1, 2.0, 60_000), n_retries),
            65_535 + 60_000 * u128::from(n_retries - 16)
        );
        // Never reaches its limit, and every delay is 1 ms.
        let slow = delays_ms(&policy(1, 1.0 + f64::EPSILON, 60_000), n_retries);
        assert!(
            (u128::from(n_retries)..3 * u128::from(n_retries)).contains(&slow),
            "{slow}"
        );
        assert_eq!(
            delays_ms(&policy(1 << 62, 1.5, (1 << 63) - 1), n_retries) >> 93,
            1
        );
    }
}
