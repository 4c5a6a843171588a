//! Both readers of record files behind one question: is anything wrong, and which entry first.

use bytes::Bytes;
use escapement_codec::archive::check::{self, Part};
use escapement_codec::archive::file;
use escapement_tests::chain::{self, Kind};

/// What one reader says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    /// For people; empty if nothing is wrong.
    pub(crate) findings: Vec<String>,
    /// The first entry that is wrong, where the reader names one.
    pub(crate) entry: Option<u64>,
}

impl Said {
    pub(crate) fn is_good(&self) -> bool {
        self.findings.is_empty()
    }
}

/// Returns the orchestrator's own reader, which replays.
pub(crate) fn orchestrator(bytes: &Bytes) -> Said {
    let read = match file::read(bytes) {
        Ok(read) => read,
        Err(fault) => {
            return Said {
                findings: vec![fault.to_string()],
                entry: fault.sequence,
            };
        }
    };
    let verdict = check::verify(&read.archive);
    let differences = verdict.differences.iter();
    let entry = differences
        .clone()
        .find(|difference| difference.part == Part::Entry);
    let entry = entry.map(|difference| difference.sequence);
    let faults = read.faults.iter().map(ToString::to_string);
    let findings: Vec<String> = differences
        .map(|difference| {
            let part = difference.part.as_str();
            format!(
                "{part} {}: {} and not {}",
                difference.sequence, difference.recorded, difference.replayed
            )
        })
        .chain(faults)
        .collect();
    assert_eq!(verdict.is_good(), verdict.differences.is_empty());
    Said { findings, entry }
}

/// Returns the one that was written from the page, which does not.
pub(crate) fn second(bytes: &Bytes) -> Said {
    let checked = chain::check(bytes);
    Said {
        findings: checked.findings.iter().map(ToString::to_string).collect(),
        entry: checked.first_entry(),
    }
}

/// Returns the parts of a file that is whole.
pub(crate) fn parts(file: &[u8]) -> Vec<(Kind, Vec<u8>)> {
    let (frames, broken) = chain::frames(file);
    assert_eq!(broken, None);
    let parts = frames.iter().map(|frame| (frame.kind, frame.content.to_vec()));
    parts.filter(|(kind, _)| *kind != Kind::End).collect()
}

/// A file of parts, with an end that fits.
pub(crate) fn file_of(parts: &[(Kind, Vec<u8>)]) -> Bytes {
    chain::write(parts.iter().map(|(kind, content)| (*kind, content.as_slice()))).into()
}
