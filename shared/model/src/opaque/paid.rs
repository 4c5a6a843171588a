//! Values whose inside can be looked at only by paying for it: each walk takes the budget that it spends.
//! Measures no time: a unit of the budget is what it costs to pass one entry.

use super::view::{Entries, Items, ValueView, entries, items, value_of_paid};
use core::fmt;

/// What may still be spent on walks through data of others.
#[derive(Debug, Default)]
pub struct WalkBudget {
    left: usize,
}

/// The budget does not pay for the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetSpent;

impl fmt::Display for BudgetSpent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("takes more work than is allowed")
    }
}

impl core::error::Error for BudgetSpent {}

impl WalkBudget {
    /// Creates a budget of that many units.
    pub fn new(units: usize) -> Self {
        Self { left: units }
    }

    /// Takes units from the budget. Once they are not there, nothing is left.
    ///
    /// # Errors
    /// [`BudgetSpent`].
    pub fn spend(&mut self, units: usize) -> Result<(), BudgetSpent> {
        let left = self.left.checked_sub(units);
        self.left = left.unwrap_or(0);
        left.map(|_| ()).ok_or(BudgetSpent)
    }

    /// Takes what it costs to read that many bytes.
    ///
    /// # Errors
    /// [`BudgetSpent`].
    pub fn spend_bytes(&mut self, bytes: usize) -> Result<(), BudgetSpent> {
        self.spend(bytes / BYTES_PER_UNIT)
    }

    /// Units that are left.
    pub fn left(&self) -> usize {
        self.left
    }
}

/// Bytes that are read, compared or checked as fast as one entry is passed.
const BYTES_PER_UNIT: usize = 64;

/// A value of an object or a list. What lies inside is paid for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PaidView<'a> {
    /// `null`, or a value that says nothing.
    Null,
    /// A number; always a double.
    Number(f64),
    /// A text.
    Text(&'a str),
    /// `true` or `false`.
    Bool(bool),
    /// An object.
    Object(PaidObject<'a>),
    /// A list.
    List(PaidList<'a>),
}

/// An encoded Struct that was checked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PaidObject<'a>(&'a [u8]);

/// An encoded ListValue that was checked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PaidList<'a>(&'a [u8]);

/// The entries of an object, in the order sent. Ends after the first error.
#[derive(Clone, Debug)]
pub struct PaidEntries<'a>(Entries<'a>);

/// The values of a list. Ends after the first error.
#[derive(Clone, Debug)]
pub struct PaidItems<'a>(Items<'a>);

impl<'a> PaidView<'a> {
    /// Takes a value that was checked.
    pub fn of(view: ValueView<'a>) -> Self {
        match view {
            ValueView::Null => Self::Null,
            ValueView::Number(number) => Self::Number(number),
            ValueView::Text(text) => Self::Text(text),
            ValueView::Bool(flag) => Self::Bool(flag),
            ValueView::Struct(object) => Self::Object(PaidObject(object)),
            ValueView::List(list) => Self::List(PaidList(list)),
        }
    }

    /// Returns the value for those who copy it whole, and are bounded by what they may copy.
    pub fn unpaid(self) -> ValueView<'a> {
        match self {
            Self::Null => ValueView::Null,
            Self::Number(number) => ValueView::Number(number),
            Self::Text(text) => ValueView::Text(text),
            Self::Bool(flag) => ValueView::Bool(flag),
            Self::Object(PaidObject(object)) => ValueView::Struct(object),
            Self::List(PaidList(list)) => ValueView::List(list),
        }
    }

    /// What it costs beside its place among others: the bytes of a text are checked.
    pub(super) fn cost(self) -> usize {
        match self {
            Self::Text(text) => text.len() / BYTES_PER_UNIT,
            Self::Null | Self::Number(_) | Self::Bool(_) | Self::Object(_) | Self::List(_) => 0,
        }
    }
}

impl<'a> PaidObject<'a> {
    /// Takes an encoded Struct that was checked.
    pub fn of(encoded: &'a [u8]) -> Self {
        Self(encoded)
    }

    pub(super) fn encoded(self) -> &'a [u8] {
        self.0
    }

    /// Returns the value of a key, of a repeated key the last one. Each entry is paid for.
    ///
    /// # Errors
    /// [`BudgetSpent`].
    pub fn value_of(self, key: &str, budget: &mut WalkBudget) -> Result<Option<PaidView<'a>>, BudgetSpent> {
        let compared = 1 + key.len() / BYTES_PER_UNIT;
        let found = value_of_paid(self.0, key, || budget.spend(compared))?;
        let found = found.map(PaidView::of);
        budget.spend(found.map_or(0, PaidView::cost))?;
        Ok(found)
    }

    /// Returns the entries, each to be paid for.
    pub fn entries(self) -> PaidEntries<'a> {
        PaidEntries(entries(self.0))
    }
}

