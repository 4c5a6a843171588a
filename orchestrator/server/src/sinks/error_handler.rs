//! Appends one line of JSON for every failure to a file, from a thread of its own. Never truncates, never
//! rotates.

use super::count_drop;
use crate::convert::json;
use crate::failure::Failure;
use crate::limits::ERROR_HANDLER_QUEUE_MAX;
use escapement_contract::{Persisted, Settlement};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// The way to the thread. Dropping it waits until everything that was taken is written.
#[derive(Debug)]
pub(super) struct ErrorHandler {
    failures: Option<SyncSender<Persisted>>,
    thread: Option<JoinHandle<()>>,
}

impl ErrorHandler {
    /// Opens the file and starts the thread.
    ///
    /// # Errors
    /// Where the file cannot be appended to, or there is no thread.
    pub(super) fn start(path: &Path) -> Result<Self, Failure> {
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .map_err(|source| Failure::Append {
                setting: "--error-handler-path",
                path: path.to_owned(),
                source,
            })?;
        let (failures, failures_rx) = sync_channel(ERROR_HANDLER_QUEUE_MAX);
        let thread = std::thread::Builder::new()
            .name("error-handler".to_owned())
            .spawn(move || append_all(file, failures_rx))
            .map_err(|source| Failure::System {
                what: "thread for the error handler",
                source,
            })?;
        Ok(Self {
            failures: Some(failures),
            thread: Some(thread),
        })
    }

    /// True where the thread will write it; false where it is too far behind.
    pub(super) fn take(&self, settlement: Persisted) -> bool {
        self.failures
            .as_ref()
            .is_some_and(|failures| failures.try_send(settlement).is_ok())
    }
}

impl Drop for ErrorHandler {
    fn drop(&mut self) {
        self.failures = None;
        if let Some(thread) = self.thread.take() {
            // A panic of a best effort sink changes nothing.
            let _panicked = thread.join();
        }
    }
}

fn append_all(mut file: File, failures: Receiver<Persisted>) {
    let mut not_written = 0;
    for settlement in failures {
        if append(&mut file, &settlement).is_err() {
            count_drop("error_handler", &mut not_written);
        }
    }
}

/// In one write, so that lines of two processes do not mix.
fn append(file: &mut File, settlement: &Settlement) -> std::io::Result<()> {
    let mut line = json::result(&settlement.result).to_string();
    line.push('\n');
    file.write_all(line.as_bytes())
}
