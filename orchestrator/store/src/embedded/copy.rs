//! Copies of a store, and what is withheld of a restored one. Names no file.

use std::path::Path;

use escapement_model::ExecutionId;

use super::{Embedded, Examination, Examiner, Finding};
use crate::database::copy::{self, Copy};
use crate::database::{EmbeddedOptions, STORE};
use crate::{ListFilter, Reader, Store, StoreFault, StoredState, Write};

/// Executions that one commit of a restore withholds.
const WITHHELD_MAX: usize = 512;

/// Copies the store, of one moment, and checks the copy as [`Examiner::examine_all`] does.
pub(crate) fn copied(
    directory: &Path,
    file: &Path,
    told: &mut dyn FnMut(&Finding),
) -> Result<(Examination, Copy), StoreFault> {
    let open = || Ok(Examiner::open(directory)?.into_connection());
    copy::copy(&directory.join(STORE.database), open, file, |copy| {
        Examiner::open_file(copy)?.examine_all(told)
    })
}

/// Opens and checks what stands in a stage.
pub(crate) fn staged(
    stage: &Path,
    options: &EmbeddedOptions,
    told: &mut dyn FnMut(&Finding),
) -> Result<(Embedded, Examination), StoreFault> {
    let store = Embedded::open(stage, options.clone())?;
    let examination = store.examiner()?.examine_all(told)?;
    Ok((store, examination))
}

/// Withholds everything that is queued from running, so that the next start settles it as interrupted.
pub(crate) fn withhold_queued(store: &mut Embedded) -> Result<u64, StoreFault> {
    let reader = Store::reader(store)?;
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
        Store::commit(store, &starts)?;
    }
}

/// Returns the next ones that are queued; what is damaged is passed over, for it cannot run either.
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
