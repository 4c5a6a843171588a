//! `drop`: gives up what is damaged. Never touches what is whole.

use crate::Failure;
use crate::place::{StorePath, open_existing, undone, unix_ms};
use crate::said::say;
use clap::Args;
use escapement_store::embedded::GivenUp;
use serde_json::json;

/// Flags of `drop`.
#[derive(Args, Clone, Debug)]
pub struct Drop {
    #[command(flatten)]
    store: StorePath,
    /// The execution's number, as `check` says it.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    number: u64,
}

pub(crate) fn run(flags: &Drop) -> Result<(), Failure> {
    let number = flags.number;
    let failed = undone("execution is not dropped");
    let mut store = open_existing(&flags.store.directory, false).map_err(&failed)?;
    let not_dropped = |why| Err(Failure::NotDropped { number, why });
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
