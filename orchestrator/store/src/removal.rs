//! What may be removed, and what is left of it. Removes nothing itself.

use crate::StoredSummary;
use escapement_model::{ExecutionId, PlanId};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a store keeps. `None` keeps for ever; the default keeps everything.
///
/// Only settled executions are ever removed. An execution that was removed leaves its ids behind, so that
/// nothing is accepted under them as long as they are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removal {
    /// Settled executions are kept for so many milliseconds after they settled.
    pub keep_settled_ms: Option<u64>,
    /// At most so many settled executions are kept, those that settled last.
    pub keep_settled_count: Option<u64>,
    /// Executions that settled less than so many milliseconds ago are not removed for their number; 0 spares none.
    pub spare_younger_ms: u64,
    /// The ids of removed executions are refused as used for so many milliseconds after the removal.
    pub keep_ids_ms: Option<u64>,
    /// Executions that are kept in any case, since readers have not come to them.
    pub held: Option<Held>,
}

/// Executions that settled behind a place, and not long ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The place in the order of settling that all readers have come to.
    pub behind: u64,
    /// They are held for so many milliseconds after they settled.
    pub for_ms: u64,
}

/// The place up to which every reader has had what it wants, as far as that is saved. Cheap to clone. The default is that of no readers.
#[derive(Clone, Debug)]
pub struct FeedMark {
    place: Arc<AtomicU64>,
    patience_ms: u64,
}

impl Default for FeedMark {
    fn default() -> Self {
        Self::new(0)
    }
}

impl FeedMark {
    /// That of no readers, so far. What one lacks is held for so many milliseconds after it ended.
    pub fn new(patience_ms: u64) -> Self {
        Self {
            place: Arc::new(AtomicU64::new(NO_READER)),
            patience_ms,
        }
    }

    /// What is not to be removed; `None` if there is no reader.
    pub fn held(&self) -> Option<Held> {
        // Relaxed: only the number counts, and nothing else is read by it.
        let behind = self.place.load(Ordering::Relaxed);
        (behind != NO_READER).then_some(Held {
            behind,
            for_ms: self.patience_ms,
        })
    }

    /// All readers have come to this place; `None`: there is none.
    pub fn set(&self, behind: Option<u64>) {
        self.place.store(behind.unwrap_or(NO_READER), Ordering::Relaxed);
    }
}

impl Removal {
    /// Returns true if nothing is ever removed.
    pub fn keeps_everything(&self) -> bool {
        self.keep_settled_ms.is_none() && self.keep_settled_count.is_none() && self.keep_ids_ms.is_none()
    }

    /// Returns true for an execution that is not removed now. One without a place is read by nobody.
    pub fn holds(&self, place: Option<u64>, settled_at: Option<i64>, now_unix_ms: i64) -> bool {
        let (Some(held), Some(place)) = (self.held, place) else {
            return false;
        };
        place > held.behind && settled_at >= Some(earlier(now_unix_ms, held.for_ms))
    }

    /// What settled before this moment is removed for its age.
    pub fn settled_before(&self, now_unix_ms: i64) -> Option<i64> {
        self.keep_settled_ms.map(|keep_ms| earlier(now_unix_ms, keep_ms))
    }

    /// Only what settled before this moment is removed for its number; `None` for everything.
    pub fn spared_from(&self, now_unix_ms: i64) -> Option<i64> {
        (self.spare_younger_ms > 0).then(|| earlier(now_unix_ms, self.spare_younger_ms))
    }

    /// Ids whose execution was removed before this moment are forgotten.
    pub fn removed_before(&self, now_unix_ms: i64) -> Option<i64> {
        self.keep_ids_ms.map(|keep_ms| earlier(now_unix_ms, keep_ms))
    }

    /// How many settled executions are too many.
    pub fn n_excess(&self, n_settled: u64) -> u64 {
        self.keep_settled_count
            .map_or(0, |count| n_settled.saturating_sub(count))
    }
}

fn earlier(now_unix_ms: i64, keep_ms: u64) -> i64 {
    now_unix_ms.saturating_sub(i64::try_from(keep_ms).unwrap_or(i64::MAX))
}

/// What one step of removal did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Executions that are gone now; their ids are still refused.
    pub n_executions: u64,
    /// Removed executions whose ids are forgotten now.
    pub n_ids: u64,
    /// The step ended at its bound: another one may find more at once.
    pub has_more: bool,
}

/// What is left of an execution that was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemovedExecution {
    /// Number.
    pub number: u64,
    /// Refused as used.
    pub execution_id: ExecutionId,
    /// Refused as used.
    pub plan_id: PlanId,
    /// Digest of the request that was accepted under it.
    pub request_digest: [u8; 32],
    /// Unix milliseconds.
    pub settled_at: i64,
    /// Unix milliseconds.
    pub removed_at: i64,
}

impl RemovedExecution {
    /// What is left of a settled execution that is removed at that time, Unix milliseconds.
    pub fn of(summary: &StoredSummary, removed_at: i64) -> Self {
        Self {
            number: summary.number,
            execution_id: summary.execution_id,
            plan_id: summary.plan_id,
            request_digest: summary.request_digest,
            settled_at: summary.settled_at.unwrap_or_default(),
            removed_at,
        }
    }
}

/// Nothing has this place.
const NO_READER: u64 = u64::MAX;
/// Executions that one step removes at most, and removed ones whose ids it forgets.
pub const REMOVED_PER_STEP_MAX: usize = 32;
