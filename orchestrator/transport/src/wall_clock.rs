//! Waits by the wall clock, for the ends of credentials and certificates. Other waits use the monotonic clock.

use std::time::Duration;

use escapement_process::unix_ms;
use tokio::time::sleep;

/// Returns when the wall clock has reached the instant.
pub(crate) async fn until(end_ms: i64) {
    // Read again periodically, since the wall clock may be set.
    while let left_ms @ 1.. = end_ms.saturating_sub(unix_ms()) {
        let left = Duration::from_millis(left_ms.unsigned_abs());
        sleep(left.min(READ_INTERVAL)).await;
    }
}

/// Interval between two reads of the wall clock during a wait.
const READ_INTERVAL: Duration = Duration::from_secs(30);
