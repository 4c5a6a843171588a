//! Reads the session journal of an orchestrator as a stream of typed events. Judges nothing but the form of the lines.
//!
//! A line with an unknown `m`, an unknown `dir`, a missing field or a wrong type is an error that names the line.
//! Fields that are not known are passed over, so that the journal may say more.
//! A file may hold several boots: each begins with a `boot` line.
//! The last line of a process that was killed may be cut off.
//! It is passed over at the end of the file, and right before the `boot` line of the next process, with or without a line break between.

mod event;
mod identifier;
mod line;

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

pub use event::{
    ActionLevel, AssignedItem, Call, CancelReason, Capacity, Event, FromWorker, Hello, OutcomeKind, Phase,
    Previous, RejectReason, Reply, Resumption, ToWorker, Verdict, What,
};
pub use identifier::{Hex, Uuid};

use crate::Fault;

/// A journal that is read line by line.
#[derive(Debug)]
pub struct Journal<R> {
    lines: R,
    line: usize,
}

impl Journal<BufReader<File>> {
    /// Reads a file from its beginning to where it ends now.
    ///
    /// # Errors
    /// The operating system's.
    pub fn open(path: &Path) -> Result<Self, Fault> {
        let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self::new(BufReader::new(file)))
    }
}

impl<'text> Journal<&'text [u8]> {
    /// Reads a text.
    pub fn of_text(text: &'text str) -> Self {
        Self::new(text.as_bytes())
    }
}

impl<R: BufRead> Journal<R> {
    fn new(lines: R) -> Self {
        Self { lines, line: 0 }
    }

    fn read(&mut self) -> Result<Option<Event>, Fault> {
        let mut cut_off = None;
        while let Some(text) = self.read_line()? {
            if text.trim().is_empty() {
                continue;
            }
            match (line::parse(self.line, &text), cut_off) {
                (Ok(event), None) => return Ok(Some(event)),
                (Ok(event), Some(_)) if matches!(event.what, What::Boot { .. }) => return Ok(Some(event)),
                (_, Some(error)) => return Err(error),
                (Err(error), None) => {
                    if let Some(boot) = self.boot_after_a_cut(&text) {
                        return Ok(Some(boot));
                    }
                    let shown: String = text.chars().take(SHOWN_CHARS).collect();
                    cut_off = Some(format!("line {}: {error}: {}", self.line, shown.trim_end()).into());
                }
            }
        }
        cut_off.map_or(Ok(None), Err)
    }

    /// Returns the boot line that begins within this line, if one does.
    fn boot_after_a_cut(&self, text: &str) -> Option<Event> {
        let begin = text.rfind("{\"t\":").filter(|begin| *begin > 0)?;
        let event = line::parse(self.line, &text[begin..]).ok()?;
        matches!(event.what, What::Boot { .. }).then_some(event)
    }

    /// Returns the next line that a line break ends.
    fn read_line(&mut self) -> Result<Option<String>, Fault> {
        let mut text = Vec::new();
        let n_read = (&mut self.lines)
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut text)?;
        if text.last() != Some(&b'\n') {
            let is_too_long = n_read as u64 == LINE_BYTES_MAX;
            let error = || format!("line {}: longer than any line of a journal", self.line + 1).into();
            return if is_too_long { Err(error()) } else { Ok(None) };
        }
        self.line += 1;
        let text = String::from_utf8(text).map_err(|error| format!("line {}: {error}", self.line))?;
        Ok(Some(text))
    }
}

impl<R: BufRead> Iterator for Journal<R> {
    type Item = Result<Event, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

/// More than the longest list of a message of 4 MiB takes.
const LINE_BYTES_MAX: u64 = 64 << 20;
const SHOWN_CHARS: usize = 300;

#[cfg(test)]
mod tests;
