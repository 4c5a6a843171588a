//! The disk below the store of runs, and the real store that a process opens on it. Decides nothing of what goes wrong.

use crate::dice::Dice;
use escapement_model::RunId;
use escapement_store::runs::{
    BatchOutcome, DefinitionOutcome, DefinitionWrite, RunBatch, RunReader, RunRemoval, RunRemoved, RunStore,
    RunsRemoved,
};
use escapement_store::{Checkpointing, Embedded, EmbeddedOptions, StoreFault};
use escapement_store_kit::MemoryFault;
use escapement_store_kit::runs::{MemoryRuns, MemoryRunsDisk};
use escapement_test_disk::{Plan, Stop};

/// What survives the process of the runs.
pub(crate) enum Disk {
    /// The store in memory, whose disk is a model: quick.
    Memory(MemoryRunsDisk),
    /// The embedded store with SQLite below it, on a disk in memory that loses what was not synced.
    Embedded(escapement_test_disk::Disk),
}

/// An open store.
pub(crate) enum OpenStore {
    Memory(MemoryRuns),
    Embedded(Box<Embedded>),
}

impl Disk {
    pub(crate) fn new(is_quick: bool) -> Self {
        if is_quick {
            Self::Memory(MemoryRunsDisk::new())
        } else {
            Self::Embedded(escapement_test_disk::Disk::new())
        }
    }

    pub(crate) fn open(&self) -> Result<OpenStore, StoreFault> {
        match self {
            Self::Memory(disk) => Ok(OpenStore::Memory(disk.open())),
            Self::Embedded(disk) => {
                let options = EmbeddedOptions {
                    files: Some(disk.files()),
                    checkpointing: Checkpointing::Inline { pages_due: 40 },
                    ..EmbeddedOptions::default()
                };
                let store = Embedded::open(&disk.directory(), options)?;
                Ok(OpenStore::Embedded(Box::new(store)))
            }
        }
    }

    /// The next commit breaks off somewhere on its way.
    pub(crate) fn break_off_next_commit(&self, dice: &mut Dice) {
        match self {
            Self::Memory(disk) => disk.fail_next_commit(*dice.pick(&COMMIT_FAULTS)),
            Self::Embedded(disk) => {
                let stop = *dice.pick(&[Stop::Before, Stop::After]);
                disk.plan(Plan {
                    stop_at: Some((dice.between(1, COMMIT_CALLS_MAX), stop)),
                    ..Plan::default()
                });
            }
        }
    }

    /// True if nothing works any more: it broke off behind the last call that the commit waited for.
    pub(crate) fn has_stopped(&self) -> bool {
        match self {
            Self::Memory(_) => false,
            Self::Embedded(disk) => disk.is_stopped(),
        }
    }

    /// Nothing goes wrong any more that was planned.
    pub(crate) fn heal(&self) {
        if let Self::Embedded(disk) = self {
            disk.plan(Plan::default());
        }
    }

    /// The process that had it open is gone: killed, or with the whole machine.
    pub(crate) fn crash(&self, is_power_cut: bool, dice: &mut Dice) {
        match self {
            Self::Memory(disk) => drop(disk.crash()),
            Self::Embedded(disk) => {
                if is_power_cut {
                    disk.power_cut(&mut |bound| dice.roll(bound));
                } else {
                    disk.process_killed();
                }
                self.heal();
            }
        }
    }
}

impl RunStore for OpenStore {
    fn commit(&mut self, batch: &RunBatch) -> Result<BatchOutcome, StoreFault> {
        match self {
            Self::Memory(store) => store.commit(batch),
            Self::Embedded(store) => store.commit(batch),
        }
    }

    fn remove_ended(&mut self, policy: &RunRemoval, now_unix_ms: i64) -> Result<RunsRemoved, StoreFault> {
        match self {
            Self::Memory(store) => store.remove_ended(policy, now_unix_ms),
            Self::Embedded(store) => store.remove_ended(policy, now_unix_ms),
        }
    }

    fn remove_run(&mut self, id: RunId, now_unix_ms: i64) -> Result<RunRemoved, StoreFault> {
        match self {
            Self::Memory(store) => store.remove_run(id, now_unix_ms),
            Self::Embedded(store) => store.remove_run(id, now_unix_ms),
        }
    }

    fn discard_run(&mut self, id: RunId, state: u8, now_unix_ms: i64) -> Result<RunRemoved, StoreFault> {
        match self {
            Self::Memory(store) => store.discard_run(id, state, now_unix_ms),
            Self::Embedded(store) => store.discard_run(id, state, now_unix_ms),
        }
    }

    fn define(&mut self, write: &DefinitionWrite) -> Result<DefinitionOutcome, StoreFault> {
        match self {
            Self::Memory(store) => store.define(write),
            Self::Embedded(store) => store.define(write),
        }
    }

    fn reader(&self) -> Result<Box<dyn RunReader>, StoreFault> {
        match self {
            Self::Memory(store) => store.reader(),
            Self::Embedded(store) => store.reader(),
        }
    }
}

const COMMIT_FAULTS: [MemoryFault; 3] = [
    MemoryFault::Fatal,
    MemoryFault::WrittenNotSynced,
    MemoryFault::SyncedNotAcknowledged,
];
/// So many calls of the disk a small commit makes, and some more.
const COMMIT_CALLS_MAX: u64 = 16;
