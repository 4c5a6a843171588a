//! `verify`: checks and replays record files. Opens no store.

use crate::Failure;
use crate::said::{read_at_most, say};
use bytes::Bytes;
use clap::Args;
use escapement_codec::archive::check::{Verdict, verify};
use escapement_codec::archive::file::{ArchiveFile, FileFault, is_archive, read};
use escapement_codec::stored::seal::Seal;
use escapement_insight::{Problem, exported_file};
use escapement_model::hex;
use escapement_run::record;
use escapement_runs_insight::replay;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Flags of `verify`.
#[derive(Args, Clone, Debug)]
pub struct Verify {
    /// Record files: as `export` makes them, or what grpcurl prints for ExportExecution; `-` is stdin.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

/// What came of all files.
#[derive(Default)]
struct Sum {
    n_bad: u64,
    n_unreadable: u64,
    n_incomplete: u64,
    n_entries: u64,
    n_inputs: u64,
    /// Of the last one.
    execution_id: Option<String>,
    /// Of the last one, in hexadecimal digits: who keeps it elsewhere knows the record again.
    seal: Option<String>,
    /// Of the last one.
    run_id: Option<String>,
    /// Of the last one: the hash of its last entry, in hexadecimal digits.
    head: Option<String>,
}

pub(crate) fn run(flags: &Verify) -> Result<(), Failure> {
    let mut sum = Sum::default();
    for path in &flags.files {
        match load(path) {
            Ok(bytes) if record::is_record(&bytes) => check_run(path, &bytes, &mut sum),
            Ok(bytes) => check(path, &bytes, &mut sum),
            Err(said) => {
                sum.n_unreadable += 1;
                say(&json!({"event": "unreadable", "file": path.to_string_lossy(), "said": said}));
            }
        }
    }
    let mut last = json!({
        "event": "verified",
        "files": flags.files.len(),
        "bad": sum.n_bad,
        "unreadable": sum.n_unreadable,
        "incomplete": sum.n_incomplete,
        "entries": sum.n_entries,
        "inputs": sum.n_inputs,
    });
    if flags.files.len() == 1 {
        match sum.run_id {
            Some(run_id) => {
                last["run_id"] = run_id.into();
                last["head"] = sum.head.into();
            }
            None => {
                last["execution_id"] = sum.execution_id.into();
                last["seal"] = sum.seal.into();
            }
        }
    }
    say(&last);
    if sum.n_bad == 0 && sum.n_unreadable == 0 {
        return Ok(());
    }
    Err(Failure::NotVerified {
        n_bad: sum.n_bad,
        n_unreadable: sum.n_unreadable,
    })
}

fn check(path: &Path, bytes: &Bytes, sum: &mut Sum) {
    let (verdict, faults) = match read(bytes) {
        Ok(ArchiveFile { archive, faults }) => {
            sum.execution_id = Some(archive.execution_id.to_string());
            let seal = archive.seal.as_ref().and_then(|seal| Seal::decode(seal).ok());
            sum.seal = seal.map(|seal| hex::text(&seal.seal));
            (verify(&archive), faults)
        }
        Err(fault) => (Verdict::default(), vec![fault]),
    };
    faults.iter().for_each(|fault| tell_fault(path, fault));
    for difference in &verdict.differences {
        say(&json!({
            "event": "difference",
            "file": path.to_string_lossy(),
            "part": difference.part.as_str(),
            "sequence": difference.sequence,
            "recorded": difference.recorded,
            "replayed": difference.replayed,
        }));
    }
    let is_bad = !(verdict.is_good() && faults.is_empty());
    sum.n_bad += u64::from(is_bad);
    sum.n_incomplete += u64::from(!is_bad && !verdict.is_complete);
    sum.n_entries += verdict.n_entries;
    sum.n_inputs += verdict.n_inputs;
}

/// The record of a run.
fn check_run(path: &Path, bytes: &Bytes, sum: &mut Sum) {
    let (record, faults) = match record::read(bytes) {
        Ok((record, faults)) => (Some(record), faults),
        Err(fault) => (None, vec![fault]),
    };
    for fault in &faults {
        let whole = "a whole record file";
        tell_difference(path, fault.sequence, &fault.to_string(), whole);
    }
    let mut is_bad = !faults.is_empty();
    if let Some(record) = record {
        // What is not as it was written leads nowhere else.
        if !is_bad {
            let journal: Vec<Bytes> = record.entries.iter().map(|entry| entry.bytes.clone()).collect();
            match replay(&journal, &record) {
                Ok(replayed) => sum.n_inputs += replayed.n_inputs,
                Err(difference) => {
                    is_bad = true;
                    let replayed = "what the law decides from the entries before";
                    tell_difference(path, Some(difference.sequence), &difference.to_string(), replayed);
                }
            }
        }
        sum.n_incomplete += u64::from(!is_bad && !record.is_complete());
        sum.n_entries += record.entries.len() as u64;
        sum.run_id = Some(record.run_id.to_string());
        sum.head = record.entries.last().map(|last| hex::text(&last.link));
    }
    sum.n_bad += u64::from(is_bad);
}

/// A fault of the file around the record. Where an entry should stand there it is named.
fn tell_fault(path: &Path, fault: &FileFault) {
    tell_difference(path, fault.sequence, &fault.to_string(), "a whole record file");
}

fn tell_difference(path: &Path, sequence: Option<u64>, recorded: &str, replayed: &str) {
    say(&json!({
        "event": "difference",
        "file": path.to_string_lossy(),
        "part": if sequence.is_some() { "entry" } else { "file" },
        "sequence": sequence.unwrap_or(0),
        "recorded": recorded,
        "replayed": replayed,
    }));
}

/// The bytes of a record file, whichever way it is written. `-` is stdin.
pub(crate) fn load(path: &Path) -> Result<Bytes, String> {
    let bytes = read_at_most(path, file_bytes_max).map_err(|error| error.to_string())?;
    let mut bytes = bytes.ok_or("it is larger than any record")?;
    if bytes.trim_ascii_start().starts_with(b"{") {
        bytes = exported_file(&bytes).map_err(|Problem(problem)| problem)?;
    }
    if is_archive(&bytes) || record::is_record(&bytes) {
        return Ok(Bytes::from(bytes));
    }
    Err("it does not begin as a record file does".to_owned())
}

fn file_bytes_max(begin: &[u8]) -> u64 {
    if record::is_record(begin) {
        RUN_FILE_BYTES_MAX
    } else {
        FILE_BYTES_MAX
    }
}

/// Bytes of a file at most: 256 MiB. A record of an execution in Base64 has less than half.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// Bytes of the record of a run at most: 4 GiB, all of which are held in memory.
const RUN_FILE_BYTES_MAX: u64 = 4 << 30;
