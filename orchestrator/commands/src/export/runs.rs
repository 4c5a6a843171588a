//! Records of runs out of the store.

use super::{Tally, write};
use crate::Failure;
use crate::place::undone;
use crate::said::say;
use escapement_model::RunId;
use escapement_runs_host::{ExportFault, RunExport};
use escapement_store::StoreFault;
use escapement_store::embedded::{Examiner, open_run_reader};
use escapement_store::runs::RunReader;
use serde_json::json;
use std::path::Path;

/// One run, ended or not: its journal up to now.
pub(super) fn export_one(directory: &Path, run_id: RunId, to: &Path) -> Result<(), Failure> {
    let failed = undone("run is not exported");
    let reader = open_run_reader(directory).map_err(&failed)?;
    let export = RunExport::begin(&*reader, run_id).map_err(&failed)?;
    let export = export.ok_or_else(|| Failure::NotExported {
        why: format!("run {run_id} is not in the store"),
        source: None,
    })?;
    write_record(&*reader, export, run_id, to)
}

/// All runs, along the numbers in their table; each goes into a file `run-` and its id.
pub(super) fn export_all(directory: &Path, to: &Path, tally: &mut Tally) -> Result<(), Failure> {
    let failed = undone("store is not exported");
    let reader = open_run_reader(directory).map_err(&failed)?;
    let examiner = Examiner::open(directory).map_err(&failed)?;
    let mut after = 0;
    loop {
        let numbers = examiner.run_numbers_behind(after).map_err(&failed)?;
        let Some(last) = numbers.last() else {
            return Ok(());
        };
        after = *last;
        for number in numbers {
            if !examiner.has_run(number).map_err(&failed)? {
                continue;
            }
            let run_id = examiner.run_id(number).map_err(&failed)?;
            let exported = match run_id {
                Some(run_id) => export_known(&*reader, run_id, to),
                None => Err("its id cannot be read".into()),
            };
            match exported {
                Ok(()) => tally.n_runs += 1,
                Err(NotExported::Damaged(why)) => {
                    tally.n_damaged += 1;
                    say(&json!({
                        "event": "not_exported",
                        "run_number": number,
                        "run_id": run_id.map(|id| id.to_string()),
                        "why": why,
                    }));
                }
                Err(NotExported::Failed(failure)) => return Err(failure),
            }
        }
    }
}

/// Why one of all runs is not exported.
enum NotExported {
    /// It is damaged, which hurts no other.
    Damaged(String),
    /// Nothing can be exported.
    Failed(Failure),
}

impl From<&str> for NotExported {
    fn from(why: &str) -> Self {
        Self::Damaged(why.to_owned())
    }
}

fn export_known(reader: &dyn RunReader, run_id: RunId, to: &Path) -> Result<(), NotExported> {
    let failed = undone("store is not exported");
    let export = match RunExport::begin(reader, run_id) {
        Ok(Some(export)) => export,
        Ok(None) => return Err("its id leads to no run".into()),
        Err(fault @ StoreFault::CorruptRun { .. }) => return Err(NotExported::Damaged(fault.to_string())),
        Err(fault) => return Err(NotExported::Failed(failed(fault))),
    };
    let written = write_record(reader, export, run_id, &to.join(format!("run-{run_id}")));
    written.map_err(|failure| match failure {
        Failure::DamagedRecord { source, .. } => NotExported::Damaged(source.to_string()),
        failure => NotExported::Failed(failure),
    })
}

fn write_record(
    reader: &dyn RunReader,
    mut export: RunExport,
    run_id: RunId,
    to: &Path,
) -> Result<(), Failure> {
    let n_entries = export.n_entries();
    let next = || {
        export.next_piece(reader).map_err(|fault| match fault {
            ExportFault::Store(
                fault @ (StoreFault::CorruptRun { .. } | StoreFault::CorruptDefinition { .. }),
            ) => damaged(run_id, fault),
            ExportFault::Store(fault) => undone("run is not exported")(fault),
            fault @ (ExportFault::Gone | ExportFault::Unreadable { .. }) => damaged(run_id, fault),
        })
    };
    let n_bytes = write(to, next)?;
    say(&json!({
        "event": "exported",
        "file": to.to_string_lossy(),
        "run_id": run_id.to_string(),
        "entries": n_entries,
        "bytes": n_bytes,
    }));
    Ok(())
}

fn damaged(run_id: RunId, source: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::DamagedRecord {
        whose: format!("run {run_id}"),
        source: Box::new(source),
    }
}
