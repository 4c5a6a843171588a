//! The keys of what a list shows: along the indexes, in the order of the list, and a bounded number of rows for each page.
//! Reads no row that the list does not show.

mod along;

use std::cmp::Ordering;

use rusqlite::types::Value;
use rusqlite::{Connection, Rows, params_from_iter};

use escapement_model::Namespace;

use crate::StoreFault;
use crate::database::connection::working;
use crate::database::namespaces;
use crate::database::values::{column_number, number_of};
use crate::runs::definitions::Scope;
use crate::runs::limits::ROWS_LOOKED_AT_MAX;
use crate::runs::stored::{ListCount, Listing, RunKey, RunOrder};

use along::of_requests;
pub(super) use along::{of_definitions, of_runs};

/// A stretch of an index: its entries are in the order of the list.
#[derive(Clone, Debug)]
pub(super) struct Stretch {
    table: &'static str,
    index: &'static str,
    /// Conditions on what the index begins with.
    within: String,
    /// Conditions that are looked at row by row.
    wanted: String,
    parameters: Vec<Value>,
}

/// What a page has, and where the next one goes on; `None` if nothing is left.
pub(super) type Keys = (Vec<RunKey>, Option<RunKey>);

impl Stretch {
    pub(super) fn new(table: &'static str, index: &'static str) -> Self {
        Self {
            table,
            index,
            within: "true".to_owned(),
            wanted: "true".to_owned(),
            parameters: Vec::new(),
        }
    }

    /// Only what has that value in a column that the index begins with.
    pub(super) fn within(mut self, column: &str, value: Value) -> Self {
        self.parameters.push(value);
        self.within
            .push_str(&format!(" AND {column} = ?{}", self.parameters.len()));
        self
    }

    /// Only what is of this namespace, in a column that the index begins with.
    pub(super) fn within_namespace(mut self, namespace: &Namespace) -> Self {
        let one = std::slice::from_ref(namespace);
        let condition = namespaces::condition("namespace", one, &mut self.parameters);
        self.within.push_str(&condition);
        self
    }

    /// Only what is live, as the index has it.
    fn within_live(mut self) -> Self {
        self.within.push_str(" AND ended_at IS NULL");
        self
    }

    /// Restricts it to open requests, as the index does.
    fn within_open(mut self) -> Self {
        self.within.push_str(" AND closed_at IS NULL");
        self
    }

    /// Only rows that have one of these values.
    fn wanted(mut self, column: &str, values: impl IntoIterator<Item = Value>) -> Self {
        let mut any = Vec::new();
        for value in values {
            self.parameters.push(value);
            any.push(format!("{column} = ?{}", self.parameters.len()));
        }
        if !any.is_empty() {
            self.wanted.push_str(&format!(" AND ({})", any.join(" OR ")));
        }
        self
    }

    /// Only rows of these namespaces, or of all.
    pub(super) fn wanted_namespaces(mut self, namespaces: Option<&[Namespace]>) -> Self {
        if let Some(namespaces) = namespaces {
            let condition = namespaces::condition("namespace", namespaces, &mut self.parameters);
            self.wanted.push_str(&condition);
        }
        self
    }

    /// Looks at rows behind `behind` until so many are wanted, or so many were looked at. Where it stopped, if there may be more.
    fn keys(
        &self,
        connection: &Connection,
        order: RunOrder,
        behind: Option<RunKey>,
        limit: usize,
        n_rows: usize,
    ) -> Result<Keys, StoreFault> {
        let mut looking = Looking {
            keys: Vec::new(),
            last: None,
            limit,
            n_left: n_rows,
        };
        match (order, behind) {
            (RunOrder::NewestFirst, None) => self.look(connection, NEWEST, "", &[], &mut looking)?,
            (RunOrder::NewestFirst, Some(key)) => {
                let condition = " AND (priority, created_at, number) < (?A, ?B, ?C)";
                let key = [key.priority.into(), key.created_at, saturated(key.number)];
                self.look(connection, NEWEST, condition, &key, &mut looking)?;
            }
            (RunOrder::OldestFirst, behind) => {
                let mut last = None;
                if let Some(RunKey {
                    priority,
                    created_at,
                    number,
                }) = behind
                {
                    let condition = " AND priority = ?A AND (created_at, number) > (?B, ?C)";
                    let key = [priority.into(), created_at, saturated(number)];
                    self.look(connection, OLDEST, condition, &key, &mut looking)?;
                    last = Some(i64::from(priority));
                }
                while !looking.is_over()
                    && let Some(priority) = self.next_priority(connection, last)?
                {
                    let condition = " AND priority = ?A";
                    self.look(connection, OLDEST, condition, &[priority], &mut looking)?;
                    last = Some(priority);
                }
            }
        }
        let stopped = looking.last.filter(|_| looking.is_over());
        Ok((looking.keys, stopped))
    }

