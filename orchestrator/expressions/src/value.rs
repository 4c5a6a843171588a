//! Values while an expression is evaluated: parts of the bindings as they are, and what was made of them.
//! Each walk through one is paid from the budget of the evaluation.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Ordering;
use escapement_model::opaque::{BudgetSpent, PaidEntries, PaidItems, PaidView, WalkBudget};

/// A value. What comes from the bindings or is a literal is not copied.
#[derive(Clone, Debug)]
pub(crate) enum Value<'a> {
    /// A part of the bindings, or null, a boolean, a double or a text that is a literal.
    Data(PaidView<'a>),
    /// An int.
    Int(i64),
    /// A text that was made.
    Text(String),
    /// A list that was made.
    List(Vec<Value<'a>>),
    /// A map that was made. No key is there twice.
    Map(Vec<(Value<'a>, Value<'a>)>),
}

/// A value to look at.
#[derive(Clone, Debug)]
pub(crate) enum View<'v> {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(&'v str),
    List(ListView<'v>),
    Map(MapView<'v>),
}

/// The values of a list.
#[derive(Clone, Debug)]
pub(crate) enum ListView<'v> {
    Data(PaidItems<'v>),
    Made(core::slice::Iter<'v, Value<'v>>),
}

/// The entries of a map.
#[derive(Clone, Debug)]
pub(crate) enum MapView<'v> {
    Data(PaidEntries<'v>),
    Made(core::slice::Iter<'v, (Value<'v>, Value<'v>)>),
}

/// A key of a map. A double that is whole is an int.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key<'v> {
    Bool(bool),
    Int(i64),
    Text(&'v str),
}

impl<'a> Value<'a> {
    pub(crate) fn view(&self) -> View<'_> {
        match self {
            Value::Data(data) => View::of(*data),
            Value::Int(int) => View::Int(*int),
            Value::Text(text) => View::Text(text),
            Value::List(list) => View::List(ListView::Made(list.iter())),
            Value::Map(map) => View::Map(MapView::Made(map.iter())),
        }
    }

    pub(crate) fn bool(value: bool) -> Self {
        Value::Data(PaidView::Bool(value))
    }

    pub(crate) fn double(value: f64) -> Self {
        Value::Data(PaidView::Number(value))
    }

    /// Returns the items of a list. A list that was made gives them away; `None` for anything else.
    pub(crate) fn into_items(self, budget: &mut WalkBudget) -> Result<Option<Vec<Value<'a>>>, BudgetSpent> {
        match self {
            Value::List(list) => Ok(Some(list)),
            Value::Data(PaidView::List(list)) => {
                let (mut items, mut all) = (list.items(), Vec::new());
                while let Some(item) = items.next(budget)? {
                    all.push(Value::Data(item));
                }
                Ok(Some(all))
            }
            _ => Ok(None),
        }
    }
}

impl<'v> View<'v> {
    fn of(data: PaidView<'v>) -> Self {
        match data {
            PaidView::Null => View::Null,
            PaidView::Bool(flag) => View::Bool(flag),
            PaidView::Number(number) => View::Double(number),
            PaidView::Text(text) => View::Text(text),
            PaidView::List(list) => View::List(ListView::Data(list.items())),
            PaidView::Object(object) => View::Map(MapView::Data(object.entries())),
        }
    }

    /// What it is, with its article.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            View::Null => "null",
            View::Bool(_) => "a boolean",
            View::Int(_) => "an int",
            View::Double(_) => "a double",
            View::Text(_) => "a text",
            View::List(_) => "a list",
            View::Map(_) => "a map",
        }
    }

    pub(crate) fn is_number(&self) -> bool {
        matches!(self, View::Int(_) | View::Double(_))
    }

    /// It as the key of a map.
    pub(crate) fn key(&self) -> Option<Key<'v>> {
        match self {
            View::Bool(flag) => Some(Key::Bool(*flag)),
            View::Int(int) => Some(Key::Int(*int)),
            View::Double(number) => whole(*number).map(Key::Int),
            View::Text(text) => Some(Key::Text(text)),
            View::Null | View::List(_) | View::Map(_) => None,
        }
    }
}

impl<'v> ListView<'v> {
    /// Returns the next item, which is charged to the budget.
    pub(crate) fn next(&mut self, budget: &mut WalkBudget) -> Result<Option<View<'v>>, BudgetSpent> {
        match self {
            ListView::Data(items) => Ok(items.next(budget)?.map(View::of)),
            ListView::Made(values) => {
                budget.spend(1)?;
                Ok(values.next().map(Value::view))
            }
        }
    }

    /// Returns the number of items, each of which is charged to the budget.
    pub(crate) fn count(mut self, budget: &mut WalkBudget) -> Result<usize, BudgetSpent> {
        let mut n = 0;
        while self.next(budget)?.is_some() {
            n += 1;
        }
        Ok(n)
    }
}

impl<'v> MapView<'v> {
    /// Returns the next entry, which is charged to the budget. A key of a document may be repeated in a later
    /// entry.
    fn next(&mut self, budget: &mut WalkBudget) -> Result<Option<(Key<'v>, View<'v>)>, BudgetSpent> {
        match self {
            MapView::Data(entries) => {
                let entry = entries.next(budget)?;
                Ok(entry.map(|(key, value)| (Key::Text(key), View::of(value))))
            }
            MapView::Made(entries) => {
                budget.spend(1)?;
                let mut keyed = entries.filter_map(|(key, value)| Some((key.view().key()?, value.view())));
                Ok(keyed.next())
            }
        }
    }

