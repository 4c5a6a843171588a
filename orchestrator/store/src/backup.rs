//! Backups of a whole store, and what is made of them. Overwrites nothing.

use std::path::Path;

use rusqlite::Connection;

use crate::StoreFault;
use crate::database::copy::{Parts, Stage, hold, refuse_existing, require_readable};
use crate::database::{EmbeddedOptions, STORE, earlier_names};
use crate::earlier::{self, EXECUTIONS, RUNS};
use crate::embedded::{self, Embedded, Examination, Finding};

/// What a backup holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackedUp {
    /// What the check of the copy found.
    pub examined: Examination,
    /// Size.
    pub n_bytes: u64,
    /// False if the copy is damaged and was thrown away.
    pub is_kept: bool,
}

/// Copies a store into one file: everything that was acknowledged before the call, of one moment, while an orchestrator runs on
/// it or not. Commits go on meanwhile; only the write-ahead log cannot be shortened.
///
/// The copy is checked as the examiner does; a damaged one has no name unless `accept_damage`.
///
/// # Errors
/// [`StoreFault::Exists`] if the file is there; otherwise as reading and writing fail.
pub fn back_up(
    directory: &Path,
    file: &Path,
    accept_damage: bool,
    told: &mut dyn FnMut(&Finding),
) -> Result<BackedUp, StoreFault> {
    refuse_existing(file)?;
    let (examined, copy) = embedded::copied(directory, file, told)?;
    let n_bytes = copy.n_bytes;
    let is_kept = examined.is_clean() || accept_damage;
    if is_kept {
        copy.name(file)?;
    }
    Ok(BackedUp {
        examined,
        n_bytes,
        is_kept,
    })
}

/// How to restore.
#[derive(Clone, Copy, Debug, Default)]
pub struct RestoreOptions {
    /// Executions that were queued at the time of the backup stay queued, and run once more if they have run
    /// since. Else they are withheld from running, so that nothing of them runs again.
    pub run_queued: bool,
    /// Restore although something in the backup is damaged.
    pub accept_damage: bool,
}

/// What was restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// What the check of the backup found.
    pub examined: Examination,
    /// Executions that were queued and are withheld from running now.
    pub n_withheld: u64,
    /// What the caller did to the runs.
    pub n_runs_changed: u64,
    /// False if the backup is damaged and nothing was restored.
    pub is_kept: bool,
}

/// What is done to restored runs before anybody sees them. Returns how many were changed.
pub type ChangeRuns<'a> = &'a mut dyn FnMut(&mut Embedded) -> Result<u64, StoreFault>;

/// Makes a store of a backup, also of one that an earlier version made.
///
/// Until it is whole, what there is of it stands in a directory of its own, which an orchestrator that is started on
/// it meanwhile, or behind a restore that failed, refuses.
///
/// # Errors
/// [`StoreFault::Exists`] if the directory holds a store, [`StoreFault::NoBackup`] if the file is damaged or
/// none; otherwise as reading and writing fail.
pub fn restore(
    file: &Path,
    directory: &Path,
    options: RestoreOptions,
    told: &mut dyn FnMut(&Finding),
    change_runs: ChangeRuns<'_>,
) -> Result<Restored, StoreFault> {
    refuse_remains(directory)?;
    require_readable(file)?;
    let _lock = hold(directory)?;
    let stage = Stage::make(directory)?;
    fill(&stage, file)?;
    let opened = EmbeddedOptions {
        accept_loss: options.accept_damage,
        ..EmbeddedOptions::default()
    };
    let (mut store, examined) = stage.open(file, |stage| embedded::staged(stage, &opened, told))?;
    let mut restored = Restored {
        examined,
        n_withheld: 0,
        n_runs_changed: 0,
        is_kept: examined.is_clean() || options.accept_damage,
    };
    if !restored.is_kept {
        return Ok(restored);
    }
    restored.n_runs_changed = change_runs(&mut store)?;
    if !options.run_queued {
        restored.n_withheld = embedded::withhold_queued(&mut store)?;
    }
    drop(store);
    stage.settle()?;
    Ok(restored)
}

/// Refuses a directory that holds a store, or what is left of one.
fn refuse_remains(directory: &Path) -> Result<(), StoreFault> {
    // A mark or a log without its database is what is left of a store, and would be taken for this one's.
    let remains = [STORE.database, STORE.mark, STORE.log].into_iter();
    let is_guarded = earlier::is_guarded(directory);
    let of_earlier = earlier_names().filter(|name| !is_guarded || *name != EXECUTIONS.names.database);
    for name in remains.chain(of_earlier) {
        refuse_existing(&directory.join(name))?;
    }
    Ok(())
}

/// Puts the parts of a backup where their version has them.
fn fill(stage: &Stage<'_>, file: &Path) -> Result<(), StoreFault> {
    let parts = Parts::of(file)?;
    if let Some(runs) = &parts.runs {
        stage.fill(file, &parts.first, EXECUTIONS.names.database)?;
        return stage.fill(file, runs, RUNS.names.database);
    }
    stage.fill(file, &parts.first, STORE.database)?;
    let path = stage.path().join(STORE.database);
    let is_earlier = Connection::open(&path).is_ok_and(|connection| EXECUTIONS.schema.is_of(&connection));
    if is_earlier {
        let at = stage.path().join(EXECUTIONS.names.database);
        std::fs::rename(&path, &at).map_err(|error| StoreFault::Unwritable {
            path: at,
            source: error.into(),
        })?;
    }
    Ok(())
}
