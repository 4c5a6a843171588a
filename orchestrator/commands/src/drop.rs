//! `drop`: gives up what is damaged. Never touches what is whole.

use crate::Failure;
use crate::place::{StorePath, open_existing, undone};
use crate::said::say;
use clap::Args;
use escapement_process::unix_ms;
use escapement_store::embedded::GivenUp;
use escapement_store::runs::RunGivenUp;
use serde_json::json;
use std::path::Path;

/// Flags of `drop`.
#[derive(Args, Clone, Debug)]
pub struct Drop {
    #[command(flatten)]
    store: StorePath,
    /// The execution's number, as `check` says it.
    #[arg(
        long,
        value_name = "NUMBER",
        value_parser = clap::value_parser!(u64).range(1..),
        required_unless_present = "run_number",
        conflicts_with = "run_number"
    )]
    number: Option<u64>,
    /// The run's number, as `check` says it.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    run_number: Option<u64>,
}

pub(crate) fn run(flags: &Drop) -> Result<(), Failure> {
    let directory = &flags.store.directory;
    match (flags.number, flags.run_number) {
        (Some(number), _) => drop_execution(directory, number),
        (None, Some(number)) => drop_run(directory, number),
        (None, None) => Ok(()),
    }
}

fn drop_execution(directory: &Path, number: u64) -> Result<(), Failure> {
    let failed = undone("execution is not dropped");
    let mut store = open_existing(directory, false).map_err(&failed)?;
    let not_dropped = |why| {
        let what = "execution";
        Err(Failure::NotDropped { what, number, why })
    };
    let execution_id = match store.give_up(number, unix_ms()).map_err(&failed)? {
        GivenUp::Done { execution_id } => execution_id,
        GivenUp::Whole => return not_dropped("it is whole"),
        GivenUp::Missing => return not_dropped("it is not in the store"),
    };
    say(&json!({
        "event": "dropped",
        "number": number,
        "execution_id": execution_id.map(|id| id.to_string()),
        "ids_stay_used": execution_id.is_some(),
    }));
    Ok(())
}

fn drop_run(directory: &Path, number: u64) -> Result<(), Failure> {
    let failed = undone("run is not dropped");
    let mut store = open_existing(directory, false).map_err(&failed)?;
    let not_dropped = |why| {
        let what = "run";
        Err(Failure::NotDropped { what, number, why })
    };
    let run_id = match store.give_up_run(number, unix_ms()).map_err(&failed)? {
        RunGivenUp::Done { run_id } => run_id,
        RunGivenUp::Whole => return not_dropped("it is whole"),
        RunGivenUp::Missing => return not_dropped("it is not in the store"),
    };
    say(&json!({
        "event": "run_dropped",
        "number": number,
        "run_id": run_id.map(|id| id.to_string()),
        "ids_stay_used": run_id.is_some(),
    }));
    Ok(())
}
