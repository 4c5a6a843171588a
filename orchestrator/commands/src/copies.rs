//! `backup` and `restore`: a copy of a store as one file, and a store of such a copy. Decide nothing about what is in it.

use crate::Failure;
use crate::place::{StorePath, undone};
use crate::said::{Looked, say, tell};
use clap::Args;
use clap::builder::BoolishValueParser;
use escapement_store::embedded::{BackedUp, RestoreOptions, Restored, back_up, restore};
use serde_json::json;
use std::path::PathBuf;

/// Flags of `backup`.
#[derive(Args, Clone, Debug)]
pub struct Backup {
    #[command(flatten)]
    store: StorePath,
    /// The file to make.
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    /// Keep the copy although executions in it are damaged.
    #[arg(long, value_parser = BoolishValueParser::new())]
    accept_damage: bool,
}

/// Flags of `restore`.
#[derive(Args, Clone, Debug)]
pub struct Restore {
    /// The backup.
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    #[command(flatten)]
    store: StorePath,
    /// Leave queued what was queued at the time of the backup; what has run since then runs once more.
    #[arg(long, value_parser = BoolishValueParser::new())]
    run_queued: bool,
    /// Restore although executions in the backup are damaged.
    #[arg(long, value_parser = BoolishValueParser::new())]
    accept_damage: bool,
}

pub(crate) fn back_up_store(flags: &Backup) -> Result<(), Failure> {
    let failed = undone("backup is not made");
    let directory = &flags.store.directory;
    let BackedUp {
        examination,
        n_bytes,
        is_kept,
    } = back_up(directory, &flags.to, flags.accept_damage, &mut tell).map_err(failed)?;
    let looked = Looked {
        executions: examination,
        ..Looked::default()
    };
    say(&looked.counted(json!({
        "event": "backed_up",
        "file": flags.to.to_string_lossy(),
        "kept": is_kept,
        "bytes": n_bytes,
    })));
    looked.judged(is_kept)
}

pub(crate) fn restore_store(flags: &Restore) -> Result<(), Failure> {
    let failed = undone("store is not restored");
    let directory = &flags.store.directory;
    let options = RestoreOptions {
        run_queued: flags.run_queued,
        accept_damage: flags.accept_damage,
    };
    let Restored {
        examination,
        n_withheld,
        is_kept,
    } = restore(&flags.from, directory, options, &mut tell).map_err(failed)?;
    let looked = Looked {
        executions: examination,
        ..Looked::default()
    };
    say(&looked.counted(json!({
        "event": "restored",
        "store_path": directory.to_string_lossy(),
        "kept": is_kept,
        "queued_withheld": n_withheld,
    })));
    looked.judged(is_kept)
}
