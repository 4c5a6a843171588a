//! Computes the pauses before a refused call is made again.

use std::time::Duration;

use escapement_model::ExecutionId;
use tokio::time::sleep;
use tracing::warn;

use crate::limits::{SUBMIT_PAUSE, SUBMIT_PAUSE_MAX};

/// Pauses that grow, and that differ from execution to execution without a random number.
pub(super) struct Pauses {
    next: Duration,
    /// 192 to 319 of 256.
    share: u32,
    has_said: bool,
    execution_id: ExecutionId,
}

impl Pauses {
    pub(super) fn new(execution_id: ExecutionId) -> Self {
        let bytes = execution_id.as_bytes();
        Self {
            next: SUBMIT_PAUSE,
            share: 192 + u32::from(bytes[15] & 127),
            has_said: false,
            execution_id,
        }
    }

    pub(super) async fn wait(&mut self, reason: &str) {
        if self.next >= SUBMIT_PAUSE_MAX && !std::mem::replace(&mut self.has_said, true) {
            warn!(execution_id = %self.execution_id, reason, "contract does not take a call; it is tried again");
        }
        sleep(self.next * self.share / 256).await;
        self.next = (self.next * 2).min(SUBMIT_PAUSE_MAX);
    }
}