impl<'a> PaidList<'a> {
    /// Takes an encoded ListValue that was checked.
    pub fn of(encoded: &'a [u8]) -> Self {
        Self(encoded)
    }

    /// Returns the item at a place. Each one before it is paid for.
    ///
    /// # Errors
    /// [`BudgetSpent`].
    pub fn nth(self, n: usize, budget: &mut WalkBudget) -> Result<Option<PaidView<'a>>, BudgetSpent> {
        let mut items = self.items();
        for _ in 0..n {
            if items.next(budget)?.is_none() {
                return Ok(None);
            }
        }
        items.next(budget)
    }

    /// Returns the items, each to be paid for.
    pub fn items(self) -> PaidItems<'a> {
        PaidItems(items(self.0))
    }
}

impl<'a> PaidEntries<'a> {
    /// Returns the next key and its value.
    ///
    /// # Errors
    /// [`BudgetSpent`].
    pub fn next(&mut self, budget: &mut WalkBudget) -> Result<Option<(&'a str, PaidView<'a>)>, BudgetSpent> {
        budget.spend(1)?;
        let Some(Ok((key, value))) = self.0.next() else {
            return Ok(None);
        };
        let value = PaidView::of(value);
        budget.spend(key.len() / BYTES_PER_UNIT + value.cost())?;
        Ok(Some((key, value)))
    }
}

impl<'a> PaidItems<'a> {
    /// Returns the next item.
    ///
    /// # Errors
    /// [`BudgetSpent`].
    pub fn next(&mut self, budget: &mut WalkBudget) -> Result<Option<PaidView<'a>>, BudgetSpent> {
        budget.spend(1)?;
        let Some(Ok(value)) = self.0.next() else {
            return Ok(None);
        };
        let value = PaidView::of(value);
        budget.spend(value.cost())?;
        Ok(Some(value))
    }
}

#[cfg(test)]
mod tests {
    use super::{BudgetSpent, PaidObject, PaidView, WalkBudget};
    use crate::opaque::{ListBuilder, StructBuilder};
    use alloc::format;

    #[test]
    fn each_entry_that_is_passed_is_paid_for() {
        let object = (0..100).fold(StructBuilder::new(), |object, n| {
            object.number(&format!("k{n}"), f64::from(n))
        });
        let list = (0..100).fold(ListBuilder::new(), |list, n| list.number(f64::from(n)));
        let object = object.list("list", list).text("k7", "again").build();
        let object = PaidObject::of(object.as_encoded());

        let mut budget = WalkBudget::new(102);
        assert_eq!(
            object.value_of("k7", &mut budget),
            Ok(Some(PaidView::Text("again"))),
            "the last of a repeated key"
        );
        assert_eq!(budget.left(), 0);
        assert_eq!(object.value_of("k7", &mut budget), Err(BudgetSpent));

        let mut budget = WalkBudget::new(1_000);
        let Ok(Some(PaidView::List(list))) = object.value_of("list", &mut budget) else {
            panic!("there is a list");
        };
        let before = budget.left();
        assert_eq!(list.nth(9, &mut budget), Ok(Some(PaidView::Number(9.0))));
        assert_eq!(before - budget.left(), 10);
        assert_eq!(list.nth(100, &mut budget), Ok(None));
        assert_eq!(list.nth(99, &mut WalkBudget::new(99)), Err(BudgetSpent));

        let (mut entries, mut n) = (object.entries(), 0);
        while entries.next(&mut budget).unwrap().is_some() {
            n += 1;
        }
        assert_eq!(n, 102);
        assert_eq!(object.entries().next(&mut WalkBudget::new(0)), Err(BudgetSpent));
    }

    #[test]
    fn what_is_spent_stays_spent() {
        let mut budget = WalkBudget::new(3);
        assert_eq!(budget.spend(4), Err(BudgetSpent));
        assert_eq!(budget.spend(1), Err(BudgetSpent), "it does not go on with less");
        let text = "x".repeat(640);
        let object = StructBuilder::new().text("t", &text).build();
        let mut budget = WalkBudget::new(10);
        let found = PaidObject::of(object.as_encoded()).value_of("t", &mut budget);
        assert_eq!(found, Err(BudgetSpent), "the bytes of a text are paid for");
    }
}
