//! Saved plans, action profiles and what else has a name: rows of `definition`. Looks into none.

use std::collections::BTreeSet;

use rusqlite::types::{FromSqlError, ValueRef};
use rusqlite::{Connection, ErrorCode, OptionalExtension, Params, Row, params, params_from_iter};

use super::columns::namespace_at;
use super::contents;
use super::lists;
use super::rows;
use super::tally::RunTally;
use crate::StoreFault;
use crate::database::connection::working;
use crate::database::namespaces;
use crate::database::values::{bound, checksum, column_number, number_of, optional_text};
use crate::database::work::{self, Undone};
use crate::runs::content::Content;
use crate::runs::definitions::{
    Definition, DefinitionChange, DefinitionKey, DefinitionKind, DefinitionOutcome, DefinitionPage,
    DefinitionPut, DefinitionWrite, ExpectedVersion, Scope,
};
use crate::runs::stored::{RunKey, RunOrder};

/// Columns in the order in which they are bound, read and summed; the sum is the one behind them.
const COLUMNS: usize = 9;
/// The place of the namespace, which came later, in a row of [`NAMES`].
const NAMESPACE: usize = COLUMNS + 1;
const NAMES: &str = "number, kind, name, owner, priority, created_at, updated_at, version, record, checksum, \
                     namespace";

/// Applies one change within the open transaction, wholly or not at all, and counts it in the tally.
pub(crate) fn apply(
    connection: &Connection,
    tally: &mut RunTally,
    write: &DefinitionWrite,
) -> Result<DefinitionOutcome, StoreFault> {
    let mut after = *tally;
    let applied = work::whole(connection, || {
        let outcome = match &write.change {
            DefinitionChange::Put(put) => self::put(connection, &mut after, write, put)?,
            DefinitionChange::Delete => delete(connection, &mut after, write)?,
        };
        match outcome {
            DefinitionOutcome::Done { .. } => Ok(outcome),
            refused => Err(NotDefined::Refused(refused)),
        }
    });
    match applied {
        Ok(done) => {
            *tally = after;
            Ok(done)
        }
        Err(NotDefined::Refused(outcome)) => Ok(outcome),
        Err(NotDefined::Fault(fault)) => Err(fault),
    }
}

/// Reason to undo a change.
enum NotDefined {
    Refused(DefinitionOutcome),
    Fault(StoreFault),
}

impl From<StoreFault> for NotDefined {
    fn from(fault: StoreFault) -> Self {
        Self::Fault(fault)
    }
}

impl Undone for NotDefined {
    fn is_fatal(&self) -> bool {
        matches!(self, Self::Fault(fault) if fault.is_fatal())
    }
}

fn put(
    connection: &Connection,
    tally: &mut RunTally,
    write: &DefinitionWrite,
    put: &DefinitionPut,
) -> Result<DefinitionOutcome, StoreFault> {
    let found = find(connection, write.kind, &write.name)?;
    if let Some(refused) = refusal(write.expected, found.as_ref().map(|found| found.version)) {
        return Ok(refused);
    }
    let number = match &found {
        Some(found) => found.number,
        None => number_last(connection).map_err(working)? + 1,
    };
    let definition = Definition {
        number,
        kind: write.kind,
        name: write.name.clone(),
        namespace: put.namespace.clone(),
        owner: put.owner.clone(),
        priority: put.priority,
        created_at: found.as_ref().map_or(put.at, |found| found.created_at),
        updated_at: put.at,
        version: found.as_ref().map_or(0, |found| found.version) + 1,
        record: put.record.clone(),
    };
    insert(connection, &definition).map_err(working)?;
    if found.is_none() {
        tally.n_definitions += 1;
    }
    let pins = pins_of(number);
    let before = rows::digests(connection, pins).map_err(working)?;
    let missing = contents::pin_all(connection, pins, &put.contents, &put.pinned).map_err(working)?;
    if let Some(digest) = missing {
        return Ok(DefinitionOutcome::ContentMissing { digest });
    }
    let brought = put.contents.iter().map(Content::digest);
    let kept: BTreeSet<[u8; 32]> = put.pinned.iter().copied().chain(brought).collect();
    for digest in before {
        if !kept.contains(&digest) {
            contents::release(connection, pins, &digest).map_err(working)?;
        }
    }
    Ok(DefinitionOutcome::Done {
        version: definition.version,
    })
}

