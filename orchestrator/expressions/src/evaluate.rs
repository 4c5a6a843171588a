//! What an expression comes to. Each node is evaluated at most once, and what they look at is paid from one budget.

use crate::parse::{Node, Operator};
use crate::value::{Key, Value, View, equal, order, too_large, whole};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Ordering;
use escapement_model::Opaque;
use escapement_model::opaque::{PaidObject, PaidView, WalkBudget};

/// The names that an expression may have a value for.
const NAMES: [&str; 6] = ["input", "run", "session", "results", "iteration", "last"];

/// Checks that an expression uses no other names.
pub(crate) fn check_names(node: &Node) -> Result<(), String> {
    match node {
        Node::Null | Node::Bool(_) | Node::Int(_) | Node::Double(_) | Node::Text(_) => Ok(()),
        Node::Name(name) if NAMES.contains(&name.as_str()) => Ok(()),
        Node::Name(name) => Err(format!("{name} is none of the names {}", NAMES.join(", "))),
        Node::List(nodes) | Node::Call(_, nodes) => nodes.iter().try_for_each(check_names),
        Node::Map(entries) => entries
            .iter()
            .try_for_each(|(key, value)| check_names(key).and_then(|()| check_names(value))),
        Node::Field(of, _) | Node::Has(of, _) | Node::Not(of) | Node::Negate(of) => check_names(of),
        Node::Index(left, right) | Node::Binary(_, left, right) => {
            check_names(left).and_then(|()| check_names(right))
        }
        Node::Choice(parts) => parts.iter().try_for_each(check_names),
    }
}

/// What an expression comes to, if that is true or false.
pub(crate) fn truth(node: &Node, bindings: &Opaque, budget: &mut WalkBudget) -> Result<bool, String> {
    let mut evaluation = Evaluation {
        bindings: PaidObject::of(bindings.as_encoded()),
        room: ROOM_BYTES,
        budget,
    };
    let value = evaluation.value(node)?;
    match value.view() {
        View::Bool(flag) => Ok(flag),
        other => Err(format!(
            "the expression comes to {}, not to true or false",
            other.kind()
        )),
    }
}

struct Evaluation<'a, 'b> {
    bindings: PaidObject<'a>,
    room: usize,
    budget: &'b mut WalkBudget,
}

