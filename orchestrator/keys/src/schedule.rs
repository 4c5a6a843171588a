//! When an issuer is asked for its keys. Asks nobody, and has no clock: times are arguments, in milliseconds of any monotonic one.

use crate::limits::{ASK_MS_MIN, KEEP_MS, REFRESH_MS};

/// What is known of the looks at one issuer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Schedule {
    /// Time at which the next look is due.
    due_ms: u64,
    /// Time at which the last look began.
    began_ms: Option<u64>,
    /// Time at which the keys that are believed came.
    fetched_ms: Option<u64>,
    is_under_way: bool,
    /// True if the last look brought nothing.
    has_failed: bool,
}

impl Schedule {
    /// Of an issuer that nobody has asked yet: it is asked at once.
    pub(crate) fn new(now_ms: u64) -> Self {
        Self {
            due_ms: now_ms,
            began_ms: None,
            fetched_ms: None,
            is_under_way: false,
            has_failed: false,
        }
    }

    /// Returns the time at which something is to be done next; `None` while a look is under way.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        let end_ms = self.fetched_ms.map(|fetched_ms| fetched_ms + KEEP_MS);
        (!self.is_under_way).then(|| end_ms.map_or(self.due_ms, |end_ms| end_ms.min(self.due_ms)))
    }

    /// How long ago the keys that are believed came; `None` if there are none.
    pub(crate) fn age_ms(&self, now_ms: u64) -> Option<u64> {
        self.fetched_ms
            .map(|fetched_ms| now_ms.saturating_sub(fetched_ms))
    }

    /// Begins a look if one is due.
    pub(crate) fn begin(&mut self, now_ms: u64) -> bool {
        let is_due = !self.is_under_way && self.due_ms <= now_ms;
        if is_due {
            self.is_under_way = true;
            self.began_ms = Some(now_ms);
        }
        is_due
    }

    /// The look has brought keys. `jitter` is drawn at random.
    pub(crate) fn succeeded(&mut self, now_ms: u64, jitter: u16) {
        self.is_under_way = false;
        self.has_failed = false;
        self.fetched_ms = Some(now_ms);
        self.due_ms = now_ms + REFRESH_MS + REFRESH_MS / 10 * u64::from(jitter) / u64::from(u16::MAX);
    }

    /// The look has brought nothing that can be used: it is repeated soon.
    pub(crate) fn failed(&mut self, now_ms: u64) {
        self.is_under_way = false;
        self.has_failed = true;
        self.due_ms = self.soonest_ms(now_ms);
    }

    /// Somebody has shown a token with a key that is not there. True if a look may bring it: one is under way then, or is to begin.
    /// False if the keys were looked at a moment ago and the key was not among them.
    pub(crate) fn ask(&mut self, now_ms: u64) -> bool {
        let soonest_ms = self.soonest_ms(now_ms);
        let may_explain = self.is_under_way || self.has_failed || soonest_ms == now_ms;
        if may_explain && !self.is_under_way {
            self.due_ms = self.due_ms.min(soonest_ms);
        }
        may_explain
    }

    /// Returns true if the keys are too old to be believed.
    pub(crate) fn is_stale(&self, now_ms: u64) -> bool {
        self.fetched_ms
            .is_some_and(|fetched_ms| fetched_ms + KEEP_MS <= now_ms)
    }

    /// The keys are not believed any more.
    pub(crate) fn forget(&mut self) {
        self.fetched_ms = None;
    }

    fn soonest_ms(&self, now_ms: u64) -> u64 {
        self.began_ms
            .map_or(now_ms, |began_ms| now_ms.max(began_ms + ASK_MS_MIN))
    }
}

#[cfg(test)]
mod tests;