    /// Returns the entries by their keys; of a repeated key of a document the last. Sorting them is charged
    /// to the budget.
    pub(crate) fn by_key(
        mut self,
        budget: &mut WalkBudget,
    ) -> Result<BTreeMap<Key<'v>, View<'v>>, BudgetSpent> {
        let mut all = BTreeMap::new();
        while let Some((key, value)) = self.next(budget)? {
            budget.spend(all.len().checked_ilog2().unwrap_or(0) as usize / 2)?;
            all.insert(key, value);
        }
        Ok(all)
    }

    /// Returns true if a key is present. The entries before it are charged to the budget.
    pub(crate) fn has(mut self, key: &Key<'_>, budget: &mut WalkBudget) -> Result<bool, BudgetSpent> {
        while let Some((known, _)) = self.next(budget)? {
            if known == *key {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Returns the int that a double is exactly, if it is one.
pub(crate) fn whole(number: f64) -> Option<i64> {
    let int = truncated(number)?;
    (int as f64 == number).then_some(int)
}

/// Returns a double without its fraction, if an int can hold that.
pub(crate) fn truncated(number: f64) -> Option<i64> {
    (-INT_END < number && number < INT_END).then_some(number as i64)
}

/// 2^63: the first double that no int reaches. CEL leaves its negative out, too.
const INT_END: f64 = 9_223_372_036_854_775_808.0;

/// How two values are ordered by `<`; `None` if one is not a number. `Err` if they cannot be ordered.
pub(crate) fn order(left: &View<'_>, right: &View<'_>) -> Result<Option<Ordering>, String> {
    match (left, right) {
        (View::Bool(left), View::Bool(right)) => Ok(Some(left.cmp(right))),
        (View::Text(left), View::Text(right)) => Ok(Some(left.cmp(right))),
        (View::Int(left), View::Int(right)) => Ok(Some(left.cmp(right))),
        (View::Double(left), View::Double(right)) => Ok(left.partial_cmp(right)),
        (View::Int(left), View::Double(right)) => Ok(order_mixed(*left, *right)),
        (View::Double(left), View::Int(right)) => Ok(order_mixed(*right, *left).map(Ordering::reverse)),
        _ => Err("there is no order between them".to_string()),
    }
}

/// Compares by the exact values, which a conversion of the int would round.
fn order_mixed(int: i64, double: f64) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    if double >= INT_END {
        return Some(Ordering::Less);
    }
    if double < -INT_END {
        return Some(Ordering::Greater);
    }
    let whole = double as i64;
    let fraction = double - whole as f64;
    Some(int.cmp(&whole).then(0.0.partial_cmp(&fraction)?))
}

/// Returns the reason for a missing value that exceeds the budget.
pub(crate) fn too_large(_: BudgetSpent) -> String {
    "the values are too large: looking at them takes more work than is allowed".to_string()
}

/// Lists and maps inside one another that are compared.
const COMPARED_NESTING_MAX: usize = 200;

/// True if two values are equal: those of different kinds never are, but numbers are by their exact values.
pub(crate) fn equal(left: &View<'_>, right: &View<'_>, budget: &mut WalkBudget) -> Result<bool, String> {
    equal_inside(left, right, budget, COMPARED_NESTING_MAX)
}

fn equal_inside(
    left: &View<'_>,
    right: &View<'_>,
    budget: &mut WalkBudget,
    n_left: usize,
) -> Result<bool, String> {
    budget.spend(1).map_err(too_large)?;
    let n_inside = n_left
        .checked_sub(1)
        .ok_or("the values are nested too deep to be compared")?;
    match (left, right) {
        (View::Null, View::Null) => Ok(true),
        (View::Text(left), View::Text(right)) => {
            let n_compared = if left.len() == right.len() { left.len() } else { 0 };
            budget.spend_bytes(n_compared).map_err(too_large)?;
            Ok(left == right)
        }
        (View::List(left), View::List(right)) => {
            let (mut left, mut right) = (left.clone(), right.clone());
            loop {
                let pair = (
                    left.next(budget).map_err(too_large)?,
                    right.next(budget).map_err(too_large)?,
                );
                match pair {
                    (None, None) => return Ok(true),
                    (Some(left), Some(right)) if equal_inside(&left, &right, budget, n_inside)? => {}
                    _ => return Ok(false),
                }
            }
        }
        (View::Map(left), View::Map(right)) => {
            let left = left.clone().by_key(budget).map_err(too_large)?;
            let right = right.clone().by_key(budget).map_err(too_large)?;
            if left.len() != right.len() {
                return Ok(false);
            }
            for (key, value) in left {
                match right.get(&key) {
                    Some(other) if equal_inside(&value, other, budget, n_inside)? => {}
                    _ => return Ok(false),
                }
            }
            Ok(true)
        }
        _ if left.kind() != right.kind() && !(left.is_number() && right.is_number()) => Ok(false),
        _ => Ok(order(left, right)? == Some(Ordering::Equal)),
    }
}
