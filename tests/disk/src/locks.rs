//! Locks that handles hold on files: those of a database and those of its shared memory. Nobody waits here.

use std::collections::BTreeMap;

/// Slots of the shared memory's locks.
pub(crate) const SLOTS: usize = 8;

/// How much of a database a handle has locked; the numbers are those of SQLite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    #[default]
    None = 0,
    Shared = 1,
    Reserved = 2,
    Pending = 3,
    Exclusive = 4,
}

impl Level {
    pub(crate) fn from_sqlite(level: i32) -> Self {
        match level {
            0 => Self::None,
            1 => Self::Shared,
            2 => Self::Reserved,
            3 => Self::Pending,
            _ => Self::Exclusive,
        }
    }
}

/// Who holds what of one file.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    /// By handle.
    levels: BTreeMap<u64, Level>,
    slots: [Slot; SLOTS],
}

#[derive(Debug, Default)]
struct Slot {
    exclusive: Option<u64>,
    shared: Vec<u64>,
}

impl Locks {
    /// Raises the level; false if somebody else is in the way.
    pub(crate) fn lock(&mut self, handle: u64, want: Level) -> bool {
        let held = self.levels.get(&handle).copied().unwrap_or_default();
        if held >= want {
            return true;
        }
        let others = self
            .levels
            .iter()
            .filter(|(other, _)| **other != handle)
            .map(|(_, level)| *level)
            .max()
            .unwrap_or_default();
        let free = match want {
            Level::None | Level::Shared => others < Level::Pending,
            Level::Reserved | Level::Pending => others < Level::Reserved,
            Level::Exclusive if others == Level::Shared => {
                // No new reader gets in meanwhile.
                self.levels.insert(handle, Level::Pending);
                false
            }
            Level::Exclusive => others == Level::None,
        };
        if free {
            self.levels.insert(handle, want);
        }
        free
    }

    pub(crate) fn unlock(&mut self, handle: u64, keep: Level) {
        let held = self.levels.get(&handle).copied().unwrap_or_default();
        match keep {
            Level::None => {
                self.levels.remove(&handle);
            }
            _ if held > keep => {
                self.levels.insert(handle, keep);
            }
            _ => {}
        }
    }

    pub(crate) fn is_reserved(&self) -> bool {
        self.levels.values().any(|level| *level >= Level::Reserved)
    }

    /// Takes one slot together with others; false if somebody else is in the way.
    pub(crate) fn share(&mut self, handle: u64, slot: usize) -> bool {
        let slot = &mut self.slots[slot];
        if slot.exclusive.is_some_and(|holder| holder != handle) {
            return false;
        }
        if !slot.shared.contains(&handle) {
            slot.shared.push(handle);
        }
        true
    }

    /// Takes slots alone, all or none of them.
    pub(crate) fn claim(&mut self, handle: u64, slots: std::ops::Range<usize>) -> bool {
        let free = self.slots[slots.clone()].iter().all(|slot| {
            slot.exclusive.is_none_or(|holder| holder == handle)
                && slot.shared.iter().all(|holder| *holder == handle)
        });
        if free {
            for slot in &mut self.slots[slots] {
                slot.exclusive = Some(handle);
            }
        }
        free
    }

    pub(crate) fn release(&mut self, handle: u64, slots: std::ops::Range<usize>) {
        for slot in &mut self.slots[slots] {
            slot.shared.retain(|holder| *holder != handle);
            if slot.exclusive == Some(handle) {
                slot.exclusive = None;
            }
        }
    }

    /// The handle is closed.
    pub(crate) fn forget(&mut self, handle: u64) {
        self.levels.remove(&handle);
        self.release(handle, 0..SLOTS);
    }
}
