//! Counts the triggers of each namespace, and the checks of their conditions.

use std::collections::BTreeMap;

use escapement_model::Namespace;

/// Usage of each namespace by its triggers.
#[derive(Debug, Default)]
pub(super) struct Tenants {
    by_namespace: BTreeMap<Namespace, Share>,
    by_id: BTreeMap<String, (Namespace, Share)>,
}

/// Usage by triggers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Share {
    n_triggers: u64,
    /// Looks at conditions in a million seconds.
    n_looks: u64,
}

/// Reason for which a trigger is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoPlace {
    /// The namespace has as many triggers as it may have.
    Triggers,
    /// The conditions of the namespace are checked at the highest permitted rate.
    Looks,
}

impl Share {
    /// Returns the share of one trigger. `interval_ms`: pause between two checks of its condition, if it has
    /// one.
    pub(super) fn of(interval_ms: Option<i64>) -> Self {
        let n_looks = interval_ms.map_or(0, |interval_ms| {
            MILLION_SECONDS_MS.div_ceil(u64::try_from(interval_ms).unwrap_or(1).max(1))
        });
        Self {
            n_triggers: 1,
            n_looks,
        }
    }

    fn is_empty(self) -> bool {
        self.n_triggers == 0
    }
}

impl Tenants {
    /// Takes a trigger as it is now; `None` if it is gone.
    pub(super) fn set(&mut self, trigger_id: &str, taken: Option<(Namespace, Share)>) {
        if let Some((namespace, share)) = self.by_id.remove(trigger_id)
            && let Some(all) = self.by_namespace.get_mut(&namespace)
        {
            all.n_triggers -= share.n_triggers;
            all.n_looks -= share.n_looks;
            if all.is_empty() {
                self.by_namespace.remove(&namespace);
            }
        }
        if let Some((namespace, share)) = taken {
            let all = self.by_namespace.entry(namespace.clone()).or_default();
            all.n_triggers += share.n_triggers;
            all.n_looks += share.n_looks;
            self.by_id.insert(trigger_id.to_owned(), (namespace, share));
        }
    }

    /// Returns true if the trigger exists.
    pub(super) fn knows(&self, trigger_id: &str) -> bool {
        self.by_id.contains_key(trigger_id)
    }

    // TRIG-1.5
    /// Reserves the share of a trigger that is about to be saved. A share that does not grow is never
    /// refused.
    pub(super) fn take_place(
        &mut self,
        trigger_id: &str,
        (namespace, wanted): (Namespace, Share),
    ) -> Result<(), NoPlace> {
        let before = self.by_id.get(trigger_id).map(|(_, share)| *share);
        let before = before.unwrap_or_default();
        let all = self.by_namespace.get(&namespace).copied().unwrap_or_default();
        let is_over =
            |all: u64, before: u64, wanted: u64, max: u64| wanted > before && all - before + wanted > max;
        if is_over(all.n_triggers, before.n_triggers, wanted.n_triggers, TRIGGERS_MAX) {
            return Err(NoPlace::Triggers);
        }
        if is_over(all.n_looks, before.n_looks, wanted.n_looks, LOOKS_MAX) {
            return Err(NoPlace::Looks);
        }
        self.set(trigger_id, Some((namespace, wanted)));
        Ok(())
    }
}

/// Triggers of one namespace.
pub(super) const TRIGGERS_MAX: u64 = 10_000;
/// Looks at the conditions of one namespace in a second.
pub(super) const LOOKS_PER_SECOND_MAX: u64 = 20;
const LOOKS_MAX: u64 = LOOKS_PER_SECOND_MAX * MILLION_SECONDS_MS / 1_000;
const MILLION_SECONDS_MS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::{LOOKS_PER_SECOND_MAX, NoPlace, Share, TRIGGERS_MAX, Tenants};
    use escapement_model::Namespace;

    fn looked_at(interval_ms: i64) -> (Namespace, Share) {
        (Namespace::default(), Share::of(Some(interval_ms)))
    }

    fn other() -> (Namespace, Share) {
        (Namespace::default(), Share::of(None))
    }

    // TRIG-1.5
    #[test]
    fn conditions_of_a_namespace_are_looked_at_so_often_and_not_more() {
        let mut tenants = Tenants::default();
        for n in 0..LOOKS_PER_SECOND_MAX {
            assert_eq!(tenants.take_place(&format!("{n}"), looked_at(1_000)), Ok(()));
        }
        assert_eq!(tenants.take_place("more", looked_at(1_000)), Err(NoPlace::Looks));
        assert_eq!(tenants.take_place("0", looked_at(1_000)), Ok(()), "as it is");
        assert_eq!(tenants.take_place("0", looked_at(2_000)), Ok(()), "less often");
        assert_eq!(tenants.take_place("more", looked_at(1_000)), Err(NoPlace::Looks));
        assert_eq!(tenants.take_place("more", looked_at(2_000)), Ok(()));
        let elsewhere = (Namespace::parse("elsewhere").unwrap(), Share::of(Some(1_000)));
        assert_eq!(tenants.take_place("other", elsewhere), Ok(()));
        // A disabled trigger takes no check, and a removed one nothing.
        assert_eq!(tenants.take_place("off", other()), Ok(()));
        assert_eq!(tenants.take_place("off", looked_at(1_000)), Err(NoPlace::Looks));
        tenants.set("1", None);
        assert_eq!(tenants.take_place("off", looked_at(1_000)), Ok(()));
    }

    // TRIG-1.5
    #[test]
    fn a_namespace_has_so_many_triggers() {
        let mut tenants = Tenants::default();
        for n in 0..TRIGGERS_MAX {
            assert_eq!(tenants.take_place(&format!("{n}"), other()), Ok(()));
        }
        assert_eq!(tenants.take_place("more", other()), Err(NoPlace::Triggers));
        tenants.set("7", None);
        assert_eq!(tenants.take_place("more", other()), Ok(()));
    }
}
