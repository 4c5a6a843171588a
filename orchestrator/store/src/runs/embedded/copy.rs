//! Backups of the runs and what is made of them. Overwrites nothing.
//!
//! The runs are copied before the executions: then the restored executions know everything that the restored runs
//! have sent. The other way round, a restored run would send once more what the executions have forgotten.

use std::path::Path;

use super::EmbeddedRuns;
use super::examine::{RunExamination, RunExaminer, RunFinding};
use crate::StoreFault;
use crate::database::{EmbeddedOptions, RUNS, copy};

/// What a backup of the runs holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunsBackedUp {
    /// What the check of the copy found.
    pub examination: RunExamination,
    /// Its size.
    pub n_bytes: u64,
    /// False if the copy is damaged and was thrown away.
    pub is_kept: bool,
}

/// Copies the runs into one file, of one moment: everything that was acknowledged before the call, while an
/// orchestrator runs on them or not.
///
/// The copy is checked as [`RunExaminer::examine_all`] does; a damaged one has no name unless `accept_damage`.
///
/// # Errors
/// [`StoreFault::Exists`] if the file is there; otherwise as reading and writing fail.
pub fn back_up(
    directory: &Path,
    file: &Path,
    accept_damage: bool,
    told: &mut dyn FnMut(&RunFinding),
) -> Result<RunsBackedUp, StoreFault> {
    let (examination, is_kept, n_bytes) = copy::back_up(
        &directory.join(RUNS.database),
        || Ok(RunExaminer::open(directory)?.into_connection()),
        file,
        |copy| {
            let examination = RunExaminer::open_file(copy)?.examine_all(told)?;
            Ok((examination, examination.is_clean() || accept_damage))
        },
    )?;
    Ok(RunsBackedUp {
        examination,
        n_bytes,
        is_kept,
    })
}

/// What of a backup was restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunsRestored {
    /// What the check of the backup found.
    pub examination: RunExamination,
    /// False if the backup is damaged and nothing was restored.
    pub is_kept: bool,
}

/// Makes the runs' file in a directory of a backup. Until it is whole, what there is of it stands in a directory of its
/// own, and opening the runs is refused.
///
/// # Errors
/// [`StoreFault::Exists`] if the directory holds runs, [`StoreFault::NoBackup`] if the file is damaged or none;
/// otherwise as reading and writing fail.
pub fn restore(
    file: &Path,
    directory: &Path,
    accept_damage: bool,
    told: &mut dyn FnMut(&RunFinding),
) -> Result<RunsRestored, StoreFault> {
    let options = EmbeddedOptions {
        accept_loss: accept_damage,
        ..EmbeddedOptions::default()
    };
    let (examination, is_kept) = copy::restore(file, directory, &RUNS, |stage| {
        let store = EmbeddedRuns::open(stage, &options)?;
        let examination = store.examiner()?.examine_all(told)?;
        Ok((examination, examination.is_clean() || accept_damage))
    })?;
    Ok(RunsRestored { examination, is_kept })
}
