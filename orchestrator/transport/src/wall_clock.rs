//! The wall clock, as credentials and certificates mean it. Everything else here goes by the monotonic clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::sleep;

/// Milliseconds since 1970; a wall clock before that counts as 1970.
pub fn unix_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Returns when the wall clock has reached the instant.
pub(crate) async fn until(end_ms: i64) {
    // Looked at again from time to time: the wall clock may be set.
    while let left_ms @ 1.. = end_ms.saturating_sub(unix_ms()) {
        let left = Duration::from_millis(left_ms.unsigned_abs());
        sleep(left.min(LOOK_INTERVAL)).await;
    }
}

/// Between two looks at the wall clock while an instant is waited for.
const LOOK_INTERVAL: Duration = Duration::from_secs(30);
