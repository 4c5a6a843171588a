//! Appends one line of JSON for every failure to a file, from a thread of its own. Never truncates, never rotates.

use super::{Queue, Waiting, note, room_for, take_room};
use crate::append_file::AppendFile;
use crate::limits::{ERROR_HANDLER_QUEUE_BYTES_MAX, ERROR_HANDLER_QUEUE_MAX};
use crate::losses::Losses;
use escapement_codec::event_json;
use escapement_codec::execution;
use escapement_contract::PlanResult;
use prost::Message;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use tokio::sync::Semaphore;

/// Reason why the error handler does not start.
#[derive(Debug)]
pub enum CannotStart {
    /// Its file cannot be appended to.
    Append {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The operating system gives no thread.
    Thread(std::io::Error),
}

/// The way to the thread. Dropping it waits until everything that was taken is written.
#[derive(Debug)]
pub(crate) struct ErrorHandler {
    failures: Option<SyncSender<Waiting<PlanResult>>>,
    room: Arc<Semaphore>,
    thread: Option<JoinHandle<()>>,
}

impl ErrorHandler {
    /// Opens the file and starts the thread.
    ///
    /// # Errors
    /// If the file cannot be appended to, or there is no thread.
    pub(crate) fn start(path: &Path) -> Result<Self, CannotStart> {
        let file = AppendFile::open(path).map_err(|source| CannotStart::Append {
            path: path.to_owned(),
            source,
        })?;
        let (failures, failures_rx) = sync_channel(ERROR_HANDLER_QUEUE_MAX);
        let thread = std::thread::Builder::new()
            .name("error-handler".to_owned())
            .spawn(move || append_all(file, failures_rx))
            .map_err(CannotStart::Thread)?;
        Ok(Self {
            failures: Some(failures),
            room: room_for(ERROR_HANDLER_QUEUE_BYTES_MAX),
            thread: Some(thread),
        })
    }

    pub(crate) fn queue(&self) -> Queue {
        Queue {
            name: "error_handler",
            bytes_max: ERROR_HANDLER_QUEUE_BYTES_MAX,
            room: Arc::clone(&self.room),
        }
    }

    /// Returns true if the thread will write it; false if it is too far behind.
    pub(crate) fn take(&self, result: &PlanResult) -> bool {
        let bytes = execution::result(result).encoded_len();
        let waiting = take_room(&self.room, bytes, result.clone());
        let failures = self.failures.as_ref().zip(waiting);
        failures.is_some_and(|(failures, waiting)| failures.try_send(waiting).is_ok())
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

fn append_all(mut file: AppendFile, failures: Receiver<Waiting<PlanResult>>) {
    let mut not_written = Losses::new("error_handler");
    for Waiting { value, _room } in failures {
        note(&mut not_written, append(&mut file, &value).is_ok());
    }
}

/// In one write, so that lines of two processes do not mix.
fn append(file: &mut AppendFile, result: &PlanResult) -> std::io::Result<()> {
    let mut line = event_json::result(result).to_string();
    line.push('\n');
    file.write_all(line.as_bytes())
}
