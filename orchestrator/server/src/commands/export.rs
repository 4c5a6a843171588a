//! `export`: the record of one execution as a file, out of the store. Changes nothing there and overwrites no file.

use super::{StorePath, say};
use crate::failure::Failure;
use crate::record::Record;
use crate::record::file::pieces;
use clap::Args;
use escapement_model::ExecutionId;
use escapement_store::embedded::open_reader;
use serde_json::json;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Flags of `export`.
#[derive(Args, Clone, Debug)]
pub struct Export {
    #[command(flatten)]
    store: StorePath,
    /// The execution, a UUID v4.
    #[arg(long, value_name = "ID")]
    execution_id: ExecutionId,
    /// The file to make.
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
}

pub(super) fn run(flags: &Export) -> Result<(), Failure> {
    let record = record(&flags.store.directory, flags.execution_id)?;
    let n_entries = record.entries.len();
    let n_bytes = write(record, &flags.to).map_err(|source| Failure::NotExported {
        why: format!("{} cannot be written", flags.to.display()),
        source: Some(source.into()),
    })?;
    say(&json!({
        "event": "exported",
        "file": flags.to.to_string_lossy(),
        "execution_id": flags.execution_id.to_string(),
        "entries": n_entries,
        "bytes": n_bytes,
    }));
    Ok(())
}

fn record(directory: &Path, execution_id: ExecutionId) -> Result<Record, Failure> {
    let failed = super::undone("execution is not exported");
    let reader = open_reader(directory).map_err(&failed)?;
    let missing = |why: &str| Failure::NotExported {
        why: format!("execution {execution_id} {why}"),
        source: None,
    };
    let stored = reader.execution(execution_id).map_err(&failed)?;
    let stored = stored.ok_or_else(|| missing("is not in the store"))?;
    let audit = reader.audit(execution_id).map_err(&failed)?;
    let (Some(result), Some(audit)) = (stored.result, audit) else {
        return Err(missing("is not settled"));
    };
    let digest = stored.summary.request_digest;
    Record::of_store(execution_id, digest, stored.record, result, &audit).map_err(|unreadable| {
        Failure::DamagedRecord {
            execution_id,
            source: Box::new(unreadable),
        }
    })
}

/// Writes a new file, whole or not at all.
fn write(record: Record, to: &Path) -> std::io::Result<usize> {
    let mut file = File::create_new(to)?;
    let written = pieces(record).try_fold(0, |n_bytes, piece| {
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