    /// The same of open input requests, which are listed by their places.
    fn places(
        &self,
        connection: &Connection,
        after: Option<u64>,
        limit: usize,
        n_rows: usize,
    ) -> Result<(Vec<u64>, Option<u64>), StoreFault> {
        let behind = " AND place > ?A ORDER BY place";
        let after = [after.map_or(0, saturated)];
        self.select(connection, "place", behind, &after, |rows| {
            let (mut places, mut last, mut n_left) = (Vec::new(), None, n_rows);
            while places.len() < limit && n_left > 0 {
                let Some(row) = rows.next()? else {
                    return Ok((places, None));
                };
                let place = row.get(0).and_then(number_of)?;
                (last, n_left) = (Some(place), n_left - 1);
                if row.get(1).unwrap_or(false) {
                    places.push(place);
                }
            }
            Ok((places, last))
        })
    }

    /// Adds the numbers of the rows that match. Returns the number of rows that it read, at most `n_rows`.
    fn numbers(
        &self,
        connection: &Connection,
        n_rows: usize,
        numbers: &mut Vec<i64>,
    ) -> Result<usize, StoreFault> {
        let n_rows = [column_number(n_rows as u64)];
        self.select(connection, "rowid", " LIMIT ?A", &n_rows, |rows| {
            let mut n_seen = 0;
            while let Some(row) = rows.next()? {
                n_seen += 1;
                if row.get(1).unwrap_or(false) {
                    numbers.push(row.get(0)?);
                }
            }
            Ok(n_seen)
        })
    }

    fn look(
        &self,
        connection: &Connection,
        order: &str,
        condition: &str,
        key: &[i64],
        looking: &mut Looking,
    ) -> Result<(), StoreFault> {
        let columns = "priority, created_at, number";
        let rest = format!("{condition} ORDER BY {order}");
        self.select(connection, columns, &rest, key, |rows| {
            while !looking.is_over()
                && let Some(row) = rows.next()?
            {
                let key = || -> rusqlite::Result<RunKey> {
                    Ok(RunKey {
                        priority: row.get(0)?,
                        created_at: row.get(1)?,
                        number: row.get(2).and_then(number_of)?,
                    })
                };
                // Lists leave out what is damaged.
                if let Ok(key) = key() {
                    looking.take(key, row.get(3).unwrap_or(false));
                }
            }
            Ok(())
        })
    }

    /// Returns the highest priority below that one.
    fn next_priority(&self, connection: &Connection, below: Option<i64>) -> Result<Option<i64>, StoreFault> {
        let (condition, key) = match below {
            Some(below) => (" AND priority < ?A", vec![below]),
            None => ("", Vec::new()),
        };
        let rest = format!("{condition} ORDER BY priority DESC LIMIT 1");
        self.select(connection, "priority", &rest, &key, |rows| {
            rows.next()?.map(|row| row.get(0)).transpose()
        })
    }

