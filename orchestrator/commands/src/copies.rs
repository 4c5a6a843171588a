//! `backup` and `restore`: a copy of a store as one file, and a store of such a copy. Decide nothing about what is in it.

use crate::Failure;
use crate::hold_back::hold_back;
use crate::place::{StorePath, undone};
use crate::said::{counted, judged, say, tell};
use clap::Args;
use clap::builder::BoolishValueParser;
use escapement_process::unix_ms;
use escapement_store::Embedded;
use escapement_store::backup::{BackedUp, RestoreOptions, Restored, back_up, restore};
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
    /// Keep the copy although something in it is damaged.
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
    /// Leave queued what was queued at the time of the backup, and let runs go on; what has run since then runs once more.
    #[arg(long, value_parser = BoolishValueParser::new())]
    run_queued: bool,
    /// Restore although something in the backup is damaged.
    #[arg(long, value_parser = BoolishValueParser::new())]
    accept_damage: bool,
}

pub(crate) fn back_up_store(flags: &Backup) -> Result<(), Failure> {
    let failed = undone("backup is not made");
    let directory = &flags.store.directory;
    let BackedUp {
        examined,
        n_bytes,
        is_kept,
    } = back_up(directory, &flags.to, flags.accept_damage, &mut tell).map_err(failed)?;
    let line = json!({
        "event": "backed_up",
        "file": flags.to.to_string_lossy(),
        "kept": is_kept,
        "bytes": n_bytes,
    });
    say(&counted(&examined, line));
    judged(&examined, is_kept)
}

pub(crate) fn restore_store(flags: &Restore) -> Result<(), Failure> {
    let failed = undone("store is not restored");
    let directory = &flags.store.directory;
    let options = RestoreOptions {
        run_queued: flags.run_queued,
        accept_damage: flags.accept_damage,
    };
    let mut change_runs = |store: &mut Embedded| match flags.run_queued {
        true => Ok(0),
        false => hold_back(store, unix_ms()),
    };
    let Restored {
        examined,
        n_withheld,
        n_runs_changed,
        is_kept,
    } = restore(&flags.from, directory, options, &mut tell, &mut change_runs).map_err(failed)?;
    let line = json!({
        "event": "restored",
        "store_path": directory.to_string_lossy(),
        "kept": is_kept,
        "queued_withheld": n_withheld,
        "runs_paused": n_runs_changed,
    });
    say(&counted(&examined, line));
    judged(&examined, is_kept)
}
