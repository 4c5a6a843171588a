//! Makes a store of the files of an earlier version, which had executions and runs in two databases. Changes no row.
//!
//! Every row is copied as it is, its checksum with it, and compared with the old one. So a damaged row stays damaged, and harms
//! itself alone. The copy is put together in the stage. Once it is complete and synced, a marker there says so. Then the old files
//! are moved to `before-store`, and the copy gets its name. A start that was cut short before the marker begins anew on the old
//! files. After the marker it continues.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::wal::CheckpointMode;

use super::schema::SCHEMA;
use crate::StoreFault;
use crate::database::checkpoint::checkpoint;
use crate::database::connection::{at_opening, open_still, open_writer, working};
use crate::database::copy::{empty, refuse_existing, settle_in, sync_directory};
use crate::database::files::{self, FileSystem, Lock, open_private};
use crate::database::mark::Mark;
use crate::database::opening::{Converted, lock};
use crate::database::schema::{INDEXES, TABLES};
use crate::database::values::{column_number, number_of};
use crate::database::{BEFORE, EmbeddedOptions, LOCK_FILE, STAGE, STORE, cannot_open, earlier_names, schema};
use crate::earlier::{self, EXECUTIONS, Earlier, EarlierMark, GUARD_VERSION, RUNS};
use crate::tally::{Census, Tally};
use crate::tally_part::one;

/// Stands in the stage once the copy is complete.
const COMPLETE: &str = "converted";

/// Converts what an earlier version has left in a directory, if it has left something; holds the directory from then on.
///
/// # Errors
/// As [`Embedded::open`](super::Embedded::open).
pub(super) fn bring(
    directory: &Path,
    options: &EmbeddedOptions,
) -> Result<(Option<Lock>, Option<Converted>), StoreFault> {
    // The disk of a test knows no earlier version.
    if options.files.is_some() || !(is_earlier(directory) || is_left_over(directory)) {
        return Ok((None, None));
    }
    let held = hold(directory)?;
    let converted = convert_held(directory, options.accept_loss)?;
    Ok((Some(held), converted))
}

/// Makes a store of the files of an earlier version. Returns `None` without such files.
///
/// # Errors
/// [`StoreFault::Gap`] if something acknowledged is missing and `accept_loss` is not set. [`StoreFault::Exists`] if the
/// directory keeps the files of another conversion. Otherwise as [`Embedded::open`](super::Embedded::open). The
/// old files are not changed then.
pub fn convert(directory: &Path, accept_loss: bool) -> Result<Option<Converted>, StoreFault> {
    if !(is_earlier(directory) || is_left_over(directory)) {
        return Ok(None);
    }
    let _held = hold(directory)?;
    convert_held(directory, accept_loss)
}

/// Makes the same copy and throws it away. Returns `None` without files to copy.
///
/// # Errors
/// As [`convert`].
pub fn try_to_convert(directory: &Path, accept_loss: bool) -> Result<Option<Converted>, StoreFault> {
    let stage = directory.join(STAGE);
    if !is_earlier(directory) || stage.join(COMPLETE).is_file() {
        return Ok(None);
    }
    let _held = hold(directory)?;
    refuse_remains(directory, &stage)?;
    let copied = empty(&stage).and_then(|()| copy(directory, &stage, accept_loss));
    let counted = copied.and_then(|()| count(&stage.join(STORE.database)));
    std::fs::remove_dir_all(&stage).map_err(|error| cannot_open(&stage, error))?;
    counted.map(Some)
}

/// Returns true if a directory has files of an earlier version that are to be converted, or a conversion that was cut short.
pub(super) fn is_earlier(directory: &Path) -> bool {
    if directory.join(STAGE).join(COMPLETE).is_file() {
        return true;
    }
    let has = |name: &str| directory.join(name).metadata().is_ok_and(|found| found.len() > 0);
    let was_lost = || EarlierMark::read(&directory.join(EXECUTIONS.names.mark)) != EarlierMark::default();
    !has(STORE.database)
        && (was_lost()
            || has(RUNS.names.database)
            || has(EXECUTIONS.names.database) && !earlier::is_guarded(directory))
}

