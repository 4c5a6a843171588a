//! The journal's file and the thread that appends to it. Knows no line but the one about lines that are lost.

use crate::append_file::AppendFile;
use escapement_codec::session_journal::dropped;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use tracing::{info, warn};

/// Opens the file to append to it. It is its owner's alone, because it holds attempt tokens.
///
/// # Errors
/// As the file system fails.
pub(crate) fn open(path: &Path) -> std::io::Result<AppendFile> {
    let mut file = AppendFile::open(path)?;
    if ends_within_a_line(&file, path)? {
        file.write_all(b"\n")?;
    }
    Ok(file)
}

/// True for what a process left that was killed while it wrote. A pipe or a terminal has no such end.
fn ends_within_a_line(file: &AppendFile, path: &Path) -> std::io::Result<bool> {
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() == 0 {
        return Ok(false);
    }
    let mut last = [0];
    let mut reader = File::open(path)?;
    reader.seek(SeekFrom::End(-1))?;
    reader.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

/// Writes batches of lines until no more can come. What cannot be written is lost and counted.
pub(crate) fn write_all(out: impl Write, batches: &Receiver<String>, bytes_waiting: &AtomicUsize) {
    let mut appender = Appender {
        out,
        n_lost: 0,
        is_within_line: false,
    };
    for batch in batches {
        appender.append(&batch);
        // Relaxed: only the number counts, and nothing else is read by it.
        bytes_waiting.fetch_sub(batch.len(), Ordering::Relaxed);
    }
    appender.tell_lost();
}

struct Appender<W> {
    out: W,
    /// Lines that were lost and not told of yet.
    n_lost: u64,
    /// True if the last line was cut, as by a full disk.
    is_within_line: bool,
}

impl<W: Write> Appender<W> {
    fn append(&mut self, batch: &str) {
        if self.tell_lost() {
            self.n_lost = self.put(batch);
        } else {
            self.n_lost += n_lines(batch.as_bytes());
        }
    }

    /// Returns true if nothing is left to tell.
    fn tell_lost(&mut self) -> bool {
        if self.n_lost == 0 {
            return true;
        }
        let end_of_cut_line = if self.is_within_line { "\n" } else { "" };
        let line = format!("{end_of_cut_line}{}\n", dropped(self.n_lost));
        let is_told = self.put(&line) == 0;
        if is_told {
            info!(dropped = self.n_lost, "session journal is written again");
            self.n_lost = 0;
        }
        is_told
    }

    /// Gives the number of lines that are not in the file.
    fn put(&mut self, lines: &str) -> u64 {
        let mut rest = lines.as_bytes();
        while !rest.is_empty() {
            match self.out.write(rest) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(n) if n > 0 => {
                    self.is_within_line = rest[n - 1] != b'\n';
                    rest = &rest[n..];
                }
                refused => {
                    if self.n_lost == 0 {
                        let error = refused.err().unwrap_or(ErrorKind::WriteZero.into());
                        warn!(%error, "session journal cannot be written; lines are dropped");
                    }
                    break;
                }
            }
        }
        n_lines(rest)
    }
}

fn n_lines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}
