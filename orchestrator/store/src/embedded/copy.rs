//! Backups of the executions and what is made of them. Overwrites nothing.

use std::path::Path;

use escapement_model::ExecutionId;

use super::{Embedded, Examination, Examiner, Finding};
use crate::database::{EXECUTIONS, EmbeddedOptions, copy};
use crate::{ListFilter, Reader, Store, StoreFault, StoredState, Write};

/// Executions that one commit of a restore withholds.
const WITHHELD_MAX: usize = 512;

/// What a backup holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackedUp {
    /// What the check of the copy found.
    pub examination: Examination,
    /// Its size.
    pub n_bytes: u64,
    /// False if the copy is damaged and was thrown away.
    pub is_kept: bool,
}

/// Copies a store into one file, of one moment: everything that was acknowledged before the call, while an
/// orchestrator runs on it or not. Commits go on meanwhile; only the write-ahead log cannot be shortened.
///
/// The copy is checked as [`Examiner::examine_all`] does; a damaged one has no name unless `accept_damage`.
///
/// # Errors
/// [`StoreFault::Exists`] if the file is there; otherwise as reading and writing fail.
pub fn back_up(
    directory: &Path,
    file: &Path,
    accept_damage: bool,
    told: &mut dyn FnMut(&Finding),
) -> Result<BackedUp, StoreFault> {
    let (examination, is_kept, n_bytes) = copy::back_up(
        &directory.join(EXECUTIONS.database),
        || Ok(Examiner::open(directory)?.into_connection()),
        file,
        |copy| {
            let examination = Examiner::open_file(copy)?.examine_all(told)?;
            Ok((examination, examination.is_clean() || accept_damage))
        },
    )?;
    Ok(BackedUp {
        examination,
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
    /// Restore although executions in the backup are damaged.
    pub accept_damage: bool,
}

/// What was restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// What the check of the backup found.
    pub examination: Examination,
    /// Executions that were queued and are withheld from running now.
    pub n_withheld: u64,
    /// False if the backup is damaged and nothing was restored.
    pub is_kept: bool,
}

/// Makes a store of a backup.
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
) -> Result<Restored, StoreFault> {
    let opened = EmbeddedOptions {
        accept_loss: options.accept_damage,
        ..EmbeddedOptions::default()
    };
    let ((examination, n_withheld), is_kept) = copy::restore(file, directory, &EXECUTIONS, |stage| {
        let mut store = Embedded::open(stage, opened)?;
        let examination = store.examiner()?.examine_all(told)?;
        let is_kept = examination.is_clean() || options.accept_damage;
        let n_withheld = if is_kept && !options.run_queued {
            withhold_queued(&mut store)?
        } else {
            0
        };
        Ok(((examination, n_withheld), is_kept))
    })?;
    Ok(Restored {
        examination,
        n_withheld,
        is_kept,
    })
}

/// Withholds everything that is queued from running, so that the next start settles it as interrupted.
fn withhold_queued(store: &mut Embedded) -> Result<u64, StoreFault> {
    let reader = store.reader()?;
    let mut n_withheld = 0;
    let mut before = None;
    loop {
        let page = queued(reader.as_ref(), &mut before)?;
        if page.is_empty() {
            return Ok(n_withheld);
        }
        n_withheld += page.len() as u64;
        let starts: Vec<Write> = page
            .iter()
            .map(|execution_id| Write::Start {
                execution_id: *execution_id,
                started_at: None,
            })
            .collect();
        store.commit(&starts)?;
    }
}

/// The next ones that are queued; what is damaged is passed over, for it cannot run either.
fn queued(reader: &dyn Reader, before: &mut Option<u64>) -> Result<Vec<ExecutionId>, StoreFault> {
    let filter = ListFilter {
        state: Some(StoredState::Queued),
        ..ListFilter::default()
    };
    loop {
        match reader.list(&filter, *before, WITHHELD_MAX) {
            Ok(page) => {
                *before = page.last().map(|summary| summary.number).or(*before);
                return Ok(page.iter().map(|summary| summary.execution_id).collect());
            }
            Err(StoreFault::Corrupt { number, .. }) => *before = Some(number),
            Err(fault) => return Err(fault),
        }
    }
}