fn delete(
    connection: &Connection,
    tally: &mut RunTally,
    write: &DefinitionWrite,
) -> Result<DefinitionOutcome, StoreFault> {
    let (number, version) = match find(connection, write.kind, &write.name) {
        Ok(None) => return Ok(DefinitionOutcome::NotFound),
        Ok(Some(found)) => (found.number, found.version),
        Err(StoreFault::CorruptDefinition { number }) => (number, 0),
        Err(fault) => return Err(fault),
    };
    if version > 0
        && let Some(refused) = refusal(write.expected, Some(version))
    {
        return Ok(refused);
    }
    let delete = || -> rusqlite::Result<()> {
        for digest in rows::digests(connection, pins_of(number))? {
            contents::release(connection, pins_of(number), &digest)?;
        }
        connection
            .prepare_cached("DELETE FROM definition WHERE number = ?1")?
            .execute([column_number(number)])?;
        Ok(())
    };
    delete().map_err(working)?;
    tally.n_definitions = tally.n_definitions.saturating_sub(1);
    Ok(DefinitionOutcome::Done { version })
}

/// Applies a change that expects nothing within a transaction of somebody else. A damaged definition is written anew.
pub(super) fn overwrite(
    connection: &Connection,
    tally: &mut RunTally,
    write: &DefinitionWrite,
) -> Result<(), StoreFault> {
    let is_damaged = matches!(
        find(connection, write.kind, &write.name),
        Err(StoreFault::CorruptDefinition { .. })
    );
    if is_damaged || matches!(write.change, DefinitionChange::Delete) {
        delete(connection, tally, write)?;
    }
    if let DefinitionChange::Put(put) = &write.change {
        // What was removed since it was found is left out, as if it had been removed before.
        let there = contents::those_there(connection, &put.pinned).map_err(working)?;
        let put = DefinitionPut {
            pinned: there,
            ..put.clone()
        };
        self::put(connection, tally, write, &put)?;
    }
    Ok(())
}

/// Returns the reason why a change of what has that version, or is not there, is not what was expected.
fn refusal(expected: ExpectedVersion, version: Option<u64>) -> Option<DefinitionOutcome> {
    match (expected, version) {
        (ExpectedVersion::Any, _) | (ExpectedVersion::New, None) => None,
        (ExpectedVersion::Is(_), None) => Some(DefinitionOutcome::NotFound),
        (ExpectedVersion::Is(expected), Some(version)) if expected == version => None,
        (ExpectedVersion::New | ExpectedVersion::Is(_), Some(version)) => {
            Some(DefinitionOutcome::OtherVersion { version })
        }
    }
}

/// Under which number the contents of a definition are pinned.
pub(super) fn pins_of(number: u64) -> i64 {
    -column_number(number)
}

fn number_last(connection: &Connection) -> rusqlite::Result<u64> {
    let last: Option<i64> = connection
        .prepare_cached("SELECT max(number) FROM definition")?
        .query_row([], |row| row.get(0))?;
    last.map_or(Ok(0), number_of)
}

fn insert(connection: &Connection, definition: &Definition) -> rusqlite::Result<()> {
    let sql = format!(
        "INSERT OR REPLACE INTO definition ({NAMES}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)"
    );
    let name = name_in_row(definition.kind, &definition.name);
    let sum = ValueRef::Integer(sum(definition, &name));
    let namespace = optional_text(namespaces::column_of(&definition.namespace));
    let columns = values(definition, &name).into_iter().chain([sum, namespace]);
    connection
        .prepare_cached(&sql)?
        .execute(params_from_iter(columns.map(bound)))?;
    Ok(())
}

/// Returns the name with the kind in front, so that one index serves all kinds.
fn name_in_row(kind: DefinitionKind, name: &str) -> String {
    format!("{}:{name}", kind as u8)
}

