//! Fields of what workers and models send. Each is looked up a fixed number of times for an input, and its walk has a
//! bound of its own. Walks through nothing else.

use alloc::vec::Vec;
use escapement_model::opaque::{PaidList, PaidObject, PaidView, ValueView, WalkBudget};

// RUN-1.9
/// Returns the field of an object that was checked, of a repeated key the last one. `None` also for an object with more
/// entries than a value of 1 MiB can have.
pub(crate) fn field<'a>(object: &'a [u8], key: &str) -> Option<ValueView<'a>> {
    let mut budget = WalkBudget::new(FIELD_WORK_MAX);
    let found = PaidObject::of(object).value_of(key, &mut budget);
    found.ok().flatten().map(PaidView::unpaid)
}

// RUN-1.9
/// Returns the first items of a list that was checked, and the number of items. Counts at most as many items as a value
/// of 1 MiB can have.
pub(crate) fn first_items(list: &[u8], n_max: usize) -> (Vec<ValueView<'_>>, usize) {
    let mut budget = WalkBudget::new(FIELD_WORK_MAX);
    let (mut items, mut first, mut n) = (PaidList::of(list).items(), Vec::new(), 0);
    while let Ok(Some(item)) = items.next(&mut budget) {
        n += 1;
        if first.len() < n_max {
            first.push(item.unpaid());
        }
    }
    (first, n)
}

/// Entries or items of a value in which a field is looked up. A value of 1 MiB has at most 524,288: the shortest has two
/// bytes.
const FIELD_WORK_MAX: usize = 1 << 20;