impl<'a> Evaluation<'a, '_> {
    fn value(&mut self, node: &'a Node) -> Result<Value<'a>, String> {
        match node {
            Node::Null => Ok(Value::Data(PaidView::Null)),
            Node::Bool(flag) => Ok(Value::bool(*flag)),
            Node::Int(int) => Ok(Value::Int(*int)),
            Node::Double(number) => Ok(Value::double(*number)),
            Node::Text(text) => Ok(Value::Data(PaidView::Text(text))),
            Node::Name(name) => {
                let found = self.bindings.value_of(name, self.budget).map_err(too_large)?;
                found
                    .map(Value::Data)
                    .ok_or_else(|| format!("{name} has no value here"))
            }
            Node::List(nodes) => {
                let items: Result<Vec<_>, _> = nodes.iter().map(|node| self.value(node)).collect();
                items.map(Value::List)
            }
            Node::Map(entries) => self.map(entries),
            Node::Field(of, key) => {
                let of = self.value(of)?;
                field(of, key, self.budget)?.ok_or_else(|| format!("there is no key {key:?}"))
            }
            Node::Has(of, key) => {
                let of = self.value(of)?;
                Ok(Value::bool(field(of, key, self.budget)?.is_some()))
            }
            Node::Index(of, index) => {
                let of = self.value(of)?;
                let index = self.value(index)?;
                at(of, &index, self.budget)
            }
            Node::Not(operand) => match self.value(operand)?.view() {
                View::Bool(flag) => Ok(Value::bool(!flag)),
                other => Err(format!("! takes a boolean, not {}", other.kind())),
            },
            Node::Negate(operand) => match self.value(operand)?.view() {
                View::Int(int) => int.checked_neg().map(Value::Int).ok_or_else(overflow),
                View::Double(number) => Ok(Value::double(-number)),
                other => Err(format!("- takes a number, not {}", other.kind())),
            },
            Node::Choice(parts) => {
                let [asked, yes, no] = &**parts;
                match self.value(asked)?.view() {
                    View::Bool(true) => self.value(yes),
                    View::Bool(false) => self.value(no),
                    other => Err(format!("? takes a boolean, not {}", other.kind())),
                }
            }
            Node::Binary(Operator::And, left, right) => self.decided_by(false, left, right),
            Node::Binary(Operator::Or, left, right) => self.decided_by(true, left, right),
            Node::Binary(operator, left, right) => {
                let left = self.value(left)?;
                let right = self.value(right)?;
                self.binary(*operator, left, right)
            }
            Node::Call(function, nodes) => {
                let arguments: Result<Vec<_>, _> = nodes.iter().map(|node| self.value(node)).collect();
                function.call(&arguments?, self.budget)
            }
        }
    }

    /// `&&` and `||`: one side that decides is enough, whatever the other one is.
    fn decided_by(&mut self, decider: bool, left: &'a Node, right: &'a Node) -> Result<Value<'a>, String> {
        let sign = if decider { "||" } else { "&&" };
        let left = self.side(left, sign);
        if left == Ok(decider) {
            return Ok(Value::bool(decider));
        }
        let right = self.side(right, sign);
        if right == Ok(decider) {
            return Ok(Value::bool(decider));
        }
        left.and(right).map(Value::bool)
    }

    fn side(&mut self, node: &'a Node, sign: &str) -> Result<bool, String> {
        match self.value(node)?.view() {
            View::Bool(flag) => Ok(flag),
            other => Err(format!("{sign} takes booleans, not {}", other.kind())),
        }
    }

    fn map(&mut self, entries: &'a [(Node, Node)]) -> Result<Value<'a>, String> {
        let mut map: Vec<(Value<'a>, Value<'a>)> = Vec::new();
        for (key, value) in entries {
            let key = self.value(key)?;
            let view = key.view();
            if !matches!(view, View::Bool(_) | View::Int(_) | View::Text(_)) {
                return Err(format!("{} is no key of a map", view.kind()));
            }
            if map.iter().any(|(known, _)| known.view().key() == view.key()) {
                return Err("a key of the map is there twice".to_string());
            }
            let value = self.value(value)?;
            map.push((key, value));
        }
        Ok(Value::Map(map))
    }

    fn binary(&mut self, operator: Operator, left: Value<'a>, right: Value<'a>) -> Result<Value<'a>, String> {
        if let (View::Text(one), View::Text(other)) = (left.view(), right.view()) {
            let n_compared = one.len().min(other.len());
            self.budget.spend_bytes(n_compared).map_err(too_large)?;
        }
        let ordered = |expected: &[Ordering]| match order(&left.view(), &right.view()) {
            Ok(found) => Ok(Value::bool(found.is_some_and(|found| expected.contains(&found)))),
            Err(_) => Err(no_overload(operator, &left, &right)),
        };
        match operator {
            Operator::Equal => equal(&left.view(), &right.view(), self.budget).map(Value::bool),
            Operator::NotEqual => {
                equal(&left.view(), &right.view(), self.budget).map(|equal| Value::bool(!equal))
            }
            Operator::Less => ordered(&[Ordering::Less]),
            Operator::LessOrEqual => ordered(&[Ordering::Less, Ordering::Equal]),
            Operator::Greater => ordered(&[Ordering::Greater]),
            Operator::GreaterOrEqual => ordered(&[Ordering::Greater, Ordering::Equal]),
            Operator::In => self.is_in(&left, &right).map(Value::bool),
            Operator::Add => self.add(left, right),
            Operator::Subtract | Operator::Multiply | Operator::Divide | Operator::Remainder => {
                calculate(operator, &left, &right)
            }
            Operator::And | Operator::Or => Err("a side is missing".to_string()),
        }
    }

    fn is_in(&mut self, part: &Value<'a>, whole: &Value<'a>) -> Result<bool, String> {
        match whole.view() {
            View::List(mut list) => {
                while let Some(item) = list.next(self.budget).map_err(too_large)? {
                    if equal(&part.view(), &item, self.budget)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            View::Map(map) => match part.view().key() {
                Some(key) => map.has(&key, self.budget).map_err(too_large),
                None => Ok(false),
            },
            _ => Err(no_overload(Operator::In, part, whole)),
        }
    }

    fn add(&mut self, left: Value<'a>, right: Value<'a>) -> Result<Value<'a>, String> {
        match (left.view(), right.view()) {
            (View::Text(one), View::Text(other)) => {
                self.take_room(one.len() + other.len())?;
                return Ok(Value::Text([one, other].concat()));
            }
            (View::List(one), View::List(other)) => {
                let n_items = one.count(self.budget).map_err(too_large)?;
                let n_items = n_items + other.count(self.budget).map_err(too_large)?;
                self.take_room(n_items * size_of::<Value<'_>>())?;
            }
            _ => return calculate(Operator::Add, &left, &right),
        }
        let left = left.into_items(self.budget).map_err(too_large)?;
        let right = right.into_items(self.budget).map_err(too_large)?;
        let (Some(mut list), Some(more)) = (left, right) else {
            return Err("a list is missing".to_string());
        };
        list.extend(more);
        Ok(Value::List(list))
    }

    fn take_room(&mut self, n_bytes: usize) -> Result<(), String> {
        let left = self.room.checked_sub(n_bytes);
        self.room = left.ok_or_else(|| format!("the expression makes more than {ROOM_BYTES} bytes"))?;
        Ok(())
    }
}

/// Bytes of all texts and lists that one evaluation puts together.
const ROOM_BYTES: usize = 8 << 20;

/// Returns the value of a key, or `None` if the map lacks it.
fn field<'a>(of: Value<'a>, key: &str, budget: &mut WalkBudget) -> Result<Option<Value<'a>>, String> {
    match of {
        Value::Data(PaidView::Object(object)) => {
            let found = object.value_of(key, budget).map_err(too_large)?;
            Ok(found.map(Value::Data))
        }
        Value::Map(entries) => {
            let mut entries = entries.into_iter();
            let found = entries.find(|(known, _)| known.view().key() == Some(Key::Text(key)));
            Ok(found.map(|(_, value)| value))
        }
        other => Err(format!("{} has no key {key:?}", other.view().kind())),
    }
}

