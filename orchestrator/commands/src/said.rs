//! What commands read from files and say on stdout, a line of JSON each.

use crate::Failure;
use escapement_model::hex;
use escapement_store::embedded::{Examination, Finding};
use escapement_store::runs::{RunExamination, RunFinding};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

/// What was looked at in a store: executions, and runs if it has any.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Looked {
    pub(crate) executions: Examination,
    pub(crate) runs: RunExamination,
}

impl Looked {
    /// Adds what was looked at to a line.
    pub(crate) fn counted(&self, mut line: Value) -> Value {
        let Self { executions, runs } = self;
        line["executions"] = executions.n_executions.into();
        line["removed"] = executions.n_removed.into();
        line["operator_entries"] = executions.n_operator_entries.into();
        line["operators_head"] = executions.operators_head.map(|head| hex::text(&head)).into();
        line["runs"] = runs.n_runs.into();
        line["runs_removed"] = runs.n_removed.into();
        line["contents"] = runs.n_contents.into();
        line["definitions"] = runs.n_definitions.into();
        line["damaged"] = self.n_damaged().into();
        line["store_findings"] = self.n_store_findings().into();
        line
    }

    /// Damage is a failure unless the operator accepted it.
    pub(crate) fn judged(&self, is_accepted: bool) -> Result<(), Failure> {
        if is_accepted || self.executions.is_clean() && self.runs.is_clean() {
            return Ok(());
        }
        Err(Failure::Damaged {
            n_damaged: self.n_damaged(),
            n_store_findings: self.n_store_findings(),
        })
    }

    fn n_damaged(&self) -> u64 {
        self.executions.n_damaged + self.runs.n_damaged
    }

    fn n_store_findings(&self) -> u64 {
        self.executions.n_store_findings + self.runs.n_store_findings
    }
}

pub(crate) fn tell(finding: &Finding) {
    say(&match finding {
        Finding::Execution {
            number,
            execution_id,
            parts,
        } => json!({
            "event": "damaged",
            "number": number,
            "execution_id": execution_id.map(|id| id.to_string()),
            "parts": parts,
        }),
        Finding::Removed { number } => json!({
            "event": "damaged",
            "number": number,
            "execution_id": null,
            "parts": ["row of a removed execution"],
        }),
        Finding::Operators { number } => json!({"event": "operator_entry_damaged", "number": number}),
        Finding::Store(said) => json!({"event": "store_damaged", "said": said}),
    });
}

pub(crate) fn tell_of_runs(finding: &RunFinding) {
    say(&match finding {
        RunFinding::Run {
            number,
            run_id,
            parts,
        } => json!({
            "event": "run_damaged",
            "number": number,
            "run_id": run_id.map(|id| id.to_string()),
            "parts": parts,
        }),
        RunFinding::Removed { number } => json!({
            "event": "run_damaged",
            "number": number,
            "run_id": null,
            "parts": ["row of a removed run"],
        }),
        RunFinding::Content {
            digest,
            runs,
            definitions,
        } => json!({
            "event": "content_damaged",
            "digest": digest.map(|digest| hex::text(&digest)),
            "runs": runs,
            "definitions": definitions,
        }),
        RunFinding::Definition { number } => json!({"event": "definition_damaged", "number": number}),
        RunFinding::Notice { number } => json!({"event": "notice_damaged", "number": number}),
        RunFinding::Store(said) => json!({"event": "store_damaged", "said": format!("runs: {said}")}),
    });
}

/// Returns the bytes of a file; `None` if it is larger than its first bytes allow. `-` is stdin.
pub(crate) fn read_at_most(
    path: &Path,
    bytes_max: impl Fn(&[u8]) -> u64,
) -> std::io::Result<Option<Vec<u8>>> {
    let input: &mut dyn Read = if path == Path::new("-") {
        &mut std::io::stdin().lock()
    } else {
        &mut File::open(path)?
    };
    let mut bytes = Vec::new();
    input.take(BEGIN_BYTES).read_to_end(&mut bytes)?;
    let bytes_max = bytes_max(&bytes);
    input
        .take(bytes_max + 1 - bytes.len() as u64)
        .read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= bytes_max).then_some(bytes))
}

pub(crate) fn say(line: &Value) {
    let mut stdout = std::io::stdout().lock();
    // The reader has closed stdout and does not want to know.
    let _closed = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}

/// What is read of a file before it is known how large it may be.
const BEGIN_BYTES: u64 = 64;
