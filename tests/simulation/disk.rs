//! The disk of the simulated machine, and the real store that an orchestrator's process opens on it.
//! Knows no clock, and decides nothing of what goes wrong with it.

use crate::dice::Dice;
use escapement_store::{
    Checkpointing, Embedded, EmbeddedOptions, Outcome, Reader, Removal, Removed, Store, StoreFault, Write,
};
use escapement_store_kit::{Memory, MemoryDisk, MemoryFault};
use escapement_test_disk::{Failure, Plan, Stop};

/// What survives the orchestrator's process.
#[derive(Debug)]
pub(crate) enum Disk {
    /// The store in memory, whose disk is a model: quick.
    Memory(MemoryDisk),
    /// The embedded store with SQLite below it, on a disk in memory that loses what was not synced.
    Embedded {
        disk: escapement_test_disk::Disk,
        /// Pages of the log at which it is copied into the database.
        pages_due: u32,
    },
}

/// How a process of the orchestrator ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It closes its store.
    Exits,
    /// The process is gone, and what it wrote is with the operating system.
    Killed,
    /// The machine is gone, and with it what was not synced.
    PowerCut,
}

/// An open store.
#[derive(Debug)]
pub(crate) enum OpenStore {
    Memory { store: Memory, is_full: bool },
    Embedded(Box<Embedded>),
}

impl Disk {
    pub(crate) fn new(dice: &mut Dice, is_quick: bool) -> Self {
        if is_quick {
            return Self::Memory(MemoryDisk::new());
        }
        Self::Embedded {
            disk: escapement_test_disk::Disk::new(),
            pages_due: u32::try_from(dice.between(4, 200)).expect("it is small"),
        }
    }

    pub(crate) fn open(&self) -> Result<OpenStore, StoreFault> {
        match self {
            Self::Memory(disk) => Ok(OpenStore::Memory {
                store: disk.open(),
                is_full: false,
            }),
            Self::Embedded { disk, pages_due } => {
                let options = EmbeddedOptions {
                    files: Some(disk.files()),
                    checkpointing: Checkpointing::Inline {
                        pages_due: *pages_due,
                    },
                    ..EmbeddedOptions::default()
                };
                Ok(OpenStore::Embedded(Box::new(Embedded::open(
                    &disk.directory(),
                    options,
                )?)))
            }
        }
    }

    /// The next commit breaks off somewhere on its way, and nothing that comes after it does anything.
    pub(crate) fn break_off_next_commit(&self, dice: &mut Dice) {
        match self {
            Self::Memory(disk) => disk.fail_next_commit(*dice.pick(&COMMIT_FAULTS)),
            Self::Embedded { disk, .. } => disk.plan(stop(dice, COMMIT_CALLS_MAX)),
        }
    }

    /// What opens the store next breaks off somewhere on its way.
    pub(crate) fn break_off_next_open(&self, dice: &mut Dice) {
        match self {
            // To open it writes nothing.
            Self::Memory(_) => {}
            Self::Embedded { disk, .. } => disk.plan(stop(dice, OPEN_CALLS_MAX)),
        }
    }

    /// A write or a sync of the next commit fails; the process sees it and lives.
    pub(crate) fn fail_next_commit(&self, dice: &mut Dice) {
        match self {
            Self::Memory(disk) => disk.fail_next_commit(*dice.pick(&COMMIT_FAULTS)),
            Self::Embedded { disk, .. } => {
                let failure = *dice.pick(&[Failure::Io, Failure::ShortWrite, Failure::SyncFails]);
                disk.plan(Plan {
                    fail_nth: Some((dice.between(1, COMMIT_CALLS_MAX), failure)),
                    ..Plan::default()
                });
            }
        }
    }

    pub(crate) fn set_full(&self, is_full: bool) {
        match self {
            // Its store says it.
            Self::Memory(_) => {}
            Self::Embedded { disk, .. } => disk.set_full(is_full),
        }
    }

    /// Nothing goes wrong any more that was planned.
    pub(crate) fn heal(&self) {
        match self {
            Self::Memory(_) => {}
            Self::Embedded { disk, .. } => disk.plan(Plan::default()),
        }
    }

    /// The process that had it open has ended.
    pub(crate) fn after(&self, end: End, dice: &mut Dice) {
        match (self, end) {
            (Self::Memory(_), End::Exits) => {}
            (Self::Memory(disk), End::Killed | End::PowerCut) => drop(disk.crash()),
            (Self::Embedded { disk, .. }, End::Exits | End::Killed) => disk.process_killed(),
            (Self::Embedded { disk, .. }, End::PowerCut) => disk.power_cut(&mut |bound| dice.roll(bound)),
        }
        if let (Self::Embedded { .. }, End::Killed | End::PowerCut) = (self, end) {
            self.heal();
        }
    }
}

impl OpenStore {
    pub(crate) fn set_full(&mut self, full: bool) {
        match self {
            Self::Memory { is_full, .. } => *is_full = full,
            // Its disk says it.
            Self::Embedded(_) => {}
        }
    }
}

impl Store for OpenStore {
    fn commit(&mut self, batch: &[Write]) -> Result<Vec<Outcome>, StoreFault> {
        match self {
            Self::Memory { store, is_full } => {
                if *is_full && !batch.is_empty() {
                    store.disk().fail_next_commit(MemoryFault::Full);
                }
                store.commit(batch)
            }
            Self::Embedded(store) => store.commit(batch),
        }
    }

    fn remove_settled(&mut self, policy: &Removal, now_unix_ms: i64) -> Result<Removed, StoreFault> {
        match self {
            Self::Memory { store, .. } => store.remove_settled(policy, now_unix_ms),
            Self::Embedded(store) => store.remove_settled(policy, now_unix_ms),
        }
    }

    fn reader(&self) -> Result<Box<dyn Reader>, StoreFault> {
        match self {
            Self::Memory { store, .. } => store.reader(),
            Self::Embedded(store) => store.reader(),
        }
    }
}

fn stop(dice: &mut Dice, calls_max: u64) -> Plan {
    let stop = *dice.pick(&[Stop::Before, Stop::After]);
    Plan {
        stop_at: Some((dice.between(1, calls_max), stop)),
        ..Plan::default()
    }
}

const COMMIT_FAULTS: [MemoryFault; 3] = [
    MemoryFault::Fatal,
    MemoryFault::WrittenNotSynced,
    MemoryFault::SyncedNotAcknowledged,
];
/// So many calls of the disk a small commit makes, and some more.
const COMMIT_CALLS_MAX: u64 = 16;
/// So many a start makes, where there is something to copy.
const OPEN_CALLS_MAX: u64 = 40;
