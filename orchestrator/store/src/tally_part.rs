//! Parts of the counters, and the comparison of them with the rows.

use rusqlite::{Connection, OptionalExtension, Row};

use crate::StoreFault;
use crate::database::values::number_of;

/// Declares a part of the counters: its fields, each with its column.
macro_rules! tally_part {
    (
        $(#[$about:meta])*
        $visible:vis struct $name:ident { $($(#[$of_field:meta])* $field:ident = $column:literal,)* }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        $visible struct $name { $($(#[$of_field])* $visible $field: u64,)* }

        impl $crate::tally_part::Part for $name {
            const COLUMNS: &'static [&'static str] = &[$($column),*];

            fn of(mut next: impl FnMut() -> rusqlite::Result<u64>) -> rusqlite::Result<Self> {
                Ok(Self { $($field: next()?,)* })
            }

            fn values(&self) -> Vec<u64> {
                vec![$(self.$field),*]
            }
        }
    };
}
pub(crate) use tally_part;

/// A part of the counters, which [`tally_part`] declares.
pub(crate) trait Part: Sized {
    /// Columns, in the order of the fields.
    const COLUMNS: &'static [&'static str];

    /// Makes it of the values of its fields, in their order.
    fn of(next: impl FnMut() -> rusqlite::Result<u64>) -> rusqlite::Result<Self>;

    /// Returns the values of its fields, in their order.
    fn values(&self) -> Vec<u64>;

    /// Reads it.
    fn load(connection: &Connection) -> rusqlite::Result<Self> {
        let sql = format!("SELECT {} FROM tally", Self::COLUMNS.join(", "));
        connection
            .prepare_cached(&sql)?
            .query_row([], |row| Self::in_row(row, 0))
    }

    /// Reads it from a row in which its columns begin there.
    fn in_row(row: &Row<'_>, begin: usize) -> rusqlite::Result<Self> {
        let mut places = begin..;
        Self::of(|| row.get(places.next().unwrap_or_default()).and_then(number_of))
    }
}

/// Returns one number, or 0 without a row.
pub(crate) fn one(connection: &Connection, sql: &str) -> rusqlite::Result<u64> {
    let found: Option<Option<i64>> = connection.query_row(sql, [], |row| row.get(0)).optional()?;
    found.flatten().map_or(Ok(0), number_of)
}

/// A count that must be another one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unequal {
    /// Name of the counted things, in the plural.
    pub(crate) what: &'static str,
    pub(crate) expected: u64,
    pub(crate) found: u64,
}

impl From<Unequal> for StoreFault {
    fn from(unequal: Unequal) -> Self {
        let Unequal {
            what,
            expected,
            found,
        } = unequal;
        Self::Gap {
            what,
            expected,
            found,
        }
    }
}

/// Returns the first of these that is unequal.
pub(crate) fn first_unequal<const N: usize>(checks: [(&'static str, u64, u64); N]) -> Option<Unequal> {
    let mut unequal = checks
        .into_iter()
        .filter(|(_, expected, found)| expected != found);
    unequal.next().map(|(what, expected, found)| Unequal {
        what,
        expected,
        found,
    })
}
