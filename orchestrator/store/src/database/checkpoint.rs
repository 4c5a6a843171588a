//! Moves the write-ahead log into the database, off the commit path. Writes no data of its own.
//!
//! A connection of its own copies the log whenever it has grown by [`PAGES_DUE`], on a thread or, if a
//! test asks for it, behind the commit that made it due. Under constant
//! load it never reaches the end of a log that grows meanwhile, and SQLite begins a log anew only when all of
//! it is copied; so the last, short pass holds the gate that every commit passes.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;

use rusqlite::Connection;
use rusqlite::wal::CheckpointMode;

use super::connection::working;
use super::files::OpenFile;
use crate::StoreFault;

/// Pages of the log at which a checkpoint is due: 32 MiB.
const PAGES_DUE: u32 = 8192;
/// Passes while commits go on; each leaves what was written during it, which is less and less.
const OPEN_PASSES: u32 = 2;

/// When and by whom the write-ahead log is copied into the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checkpointing {
    /// By a thread, off the commit path, whenever the log has grown by 32 MiB.
    #[default]
    Thread,
    /// Test hook: by the commit that made the log grow by so many pages of 4 KiB, before it returns. No thread
    /// is started, so that one caller alone decides what happens when.
    Inline {
        /// Pages of the log at which a checkpoint is due.
        pages_due: u32,
    },
}

impl Checkpointing {
    fn pages_due(self) -> u32 {
        match self {
            Self::Thread => PAGES_DUE,
            Self::Inline { pages_due } => pages_due,
        }
    }
}

/// What the writer and the checkpoints tell each other.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The database, to sync it.
    database: Arc<dyn OpenFile>,
    /// Pages by which the log grows until a checkpoint is due.
    step: u32,
    gate: Mutex<()>,
    orders: Mutex<Orders>,
    ordered: Condvar,
    /// Pages in the log after the last commit, and when they are a reason for a checkpoint.
    pages: AtomicU32,
    pages_due: AtomicU32,
    /// The first fatal fault, on whichever thread.
    fatal: OnceLock<String>,
}

#[derive(Debug, Default)]
struct Orders {
    due: bool,
    stop: bool,
}

impl Shared {
    pub(crate) fn new(database: Arc<dyn OpenFile>, checkpointing: Checkpointing) -> Self {
        Self {
            database,
            step: checkpointing.pages_due(),
            gate: Mutex::default(),
            orders: Mutex::default(),
            ordered: Condvar::default(),
            pages: AtomicU32::default(),
            pages_due: AtomicU32::default(),
            fatal: OnceLock::default(),
        }
    }

    /// Held for the time of a commit.
    pub(crate) fn pass_gate(&self) -> MutexGuard<'_, ()> {
        unpoisoned(&self.gate)
    }

    /// Called by SQLite behind every commit.
    pub(crate) fn log_has(&self, pages: u32) {
        let before = self.pages.swap(pages, Ordering::Relaxed);
        if pages < before {
            // SQLite began the log anew.
            self.pages_due.store(self.step, Ordering::Relaxed);
        }
    }

    fn is_due(&self) -> bool {
        self.pages.load(Ordering::Relaxed) >= self.pages_due.load(Ordering::Relaxed).max(self.step)
    }

    fn order(&self) {
        let mut orders = unpoisoned(&self.orders);
        if !orders.due {
            orders.due = true;
            self.ordered.notify_one();
        }
    }

    /// Refuses everything from now on.
    pub(crate) fn condemn(&self, fault: &StoreFault) {
        let reason = std::error::Error::source(fault).map_or_else(|| fault.to_string(), ToString::to_string);
        // The first reason stays.
        let _ = self.fatal.set(reason);
    }

    /// Returns the fault that refuses everything, if there is one.
    pub(crate) fn condemned(&self) -> Option<StoreFault> {
        self.fatal
            .get()
            .map(|reason| StoreFault::Fatal(reason.clone().into()))
    }
}

/// Who makes the checkpoints.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    shared: Arc<Shared>,
    by: By,
}

#[derive(Debug)]
enum By {
    /// `None` once it has ended.
    Thread(Option<JoinHandle<()>>),
    Inline(Connection),
}

impl Checkpoints {
    pub(crate) fn start(
        connection: Connection,
        shared: Arc<Shared>,
        checkpointing: Checkpointing,
    ) -> std::io::Result<Self> {
        let by = match checkpointing {
            Checkpointing::Inline { .. } => By::Inline(connection),
            Checkpointing::Thread => {
                let theirs = Arc::clone(&shared);
                let thread = std::thread::Builder::new()
                    .name("store-checkpoint".to_owned())
                    .spawn(move || run(&connection, &theirs))?;
                By::Thread(Some(thread))
            }
        };
        Ok(Self { shared, by })
    }

    /// Orders or makes a checkpoint if one is due. Not to be called with the gate held.
    pub(crate) fn after_commit(&self) {
        if self.shared.is_due() {
            match &self.by {
                By::Thread(_) => self.shared.order(),
                By::Inline(connection) => attempt(connection, &self.shared),
            }
        }
    }

    /// Ends the thread; a checkpoint under way is finished first.
    pub(crate) fn stop(&mut self) {
        unpoisoned(&self.shared.orders).stop = true;
        self.shared.ordered.notify_one();
        if let By::Thread(thread) = &mut self.by
            && let Some(thread) = thread.take()
        {
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
        attempt(connection, shared);
    }
}

fn attempt(connection: &Connection, shared: &Shared) {
    match pass(connection, shared) {
        // Without space or behind a reader the log grows on; the next order tries again.
        Ok(()) | Err(StoreFault::Full(_) | StoreFault::Busy(_)) => {}
        Err(fault) => shared.condemn(&fault),
    }
}

/// Waits for an order; false if it is to stop.
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
            .sync()
            .map_err(|error| StoreFault::Fatal(error.into()))?;
    }
    let _gate = shared.pass_gate();
    // If a reader keeps the log from being reused, it is not tried again with every commit.
    let pages = shared.pages.load(Ordering::Relaxed);
    shared
        .pages_due
        .store(pages.saturating_add(shared.step), Ordering::Relaxed);
    unpoisoned(&shared.orders).due = false;
    checkpoint(connection, CheckpointMode::PASSIVE)?;
    Ok(())
}

/// One checkpoint: pages in the log, and how many of them are copied.
pub(crate) fn checkpoint(connection: &Connection, mode: CheckpointMode) -> Result<(i32, i32), StoreFault> {
    connection.wal_checkpoint_v2(None::<&str>, mode).map_err(working)
}

/// Nothing behind these locks can be left half done by a panic.
fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
