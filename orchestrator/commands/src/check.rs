//! `check`: looks through a store, and makes anew what its tables say. Touches no record.

use crate::Failure;
use crate::place::{StorePath, open_existing, undone};
use crate::said::{judged, say, tell, with_counts};
use clap::Args;
use clap::builder::BoolishValueParser;
use escapement_store::embedded::Examiner;
use serde_json::json;

/// Flags of `check`.
#[derive(Args, Clone, Debug)]
pub struct Check {
    #[command(flatten)]
    store: StorePath,
    /// Make indexes and counts anew first.
    #[arg(long, value_parser = BoolishValueParser::new())]
    repair: bool,
}

pub(crate) fn run(flags: &Check) -> Result<(), Failure> {
    let failed = undone("store cannot be checked");
    if flags.repair {
        let store = open_existing(&flags.store.directory, true).map_err(undone("store is not repaired"))?;
        for repaired in &store.opening().repaired {
            say(&json!({"event": "repaired", "said": repaired}));
        }
    }
    let mut examiner = Examiner::open(&flags.store.directory).map_err(&failed)?;
    let mut examination = examiner.examine_all(&mut tell).map_err(&failed)?;
    for finding in examiner.structure().map_err(&failed)? {
        examination.count(&finding);
        tell(&finding);
    }
    say(&with_counts(json!({"event": "checked"}), &examination));
    judged(&examination, false)
}
