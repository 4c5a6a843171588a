//! How far each sink is, in one small file beside the store that is replaced as a whole. Knows no sink and no event.
//!
//! It is a file and no table: it is not part of what the store promises. If it is lost, or older than the store, sinks get events again.

use escapement_delivery::Cursor;
use escapement_model::ExecutionId;
use escapement_store::Held;
use escapement_store::embedded::open_private;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tracing::error;

/// The place up to which every sink has had its events, as far as that is saved. Cheap to clone. The default is that of no sinks.
#[derive(Clone, Debug)]
pub struct FeedMark {
    place: Arc<AtomicU64>,
    patience_ms: u64,
}

impl Default for FeedMark {
    fn default() -> Self {
        Self::new(0)
    }
}

impl FeedMark {
    fn new(patience_ms: u64) -> Self {
        Self {
            place: Arc::new(AtomicU64::new(NO_SINK)),
            patience_ms,
        }
    }

    /// What is not to be removed; `None` if there is no sink.
    pub fn held(&self) -> Option<Held> {
        // Relaxed: only the number counts, and nothing else is read by it.
        let behind = self.place.load(Ordering::Relaxed);
        (behind != NO_SINK).then_some(Held {
            behind,
            for_ms: self.patience_ms,
        })
    }
}

/// The cursors that are saved.
#[derive(Debug)]
pub(crate) struct Cursors {
    path: PathBuf,
    mark: FeedMark,
    saved: Mutex<Saved>,
}

#[derive(Debug, Default)]
struct Saved {
    cursors: BTreeMap<String, Cursor>,
    /// The names of the sinks that there are.
    sinks: Vec<String>,
    /// True if the file could not be read: then nobody knows how far a sink was.
    is_unknown: bool,
}

/// The file as it is written.
#[derive(Deserialize, Serialize)]
struct Written {
    version: u32,
    sinks: BTreeMap<String, WrittenCursor>,
}

/// A cursor as it is written.
#[derive(Deserialize, Serialize)]
struct WrittenCursor {
    place: u64,
    execution_id: Option<String>,
    refused_since_ms: Option<i64>,
}

impl Cursors {
    /// Reads the file in that directory. One that cannot be read is as good as none, and is told in the log.
    /// `patience_ms`: how long what a sink lacks is held.
    pub(crate) fn open(directory: &Path, sinks: Vec<String>, patience_ms: u64) -> Self {
        let path = directory.join(FILE);
        let (cursors, is_unknown) = match read(&path) {
            Ok(cursors) => (cursors, false),
            Err(problem) => {
                let path = path.display();
                error!(%path, problem, "nobody knows how far the sinks are; they begin with the oldest events again");
                (BTreeMap::new(), true)
            }
        };
        let cursors = Self {
            path,
            mark: FeedMark::new(patience_ms),
            saved: Mutex::new(Saved {
                cursors,
                sinks,
                is_unknown,
            }),
        };
        cursors.set_mark(&cursors.lock());
        cursors
    }

    pub(crate) fn mark(&self) -> FeedMark {
        self.mark.clone()
    }

    /// The sinks that there are from now on. What others had is forgotten with the next save.
    pub(crate) fn set_sinks(&self, sinks: Vec<String>) {
        let mut saved = self.lock();
        saved.sinks = sinks;
        self.set_mark(&saved);
    }

    /// How far a sink is; `None` if it has had nothing yet.
    pub(crate) fn of(&self, sink: &str) -> Option<Cursor> {
        self.lock().cursors.get(sink).copied()
    }

    /// True if a sink without a cursor may have had one.
    pub(crate) fn is_unknown(&self) -> bool {
        self.lock().is_unknown
    }

    /// Saves how far a sink is; it is durable when this returns. Blocks.
    ///
    /// # Errors
    /// As the file system fails; then what was saved last stays.
    pub(crate) fn save(&self, sink: &str, cursor: Cursor) -> std::io::Result<()> {
        let mut saved = self.lock();
        let mut cursors = saved.cursors.clone();
        cursors.insert(sink.to_owned(), cursor);
        cursors.retain(|name, _| saved.sinks.contains(name));
        write(&self.path, &cursors)?;
        saved.cursors = cursors;
        self.set_mark(&saved);
        Ok(())
    }

    fn set_mark(&self, saved: &Saved) {
        let place = |sink: &String| saved.cursors.get(sink).map_or(0, |cursor| cursor.place);
        let lowest = saved.sinks.iter().map(place).min();
        self.mark
            .place
            .store(lowest.unwrap_or(NO_SINK), Ordering::Relaxed);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Saved> {
        self.saved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(path: &Path) -> Result<BTreeMap<String, Cursor>, String> {
    let text = match std::fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeMap::new()),
        read => read.map_err(|error| error.to_string())?,
    };
    let written: Written = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    if written.version != 1 {
        return Err(format!(
            "it has version {}, which this program does not know",
            written.version
        ));
    }
    let cursor = |(name, written): (String, WrittenCursor)| {
        let execution = written
            .execution_id
            .map(|id| id.parse::<ExecutionId>())
            .transpose();
        let cursor = Cursor {
            place: written.place,
            execution: execution.map_err(|error| error.to_string())?,
            refused_since_ms: written.refused_since_ms,
        };
        Ok((name, cursor))
    };
    written.sinks.into_iter().map(cursor).collect()
}

/// A kill or a loss of power leaves the old file or the new one.
fn write(path: &Path, cursors: &BTreeMap<String, Cursor>) -> std::io::Result<()> {
    let sinks = cursors.iter().map(|(name, cursor)| {
        let written = WrittenCursor {
            place: cursor.place,
            execution_id: cursor.execution.map(|id| id.to_string()),
            refused_since_ms: cursor.refused_since_ms,
        };
        (name.clone(), written)
    });
    let written = Written {
        version: 1,
        sinks: sinks.collect(),
    };
    let text = serde_json::to_vec(&written)?;
    let next = path.with_extension("json.next");
    let mut file = open_private(OpenOptions::new().write(true).create(true).truncate(true), &next)?;
    file.write_all(&text)?;
    file.sync_all()?;
    std::fs::rename(&next, path)?;
    let directory = path.parent().expect("the file lies in a directory");
    File::open(directory)?.sync_all()
}

const FILE: &str = "sinks.json";
/// No execution has this place.
const NO_SINK: u64 = u64::MAX;

#[cfg(test)]
mod tests;
