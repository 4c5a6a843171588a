//! `convert`: makes a store of the files of an earlier version, ahead of the start that would do it. Changes no row.

use crate::Failure;
use crate::place::{StorePath, undone};
use crate::said::say;
use clap::Args;
use clap::builder::BoolishValueParser;
use escapement_store::embedded::{Converted, convert, try_to_convert};
use serde_json::json;

/// Flags of `convert`.
#[derive(Args, Clone, Debug)]
pub struct Convert {
    #[command(flatten)]
    store: StorePath,
    /// Make the whole copy, and throw it away.
    #[arg(long, value_parser = BoolishValueParser::new())]
    check: bool,
    /// Convert although something that was acknowledged is missing.
    #[arg(long, value_parser = BoolishValueParser::new())]
    accept_loss: bool,
}

pub(crate) fn run(flags: &Convert) -> Result<(), Failure> {
    let directory = &flags.store.directory;
    let converted = match flags.check {
        true => try_to_convert(directory, flags.accept_loss),
        false => convert(directory, flags.accept_loss),
    };
    let event = if flags.check { "convertible" } else { "converted" };
    let line = match converted.map_err(undone("store is not converted"))? {
        Some(Converted { n_executions, n_runs }) => {
            json!({"event": event, "executions": n_executions, "runs": n_runs})
        }
        None => json!({"event": "nothing_to_convert"}),
    };
    say(&line);
    Ok(())
}