/// Returns true if a conversion or a restore has come through and was cut short while it removed the stage.
fn is_left_over(directory: &Path) -> bool {
    let stage = directory.join(STAGE);
    stage.is_dir() && !stage.join(COMPLETE).is_file() && directory.join(STORE.database).is_file()
}

fn remove(stage: &Path, directory: &Path) -> Result<(), StoreFault> {
    std::fs::remove_dir_all(stage).map_err(|error| cannot_open(stage, error))?;
    sync_directory(directory)
}

/// Refuses a directory that is to be converted first.
///
/// # Errors
/// [`StoreFault::Incompatible`].
pub(super) fn refuse_earlier(directory: &Path) -> Result<(), StoreFault> {
    if !is_earlier(directory) {
        return Ok(());
    }
    let path = directory.join(EXECUTIONS.names.database);
    let found = open_still(&path).and_then(|connection| schema::versions(&connection, &path));
    let newest = EXECUTIONS.schema.known();
    Err(StoreFault::Incompatible {
        path,
        // A conversion that was cut short may have put the guard there already.
        found: found.map_or(newest, |(version, _)| version.min(newest)),
        known: SCHEMA.known(),
    })
}

fn hold(directory: &Path) -> Result<Lock, StoreFault> {
    lock(&FileSystem, &directory.join(LOCK_FILE))
}

/// Converts the files of a directory that is held. Returns `None` if no file is left to convert.
fn convert_held(directory: &Path, accept_loss: bool) -> Result<Option<Converted>, StoreFault> {
    let stage = directory.join(STAGE);
    if is_left_over(directory) {
        remove(&stage, directory)?;
    }
    if !is_earlier(directory) {
        return Ok(None);
    }
    if !stage.join(COMPLETE).is_file() {
        refuse_remains(directory, &stage)?;
        empty(&stage)?;
        copy(directory, &stage, accept_loss)?;
        let marker = stage.join(COMPLETE);
        make_file(&marker)?;
        sync_file(&marker)?;
        sync_directory(&stage)?;
        sync_directory(directory)?;
    }
    take_place(directory, &stage)?;
    count(&directory.join(STORE.database)).map(Some)
}

/// Refuses an unfinished restore of an earlier version. Refuses a directory that keeps the files of another conversion.
fn refuse_remains(directory: &Path, stage: &Path) -> Result<(), StoreFault> {
    // Such a restore has moved the runs, and not yet the executions.
    if stage.is_dir() && !directory.join(EXECUTIONS.names.database).is_file() {
        return Err(StoreFault::Unfinished {
            path: stage.to_owned(),
        });
    }
    refuse_existing(&directory.join(BEFORE))
}

fn count(path: &Path) -> Result<Converted, StoreFault> {
    let counted = open_still(path).and_then(|connection| {
        let count = |sql| one(&connection, sql).map_err(working);
        Ok(Converted {
            n_executions: count("SELECT count(*) FROM execution")?,
            n_runs: count("SELECT count(*) FROM run")?,
        })
    });
    counted.map_err(|fault| at_opening(path, fault))
}

/// Makes the whole copy, and syncs it.
fn copy(directory: &Path, stage: &Path, accept_loss: bool) -> Result<(), StoreFault> {
    let path = stage.join(STORE.database);
    make_file(&path)?;
    let connection = Connection::open(&path).map_err(working)?;
    let begin = || -> rusqlite::Result<()> {
        connection.pragma_update(None, "page_size", 4096)?;
        // It is synced as a whole, or made anew.
        connection.pragma_update_and_check(None, "journal_mode", "off", |_| Ok(()))?;
        connection.pragma_update(None, "synchronous", "off")?;
        connection.pragma_update(None, "cell_size_check", true)?;
        connection.execute_batch(TABLES)
    };
    begin().map_err(working)?;
    for earlier in [&EXECUTIONS, &RUNS] {
        let from = directory.join(earlier.names.database);
        let copied = copy_database(&connection, directory, earlier, accept_loss);
        copied.map_err(|fault| at_opening(&from, fault))?;
    }
    let end = || -> rusqlite::Result<()> {
        connection.execute_batch(INDEXES)?;
        connection.pragma_update(None, "user_version", SCHEMA.known())?;
        connection.pragma_update(None, "application_id", SCHEMA.application_id)
    };
    end().map_err(|error| at_opening(&path, working(error)))?;
    require_all(&connection, accept_loss).map_err(|fault| at_opening(&path, fault))?;
    drop(connection);
    sync_file(&path)
}

