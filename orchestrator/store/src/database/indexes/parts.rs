//! Walks the table and its indexes in parts, several at a time, and says whether they agree. Never says where they
//! do not: a caller that hears "no" walks everything again, in one piece.
//!
//! A large store is walked in less time so, even more if its pages come from a disk: one walk alone would wait
//! for one page after the other.

use std::sync::atomic::{AtomicUsize, Ordering};

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::{Sum, Table, add_row, key_of};
use crate::database::Checkpointing;

/// Parts of one walk.
const PARTS_MAX: i64 = 64;
/// Threads that walk beside the one that opens the store: a disk serves so many reads at a time.
const THREADS: usize = 15;
/// Rows of a part at least; a store with fewer is walked by its opener alone.
const ROWS_MIN: i64 = 16_384;
/// The same if a test wants no threads, so that its small store is walked in parts all the same.
const ROWS_MIN_INLINE: i64 = 2;

/// How walks are cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    rows_min: i64,
    n_threads: usize,
}

impl Cut {
    pub(crate) fn of(checkpointing: Checkpointing) -> Self {
        match checkpointing {
            Checkpointing::Thread => Self {
                rows_min: ROWS_MIN,
                n_threads: THREADS,
            },
            Checkpointing::Inline { .. } => Self {
                rows_min: ROWS_MIN_INLINE,
                n_threads: 0,
            },
        }
    }
}

/// A stretch of the table or of an index, from one key to another, both included; `None` for the ends.
#[derive(Debug)]
struct Part {
    /// `None` for the table.
    index: Option<usize>,
    from: Option<Value>,
    to: Option<Value>,
}

/// What the walk of a part has met.
#[derive(Debug)]
struct Met {
    /// For the table, one for each index; for an index, its own. Without the entry that the part before ends with.
    sums: Vec<Sum>,
    ends: Option<Ends>,
}

/// First and last entry, key and number.
#[derive(Debug)]
struct Ends {
    first: (Vec<u8>, i64),
    last: (Vec<u8>, i64),
}

/// True if the table and every index are in order and say the same. False if they do not, and where anything
/// could not be read.
///
/// Each part begins with the entry that the one before ends with: together they are one walk, in which nothing
/// was passed over.
pub(crate) fn agree(
    connection: &Connection,
    table: &Table,
    open: &(dyn Fn() -> Option<Connection> + Sync),
    cut: Cut,
) -> bool {
    let Ok(parts) = parts(connection, table, cut) else {
        return false;
    };
    let next = AtomicUsize::new(0);
    let walk = |connection: &Connection| {
        let mut met = Vec::new();
        while let Some(place) =
            Some(next.fetch_add(1, Ordering::Relaxed)).filter(|place| *place < parts.len())
        {
            met.push((place, parts[place].walk(connection, table).ok().flatten()));
        }
        met
    };
    // Walks that are not cut need no help.
    let n_threads = if parts.len() > table.indexes.len() + 1 {
        cut.n_threads
    } else {
        0
    };
    let mut met = std::thread::scope(|scope| {
        // A thread or a connection that cannot be had leaves its share to the others.
        let helpers: Vec<_> = (0..n_threads)
            .filter_map(|_| {
                let help = || open().map(|connection| walk(&connection)).unwrap_or_default();
                std::thread::Builder::new().spawn_scoped(scope, help).ok()
            })
            .collect();
        let mut met = walk(connection);
        for helper in helpers {
            // What a panic has taken along is missing below.
            met.extend(helper.join().unwrap_or_default());
        }
        met
    });
    met.sort_unstable_by_key(|(place, _)| *place);
    let Some(met) = met.into_iter().map(|(_, met)| met).collect::<Option<Vec<_>>>() else {
        return false;
    };
    met.len() == parts.len() && add_up(table.indexes.len(), &parts, &met)
}

/// Whether the parts of each walk are one chain, and the sums those of the table.
fn add_up(n_indexes: usize, parts: &[Part], met: &[Met]) -> bool {
    let walk = |index: Option<usize>| {
        let walk = parts.iter().zip(met).filter(move |(part, _)| part.index == index);
        walk.map(|(_, met)| met)
    };
    let is_chain = |index| {
        let (mut before, mut is_chain) = (None, true);
        for (place, met) in walk(index).enumerate() {
            let ends = met.ends.as_ref();
            is_chain &= place == 0 || (ends.is_some() && before == ends.map(|ends| &ends.first));
            before = ends.map(|ends| &ends.last);
        }
        is_chain
    };
    let sum = |index, place: usize| {
        let sums = walk(index).map(|met: &Met| met.sums[place]);
        sums.fold(Sum::default(), Sum::and)
    };
    let agrees = |place| is_chain(Some(place)) && sum(Some(place), place) == sum(None, place);
    is_chain(None) && (0..n_indexes).all(agrees)
}

