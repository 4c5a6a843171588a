//! The session journal: one line of JSON for every message to and from workers, for people who write workers.
//! Never waits: lines that the file does not take in time are dropped and counted.

use crate::error_handler::CannotStart;
use crate::journal_file;
use crate::limits::JOURNAL_BYTES_MAX;
use escapement_codec::session_journal::{Event, dropped, line};
use escapement_contract::Moment;
use escapement_model::BootId;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use tracing::warn;

/// The engine thread's way to the journal; without a file it does nothing.
#[derive(Debug)]
pub struct SessionJournal(Option<Lines>);

/// Lines that wait to be written.
#[derive(Debug)]
struct Lines {
    /// Lines of this batch, each with its end.
    batch: String,
    /// Lines that were dropped since the last one that was taken.
    n_dropped: u64,
    bytes_max: usize,
    /// Bytes that were handed over and are not written; they bound the channel.
    bytes_waiting: Arc<AtomicUsize>,
    batches: Option<Sender<String>>,
    thread: Option<JoinHandle<()>>,
}

impl SessionJournal {
    /// Opens the file, if one is named, and notes that a process lifetime begins.
    ///
    /// # Errors
    /// If the file cannot be appended to, or the operating system gives no thread.
    pub fn start(path: Option<&Path>, boot_id: BootId, start: Moment) -> Result<Self, CannotStart> {
        let Some(path) = path else { return Ok(Self(None)) };
        let file = journal_file::open(path).map_err(|source| CannotStart::Append {
            path: path.to_owned(),
            source,
        })?;
        let mut journal = Self::to(file, JOURNAL_BYTES_MAX)?;
        let monotonic_ms = i64::try_from(start.monotonic_ms).unwrap_or(i64::MAX);
        journal.note_at(
            0,
            Event::Boot(boot_id, start.unix_ms.saturating_sub(monotonic_ms)),
        );
        journal.flush();
        Ok(journal)
    }

    fn to(out: impl Write + Send + 'static, bytes_max: usize) -> Result<Self, CannotStart> {
        let (batches, batches_rx) = channel();
        let bytes_waiting = Arc::new(AtomicUsize::new(0));
        let waiting = Arc::clone(&bytes_waiting);
        let thread = std::thread::Builder::new()
            .name("session-journal".to_owned())
            .spawn(move || journal_file::write_all(out, &batches_rx, &waiting))
            .map_err(CannotStart::Thread)?;
        Ok(Self(Some(Lines {
            batch: String::new(),
            n_dropped: 0,
            bytes_max,
            bytes_waiting,
            batches: Some(batches),
            thread: Some(thread),
        })))
    }

    /// Notes what the engine is about to handle or has just given, if it belongs to a session.
    pub fn note(&mut self, now: Moment, event: Event<'_>) {
        self.note_at(now.monotonic_ms, event);
    }

    fn note_at(&mut self, at_ms: u64, event: Event<'_>) {
        if let Some(lines) = &mut self.0
            && let Some(line) = line(at_ms, event)
        {
            lines.push(&line);
        }
    }

    /// Hands over what was noted, so that it is in the file soon.
    pub fn flush(&mut self) {
        if let Some(lines) = &mut self.0 {
            lines.hand_over();
        }
    }
}

impl Lines {
    fn push(&mut self, line: &str) {
        let waiting = self.bytes_waiting.load(Ordering::Relaxed) + self.batch.len();
        if waiting + line.len() > self.bytes_max {
            if self.n_dropped == 0 {
                warn!("session journal drops lines");
            }
            self.n_dropped += 1;
            return;
        }
        self.tell_dropped();
        self.batch.push_str(line);
        self.batch.push('\n');
    }

    fn tell_dropped(&mut self) {
        if self.n_dropped > 0 {
            self.batch.push_str(&dropped(self.n_dropped));
            self.batch.push('\n');
            self.n_dropped = 0;
        }
    }

    fn hand_over(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let batch = std::mem::take(&mut self.batch);
        // Relaxed: only the number counts, and nothing else is read by it.
        self.bytes_waiting.fetch_add(batch.len(), Ordering::Relaxed);
        if let Some(batches) = &self.batches {
            // The thread ends only after this end. A panic of the thread affects the journal alone.
            let _panicked = batches.send(batch);
        }
    }
}

/// Waits until everything that was taken is written.
impl Drop for Lines {
    fn drop(&mut self) {
        self.tell_dropped();
        self.hand_over();
        self.batches = None;
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
