//! Values while an expression is evaluated: parts of the bindings as they are, and what was made of them.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Ordering;
use escapement_model::opaque::{Entries, Items, ValueView, entries, items};

/// A value. What comes from the bindings or is a literal is not copied.
#[derive(Clone, Debug)]
pub(crate) enum Value<'a> {
    /// A part of the bindings, or null, a boolean, a double or a text that is a literal.
    Data(ValueView<'a>),
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
    Data(Items<'v>),
    Made(core::slice::Iter<'v, Value<'v>>),
}

/// The entries of a map.
#[derive(Clone, Debug)]
pub(crate) enum MapView<'v> {
    Data(Entries<'v>),
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
        Value::Data(ValueView::Bool(value))
    }

    pub(crate) fn double(value: f64) -> Self {
        Value::Data(ValueView::Number(value))
    }

    /// The items of a list. A list that was made gives them away; `None` for anything else.
    pub(crate) fn into_items(self) -> Option<Vec<Value<'a>>> {
        match self {
            Value::List(list) => Some(list),
            Value::Data(ValueView::List(list)) => Some(sound(items(list)).map(Value::Data).collect()),
            _ => None,
        }
    }
}

impl<'v> View<'v> {
    fn of(data: ValueView<'v>) -> Self {
        match data {
            ValueView::Null => View::Null,
            ValueView::Bool(flag) => View::Bool(flag),
            ValueView::Number(number) => View::Double(number),
            ValueView::Text(text) => View::Text(text),
            ValueView::List(list) => View::List(ListView::Data(items(list))),
            ValueView::Struct(object) => View::Map(MapView::Data(entries(object))),
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

impl<'v> Iterator for ListView<'v> {
    type Item = View<'v>;

    fn next(&mut self) -> Option<View<'v>> {
        match self {
            ListView::Data(items) => items.next()?.ok().map(View::of),
            ListView::Made(values) => values.next().map(Value::view),
        }
    }
}

impl<'v> MapView<'v> {
    /// The entries by their keys; of a repeated key of a document the last.
    pub(crate) fn by_key(self) -> BTreeMap<Key<'v>, View<'v>> {
        match self {
            MapView::Data(entries) => sound(entries)
                .map(|(key, value)| (Key::Text(key), View::of(value)))
                .collect(),
            MapView::Made(entries) => entries
                .filter_map(|(key, value)| Some((key.view().key()?, value.view())))
                .collect(),
        }
    }
}

/// What can be read. Bindings were checked before, so that is all of it.
pub(crate) fn sound<T, E>(all: impl Iterator<Item = Result<T, E>>) -> impl Iterator<Item = T> {
    all.filter_map(Result::ok)
}

/// The int that a double is exactly, if it is one.
pub(crate) fn whole(number: f64) -> Option<i64> {
    let int = truncated(number)?;
    (int as f64 == number).then_some(int)
}

/// A double without its fraction, if an int can hold that.
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

/// What may still be spent on comparing values.
#[derive(Debug)]
pub(crate) struct Work {
    left: usize,
}

impl Work {
    pub(crate) fn new() -> Self {
        Self { left: WORK_MAX }
    }

    fn spend(&mut self, n: usize) -> Result<(), String> {
        let left = self.left.checked_sub(n);
        self.left = left.ok_or_else(|| "the values are too large to be compared".to_string())?;
        Ok(())
    }
}

/// Parts of values, and pieces of texts, that one evaluation compares.
const WORK_MAX: usize = 4 << 20;
/// Bytes of a text that are compared as fast as one part of a value.
const PIECE_BYTES: usize = 64;
/// Lists and maps inside one another that are compared.
const COMPARED_NESTING_MAX: usize = 200;

/// True if two values are equal: those of different kinds never are, but numbers are by their exact values.
pub(crate) fn equal(left: &View<'_>, right: &View<'_>, work: &mut Work) -> Result<bool, String> {
    equal_inside(left, right, work, COMPARED_NESTING_MAX)
}

fn equal_inside(left: &View<'_>, right: &View<'_>, work: &mut Work, n_left: usize) -> Result<bool, String> {
    work.spend(1)?;
    let n_inside = n_left
        .checked_sub(1)
        .ok_or("the values are nested too deep to be compared")?;
    match (left, right) {
        (View::Null, View::Null) => Ok(true),
        (View::Text(left), View::Text(right)) => {
            let same_length = left.len() == right.len();
            work.spend(if same_length { left.len() / PIECE_BYTES } else { 0 })?;
            Ok(left == right)
        }
        (View::List(left), View::List(right)) => {
            let (mut left, mut right) = (left.clone(), right.clone());
            loop {
                match (left.next(), right.next()) {
                    (None, None) => return Ok(true),
                    (Some(left), Some(right)) if equal_inside(&left, &right, work, n_inside)? => {}
                    _ => return Ok(false),
                }
            }
        }
        (View::Map(left), View::Map(right)) => {
            let (left, right) = (left.clone().by_key(), right.clone().by_key());
            work.spend(left.len().max(right.len()))?;
            if left.len() != right.len() {
                return Ok(false);
            }
            for (key, value) in left {
                match right.get(&key) {
                    Some(other) if equal_inside(&value, other, work, n_inside)? => {}
                    _ => return Ok(false),
                }
            }
            Ok(true)
        }
        _ if left.kind() != right.kind() && !(left.is_number() && right.is_number()) => Ok(false),
        _ => Ok(order(left, right)? == Some(Ordering::Equal)),
    }
}