/// Refuses a copy that lacks counted rows.
fn require_all(connection: &Connection, accept_loss: bool) -> Result<(), StoreFault> {
    let tally = Tally::load(connection).map_err(working)?;
    let census = Census::take(connection).map_err(working)?;
    match census.gap(&tally, &Mark::default()) {
        Some(gap) if !accept_loss => Err(gap),
        _ => Ok(()),
    }
}

/// Copies one of the two databases. One that is missing has never been there, or its mark says what is lost.
fn copy_database(
    connection: &Connection,
    directory: &Path,
    earlier: &Earlier,
    accept_loss: bool,
) -> Result<(), StoreFault> {
    let mark = EarlierMark::read(&directory.join(earlier.names.mark));
    let path = directory.join(earlier.names.database);
    if !path.is_file() {
        return require(mark, EarlierMark::default(), accept_loss);
    }
    let name = path.to_str().ok_or_else(|| {
        let error = std::io::Error::new(std::io::ErrorKind::InvalidInput, "the name is not UTF-8");
        cannot_open(&path, error)
    })?;
    bring_up(directory, earlier)?;
    connection
        .execute("ATTACH ?1 AS earlier", [name])
        .map_err(working)?;
    let found = connection.query_row("SELECT n_commits, number_last FROM earlier.tally", [], |row| {
        let word = |place| row.get(place).and_then(number_of);
        Ok(EarlierMark {
            n_commits: word(0)?,
            number_last: word(1)?,
        })
    });
    require(mark, found.map_err(working)?, accept_loss)?;
    for table in earlier.tables {
        copy_table(connection, table)?;
    }
    copy_tally(connection, earlier, mark).map_err(working)?;
    connection
        .execute("DETACH earlier", [])
        .map_err(working)
        .map(drop)
}

/// Brings a database to the newest version that it ever had, and empties its log.
fn bring_up(directory: &Path, earlier: &Earlier) -> Result<(), StoreFault> {
    let (path, log) = (
        directory.join(earlier.names.database),
        directory.join(earlier.names.log),
    );
    files::write_again(&FileSystem, &log).map_err(|error| cannot_open(&log, error))?;
    let mut connection = open_writer(&FileSystem, &path)?;
    earlier.schema.migrate(&mut connection, &path)?;
    checkpoint(&connection, CheckpointMode::TRUNCATE).map(drop)
}

/// Refuses if a database does not reach as far as its mark says.
fn require(mark: EarlierMark, found: EarlierMark, accept_loss: bool) -> Result<(), StoreFault> {
    let words = [
        ("commits", mark.n_commits, found.n_commits),
        ("numbers", mark.number_last, found.number_last),
    ];
    let lost = words.into_iter().find(|(_, expected, found)| found < expected);
    match lost {
        Some((what, expected, found)) if !accept_loss => Err(StoreFault::Gap {
            what,
            expected,
            found,
        }),
        _ => Ok(()),
    }
}

