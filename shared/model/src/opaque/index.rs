//! The keys of one object in their order, for those who look up many of them. Copies no value.

use super::paid::{BudgetSpent, PaidObject, PaidView, WalkBudget};
use super::view::{next_entry, value_of_entry};
use alloc::vec::Vec;
use core::ops::Range;

/// Where the entries of an encoded Struct lie, by their keys.
#[derive(Clone, Debug)]
pub struct ObjectIndex {
    entries: Vec<IndexedEntry>,
}

#[derive(Clone, Debug)]
struct IndexedEntry {
    key: Range<u32>,
    entry: Range<u32>,
}

impl ObjectIndex {
    /// Indexes an object. Each entry is paid for, and so is what it takes to put them in order.
    ///
    /// # Errors
    /// [`BudgetSpent`].
    pub fn of(object: PaidObject<'_>, budget: &mut WalkBudget) -> Result<Self, BudgetSpent> {
        let object = object.encoded();
        let mut entries = Vec::new();
        let mut rest = object;
        while let Some((key, value, entry)) = next_entry(&mut rest) {
            budget.spend(1 + PaidView::of(value).cost())?;
            budget.spend_bytes(key.len())?;
            entries.push(IndexedEntry {
                key: place(object, key.as_bytes()),
                entry: place(object, entry),
            });
        }
        budget.spend(entries.len() * steps_of(entries.len()))?;
        // Stable: of a repeated key the last one stays the last one.
        entries.sort_by(|one, other| bytes(object, &one.key).cmp(bytes(object, &other.key)));
        Ok(Self { entries })
    }

    /// Returns the value of a key of the object that was indexed, of a repeated key the last one.
    ///
    /// # Errors
    /// [`BudgetSpent`].
    pub fn value_of<'a>(
        &self,
        object: PaidObject<'a>,
        key: &str,
        budget: &mut WalkBudget,
    ) -> Result<Option<PaidView<'a>>, BudgetSpent> {
        let object = object.encoded();
        budget.spend(1 + steps_of(self.entries.len()))?;
        budget.spend_bytes(key.len())?;
        let behind = self
            .entries
            .partition_point(|entry| bytes(object, &entry.key) <= key.as_bytes());
        let found = behind.checked_sub(1).map(|last| &self.entries[last]);
        let found = found.filter(|entry| bytes(object, &entry.key) == key.as_bytes());
        let Some(found) = found else {
            return Ok(None);
        };
        let value = value_of_entry(bytes(object, &found.entry)).map(PaidView::of);
        budget.spend(value.map_or(0, PaidView::cost))?;
        Ok(value)
    }
}

/// Where a part of an object lies in it. An empty key may lie nowhere.
fn place(object: &[u8], part: &[u8]) -> Range<u32> {
    if part.is_empty() {
        return 0..0;
    }
    let begin = part.as_ptr() as usize - object.as_ptr() as usize;
    let begin = u32::try_from(begin).expect("objects have at most some MiB");
    let length = u32::try_from(part.len()).expect("objects have at most some MiB");
    begin..begin + length
}

fn bytes<'a>(object: &'a [u8], place: &Range<u32>) -> &'a [u8] {
    &object[place.start as usize..place.end as usize]
}

/// What a search among so many entries costs, in units of the budget: two comparisons each.
fn steps_of(n_entries: usize) -> usize {
    (n_entries.checked_ilog2().unwrap_or(0) as usize).div_ceil(2)
}

#[cfg(test)]
mod tests {
    use super::ObjectIndex;
    use crate::opaque::{BudgetSpent, Opaque, PaidObject, PaidView, StructBuilder, WalkBudget};
    use alloc::format;

    fn many() -> Opaque {
        (0..5_000)
            .rev()
            .fold(StructBuilder::new(), |object, n| {
                object.number(&format!("k{n}"), f64::from(n))
            })
            .text("k7", "again")
            .text("", "empty")
            .build()
    }

    #[test]
    fn an_index_finds_what_a_walk_finds() {
        let object = many();
        let object = PaidObject::of(object.as_encoded());
        let mut budget = WalkBudget::new(1 << 20);
        let index = ObjectIndex::of(object, &mut budget).unwrap();
        for key in ["k0", "k7", "k4999", "", "k5000", "a", "z", "k"] {
            let walked = object.value_of(key, &mut budget);
            assert_eq!(index.value_of(object, key, &mut budget), walked, "{key}");
        }
        // A key that is left out is the empty one.
        let without = PaidObject::of(&[0x0a, 0]);
        let index = ObjectIndex::of(without, &mut budget).unwrap();
        let found = index.value_of(without, "", &mut budget);
        assert_eq!(found, Ok(Some(PaidView::Null)));
        let none = PaidObject::of(&[]);
        let index = ObjectIndex::of(none, &mut budget).unwrap();
        assert_eq!(index.value_of(none, "k", &mut budget), Ok(None));
    }

    #[test]
    fn an_index_costs_more_than_a_walk_and_a_search_far_less() {
        let object = many();
        let object = PaidObject::of(object.as_encoded());
        assert!(ObjectIndex::of(object, &mut WalkBudget::new(5_001)).is_err());
        let mut budget = WalkBudget::new(1 << 20);
        let index = ObjectIndex::of(object, &mut budget).unwrap();
        let before = budget.left();
        assert!(before > (1 << 20) - 10 * 5_002);
        index.value_of(object, "k100", &mut budget).unwrap();
        assert!(before - budget.left() < 20);
        let spent = index.value_of(object, "k100", &mut WalkBudget::new(1));
        assert_eq!(spent, Err(BudgetSpent));
    }
}
