//! Artifacts that callers upload. Knows nothing of those that outputs declare.

use super::book::Book;
use super::{Desk, Finding, Judge};
use crate::canonical::{sha256 as digest_of, uuid};
use crate::journal::Declared;

impl Book {
    // RI1
    /// What was uploaded is there, as it was given, and once.
    pub(super) fn uploaded(&mut self, upload: &Declared, desk: &mut Desk<'_>) {
        desk.count("uploads");
        let sha256 = upload.sha256.clone();
        let names = [&upload.kind, &upload.mime_type, &upload.name].map(String::clone);
        let content = upload.content.clone().unwrap_or_default();
        if digest_of(&desk.load(&content))[..] != sha256 {
            desk.finds("RI1", "an upload has another content than its hash says");
        }
        if !self.uploads.insert((sha256, names)) {
            desk.finds("RI4", "the same is uploaded twice");
        }
    }
}

impl Judge {
    // RI1
    /// What a run that rests shows of its uploads, by their SHA-256: each that was ever durable.
    pub fn shows_uploads(&mut self, run: [u8; 16], shown: &[Vec<u8>]) {
        let Some(book) = self.runs.get(&run) else { return };
        let lost = book.uploads.iter().find(|(sha256, _)| !shown.contains(sha256));
        if let Some((_, names)) = lost {
            let text = format!("run {} has lost an upload: {names:?}", uuid(&run));
            self.findings.push(Finding {
                invariant: "RI1",
                text,
            });
        }
    }
}