/// Copies the rows of one table, and holds each against the one that it is a copy of.
fn copy_table(connection: &Connection, table: &str) -> Result<(), StoreFault> {
    let names = |which: &str| -> Result<String, StoreFault> {
        let sql = format!("SELECT name FROM pragma_table_info(?1) {which}");
        let names: Vec<String> = connection
            .prepare(&sql)
            .and_then(|mut select| select.query_map([table], |row| row.get(0))?.collect())
            .map_err(working)?;
        Ok(names.join(", "))
    };
    let (columns, key) = (names("")?, names("WHERE pk > 0 ORDER BY pk")?);
    let copy = format!(
        "INSERT INTO main.{table} ({columns}) SELECT {columns} FROM earlier.{table} NOT INDEXED ORDER BY {key}"
    );
    connection.execute(&copy, []).map_err(working)?;
    let rows = |of: &str| format!("SELECT {columns} FROM {of}.{table} NOT INDEXED ORDER BY {key}");
    let compare = || -> rusqlite::Result<bool> {
        let mut copies = connection.prepare(&rows("main"))?;
        let mut originals = connection.prepare(&rows("earlier"))?;
        let n_columns = copies.column_count();
        let (mut copies, mut originals) = (copies.query([])?, originals.query([])?);
        loop {
            let (copy, original) = match (copies.next()?, originals.next()?) {
                (Some(copy), Some(original)) => (copy, original),
                (None, None) => return Ok(true),
                _ => return Ok(false),
            };
            for column in 0..n_columns {
                if copy.get_ref(column)? != original.get_ref(column)? {
                    return Ok(false);
                }
            }
        }
    };
    match compare().map_err(working)? {
        true => Ok(()),
        false => Err(StoreFault::Fatal(
            format!("the copy of the table {table} is not what was copied").into(),
        )),
    }
}

/// Adds the counters of a database to those of the copy. Numbers that were accepted as lost count as given.
fn copy_tally(connection: &Connection, earlier: &Earlier, mark: EarlierMark) -> rusqlite::Result<()> {
    let (theirs, ours): (Vec<&str>, Vec<&str>) = earlier.tally.iter().copied().unzip();
    let (theirs, ours) = (theirs.join(", "), ours.join(", "));
    connection.execute(
        &format!("UPDATE main.tally SET ({ours}) = (SELECT {theirs} FROM earlier.tally)"),
        [],
    )?;
    let given = earlier.tally[0].1;
    let sql = format!(
        "UPDATE main.tally SET n_commits = n_commits + max(?1, (SELECT n_commits FROM earlier.tally)), \
         {given} = max({given}, ?2)"
    );
    let words = [mark.n_commits, mark.number_last].map(column_number);
    connection.execute(&sql, words)?;
    Ok(())
}

/// Moves the old files away and gives the copy its name. Continues where an earlier process was cut short.
fn take_place(directory: &Path, stage: &Path) -> Result<(), StoreFault> {
    let before = directory.join(BEFORE);
    if !before.is_dir() {
        empty(&before)?;
        sync_directory(directory)?;
    }
    let is_guarded = earlier::is_guarded(directory);
    for name in earlier_names() {
        let (from, to) = (directory.join(name), before.join(name));
        let is_guard = is_guarded && name == EXECUTIONS.names.database;
        if from.symlink_metadata().is_ok() && !is_guard {
            std::fs::rename(&from, &to).map_err(|error| cannot_open(&to, error))?;
        }
    }
    sync_directory(&before)?;
    if stage.join(STORE.database).is_file() {
        settle_in(stage, directory)?;
    }
    if !earlier::is_guarded(directory) {
        let made = make_guard(stage)?;
        let guard = directory.join(EXECUTIONS.names.database);
        std::fs::rename(made, &guard).map_err(|error| cannot_open(&guard, error))?;
    }
    sync_directory(directory)?;
    remove(stage, directory)
}

/// Makes an empty database of a version that no earlier program opens.
fn make_guard(stage: &Path) -> Result<PathBuf, StoreFault> {
    let path = stage.join("guard");
    let _none = std::fs::remove_file(&path);
    make_file(&path)?;
    let make = || -> rusqlite::Result<()> {
        let connection = Connection::open(&path)?;
        connection.pragma_update(None, "user_version", GUARD_VERSION)?;
        connection.pragma_update(None, "application_id", EXECUTIONS.schema.application_id)
    };
    make().map_err(working)?;
    sync_file(&path)?;
    Ok(path)
}

/// Makes an empty file, for this user only.
fn make_file(path: &Path) -> Result<(), StoreFault> {
    open_private(OpenOptions::new().write(true).create_new(true), path)
        .map(drop)
        .map_err(|error| cannot_open(path, error))
}

fn sync_file(path: &Path) -> Result<(), StoreFault> {
    File::open(path)
        .and_then(|file| file.sync_all())
        .map_err(|error| cannot_open(path, error))
}
