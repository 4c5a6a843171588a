//! `export`: the record of one execution or run as a file, or of all, out of the store. Changes nothing there and overwrites
//! no file.

mod runs;

use crate::Failure;
use crate::place::{StorePath, undone};
use crate::said::say;
use bytes::Bytes;
use clap::Args;
use clap::builder::BoolishValueParser;
use escapement_codec::archive::Archive;
use escapement_codec::archive::file::pieces;
use escapement_model::{ExecutionId, RunId};
use escapement_store::embedded::{Examiner, open_private, open_reader};
use escapement_store::{StoreFault, StoredExecution, StoredSummary};
use serde_json::json;
use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Flags of `export`.
#[derive(Args, Clone, Debug)]
pub struct Export {
    #[command(flatten)]
    store: StorePath,
    /// The execution, a UUID v4.
    #[arg(long, value_name = "ID", required_unless_present_any = ["all", "run_id"], conflicts_with_all = ["all", "run_id"])]
    execution_id: Option<ExecutionId>,
    /// The run, a UUID.
    #[arg(long, value_name = "ID", conflicts_with = "all")]
    run_id: Option<RunId>,
    /// All settled executions and all runs that can be read.
    #[arg(long, value_parser = BoolishValueParser::new())]
    all: bool,
    /// The file to make; with --all the directory for them, which is made if it does not exist.
    #[arg(long, value_name = "PATH")]
    to: PathBuf,
}

pub(crate) fn run(flags: &Export) -> Result<(), Failure> {
    let directory = &flags.store.directory;
    match (flags.execution_id, flags.run_id) {
        (Some(execution_id), _) => {
            let archive = one(directory, execution_id)?;
            export(archive, execution_id, &flags.to)
        }
        (None, Some(run_id)) => runs::export_one(directory, run_id, &flags.to),
        (None, None) => export_all(directory, &flags.to),
    }
}

fn one(directory: &Path, execution_id: ExecutionId) -> Result<Archive, Failure> {
    let failed = undone("execution is not exported");
    let reader = open_reader(directory).map_err(&failed)?;
    let missing = |why: &str| Failure::NotExported {
        why: format!("execution {execution_id} {why}"),
        source: None,
    };
    let stored = reader.execution(execution_id).map_err(&failed)?;
    let stored = stored.ok_or_else(|| missing("is not in the store"))?;
    let audit = reader.audit(execution_id).map_err(&failed)?;
    archive(stored, audit)?.ok_or_else(|| missing("is not settled"))
}

/// `None` if it is not settled.
fn archive(stored: StoredExecution, audit: Option<Bytes>) -> Result<Option<Archive>, Failure> {
    let (Some(result), Some(audit)) = (stored.result, audit) else {
        return Ok(None);
    };
    let StoredSummary {
        execution_id,
        request_digest,
        ..
    } = stored.summary;
    Archive::of_store(execution_id, request_digest, stored.record, result, &audit)
        .map(Some)
        .map_err(|unreadable| Failure::DamagedRecord {
            whose: format!("execution {execution_id}"),
            source: Box::new(unreadable),
        })
}

/// Along the numbers in the table, so that no index is needed.
fn export_all(directory: &Path, to: &Path) -> Result<(), Failure> {
    let failed = undone("store is not exported");
    let examiner = Examiner::open(directory).map_err(&failed)?;
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(to)
        .map_err(|source| Failure::NotExported {
            why: format!("{} cannot be made", to.display()),
            source: Some(source.into()),
        })?;
    let mut tally = Tally::default();
    let mut after = 0;
    loop {
        let numbers = examiner.numbers_behind(after).map_err(&failed)?;
        let Some(last) = numbers.last() else { break };
        after = *last;
        for number in numbers {
            export_by_number(&examiner, number, to, &mut tally)?;
        }
    }
    runs::export_all(directory, to, &mut tally)?;
    say(&json!({
        "event": "exported_all",
        "directory": to.to_string_lossy(),
        "executions": tally.n_exported,
        "not_settled": tally.n_unsettled,
        "runs": tally.n_runs,
        "damaged": tally.n_damaged,
    }));
    if tally.n_damaged > 0 {
        return Err(Failure::Damaged {
            n_damaged: tally.n_damaged,
            n_store_findings: 0,
        });
    }
    Ok(())
}

/// What came of all that there is.
#[derive(Default)]
struct Tally {
    n_exported: u64,
    n_unsettled: u64,
    n_runs: u64,
    n_damaged: u64,
}

fn export_by_number(examiner: &Examiner, number: u64, to: &Path, tally: &mut Tally) -> Result<(), Failure> {
    let why = match examiner.execution(number) {
        Ok(Some((stored, audit))) => {
            let execution_id = stored.summary.execution_id;
            match archive(stored, audit) {
                Ok(Some(archive)) => {
                    export(archive, execution_id, &to.join(execution_id.to_string()))?;
                    tally.n_exported += 1;
                    return Ok(());
                }
                Ok(None) => {
                    tally.n_unsettled += 1;
                    "it is not settled".to_owned()
                }
                Err(damaged) => {
                    tally.n_damaged += 1;
                    damaged.to_string()
                }
            }
        }
        Ok(None) => return Ok(()),
        Err(StoreFault::Corrupt { part, .. }) => {
            tally.n_damaged += 1;
            format!("its {part} is damaged")
        }
        Err(fault) => return Err(undone("store is not exported")(fault)),
    };
    say(&json!({
        "event": "not_exported",
        "number": number,
        "execution_id": examiner.execution_id(number).map(|id| id.to_string()),
        "why": why,
    }));
    Ok(())
}

fn export(archive: Archive, execution_id: ExecutionId, to: &Path) -> Result<(), Failure> {
    let n_entries = archive.entries.len();
    let mut pieces = pieces(archive);
    let n_bytes = write(to, || Ok(pieces.next()))?;
    say(&json!({
        "event": "exported",
        "file": to.to_string_lossy(),
        "execution_id": execution_id.to_string(),
        "entries": n_entries,
        "bytes": n_bytes,
    }));
    Ok(())
}

/// Writes a new file of pieces, whole or not at all.
fn write(to: &Path, mut next: impl FnMut() -> Result<Option<Bytes>, Failure>) -> Result<usize, Failure> {
    let unusable = |source: std::io::Error| Failure::NotExported {
        why: format!("{} cannot be written", to.display()),
        source: Some(source.into()),
    };
    let mut file = open_private(OpenOptions::new().write(true).create_new(true), to).map_err(unusable)?;
    let mut fill = || -> Result<usize, Failure> {
        let mut n_bytes = 0;
        while let Some(piece) = next()? {
            file.write_all(&piece).map_err(unusable)?;
            n_bytes += piece.len();
        }
        file.sync_all().map_err(unusable)?;
        Ok(n_bytes)
    };
    fill().inspect_err(|_| {
        // Half a file is worth nothing; that it stays where even this fails is said by its end.
        let _stays = std::fs::remove_file(to);
    })
}
