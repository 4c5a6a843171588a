//! `check`: looks through a store, and makes anew what its tables say. Touches no record.

use crate::Failure;
use crate::place::{StorePath, open_existing, undone};
use crate::said::{counted, judged, say, tell};
use clap::Args;
use clap::builder::BoolishValueParser;
use escapement_store::StoreFault;
use escapement_store::embedded::{Examination, Examiner};
use serde_json::json;
use std::path::Path;

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
    let directory = &flags.store.directory;
    if flags.repair {
        repair(directory).map_err(undone("store is not repaired"))?;
    }
    let examined = look(directory).map_err(undone("store cannot be checked"))?;
    say(&counted(&examined, json!({"event": "checked"})));
    judged(&examined, false)
}

fn repair(directory: &Path) -> Result<(), StoreFault> {
    let store = open_existing(directory, true)?;
    for repaired in &store.opening().repaired {
        say(&json!({"event": "repaired", "said": repaired}));
    }
    Ok(())
}

fn look(directory: &Path) -> Result<Examination, StoreFault> {
    let mut examiner = Examiner::open(directory)?;
    let mut examined = examiner.examine_all(&mut tell)?;
    for finding in examiner.structure()? {
        examined.count(&finding);
        tell(&finding);
    }
    Ok(examined)
}
