//! What commands read from files and say on stdout, a line of JSON each.

use crate::Failure;
use escapement_model::hex;
use escapement_store::embedded::{Examination, Finding};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

/// Adds what was looked at to a line.
pub(crate) fn counted(examined: &Examination, mut line: Value) -> Value {
    line["executions"] = examined.n_executions.into();
    line["removed"] = examined.n_removed.into();
    line["operator_entries"] = examined.n_operator_entries.into();
    line["operators_head"] = examined.operators_head.map(|head| hex::text(&head)).into();
    line["runs"] = examined.n_runs.into();
    line["runs_removed"] = examined.n_runs_removed.into();
    line["contents"] = examined.n_contents.into();
    line["definitions"] = examined.n_definitions.into();
    line["damaged"] = examined.n_damaged.into();
    line["store_findings"] = examined.n_store_findings.into();
    line
}

/// Damage is a failure unless the operator accepted it.
pub(crate) fn judged(examined: &Examination, is_accepted: bool) -> Result<(), Failure> {
    if is_accepted || examined.is_clean() {
        return Ok(());
    }
    Err(Failure::Damaged {
        n_damaged: examined.n_damaged,
        n_store_findings: examined.n_store_findings,
    })
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
        Finding::Run {
            number,
            run_id,
            parts,
        } => json!({
            "event": "run_damaged",
            "number": number,
            "run_id": run_id.map(|id| id.to_string()),
            "parts": parts,
        }),
        Finding::RemovedRun { number } => json!({
            "event": "run_damaged",
            "number": number,
            "run_id": null,
            "parts": ["row of a removed run"],
        }),
        Finding::Content {
            digest,
            runs,
            definitions,
        } => json!({
            "event": "content_damaged",
            "digest": digest.map(|digest| hex::text(&digest)),
            "runs": runs,
            "definitions": definitions,
        }),
        Finding::Definition { number } => json!({"event": "definition_damaged", "number": number}),
        Finding::Notice { number } => json!({"event": "notice_damaged", "number": number}),
        Finding::Store(said) => json!({"event": "store_damaged", "said": said}),
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
