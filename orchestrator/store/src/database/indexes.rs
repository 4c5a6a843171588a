//! Checks at opening that every index says of a table what its rows say, and makes indexes anew if the operator asks
//! for it. Knows of the table what it is told.
//!
//! Rows and records have checksums, entries of an index have none: a flipped bit there would make an id look
//! unknown, or a restart forget a running execution. The table and each index are walked once, in their own
//! order, and summed up; only if the sums differ, entries are held against their rows one by one.

mod parts;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row};

use super::connection::{is_damage, is_of_damage, working};
use super::values::number_of;
use crate::StoreFault;

pub(crate) use parts::{Cut, agree};

/// A table with the indexes that are checked. Its number is the key of its rows.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    /// A column for each index, in order: its key in a row, null if the index leaves the row out.
    pub(crate) keys: &'static [&'static str],
    pub(crate) indexes: &'static [Index],
    /// How many of them, the first ones, hold random ids and are walked in parts.
    pub(crate) n_cut: usize,
    /// True if the row of that number is as it was written.
    pub(crate) is_sound: fn(&Connection, u64) -> Result<bool, StoreFault>,
}

impl Table {
    /// Returns the statement that walks the rows: number and keys.
    fn rows(&self, bounds: &str) -> String {
        let Self { name, keys, .. } = self;
        format!(
            "SELECT rowid, {} FROM {name} NOT INDEXED{bounds}",
            keys.join(", ")
        )
    }

    /// Returns the statement that walks an index, with further conditions.
    fn entries(&self, index: usize, bounds: &str) -> String {
        let Index {
            name,
            key,
            condition,
            order,
            ..
        } = &self.indexes[index];
        let table = self.name;
        format!(
            "SELECT {key}, rowid FROM {table} INDEXED BY {name} WHERE {condition}{bounds} ORDER BY {order}"
        )
    }

    /// Returns the statement that reads the key of one row.
    fn key(&self, index: usize) -> String {
        format!("SELECT {} FROM {} WHERE rowid = ?1", self.keys[index], self.name)
    }
}

/// An index: its entries are pairs of key and number, in order.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) what: &'static str,
    pub(crate) name: &'static str,
    pub(crate) key: &'static str,
    /// Which rows it holds.
    pub(crate) condition: &'static str,
    /// By the key alone if it is unique: such an index knows no second key, and SQLite would sort.
    pub(crate) order: &'static str,
}

/// Returns the bytes of a key; `None` if there is none.
fn key_of(value: ValueRef<'_>) -> rusqlite::Result<Option<&[u8]>> {
    Ok(value.as_bytes_or_null()?)
}

/// How many pairs of key and number there are, and the sum over them in any order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    n_pairs: u64,
    sum: u64,
}

impl Sum {
    fn and(self, other: Self) -> Self {
        Self {
            n_pairs: self.n_pairs + other.n_pairs,
            sum: self.sum.wrapping_add(other.sum),
        }
    }

    fn add(&mut self, key: &[u8], number: i64) {
        let mut hash = number.unsigned_abs();
        for part in key.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            hash = mixed(hash ^ u64::from_le_bytes(word));
        }
        self.n_pairs += 1;
        self.sum = self.sum.wrapping_add(mixed(hash));
    }
}

