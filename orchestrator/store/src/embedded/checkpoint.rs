//! Moves the write-ahead log into the database, off the commit path. Writes no data of its own.
//!
//! A thread with its own connection copies the log whenever it has grown by [`PAGES_DUE`]. Under constant
//! load it never reaches the end of a log that grows meanwhile, and SQLite begins a log anew only when all of
//! it is copied; so the last, short pass holds the gate that every commit passes.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;

use rusqlite::Connection;
use rusqlite::wal::CheckpointMode;

use super::connection::working;
use crate::StoreFault;

/// Pages of the log at which a checkpoint is due: 32 MiB.
const PAGES_DUE: u32 = 8192;
/// Passes while commits go on; each leaves what was written during it, which is less and less.
const OPEN_PASSES: u32 = 2;

/// What the writer and the checkpoints tell each other.
#[derive(Debug)]
pub(super) struct Shared {
    /// The database, to sync it.
    database: Arc<File>,
    gate: Mutex<()>,
    orders: Mutex<Orders>,
    ordered: Condvar,
    /// Pages in the log after the last commit, and when they are a reason for a checkpoint.
    pages: AtomicU32,
    pages_due: AtomicU32,
    /// The first fatal fault, whoever met it.
    fatal: OnceLock<String>,
}

#[derive(Debug, Default)]
struct Orders {
    due: bool,
    stop: bool,
}

impl Shared {
    pub(super) fn new(path: &Path) -> std::io::Result<Self> {
        Ok(Self {
            database: never_closed(path)?,
            gate: Mutex::default(),
            orders: Mutex::default(),
            ordered: Condvar::default(),
            pages: AtomicU32::default(),
            pages_due: AtomicU32::default(),
            fatal: OnceLock::default(),
        })
    }

    /// Held for the time of a commit.
    pub(super) fn pass_gate(&self) -> MutexGuard<'_, ()> {
        unpoisoned(&self.gate)
    }

    /// Called by SQLite behind every commit.
    pub(super) fn log_has(&self, pages: u32) {
        let before = self.pages.swap(pages, Ordering::Relaxed);
        if pages < before {
            // SQLite began the log anew.
            self.pages_due.store(PAGES_DUE, Ordering::Relaxed);
        }
    }

    /// Orders a checkpoint where one is due.
    pub(super) fn after_commit(&self) {
        if self.pages.load(Ordering::Relaxed) < self.pages_due.load(Ordering::Relaxed).max(PAGES_DUE) {
            return;
        }
        let mut orders = unpoisoned(&self.orders);
        if !orders.due {
            orders.due = true;
            self.ordered.notify_one();
        }
    }

    /// Refuses everything from now on.
    pub(super) fn condemn(&self, fault: &StoreFault) {
        let reason = std::error::Error::source(fault).map_or_else(|| fault.to_string(), ToString::to_string);
        // The first reason stays.
        let _ = self.fatal.set(reason);
    }

    /// The fault that refuses everything, if there is one.
    pub(super) fn condemned(&self) -> Option<StoreFault> {
        self.fatal
            .get()
            .map(|reason| StoreFault::Fatal(reason.clone().into()))
    }
}

/// The running thread.
#[derive(Debug)]
pub(super) struct Checkpoints {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpoints {
    pub(super) fn spawn(connection: Connection, shared: Arc<Shared>) -> std::io::Result<Self> {
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("store-checkpoint".to_owned())
            .spawn(move || run(&connection, &theirs))?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Ends the thread; a checkpoint under way is finished first.
    pub(super) fn stop(&mut self) {
        unpoisoned(&self.shared.orders).stop = true;
        self.shared.ordered.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed there, and the log stays readable without a checkpoint.
            let _ = thread.join();
        }
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run(connection: &Connection, shared: &Shared) {
    // Behind a fatal fault the file is not touched again.
    while wait(shared) && shared.condemned().is_none() {
        match pass(connection, shared) {
            // Without space or behind a reader the log grows on; the next order tries again.
            Ok(()) | Err(StoreFault::Full(_) | StoreFault::Busy(_)) => {}
            Err(fault) => {
                shared.condemn(&fault);
                return;
            }
        }
    }
}

/// Waits for an order; false where it is to stop.
fn wait(shared: &Shared) -> bool {
    let mut orders = unpoisoned(&shared.orders);
    while !orders.due && !orders.stop {
        orders = shared
            .ordered
            .wait(orders)
            .unwrap_or_else(PoisonError::into_inner);
    }
    orders.due = false;
    !orders.stop
}

fn pass(connection: &Connection, shared: &Shared) -> Result<(), StoreFault> {
    for _ in 0..OPEN_PASSES {
        checkpoint(connection, CheckpointMode::PASSIVE)?;
        // SQLite syncs the database only with the pass that reaches the end; without this one, all of it
        // would be synced while commits wait.
        shared
            .database
            .sync_data()
            .map_err(|error| StoreFault::Fatal(error.into()))?;
    }
    let _gate = shared.pass_gate();
    // Where a reader keeps the log from being reused, it is not tried again with every commit.
    let pages = shared.pages.load(Ordering::Relaxed);
    shared
        .pages_due
        .store(pages.saturating_add(PAGES_DUE), Ordering::Relaxed);
    unpoisoned(&shared.orders).due = false;
    checkpoint(connection, CheckpointMode::PASSIVE)?;
    Ok(())
}

/// One checkpoint: pages in the log, and how many of them are copied.
pub(super) fn checkpoint(connection: &Connection, mode: CheckpointMode) -> Result<(i32, i32), StoreFault> {
    connection.wal_checkpoint_v2(None::<&str>, mode).map_err(working)
}

/// A handle of the file that stays open until the process ends, one for each file.
///
/// To close any handle of a file drops all locks that this process has on it, those of SQLite's connections
/// included; another process could then take the write-ahead log away from under them.
fn never_closed(path: &Path) -> std::io::Result<Arc<File>> {
    static HANDLES: Mutex<BTreeMap<(u64, u64), Arc<File>>> = Mutex::new(BTreeMap::new());
    let metadata = path.metadata()?;
    let mut handles = unpoisoned(&HANDLES);
    match handles.entry((metadata.dev(), metadata.ino())) {
        Entry::Occupied(handle) => Ok(Arc::clone(handle.get())),
        Entry::Vacant(place) => Ok(Arc::clone(place.insert(Arc::new(File::open(path)?)))),
    }
}

/// Nothing behind these locks can be left half done by a panic.
fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
