//! What commands read from files and say on stdout, a line of JSON each.

use crate::Failure;
use escapement_store::embedded::{Examination, Finding};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

/// Damage is a failure unless the operator accepted it.
pub(crate) fn judged(examination: &Examination, is_accepted: bool) -> Result<(), Failure> {
    if examination.is_clean() || is_accepted {
        return Ok(());
    }
    Err(Failure::Damaged {
        n_damaged: examination.n_damaged,
        n_store_findings: examination.n_store_findings,
    })
}

pub(crate) fn with_counts(mut line: Value, examination: &Examination) -> Value {
    line["executions"] = examination.n_executions.into();
    line["removed"] = examination.n_removed.into();
    line["damaged"] = examination.n_damaged.into();
    line["store_findings"] = examination.n_store_findings.into();
    line
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
        Finding::Store(said) => json!({"event": "store_damaged", "said": said}),
    });
}

/// The bytes of a file; `None` if it is larger. `-` is stdin.
pub(crate) fn read_at_most(path: &Path, bytes_max: u64) -> std::io::Result<Option<Vec<u8>>> {
    let input: &mut dyn Read = if path == Path::new("-") {
        &mut std::io::stdin().lock()
    } else {
        &mut File::open(path)?
    };
    let mut bytes = Vec::new();
    input.take(bytes_max + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= bytes_max).then_some(bytes))
}

pub(crate) fn say(line: &Value) {
    let mut stdout = std::io::stdout().lock();
    // The reader has closed stdout and does not want to know.
    let _closed = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}