/// SplitMix64's last step: each bit of the input changes about half of the output.
fn mixed(mut bits: u64) -> u64 {
    bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Refuses if an index differs from rows that are not damaged themselves, or cannot be read.
pub(crate) fn check(connection: &Connection, table: &Table) -> Result<(), StoreFault> {
    let rows = sums_of_rows(connection, table)?;
    for (place, index) in table.indexes.iter().enumerate() {
        let expected = rows.as_ref().map(|sums| sums[place]);
        let found = match wrong(connection, table, place, expected) {
            Ok(None) => continue,
            Ok(found) => found,
            Err(StoreFault::Fatal(source)) if is_of_damage(&source) => None,
            Err(fault) => return Err(fault),
        };
        let n_expected = expected.map(|expected| expected.n_pairs).or(found);
        return Err(StoreFault::Indexes {
            what: index.what,
            expected: n_expected.unwrap_or_default(),
            found,
        });
    }
    Ok(())
}

/// Makes the indexes anew from their tables.
///
/// SQLite's own way reads what it frees. If that is damaged, the pages of the old indexes are left behind, and a
/// copy of the whole file without them takes its place as far as there is space for it.
pub(crate) fn rebuild(connection: &Connection) -> Result<(), StoreFault> {
    match connection.execute_batch("REINDEX") {
        Err(error) if is_damage(&error) => {}
        done => return done.map_err(working),
    }
    let replace = || -> rusqlite::Result<()> {
        let mut select =
            connection.prepare("SELECT sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL")?;
        let statements = select
            .query_map([], |row| row.get(0))?
            .collect::<rusqlite::Result<Vec<String>>>()?;
        drop(select);
        connection.pragma_update(None, "writable_schema", true)?;
        let transaction = connection.unchecked_transaction()?;
        transaction.execute(
            "DELETE FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL",
            [],
        )?;
        transaction.pragma_update(None, "writable_schema", "reset")?;
        for statement in statements {
            transaction.execute_batch(&statement)?;
        }
        transaction.commit()
    };
    replace().map_err(working)?;
    match connection.execute_batch("VACUUM").map_err(working) {
        // `check` says which pages nothing uses.
        Ok(()) | Err(StoreFault::Full(_)) => Ok(()),
        Err(StoreFault::Fatal(source)) if is_of_damage(&source) => Ok(()),
        Err(fault) => Err(fault),
    }
}

/// `None` if the table itself is damaged somewhere.
fn sums_of_rows(connection: &Connection, table: &Table) -> Result<Option<Vec<Sum>>, StoreFault> {
    let mut sums = vec![Sum::default(); table.indexes.len()];
    let mut select = connection.prepare(&table.rows("")).map_err(working)?;
    let mut rows = select.query([]).map_err(working)?;
    let walked = loop {
        match rows.next() {
            Ok(None) => break Ok(()),
            Ok(Some(row)) => {
                if let Err(error) = add_row(&mut sums, row) {
                    break Err(error);
                }
            }
            Err(error) => break Err(error),
        }
    };
    match walked {
        Ok(()) => Ok(Some(sums)),
        Err(error) if is_damage(&error) => Ok(None),
        Err(error) => Err(working(error)),
    }
}

fn add_row(sums: &mut [Sum], row: &Row<'_>) -> rusqlite::Result<()> {
    let number = row.get(0)?;
    for (place, sum) in sums.iter_mut().enumerate() {
        if let Some(key) = key_of(row.get_ref(place + 1)?)? {
            sum.add(key, number);
        }
    }
    Ok(())
}

/// Returns the number of entries that are right, if some are not.
fn wrong(
    connection: &Connection,
    table: &Table,
    index: usize,
    expected: Option<Sum>,
) -> Result<Option<u64>, StoreFault> {
    let mut found = Sum::default();
    let mut ascends = true;
    let mut last: Option<(Vec<u8>, i64)> = None;
    walk(connection, table, index, |key, number| {
        ascends &= last
            .as_ref()
            .is_none_or(|(last_key, last_number)| (&last_key[..], *last_number) < (key, number));
        match &mut last {
            Some((last_key, last_number)) => {
                last_key.clear();
                last_key.extend_from_slice(key);
                *last_number = number;
            }
            None => last = Some((key.to_vec(), number)),
        }
        found.add(key, number);
        Ok(())
    })?;
    if ascends && expected == Some(found) {
        return Ok(None);
    }
    let n_wrong = n_wrong(connection, table, index)?;
    let n_expected = expected.map_or(found.n_pairs, |expected| expected.n_pairs);
    if ascends && n_wrong == 0 && n_expected == found.n_pairs {
        return Ok(None);
    }
    // If only the order is lost, some entries cannot be found although all are there.
    let n_wrong = n_wrong.max(u64::from(!ascends));
    Ok(Some(found.n_pairs.saturating_sub(n_wrong)))
}

fn walk(
    connection: &Connection,
    table: &Table,
    index: usize,
    mut visit: impl FnMut(&[u8], i64) -> Result<(), StoreFault>,
) -> Result<(), StoreFault> {
    let mut select = connection.prepare(&table.entries(index, "")).map_err(working)?;
    let mut entries = select.query([]).map_err(working)?;
    while let Some(entry) = entries.next().map_err(working)? {
        let pair = entry
            .get_ref(0)
            .and_then(|key| Ok((key.as_bytes()?, entry.get(1)?)));
        let (key, number) = pair.map_err(working)?;
        visit(key, number)?;
    }
    Ok(())
}

/// Entries that differ from a row that is not damaged itself, or that have no row.
fn n_wrong(connection: &Connection, table: &Table, index: usize) -> Result<u64, StoreFault> {
    let select_key = table.key(index);
    let mut n_wrong = 0;
    walk(connection, table, index, |key, number| {
        let row = connection.prepare_cached(&select_key).and_then(|mut select| {
            select
                .query_row([number], |row| Ok(key_of(row.get_ref(0)?)? == Some(key)))
                .optional()
        });
        n_wrong += u64::from(match row {
            Ok(Some(true)) => false,
            Ok(None) => true,
            // A damaged row says so whenever it is read.
            Ok(Some(false)) => number_of(number)
                .map_err(working)
                .and_then(|number| (table.is_sound)(connection, number))?,
            Err(error) if is_damage(&error) => false,
            Err(error) => return Err(working(error)),
        });
        Ok(())
    })?;
    Ok(n_wrong)
}
