//! Time as an argument. Reads no clock.

use crate::plan::Plan;

//
/// An instant, on both clocks. Timers use the monotonic one, timestamps the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Milliseconds of a clock that never goes back.
    pub monotonic_ms: u64,
    /// Unix milliseconds; may jump either way.
    pub unix_ms: i64,
}

//
/// The largest time means that no deadline is set: a default that saturates there leaves time for every
/// limit.
pub const NO_DEADLINE: i64 = i64::MAX;

/// Returns the deadline of a request that names none: acceptance plus the plan's limit plus what the server allows
/// for queueing.
/// Saturates at the end of time.
pub fn default_deadline(accepted_at_unix_ms: i64, plan: &Plan, queue_allowance_ms: u64) -> i64 {
    //
    let allowed = i64::try_from(plan.timeout_ms().saturating_add(queue_allowance_ms)).unwrap_or(NO_DEADLINE);
    accepted_at_unix_ms.saturating_add(allowed)
}

/// Returns the instant on the monotonic clock at which the wall clock should read `unix_ms`; at once if that has
/// passed.
pub fn due_at_unix(unix_ms: i64, now: Moment) -> u64 {
    let left = u64::try_from(unix_ms.saturating_sub(now.unix_ms)).unwrap_or(0);
    now.monotonic_ms.saturating_add(left)
}