fn values<'a>(definition: &'a Definition, name: &'a str) -> [ValueRef<'a>; COLUMNS] {
    [
        ValueRef::Integer(column_number(definition.number)),
        ValueRef::Integer((definition.kind as u8).into()),
        ValueRef::Text(name.as_bytes()),
        optional_text(definition.owner.as_deref()),
        ValueRef::Integer(definition.priority.into()),
        ValueRef::Integer(definition.created_at),
        ValueRef::Integer(definition.updated_at),
        ValueRef::Integer(column_number(definition.version)),
        ValueRef::Blob(&definition.record),
    ]
}

/// Returns the checksum over them and the namespace.
fn sum(definition: &Definition, name: &str) -> i64 {
    let columns = values(definition, name).into_iter();
    checksum(columns.chain(namespaces::covered(&definition.namespace)))
}

/// Returns the definition of that name.
pub(super) fn find(
    connection: &Connection,
    kind: DefinitionKind,
    name: &str,
) -> Result<Option<Definition>, StoreFault> {
    match one(connection, "name", [name_in_row(kind, name)])? {
        // A damaged index may lead to another row than the one that was asked for.
        Some(found) if found.kind != kind || found.name != name => Err(corrupt(found.number)),
        found => Ok(found),
    }
}

/// Returns the definition of that number.
pub(super) fn at(connection: &Connection, number: u64) -> Result<Option<Definition>, StoreFault> {
    one(connection, "number", [column_number(number)])
}

fn one(connection: &Connection, column: &str, key: impl Params) -> Result<Option<Definition>, StoreFault> {
    let sql = format!("SELECT {NAMES} FROM definition WHERE {column} = ?1");
    let found = connection
        .prepare_cached(&sql)
        .and_then(|mut select| select.query_row(key, |row| Ok(decode(row))).optional())
        .map_err(working)?;
    found.transpose()
}

/// A row and its number.
pub(super) type Numbered = (u64, Result<Definition, StoreFault>);

/// Those behind that number, at most `limit`.
pub(super) fn page(connection: &Connection, after: u64, limit: usize) -> Result<Vec<Numbered>, StoreFault> {
    let sql =
        format!("SELECT {NAMES} FROM definition NOT INDEXED WHERE number > ?1 ORDER BY number LIMIT ?2");
    let mut select = connection.prepare_cached(&sql).map_err(working)?;
    let bounds = params![column_number(after), i64::try_from(limit).unwrap_or(i64::MAX)];
    let mut rows = select.query(bounds).map_err(working)?;
    let mut page = Vec::new();
    while let Some(row) = rows.next().map_err(working)? {
        let number = row.get(0).and_then(number_of).map_err(working)?;
        page.push((number, decode(row)));
    }
    Ok(page)
}

/// A list in its order, without what is damaged.
pub(super) fn list(
    connection: &Connection,
    kind: DefinitionKind,
    scopes: Option<&[Scope]>,
    before: Option<DefinitionKey>,
    limit: usize,
) -> Result<DefinitionPage, StoreFault> {
    let key = |key: RunKey| DefinitionKey {
        priority: key.priority,
        created_at: key.created_at,
        number: key.number,
    };
    let before = before.map(|before| RunKey {
        priority: before.priority,
        created_at: before.created_at,
        number: before.number,
    });
    let stretches = lists::of_definitions(kind as u8, scopes);
    let (keys, next) = lists::keys(connection, &stretches, RunOrder::NewestFirst, before, limit)?;
    let mut page = DefinitionPage::default();
    for key in keys {
        match at(connection, key.number) {
            Ok(Some(definition)) if definition.kind == kind => {
                if !page.push(definition, limit) {
                    return Ok(page);
                }
            }
            // A damaged index leads to it.
            Ok(_) | Err(StoreFault::CorruptDefinition { .. }) => {}
            Err(fault) => return Err(fault),
        }
    }
    page.ends_at(next.map(key));
    Ok(page)
}

