//! `export`: the record of one execution as a file, or of all, out of the store. Changes nothing there and overwrites no
//! file.

use crate::Failure;
use crate::place::{StorePath, undone};
use crate::said::say;
use bytes::Bytes;
use clap::Args;
use clap::builder::BoolishValueParser;
use escapement_codec::archive::Archive;
use escapement_codec::archive::file::pieces;
use escapement_model::ExecutionId;
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
    #[arg(
        long,
        value_name = "ID",
        required_unless_present = "all",
        conflicts_with = "all"
    )]
    execution_id: Option<ExecutionId>,
    /// All settled executions that can be read.
    #[arg(long, value_parser = BoolishValueParser::new())]
    all: bool,
    /// The file to make; with --all the directory for them, which is made if it does not exist.
    #[arg(long, value_name = "PATH")]
    to: PathBuf,
}

pub(crate) fn run(flags: &Export) -> Result<(), Failure> {
    let directory = &flags.store.directory;
    match flags.execution_id {
        Some(execution_id) => {
            let archive = one(directory, execution_id)?;
            export(archive, execution_id, &flags.to)
        }
        None => export_all(directory, &flags.to),
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
            execution_id,
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
    let (mut after, mut n_exported, mut n_damaged, mut n_unsettled) = (0, 0, 0, 0);
    loop {
        let numbers = examiner.numbers_behind(after).map_err(&failed)?;
        let Some(last) = numbers.last() else { break };
        after = *last;
        for number in numbers {
            let why = match examiner.execution(number) {
                Ok(Some((stored, audit))) => {
                    let execution_id = stored.summary.execution_id;
                    match archive(stored, audit) {
                        Ok(Some(archive)) => {
                            export(archive, execution_id, &to.join(execution_id.to_string()))?;
                            n_exported += 1;
                            continue;
                        }
                        Ok(None) => {
                            n_unsettled += 1;
                            "it is not settled".to_owned()
                        }
                        Err(damaged) => {
                            n_damaged += 1;
                            damaged.to_string()
                        }
                    }
                }
                Ok(None) => continue,
                Err(StoreFault::Corrupt { part, .. }) => {
                    n_damaged += 1;
                    format!("its {part} is damaged")
                }
                Err(fault) => return Err(failed(fault)),
            };
            say(&json!({
                "event": "not_exported",
                "number": number,
                "execution_id": examiner.execution_id(number).map(|id| id.to_string()),
                "why": why,
            }));
        }
    }
    say(&json!({
        "event": "exported_all",
        "directory": to.to_string_lossy(),
        "executions": n_exported,
        "not_settled": n_unsettled,
        "damaged": n_damaged,
    }));
    if n_damaged > 0 {
        return Err(Failure::Damaged {
            n_damaged,
            n_store_findings: 0,
        });
    }
    Ok(())
}

fn export(archive: Archive, execution_id: ExecutionId, to: &Path) -> Result<(), Failure> {
    let n_entries = archive.entries.len();
    let n_bytes = write(archive, to).map_err(|source| Failure::NotExported {
        why: format!("{} cannot be written", to.display()),
        source: Some(source.into()),
    })?;
    say(&json!({
        "event": "exported",
        "file": to.to_string_lossy(),
        "execution_id": execution_id.to_string(),
        "entries": n_entries,
        "bytes": n_bytes,
    }));
    Ok(())
}

/// Writes a new file, whole or not at all.
fn write(archive: Archive, to: &Path) -> std::io::Result<usize> {
    let mut file = open_private(OpenOptions::new().write(true).create_new(true), to)?;
    let written = pieces(archive).try_fold(0, |n_bytes, piece| {
        file.write_all(&piece)?;
        Ok(n_bytes + piece.len())
    });
    let synced = written.and_then(|n_bytes| file.sync_all().map(|()| n_bytes));
    if synced.is_err() {
        // Half a file is worth nothing; that it stays where even this fails is said by its end.
        let _stays = std::fs::remove_file(to);
    }
    synced
}