    /// Reads these columns of its rows. The column after them is true in a row that matches. `rest` ends the statement and calls
    /// its further parameters `?A`, `?B` and `?C`.
    fn select<T>(
        &self,
        connection: &Connection,
        columns: &str,
        rest: &str,
        further: &[i64],
        read: impl FnOnce(&mut Rows<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreFault> {
        let Self {
            table,
            index,
            within,
            // Selected by each statement, so that each mentions all parameters.
            wanted,
            parameters,
        } = self;
        let (mut rest, mut parameters) = (rest.to_owned(), parameters.clone());
        for (name, value) in ["?A", "?B", "?C"].into_iter().zip(further) {
            parameters.push(Value::Integer(*value));
            rest = rest.replace(name, &format!("?{}", parameters.len()));
        }
        let sql = format!("SELECT {columns}, {wanted} FROM {table} INDEXED BY {index} WHERE {within}{rest}");
        let select = || {
            let mut select = connection.prepare_cached(&sql)?;
            let mut rows = select.query(params_from_iter(parameters))?;
            read(&mut rows)
        };
        select().map_err(working)
    }
}

/// How far a look along a stretch is.
struct Looking {
    keys: Vec<RunKey>,
    last: Option<RunKey>,
    limit: usize,
    n_left: usize,
}

impl Looking {
    fn is_over(&self) -> bool {
        self.keys.len() >= self.limit || self.n_left == 0
    }

    fn take(&mut self, key: RunKey, is_wanted: bool) {
        self.n_left -= 1;
        self.last = Some(key);
        if is_wanted {
            self.keys.push(key);
        }
    }
}

/// Returns the keys of a page behind `behind`, out of all these stretches together.
pub(super) fn keys(
    connection: &Connection,
    stretches: &[Stretch],
    order: RunOrder,
    behind: Option<RunKey>,
    limit: usize,
) -> Result<Keys, StoreFault> {
    let look = |stretch: &Stretch, n_rows| stretch.keys(connection, order, behind, limit, n_rows);
    merged(stretches, look, |one, other| order.compare(*one, *other), limit)
}

/// Returns the places of open input requests of a page, and where the next one goes on.
pub(super) fn open_requests(
    connection: &Connection,
    scopes: Option<&[Scope]>,
    after: Option<u64>,
    limit: usize,
) -> Result<(Vec<u64>, Option<u64>), StoreFault> {
    let stretches = of_requests(scopes);
    let look = |stretch: &Stretch, n_rows| stretch.places(connection, after, limit, n_rows);
    merged(&stretches, look, u64::cmp, limit)
}

/// Returns the number of entries of a list.
pub(super) fn count(connection: &Connection, listing: Listing<'_>) -> Result<ListCount, StoreFault> {
    let stretches = match listing {
        Listing::Runs(filter) => of_runs(filter),
        Listing::Definitions { kind, scopes } => of_definitions(kind as u8, scopes),
        Listing::OpenInputRequests { scopes, kind, run_id } => {
            let kind = kind.map(|kind| Value::Integer(kind.into()));
            let run_id = run_id.map(|id| Value::Blob(id.as_bytes().to_vec()));
            let stretches = of_requests(scopes).into_iter();
            let wanted = stretches.map(|stretch| stretch.wanted("kind", kind.clone()));
            wanted
                .map(|stretch| stretch.wanted("run_id", run_id.clone()))
                .collect()
        }
    };
    // One more row than the count may have shows that the list may be longer.
    let (mut numbers, mut n_left) = (Vec::new(), ROWS_LOOKED_AT_MAX + 1);
    for stretch in stretches {
        n_left -= stretch.numbers(connection, n_left, &mut numbers)?;
    }
    // Two stretches may have the same row.
    numbers.sort_unstable();
    numbers.dedup();
    Ok(ListCount {
        n: numbers.len().min(ROWS_LOOKED_AT_MAX) as u64,
        is_at_least: n_left == 0,
    })
}

/// One page out of the pages of all these stretches, in the order that `compare` has, and where the next one goes on. `look` looks at
/// so many rows of a stretch at most.
fn merged<K: Copy + PartialEq>(
    stretches: &[Stretch],
    look: impl Fn(&Stretch, usize) -> Result<(Vec<K>, Option<K>), StoreFault>,
    compare: impl Fn(&K, &K) -> Ordering,
    limit: usize,
) -> Result<(Vec<K>, Option<K>), StoreFault> {
    let n_rows = (ROWS_LOOKED_AT_MAX / stretches.len().max(1)).max(1);
    let (mut found, mut stopped) = (Vec::new(), Vec::new());
    for stretch in stretches {
        let (keys, at) = look(stretch, n_rows)?;
        found.extend(keys);
        stopped.extend(at);
    }
    found.sort_unstable_by(&compare);
    found.dedup();
    let mut reached = stopped.into_iter().min_by(&compare);
    // What is behind the place where a stretch was left may have others of that stretch in front of it.
    if let Some(reached) = &reached {
        found.retain(|key| compare(key, reached) != Ordering::Greater);
    }
    if found.len() > limit {
        found.truncate(limit);
        reached = found.last().copied();
    }
    Ok((found, reached))
}

pub(super) fn saturated(number: u64) -> i64 {
    column_number(number.min(i64::MAX.unsigned_abs()))
}

const NEWEST: &str = "priority DESC, created_at DESC, number DESC";
const OLDEST: &str = "created_at, number";

#[cfg(test)]
mod tests;
