//! The mark: a small file beside the database that says how far it was durable. Never read while running.
//!
//! It is written behind every durable commit and not synced, so it never runs ahead of the database, and
//! after a power cut it may lag; a database that is behind its mark has lost an acknowledged end.

use std::io;
use std::path::Path;

use super::files::{Files, OpenFile};

const MAGIC: [u8; 8] = *b"escpmrk2";
const LENGTH: usize = 36;

/// How far the database was durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) n_commits: u64,
    /// The highest numbers that were given.
    pub(crate) execution_last: u64,
    pub(crate) run_last: u64,
}

impl Mark {
    pub(crate) fn encode(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.n_commits.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.execution_last.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.run_last.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..32]);
        bytes[32..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads the mark of a database that others may write; a damaged or missing one counts as none.
    pub(crate) fn read(path: &Path) -> Self {
        let bytes = std::fs::read(path).ok();
        bytes.and_then(|bytes| Self::decode(&bytes)).unwrap_or_default()
    }

    /// Zero if the file is younger than its first sync; `None` if the bytes are none of ours.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.iter().all(|byte| *byte == 0) {
            return Some(Self::default());
        }
        let word = |at: usize| {
            let word = bytes.get(at..at + 8)?.try_into().expect("the slice has 8 bytes");
            Some(u64::from_le_bytes(word))
        };
        let mark = Self {
            n_commits: word(8)?,
            execution_last: word(16)?,
            run_last: word(24)?,
        };
        (bytes == mark.encode()).then_some(mark)
    }
}

/// The file of the mark.
#[derive(Debug)]
pub(crate) struct MarkFile(Box<dyn OpenFile>);

impl MarkFile {
    /// Opens or creates the file and reads the mark; a damaged one counts as none, because it can only lag.
    pub(crate) fn open(files: &dyn Files, path: &Path) -> io::Result<(Self, Mark)> {
        let file = files.open(path, true)?;
        // A byte more than a mark has, so that a longer file is none.
        let mut bytes = [0; LENGTH + 1];
        let n_read = file.read_at(&mut bytes, 0)?;
        let mark = Mark::decode(&bytes[..n_read]).unwrap_or_default();
        Ok((Self(file), mark))
    }

    pub(crate) fn write(&self, mark: Mark) -> io::Result<()> {
        self.0.write_at(&mark.encode(), 0)
    }
}
