//! Backups of a whole store, executions and runs, and what is made of them. Overwrites nothing.
//!
//! The runs are copied before the executions: then the restored executions know everything that the restored runs
//! have sent. The other way round, a restored run would send once more what the executions have forgotten.

use std::path::Path;

use crate::StoreFault;
use crate::database::copy::{
    Parts, Stage, hold, is_staged, refuse_existing, refuse_remains, remove_settled, require_readable,
};
use crate::database::{EXECUTIONS, EmbeddedOptions, RUNS};
use crate::embedded::{self, Embedded, Examination, Finding};
use crate::runs::{self, EmbeddedRuns, RunExamination, RunFinding};

/// What is not as it was written.
#[derive(Clone, Copy, Debug)]
pub enum Found<'a> {
    /// Of the executions.
    Executions(&'a Finding),
    /// Of the runs.
    Runs(&'a RunFinding),
}

/// What a check of a copy found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Examined {
    /// The executions.
    pub executions: Examination,
    /// The runs; `None` if the store has none.
    pub runs: Option<RunExamination>,
}

impl Examined {
    /// Returns true if nothing was found.
    pub fn is_clean(&self) -> bool {
        self.executions.is_clean() && self.runs.is_none_or(|runs| runs.is_clean())
    }
}

/// What a backup holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackedUp {
    /// What the check of the copy found.
    pub examined: Examined,
    /// Size.
    pub n_bytes: u64,
    /// False if the copy is damaged and was thrown away.
    pub is_kept: bool,
}

/// Copies a store into one file: everything that was acknowledged before the call, while an orchestrator runs on it or
/// not. Executions and runs are each of one moment. Commits go on meanwhile; only the write-ahead logs cannot be shortened.
///
/// The copy is checked as the examiners do; a damaged one has no name unless `accept_damage`.
///
/// # Errors
/// [`StoreFault::Exists`] if the file is there; otherwise as reading and writing fail.
pub fn back_up(
    directory: &Path,
    file: &Path,
    accept_damage: bool,
    told: &mut dyn FnMut(Found<'_>),
) -> Result<BackedUp, StoreFault> {
    refuse_existing(file)?;
    let runs = match runs::are_there(directory) {
        true => Some(runs::copied(directory, file, &mut |found| {
            told(Found::Runs(found))
        })?),
        false => None,
    };
    let mut tell = |found: &Finding| told(Found::Executions(found));
    let (executions, mut copy) = embedded::copied(directory, file, &mut tell)?;
    let examined = Examined {
        executions,
        runs: runs.as_ref().map(|(examination, _)| *examination),
    };
    if let Some((_, of_runs)) = runs {
        copy.append(of_runs, file)?;
    }
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
    pub examined: Examined,
    /// Executions that were queued and are withheld from running now.
    pub n_withheld: u64,
    /// What the caller did to the runs.
    pub n_runs_changed: u64,
    /// False if the backup is damaged and nothing was restored.
    pub is_kept: bool,
}

/// What is done to restored runs before anybody sees them, beside the restored executions. Returns how many were changed.
pub type ChangeRuns<'a> = &'a mut dyn FnMut(&mut EmbeddedRuns, &Embedded) -> Result<u64, StoreFault>;

/// Makes a store of a backup.
///
/// Until it is whole, what there is of it stands in directories of its own, which an orchestrator that is started on
/// it meanwhile, or behind a restore that failed, refuses.
///
/// # Errors
/// [`StoreFault::Exists`] if the directory holds a store, [`StoreFault::NoBackup`] if the file is damaged or
/// none; otherwise as reading and writing fail.
pub fn restore(
    file: &Path,
    directory: &Path,
    options: RestoreOptions,
    told: &mut dyn FnMut(Found<'_>),
    change_runs: ChangeRuns<'_>,
) -> Result<Restored, StoreFault> {
    refuse_remains(directory, &EXECUTIONS)?;
    // A restore that was cut short after the runs had their place and before the executions had theirs.
    let is_unfinished = is_staged(directory, &EXECUTIONS);
    if !is_unfinished {
        refuse_remains(directory, &RUNS)?;
    }
    require_readable(file)?;
    let _lock = hold(directory)?;
    if is_unfinished {
        remove_settled(directory, &RUNS)?;
        refuse_remains(directory, &RUNS)?;
    }
    let opened = EmbeddedOptions {
        accept_loss: options.accept_damage,
        ..EmbeddedOptions::default()
    };
    // What refuses a start until the executions are there, which come last.
    let mut stage = Stage::make(directory, &EXECUTIONS)?;
    let parts = Parts::of(file)?;
    let mut stage_of_runs = match parts.runs {
        Some(_) => Some(Stage::make(directory, &RUNS)?),
        None => None,
    };
    stage.fill(file, &parts.executions)?;
    let mut tell = |found: &Finding| told(Found::Executions(found));
    let (mut store, executions) = stage.open(file, |stage| embedded::staged(stage, &opened, &mut tell))?;
    let mut restored = Restored {
        examined: Examined {
            executions,
            runs: None,
        },
        n_withheld: 0,
        n_runs_changed: 0,
        is_kept: false,
    };
    let mut runs = None;
    if let (Some(stage), Some(part)) = (&stage_of_runs, &parts.runs) {
        stage.fill(file, part)?;
        let mut tell = |found: &RunFinding| told(Found::Runs(found));
        let (store, examination) = stage.open(file, |stage| runs::staged(stage, &opened, &mut tell))?;
        restored.examined.runs = Some(examination);
        runs = Some(store);
    }
    restored.is_kept = restored.examined.is_clean() || options.accept_damage;
    if !restored.is_kept {
        return Ok(restored);
    }
    if let Some(runs) = &mut runs {
        restored.n_runs_changed = change_runs(runs, &store)?;
    }
    if !options.run_queued {
        restored.n_withheld = embedded::withhold_queued(&mut store)?;
    }
    drop((runs, store));
    if let Some(stage) = &mut stage_of_runs {
        stage.settle()?;
    }
    stage.settle()?;
    stage_of_runs.map_or(Ok(()), Stage::remove)?;
    stage.remove()?;
    Ok(restored)
}
