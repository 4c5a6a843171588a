//! `check`: looks through a store, and makes anew what its tables say. Touches no record.

use crate::Failure;
use crate::place::{StorePath, open_existing, open_runs, undone};
use crate::said::{Looked, say, tell, tell_of_runs};
use clap::Args;
use clap::builder::BoolishValueParser;
use escapement_store::StoreFault;
use escapement_store::embedded::Examiner;
use escapement_store::runs::{self, RunExaminer};
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
    let looked = look(directory).map_err(undone("store cannot be checked"))?;
    say(&looked.counted(json!({"event": "checked"})));
    looked.judged(false)
}

fn repair(directory: &Path) -> Result<(), StoreFault> {
    let store = open_existing(directory, true)?;
    let mut repaired = store.opening().repaired.clone();
    if runs::are_there(directory) {
        let runs = open_runs(directory, true, Some(store.lock()))?;
        let of_runs = runs.opening().repaired.iter();
        repaired.extend(of_runs.map(|repaired| format!("runs: {repaired}")));
    }
    for repaired in repaired {
        say(&json!({"event": "repaired", "said": repaired}));
    }
    Ok(())
}

fn look(directory: &Path) -> Result<Looked, StoreFault> {
    let mut examiner = Examiner::open(directory)?;
    let mut executions = examiner.examine_all(&mut tell)?;
    for finding in examiner.structure()? {
        executions.count(&finding);
        tell(&finding);
    }
    let mut looked = Looked {
        executions,
        ..Looked::default()
    };
    if runs::are_there(directory) {
        let mut examiner = RunExaminer::open(directory)?;
        looked.runs = examiner.examine_all(&mut tell_of_runs)?;
        for finding in examiner.structure()? {
            looked.runs.count(&finding);
            tell_of_runs(&finding);
        }
    }
    Ok(looked)
}
