//! Opens connections to the file and sorts SQLite's errors into faults. Runs no statement of the store.
//!
//! Decisions: write-ahead log with `synchronous=FULL`, so that a commit returns behind its fsync; no
//! automatic checkpoint, neither on commit nor on close, because `checkpoint.rs` does them off the commit
//! path and must not touch a file whose fsync failed; no foreign keys, because the schema has none; pages of
//! 4 KiB, because the two unique indexes are written at random places and larger pages would only be copied.

use escapement_model::planted::{self, Bug};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::files::{FileSystem, Files};
use crate::{FaultSource, StoreFault};

/// How long a connection waits for a lock that another process holds.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of a page; holds for new files.
const PAGE_BYTES: i64 = 4096;
/// Page cache of the writer in KiB; taken only as it is used.
const WRITER_CACHE_KIB: i64 = 16 << 10;
/// Page cache of a reader in KiB.
const READER_CACHE_KIB: i64 = 2 << 10;
/// Page cache of a connection that reads everything once, in order, in KiB.
const WALKER_CACHE_KIB: i64 = 128;
/// Prepared statements kept per connection; a list has one for each combination of filters in use.
const STATEMENTS_CACHED_MAX: usize = 64;

/// Returns a connection that may write.
pub(crate) fn open_writer(files: &dyn Files, path: &Path) -> Result<Connection, StoreFault> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    open(files, path, flags, WRITER_CACHE_KIB)
}

/// Returns a connection that only reads.
pub(crate) fn open_reader(files: &dyn Files, path: &Path) -> Result<Connection, StoreFault> {
    open_query_only(files, path, READER_CACHE_KIB)
}

/// Returns a connection that only reads, everything once and in order.
pub(crate) fn open_walker(files: &dyn Files, path: &Path) -> Result<Connection, StoreFault> {
    open_query_only(files, path, WALKER_CACHE_KIB)
}

/// Returns a connection that only reads, for a process that is not the orchestrator: also on a medium or as a user that may
/// not write, if the log's index cannot be made. Writes no data.
pub(crate) fn open_bystander(path: &Path) -> Result<Connection, StoreFault> {
    let opened = open_reader(&FileSystem, path).and_then(|connection| {
        connection
            .pragma_query_value(None, "schema_version", |row| row.get::<_, i64>(0))
            .map_err(|error| opening(path, error))?;
        Ok(connection)
    });
    match opened {
        Err(StoreFault::Open { .. }) if path.is_file() => {
            open_beside(path).map_err(|error| opening(path, error))
        }
        opened => opened,
    }
}

/// Returns a connection to a file that nobody writes: a backup.
pub(crate) fn open_still(file: &Path) -> Result<Connection, StoreFault> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags).map_err(|error| opening(file, error))?;
    connection
        .pragma_update(None, "cell_size_check", true)
        .map_err(|error| opening(file, error))?;
    Ok(connection)
}

/// Without a lock and without an index of the log in a file: nobody writes there, or the first way would have gone.
fn open_beside(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let has_log = Path::new(&log).metadata().is_ok_and(|log| log.len() > 0);
    let connection = if has_log {
        let connection = Connection::open_with_flags_and_vfs(path, flags, c"unix-none")?;
        // Before anything is read, so that the index is in memory.
        connection.pragma_update_and_check(None, "locking_mode", "exclusive", |_| Ok(()))?;
        connection
    } else {
        let uri = format!("file:{}?immutable=1", escaped(path));
        Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)?
    };
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_query_value(None, "schema_version", |row| row.get::<_, i64>(0))?;
    Ok(connection)
}

/// Returns a path as it stands in a URI.
fn escaped(path: &Path) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-".contains(byte);
    let one = |byte: &u8| match is_plain(byte) {
        true => char::from(*byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    path.as_os_str().as_bytes().iter().map(one).collect()
}

fn open_query_only(files: &dyn Files, path: &Path, cache_kib: i64) -> Result<Connection, StoreFault> {
    let connection = open(files, path, OpenFlags::SQLITE_OPEN_READ_WRITE, cache_kib)?;
    connection
        .pragma_update(None, "query_only", true)
        .map_err(|error| opening(path, error))?;
    Ok(connection)
}

fn open(files: &dyn Files, path: &Path, flags: OpenFlags, cache_kib: i64) -> Result<Connection, StoreFault> {
    // Each connection stays with one thread at a time, which `Connection: !Sync` proves; SQLite need not
    // lock.
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = match files.sqlite_vfs() {
        None => Connection::open_with_flags(path, flags),
        Some(vfs) => Connection::open_with_flags_and_vfs(path, flags, vfs),
    }
    .map_err(|error| opening(path, error))?;
    let mode = configure(&connection, cache_kib).map_err(|error| opening(path, error))?;
    if mode != "wal" {
        return Err(StoreFault::Open {
            path: path.to_owned(),
            source: format!("the journal mode is {mode} and cannot be made wal").into(),
        });
    }
    Ok(connection)
}

/// Says which journal mode the file is in.
fn configure(connection: &Connection, cache_kib: i64) -> rusqlite::Result<String> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_CACHED_MAX);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    // Without it SQLite plans a cached statement anew with each value that is bound.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.pragma_update(None, "page_size", PAGE_BYTES)?;
    let mode = keep_log(connection)?;
    let synchronous = if planted::is_on(Bug::SyncSkipped) {
        "off"
    } else {
        "full"
    };
    connection.pragma_update(None, "synchronous", synchronous)?;
    connection.pragma_update_and_check(None, "wal_autocheckpoint", 0, |_| Ok(()))?;
    connection.pragma_update(None, "foreign_keys", false)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "temp_store", "memory")?;
    connection.pragma_update(None, "cache_size", -cache_kib)?;
    Ok(mode)
}

