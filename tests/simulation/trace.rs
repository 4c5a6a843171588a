//! What happened, as one number for comparing runs and, where somebody wants to read it, as text. Judges nothing.

use std::fmt::Display;

/// The hash of all that happened, and the text of it while a failing seed is repeated.
#[derive(Debug)]
pub(crate) struct Trace {
    hash: u64,
    lines: Option<Vec<String>>,
}

impl Trace {
    pub(crate) fn new(keeps_lines: bool) -> Self {
        Self {
            hash: 0xcbf2_9ce4_8422_2325,
            lines: keeps_lines.then(Vec::new),
        }
    }

    pub(crate) fn keeps_lines(&self) -> bool {
        self.lines.is_some()
    }

    /// # Panics
    /// If what happened depends on anything but the seed, as far as that can be seen.
    pub(crate) fn note(&mut self, now_ms: u64, line: impl Display) {
        let line = format!("{now_ms:>7} {line}");
        // A disk has the next number of the process: what else that did would be in the trace.
        assert!(
            !line.contains("/disk-"),
            "the trace names a disk by its number: {line}"
        );
        for byte in line.as_bytes() {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        if let Some(lines) = &mut self.lines {
            lines.push(line);
        }
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn lines(&self) -> &[String] {
        self.lines.as_deref().unwrap_or_default()
    }
}
