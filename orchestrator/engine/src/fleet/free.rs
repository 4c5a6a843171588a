//! The index of sessions with a free slot for one action. Knows a session by its key alone.

use crate::keys::SessionKey;
use alloc::collections::BTreeSet;
use escapement_model::limits::NESTING_DEPTH_MAX;

/// The sessions that could take an attempt now.
#[derive(Debug, Default)]
pub(super) struct FreeSessions {
    /// Sessions with an ordinary slot, the least loaded first.
    ordinary: BTreeSet<(u32, SessionKey)>,
    /// Sessions with a slot for an attempt that only waits, by depth of nesting.
    waiting: BTreeSet<(u32, SessionKey)>,
}

/// The free slots of a session, and so its entries in the index. The default is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FreeSlots {
    /// The session's load, if it has an ordinary slot.
    pub(super) load: Option<u32>,
    /// Depths of nesting at which it has a slot for an attempt that only waits, a bit for each.
    pub(super) depths: u16,
}

impl FreeSessions {
    /// Replaces the entries of a session. Returns true if it has a slot of a kind that it had not.
    pub(super) fn replace(&mut self, session: SessionKey, entries: &mut FreeSlots, now: FreeSlots) -> bool {
        let before = core::mem::replace(entries, now);
        if before.load != now.load {
            if let Some(load) = before.load {
                assert!(self.ordinary.remove(&(load, session)), "an entry is in the index");
            }
            if let Some(load) = now.load {
                self.ordinary.insert((load, session));
            }
        }
        for depth in (0..=NESTING_DEPTH_MAX).filter(|depth| (before.depths ^ now.depths) & (1 << depth) != 0)
        {
            if now.depths & (1 << depth) != 0 {
                self.waiting.insert((depth, session));
            } else {
                self.waiting.remove(&(depth, session));
            }
        }
        (now.load.is_some() && before.load.is_none()) || now.depths & !before.depths != 0
    }

    /// Returns the least loaded session with an ordinary slot, or else one with a slot to wait at this depth.
    pub(super) fn first(&self, depth: u32, may_do: impl Fn(SessionKey) -> bool) -> Option<SessionKey> {
        let mut ordinary = self.ordinary.iter().map(|(_, session)| *session);
        let waiting = self.waiting.range((depth, SessionKey(0))..);
        let mut waiting = waiting
            .take_while(|(other, _)| *other == depth)
            .map(|(_, session)| *session);
        ordinary
            .find(|session| may_do(*session))
            .or_else(|| waiting.find(|session| may_do(*session)))
    }
}

#[cfg(test)]
mod tests {
    use super::{FreeSessions, FreeSlots};
    use crate::keys::SessionKey;

    const ONE: SessionKey = SessionKey(1);
    const TWO: SessionKey = SessionKey(2);

    fn ordinary(load: u32) -> FreeSlots {
        FreeSlots {
            load: Some(load),
            depths: 0,
        }
    }

    fn waiting(depths: u16) -> FreeSlots {
        FreeSlots { load: None, depths }
    }

    #[test]
    fn the_least_loaded_session_comes_first_and_an_ordinary_slot_before_one_to_wait() {
        let (mut index, mut one, mut two) = Default::default();
        FreeSessions::replace(&mut index, ONE, &mut one, waiting(0b11));
        assert_eq!(index.first(1, |_| true), Some(ONE));
        assert_eq!(index.first(2, |_| true), None);
        index.replace(TWO, &mut two, ordinary(5));
        assert_eq!(index.first(1, |_| true), Some(TWO));
        index.replace(ONE, &mut one, ordinary(4));
        assert_eq!(index.first(1, |_| true), Some(ONE));
        assert_eq!(index.first(1, |session| session != ONE), Some(TWO));
    }

    #[test]
    fn only_a_slot_of_a_new_kind_is_reported_and_what_is_withdrawn_is_gone() {
        let (mut index, mut one) = (FreeSessions::default(), FreeSlots::default());
        assert!(index.replace(ONE, &mut one, ordinary(0)));
        assert!(!index.replace(ONE, &mut one, ordinary(1)));
        assert!(index.replace(ONE, &mut one, waiting(0b1)));
        assert!(index.replace(ONE, &mut one, waiting(0b10)));
        assert!(!index.replace(ONE, &mut one, FreeSlots::default()));
        assert_eq!(index.first(1, |_| true), None);
    }
}
