//! The wall clock, for times that people read and that others send: deadlines, ids, certificates.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the milliseconds since 1970; a wall clock before that counts as 1970.
pub fn unix_ms() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)
}
