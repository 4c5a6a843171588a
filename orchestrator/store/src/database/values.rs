//! Values on their way to SQLite and back, and the checksum over them. Runs no statement.

use rusqlite::types::{ToSqlOutput, ValueRef};

/// Returns a number as SQLite keeps it.
pub(crate) fn column_number(number: u64) -> i64 {
    i64::try_from(number).expect("a number is counted up from 1, one for each record")
}

/// Returns a number as SQLite gave it; a negative one stands in a damaged file only.
pub(crate) fn number_of(column: i64) -> rusqlite::Result<u64> {
    u64::try_from(column).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(0, column))
}

/// Borrowed, so that nothing is copied on the way to SQLite.
pub(crate) fn bound(value: ValueRef<'_>) -> ToSqlOutput<'_> {
    ToSqlOutput::Borrowed(value)
}

/// Null if there is none.
pub(crate) fn optional_text(text: Option<&str>) -> ValueRef<'_> {
    text.map_or(ValueRef::Null, |text| ValueRef::Text(text.as_bytes()))
}

/// Sums values together with their types and lengths, so that no byte can move from one to another unseen.
pub(crate) fn checksum<'a>(values: impl IntoIterator<Item = ValueRef<'a>>) -> i64 {
    let mut hasher = crc32fast::Hasher::new();
    for value in values {
        match value {
            ValueRef::Null => hasher.update(&[0]),
            ValueRef::Integer(integer) => {
                hasher.update(&[1]);
                hasher.update(&integer.to_le_bytes());
            }
            ValueRef::Real(real) => {
                hasher.update(&[2]);
                hasher.update(&real.to_le_bytes());
            }
            ValueRef::Text(bytes) => update_sized(&mut hasher, 3, bytes),
            ValueRef::Blob(bytes) => update_sized(&mut hasher, 4, bytes),
        }
    }
    hasher.finalize().into()
}

fn update_sized(hasher: &mut crc32fast::Hasher, kind: u8, bytes: &[u8]) {
    hasher.update(&[kind]);
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}
