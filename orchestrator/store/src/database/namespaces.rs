//! Namespaces as columns: null stands for the default one, so that its rows are as they were before there was another.
//! Runs no statement.

use escapement_model::Namespace;
use rusqlite::types::{Value, ValueRef};

/// Returns the namespace as a column.
pub(crate) fn column_of(namespace: &Namespace) -> Option<&str> {
    Some(namespace.as_str()).filter(|name| *name != Namespace::DEFAULT)
}

/// Returns the namespace of a column; `None` if it is as none is written.
pub(crate) fn of_column(column: Option<&str>) -> Option<Namespace> {
    match column {
        None => Some(Namespace::default()),
        Some(Namespace::DEFAULT) => None,
        Some(name) => Namespace::parse(name),
    }
}

/// What a checksum covers of the column, which came later than the others: nothing where it is null.
pub(crate) fn covered(namespace: &Namespace) -> Option<ValueRef<'_>> {
    column_of(namespace).map(|name| ValueRef::Text(name.as_bytes()))
}

/// Returns the condition that a row of one of these namespaces meets, and no other one; behind others of its statement.
pub(crate) fn condition(column: &str, namespaces: &[Namespace], parameters: &mut Vec<Value>) -> String {
    let mut any = Vec::with_capacity(namespaces.len());
    for namespace in namespaces {
        any.push(match column_of(namespace) {
            None => format!("{column} IS NULL"),
            Some(name) => {
                parameters.push(Value::Text(name.to_owned()));
                format!("{column} = ?{}", parameters.len())
            }
        });
    }
    match any.is_empty() {
        true => " AND false".to_owned(),
        false => format!(" AND ({})", any.join(" OR ")),
    }
}

/// Returns true if these are one namespace that is not the default one: there are indexes of those.
pub(crate) fn is_one(namespaces: Option<&[Namespace]>) -> bool {
    matches!(namespaces, Some([one]) if column_of(one).is_some())
}
