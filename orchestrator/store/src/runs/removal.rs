//! Which runs may be removed, and what comes of it. Removes nothing itself.

use crate::Held;

/// Which runs a store keeps. `None` keeps for ever; the default keeps everything.
///
/// Only ended runs are ever removed. A run that was removed leaves its id and the request that created it behind, so
/// that nothing is created under them as long as they are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunRemoval {
    /// Ended runs are kept for so many milliseconds after they ended.
    pub keep_ended_ms: Option<u64>,
    /// Ended runs that are kept at most: those that ended last.
    pub keep_ended_count: Option<u64>,
    /// The ids of removed runs are refused as used for so many milliseconds after the removal.
    pub keep_ids_ms: Option<u64>,
    /// Runs that are kept in any case, by their places in the order of ending, since readers have not come to them.
    pub held: Option<Held>,
}

impl RunRemoval {
    /// Returns true if nothing is ever removed and no id forgotten.
    pub fn keeps_everything(&self) -> bool {
        self.keep_ended_ms.is_none() && self.keep_ended_count.is_none() && self.keep_ids_ms.is_none()
    }

    /// Returns true for a run that is not removed now. One without a place is read by nobody.
    pub fn holds(&self, place: Option<u64>, ended_at: i64, now_unix_ms: i64) -> bool {
        let (Some(held), Some(place)) = (self.held, place) else {
            return false;
        };
        place > held.behind && ended_at >= earlier(now_unix_ms, held.for_ms)
    }

    /// What ended before this moment is removed; `None` if no age is a reason.
    pub fn ended_before(&self, now_unix_ms: i64) -> Option<i64> {
        self.keep_ended_ms.map(|keep_ms| earlier(now_unix_ms, keep_ms))
    }

    /// How many of those that ended first are removed for their number.
    pub fn n_too_many(&self, n_ended: u64) -> u64 {
        self.keep_ended_count
            .map_or(0, |count| n_ended.saturating_sub(count))
    }

    /// Ids whose run was removed before this moment are forgotten.
    pub fn removed_before(&self, now_unix_ms: i64) -> Option<i64> {
        self.keep_ids_ms.map(|keep_ms| earlier(now_unix_ms, keep_ms))
    }
}

fn earlier(now_unix_ms: i64, keep_ms: u64) -> i64 {
    now_unix_ms.saturating_sub(i64::try_from(keep_ms).unwrap_or(i64::MAX))
}

/// What one step of removal did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunsRemoved {
    /// Runs that are gone now; their ids are still refused.
    pub n_runs: u64,
    /// Removed runs whose ids are forgotten now.
    pub n_ids: u64,
    /// The step ended at its bound: another one may find more at once.
    pub has_more: bool,
}

/// What came of removing one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunRemoved {
    /// It is gone; its ids are still refused.
    Done,
    /// It has not ended, and stays.
    Live,
    /// There is none of that id, or it was removed before.
    NotFound,
}
