//! The clock of leases and limits. Gives no time of day.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Returns the time on a clock that never goes back, and that also counts while the machine sleeps, if the system has one.
///
/// The orchestrator's clock counts during sleep, too. With another clock, a worker that wakes up would hold an expired
/// lease, and its handlers would repeat the work of others.
pub(crate) fn now() -> Duration {
    since_some_time() + Duration::from_millis(SLEPT_MS.load(Ordering::Relaxed))
}

/// Lets that much time pass at once, as by a machine that sleeps.
pub(crate) fn sleep_machine(slept: Duration) {
    let slept_ms = u64::try_from(slept.as_millis()).unwrap_or(u64::MAX);
    SLEPT_MS.fetch_add(slept_ms, Ordering::Relaxed);
}

#[cfg(target_os = "linux")]
fn since_some_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    now.try_into()
        .expect("no machine was started before its own clock")
}

#[cfg(not(target_os = "linux"))]
fn since_some_time() -> Duration {
    use std::sync::OnceLock;
    use std::time::Instant;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

/// Time that tests have let pass.
static SLEPT_MS: AtomicU64 = AtomicU64::new(0);