/// Asks for the write-ahead log; says which journal mode there is then.
///
/// To the end of the statement: SQLite answers with the new mode before it has written it, and takes a failed
/// write back without another word to a process that has read the answer only.
fn keep_log(connection: &Connection) -> rusqlite::Result<String> {
    let mut pragma = connection.prepare("PRAGMA journal_mode = wal")?;
    let mut answers = pragma.query([])?;
    let mut mode = String::new();
    while let Some(answer) = answers.next()? {
        mode = answer.get(0)?;
    }
    Ok(mode)
}

/// What an error means while opening.
pub(crate) fn opening(path: &Path, error: rusqlite::Error) -> StoreFault {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreFault::Full(error.into()),
        Some(code) if is_lock(code) => StoreFault::Busy(error.into()),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreFault::Damaged {
            path: path.to_owned(),
            source: error.into(),
        },
        _ => StoreFault::Open {
            path: path.to_owned(),
            source: error.into(),
        },
    }
}

/// What a fault of working means while opening: nothing was acknowledged on the file yet.
pub(crate) fn at_opening(path: &Path, fault: StoreFault) -> StoreFault {
    let StoreFault::Fatal(source) = fault else {
        return fault;
    };
    let path = path.to_owned();
    let code = source
        .downcast_ref::<rusqlite::Error>()
        .and_then(rusqlite::Error::sqlite_error_code);
    match code {
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            StoreFault::Open { path, source }
        }
        _ if is_of_damage(&source) => StoreFault::Damaged { path, source },
        _ => StoreFault::Fatal(source),
    }
}

/// A lock was not to be had, so nothing was done. The last one is SQLite's own: a transaction lost the race for its place in the log
/// about a hundred times, over some ten seconds, before it began.
fn is_lock(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed
    )
}

/// Of bytes or pages, which concerns what they belong to. An interruption is: only [`bound_work`] interrupts.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        None | Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::OperationInterrupted)
    )
}

/// From now on, interrupts a statement once all of them together have taken more steps than a sound file of this size has
/// work for: the pages of a damaged one can lead back to themselves, and a walk over them would not end.
pub(crate) fn bound_work(connection: &mut Connection) -> Result<(), StoreFault> {
    let n_pages: i64 = connection
        .query_row("PRAGMA page_count", [], |row| row.get(0))
        .map_err(working)?;
    let mut n_left = (n_pages.unsigned_abs() + PAGES_SPARE) * STEPS_PER_PAGE / STEPS_AT_A_TIME;
    let is_over = move || {
        n_left = n_left.saturating_sub(1);
        n_left == 0
    };
    let n_steps = i32::try_from(STEPS_AT_A_TIME).expect("it is small");
    connection
        .progress_handler(n_steps, Some(is_over))
        .map_err(working)
}

/// Lets statements take as long as they take.
pub(crate) fn unbound_work(connection: &mut Connection) -> Result<(), StoreFault> {
    connection
        .progress_handler(0, None::<fn() -> bool>)
        .map_err(working)
}

/// Lets SQLite look at the structure of the whole file, and says what is wrong with it.
pub(crate) fn structure(connection: &Connection) -> Result<Vec<String>, StoreFault> {
    let sql = format!("PRAGMA integrity_check({STRUCTURE_FINDINGS_MAX})");
    let mut statement = connection.prepare(&sql).map_err(working)?;
    let mut rows = statement.query([]).map_err(working)?;
    let mut findings = Vec::new();
    loop {
        match rows.next() {
            Ok(Some(row)) => {
                let said: String = row.get(0).map_err(working)?;
                if said != "ok" {
                    findings.push(said);
                }
            }
            Ok(None) => return Ok(findings),
            Err(error) if is_damage(&error) => {
                findings.push(error.to_string());
                return Ok(findings);
            }
            Err(error) => return Err(working(error)),
        }
    }
}

/// Findings about the structure of a file that are told.
const STRUCTURE_FINDINGS_MAX: usize = 20;
/// A page holds at most some hundred entries, and each takes less than a hundred steps of SQLite's machine to check.
const STEPS_PER_PAGE: u64 = 20_000;
/// What a small file may take beside.
const PAGES_SPARE: u64 = 100;
const STEPS_AT_A_TIME: u64 = 10_000;

/// The same of what is behind a fault.
pub(crate) fn is_of_damage(source: &FaultSource) -> bool {
    source.downcast_ref().is_some_and(is_damage)
}

/// What an error means while working. Whatever is not known to be harmless is fatal.
pub(crate) fn working(error: rusqlite::Error) -> StoreFault {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreFault::Full(error.into()),
        Some(code) if is_lock(code) => StoreFault::Busy(error.into()),
        _ if planted::is_on(Bug::FatalRetried) => StoreFault::Busy(error.into()),
        _ => StoreFault::Fatal(error.into()),
    }
}

/// What an error means while reading execution `number` alone: damage of its bytes or pages is its own.
pub(crate) fn reading(number: u64, part: &'static str, error: rusqlite::Error) -> StoreFault {
    match error.sqlite_error_code() {
        None | Some(ErrorCode::DatabaseCorrupt) => StoreFault::Corrupt { number, part },
        Some(_) => working(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_that_could_not_begin_may_be_tried_again() {
        let codes = [
            rusqlite::ffi::SQLITE_BUSY,
            rusqlite::ffi::SQLITE_LOCKED,
            rusqlite::ffi::SQLITE_PROTOCOL,
        ];
        for code in codes {
            let error = || rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
            assert!(matches!(working(error()), StoreFault::Busy(_)), "{code}");
            let fault = opening(Path::new("runs.db"), error());
            assert!(matches!(fault, StoreFault::Busy(_)), "{code}: {fault}");
        }
    }
}