/// A list by names, without what is damaged.
pub(super) fn by_name(
    connection: &Connection,
    kind: DefinitionKind,
    after: Option<&str>,
    limit: usize,
) -> Result<DefinitionPage, StoreFault> {
    let sql = format!(
        "SELECT {NAMES} FROM definition INDEXED BY definition_by_name WHERE name > ?1 AND name < ?2 ORDER BY name"
    );
    // `;` is what follows the `:` behind the kind.
    let behind = format!("{};", kind as u8);
    let names = [name_in_row(kind, after.unwrap_or_default()), behind];
    let mut select = connection.prepare_cached(&sql).map_err(working)?;
    let mut rows = select.query(names).map_err(working)?;
    let mut page = DefinitionPage::default();
    while let Some(row) = rows.next().map_err(working)? {
        match decode(row) {
            Ok(definition) if definition.kind == kind => {
                if !page.push(definition, limit) {
                    break;
                }
            }
            // A damaged index leads to it.
            Ok(_) | Err(StoreFault::CorruptDefinition { .. }) => {}
            Err(fault) => return Err(fault),
        }
    }
    Ok(page)
}

/// How many there are of a kind.
pub(super) fn count(connection: &Connection, kind: DefinitionKind) -> rusqlite::Result<usize> {
    let n: i64 = connection
        .prepare_cached("SELECT count(*) FROM definition INDEXED BY definition_in_order WHERE kind = ?1")?
        .query_row([kind as u8], |row| row.get(0))?;
    Ok(usize::try_from(n).unwrap_or(usize::MAX))
}

/// Whether a definition stands in each index.
pub(super) fn is_indexed(connection: &Connection, definition: &Definition) -> rusqlite::Result<bool> {
    let name = name_in_row(definition.kind, &definition.name);
    let by_name = connection
        .prepare_cached("SELECT number FROM definition INDEXED BY definition_by_name WHERE name = ?1")?
        .query_row([name], |row| row.get(0))
        .optional()?;
    let key = |column: &str, index: &str| {
        format!(
            "SELECT 1 FROM definition INDEXED BY {index} WHERE kind = ?1 AND {column} AND namespace IS ?6 \
             AND priority = ?3 AND created_at = ?4 AND number = ?5"
        )
    };
    let is_in = |sql: &str| {
        connection.prepare_cached(sql)?.exists(params![
            definition.kind as u8,
            definition.owner,
            definition.priority,
            definition.created_at,
            column_number(definition.number),
            namespaces::column_of(&definition.namespace),
        ])
    };
    let mut is_whole = by_name == Some(column_number(definition.number));
    for index in ["definition_in_order", "definition_by_namespace"] {
        is_whole = is_whole && is_in(&key("(true OR ?2 IS NULL)", index))?;
    }
    if definition.owner.is_some() {
        for index in ["definition_by_owner", "definition_by_namespace_and_owner"] {
            is_whole = is_whole && is_in(&key("owner = ?2", index))?;
        }
    }
    Ok(is_whole)
}

fn corrupt(number: u64) -> StoreFault {
    StoreFault::CorruptDefinition { number }
}

/// Returns a row of [`NAMES`], checked.
fn decode(row: &Row<'_>) -> Result<Definition, StoreFault> {
    let number = row.get(0).and_then(number_of).map_err(working)?;
    let read = || -> rusqlite::Result<_> {
        let byte: u8 = row.get(1)?;
        let kind = DefinitionKind::ALL.into_iter().find(|kind| *kind as u8 == byte);
        let kind = kind.ok_or(FromSqlError::InvalidType)?;
        let in_row: String = row.get(2)?;
        let name = in_row.split_once(':').map(|(_, name)| name.to_owned());
        let definition = Definition {
            number,
            kind,
            name: name.ok_or(FromSqlError::InvalidType)?,
            namespace: namespace_at(row, NAMESPACE)?,
            owner: row.get(3)?,
            priority: row.get(4)?,
            created_at: row.get(5)?,
            updated_at: row.get(6)?,
            version: row.get(7).and_then(number_of)?,
            record: bytes::Bytes::copy_from_slice(row.get_ref(8)?.as_blob()?),
        };
        let is_sound = row.get::<_, i64>(COLUMNS)? == sum(&definition, &in_row);
        Ok(is_sound.then_some(definition))
    };
    match read() {
        Ok(Some(definition)) => Ok(definition),
        Ok(None) => Err(corrupt(number)),
        Err(error) => match error.sqlite_error_code() {
            None | Some(ErrorCode::DatabaseCorrupt) => Err(corrupt(number)),
            Some(_) => Err(working(error)),
        },
    }
}
