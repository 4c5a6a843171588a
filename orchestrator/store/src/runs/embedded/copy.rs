//! Copies of the runs. Names no file.

use std::path::Path;

use super::EmbeddedRuns;
use super::examine::{RunExamination, RunExaminer, RunFinding};
use crate::StoreFault;
use crate::database::copy::{self, Copy};
use crate::database::{EmbeddedOptions, RUNS};

/// Copies the runs, of one moment, and checks the copy as [`RunExaminer::examine_all`] does.
pub(crate) fn copied(
    directory: &Path,
    file: &Path,
    told: &mut dyn FnMut(&RunFinding),
) -> Result<(RunExamination, Copy), StoreFault> {
    let open = || Ok(RunExaminer::open(directory)?.into_connection());
    copy::copy(&directory.join(RUNS.database), open, file, ".runs", |copy| {
        RunExaminer::open_file(copy)?.examine_all(told)
    })
}

/// Opens and checks what stands in a stage.
pub(crate) fn staged(
    stage: &Path,
    options: &EmbeddedOptions,
    told: &mut dyn FnMut(&RunFinding),
) -> Result<(EmbeddedRuns, RunExamination), StoreFault> {
    let store = EmbeddedRuns::open(stage, options)?;
    let examination = store.examiner()?.examine_all(told)?;
    Ok((store, examination))
}