/// `of[index]`.
fn at<'a>(of: Value<'a>, index: &Value<'a>, budget: &mut WalkBudget) -> Result<Value<'a>, String> {
    let view = index.view();
    let found = match of {
        Value::Data(PaidView::List(list)) => {
            let found = match position(&view)? {
                Some(n) => list.nth(n, budget).map_err(too_large)?,
                None => None,
            };
            found.map(Value::Data)
        }
        Value::List(list) => {
            let n = position(&view)?;
            n.and_then(|n| list.into_iter().nth(n))
        }
        Value::Data(PaidView::Object(object)) => match view.key() {
            Some(Key::Text(key)) => {
                let found = object.value_of(key, budget).map_err(too_large)?;
                found.map(Value::Data)
            }
            _ => None,
        },
        Value::Map(entries) => {
            let mut entries = entries.into_iter();
            let key = view.key();
            let found = entries.find(|(known, _)| key.is_some() && known.view().key() == key);
            found.map(|(_, value)| value)
        }
        other => {
            return Err(format!(
                "[] takes of a list or a map, not of {}",
                other.view().kind()
            ));
        }
    };
    found.ok_or_else(|| match view {
        View::Text(key) => format!("there is no key {key:?}"),
        View::Int(n) => format!("there is nothing at {n}"),
        View::Double(n) => format!("there is nothing at {n}"),
        other => format!("there is nothing at {}", other.kind()),
    })
}

/// Where in a list; `None` before its first item.
fn position(index: &View<'_>) -> Result<Option<usize>, String> {
    let index = match index {
        View::Int(index) => Some(*index),
        View::Double(index) => whole(*index),
        _ => None,
    };
    let index = index.ok_or_else(|| "an index is a whole number".to_string())?;
    Ok(usize::try_from(index).ok())
}

fn calculate<'a>(operator: Operator, left: &Value<'_>, right: &Value<'_>) -> Result<Value<'a>, String> {
    match operands(operator, left.view(), right.view()) {
        (View::Int(left), View::Int(right)) => {
            let int = match operator {
                Operator::Add => left.checked_add(right),
                Operator::Subtract => left.checked_sub(right),
                Operator::Multiply => left.checked_mul(right),
                Operator::Divide | Operator::Remainder if right == 0 => {
                    return Err("an int is divided by zero".to_string());
                }
                Operator::Divide => left.checked_div(right),
                _ => left.checked_rem(right),
            };
            int.map(Value::Int).ok_or_else(overflow)
        }
        (View::Double(left), View::Double(right)) if operator != Operator::Remainder => {
            Ok(Value::double(match operator {
                Operator::Add => left + right,
                Operator::Subtract => left - right,
                Operator::Multiply => left * right,
                _ => left / right,
            }))
        }
        _ => Err(no_overload(operator, left, right)),
    }
}

/// Every number of a document is a double, so an int beside one becomes a double, and whole numbers of `%` become ints.
fn operands<'a>(operator: Operator, left: View<'a>, right: View<'a>) -> (View<'a>, View<'a>) {
    let int = |view: &View<'a>| match view {
        View::Int(int) => Some(*int),
        View::Double(double) => whole(*double),
        _ => None,
    };
    match (&left, &right) {
        (View::Int(_) | View::Double(_), View::Int(_) | View::Double(_))
            if operator == Operator::Remainder =>
        {
            match (int(&left), int(&right)) {
                (Some(left), Some(right)) => (View::Int(left), View::Int(right)),
                _ => (left, right),
            }
        }
        (View::Int(int), View::Double(_)) => (View::Double(*int as f64), right),
        (View::Double(_), View::Int(int)) => (left, View::Double(*int as f64)),
        _ => (left, right),
    }
}

fn overflow() -> String {
    "the result has more than 64 bits".to_string()
}

fn no_overload(operator: Operator, left: &Value<'_>, right: &Value<'_>) -> String {
    let (left, right) = (left.view(), right.view());
    let hint = match (left.is_number() && right.is_number(), operator) {
        (true, Operator::Remainder) => "; it takes whole numbers, and int() makes one",
        _ => "",
    };
    format!(
        "{} does not take {} and {}{hint}",
        operator.as_str(),
        left.kind(),
        right.kind()
    )
}