/// Cuts the table and the indexes by random ids at the keys of some rows; the other indexes are small.
fn parts(connection: &Connection, table: &Table, cut: Cut) -> rusqlite::Result<Vec<Part>> {
    let sql = format!("SELECT max(rowid) FROM {}", table.name);
    let number_last: Option<i64> = connection.query_row(&sql, [], |row| row.get(0))?;
    let number_last = number_last.unwrap_or_default();
    let n_parts = (number_last / cut.rows_min).clamp(1, PARTS_MAX);
    let mut at = connection.prepare(&table.rows(" WHERE rowid >= ?1 ORDER BY rowid LIMIT 1"))?;
    let (mut numbers, mut keys) = (Vec::new(), vec![Vec::new(); table.n_cut]);
    for place in 1..n_parts {
        let number = number_last / n_parts * place;
        at.query_row([number], |row| {
            numbers.push(row.get(0)?);
            for (index, keys) in keys.iter_mut().enumerate() {
                keys.push(row.get(index + 1)?);
            }
            Ok(())
        })?;
    }
    numbers.sort_unstable();
    let mut parts = Vec::new();
    cut_at(None, numbers.into_iter().map(Value::Integer), &mut parts);
    for (index, mut keys) in keys.into_iter().enumerate() {
        keys.sort_unstable();
        cut_at(Some(index), keys.into_iter().map(Value::Blob), &mut parts);
    }
    for index in table.n_cut..table.indexes.len() {
        cut_at(Some(index), [].into_iter(), &mut parts);
    }
    Ok(parts)
}

fn cut_at(index: Option<usize>, bounds: impl Iterator<Item = Value>, parts: &mut Vec<Part>) {
    let mut from = None;
    for to in bounds {
        // Where rows were removed, two places may have the same row.
        if from.as_ref() == Some(&to) {
            continue;
        }
        let part = Part {
            index,
            from: from.replace(to.clone()),
            to: Some(to),
        };
        parts.push(part);
    }
    parts.push(Part {
        index,
        from,
        to: None,
    });
}

impl Part {
    /// `None` if it is not in order.
    fn walk(&self, connection: &Connection, table: &Table) -> rusqlite::Result<Option<Met>> {
        let key = self.index.map_or("rowid", |index| table.indexes[index].key);
        let mut bounds = String::new();
        if self.from.is_some() {
            bounds.push_str(&format!(" AND {key} >= ?"));
        }
        if self.to.is_some() {
            bounds.push_str(&format!(" AND {key} <= ?"));
        }
        let sql = match self.index {
            Some(index) => table.entries(index, &bounds),
            None => table.rows(&format!(" WHERE true{bounds} ORDER BY rowid")),
        };
        let mut select = connection.prepare(&sql)?;
        let mut rows = select.query(params_from_iter(self.from.iter().chain(&self.to)))?;
        let mut met = Met {
            sums: vec![Sum::default(); table.indexes.len()],
            ends: None,
        };
        while let Some(row) = rows.next()? {
            let (key, number) = match self.index {
                Some(_) => (key_of(row.get_ref(0)?)?.unwrap_or_default(), row.get(1)?),
                None => (&[][..], row.get(0)?),
            };
            let is_shared = self.from.is_some() && met.ends.is_none();
            if !met.goes_on(key, number) {
                return Ok(None);
            }
            match self.index {
                _ if is_shared => {}
                Some(index) => met.sums[index].add(key, number),
                None => add_row(&mut met.sums, row)?,
            }
        }
        Ok(Some(met))
    }
}

impl Met {
    /// Takes in the next entry; false if it is not behind the one before.
    fn goes_on(&mut self, key: &[u8], number: i64) -> bool {
        let Some(Ends { last, .. }) = &mut self.ends else {
            let first = (key.to_vec(), number);
            self.ends = Some(Ends {
                last: first.clone(),
                first,
            });
            return true;
        };
        let ascends = (&last.0[..], last.1) < (key, number);
        last.0.clear();
        last.0.extend_from_slice(key);
        last.1 = number;
        ascends
    }
}
