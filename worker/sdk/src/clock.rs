//! The clock of leases and limits. Gives no time of day.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Time on a clock that never goes back, and that runs on while the machine sleeps if there is such a clock.
///
/// The orchestrator's clock runs on too. By one that stands still, a worker whose machine wakes up would hold a lease that
/// was over long ago, and its handlers would do what others do again.
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

/// What tests have let pass.
static SLEPT_MS: AtomicU64 = AtomicU64::new(0);
