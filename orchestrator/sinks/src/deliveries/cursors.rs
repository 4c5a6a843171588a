//! How far each sink is, in one small file beside the store that is replaced as a whole. Knows no sink and no event.
//!
//! It is a file and no table: it is not part of what the store promises. If it is lost, or older than the store, sinks get events again.

use super::key::{Feed, SinkKey};
use escapement_delivery::Cursor;
use escapement_model::hex;
use escapement_store::FeedMark;
use escapement_store::embedded::open_private;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tracing::error;

/// The cursors that are saved.
#[derive(Debug)]
pub(crate) struct Cursors {
    path: PathBuf,
    /// What sinks have had of executions, and of runs.
    marks: [FeedMark; 2],
    saved: Mutex<Saved>,
}

#[derive(Debug, Default)]
struct Saved {
    /// By the keys of sinks.
    cursors: BTreeMap<String, Cursor>,
    /// The sinks that there are.
    sinks: Vec<SinkKey>,
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
    /// Two hexadecimal digits for each byte.
    id: Option<String>,
    refused_since_ms: Option<i64>,
}

impl Cursors {
    /// Reads the file in that directory. One that cannot be read is as good as none, and is told in the log.
    /// `patience_ms`: how long what a sink lacks is held.
    pub(crate) fn open(directory: &Path, sinks: Vec<SinkKey>, patience_ms: u64) -> Self {
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
            marks: [FeedMark::new(patience_ms), FeedMark::new(patience_ms)],
            saved: Mutex::new(Saved {
                cursors,
                sinks,
                is_unknown,
            }),
        };
        cursors.set_marks(&cursors.lock());
        cursors
    }

    /// What all sinks have had of that feed.
    pub(crate) fn mark(&self, feed: Feed) -> FeedMark {
        self.marks[feed as usize].clone()
    }

    /// The sinks that there are from now on. What others had is forgotten with the next save.
    pub(crate) fn set_sinks(&self, sinks: Vec<SinkKey>) {
        let mut saved = self.lock();
        saved.sinks = sinks;
        self.set_marks(&saved);
    }

    /// How far a sink is; `None` if it has had nothing yet.
    pub(crate) fn of(&self, sink: &SinkKey) -> Option<Cursor> {
        self.lock().cursors.get(&sink.text()).copied()
    }

    /// Returns true if a sink without a cursor may have had one.
    pub(crate) fn is_unknown(&self) -> bool {
        self.lock().is_unknown
    }

    /// Saves how far a sink is; it is durable when this returns. Blocks.
    ///
    /// # Errors
    /// As the file system fails; then what was saved last stays.
    pub(crate) fn save(&self, sink: &SinkKey, cursor: Cursor) -> std::io::Result<()> {
        let mut saved = self.lock();
        let mut cursors = saved.cursors.clone();
        cursors.insert(sink.text(), cursor);
        cursors.retain(|key, _| saved.sinks.iter().any(|sink| sink.text() == *key));
        write(&self.path, &cursors)?;
        saved.cursors = cursors;
        self.set_marks(&saved);
        Ok(())
    }

    fn set_marks(&self, saved: &Saved) {
        let place = |sink: &SinkKey| saved.cursors.get(&sink.text()).map_or(0, |cursor| cursor.place);
        for feed in [Feed::Executions, Feed::Runs] {
            let sinks = saved.sinks.iter().filter(|sink| sink.feed == feed);
            self.marks[feed as usize].set(sinks.map(place).min());
        }
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
        let id = written
            .id
            .map(|text| hex::array(&text).ok_or("it has an id that is none"))
            .transpose()?;
        let cursor = Cursor {
            place: written.place,
            id,
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
            id: cursor.id.map(|id| hex::text(&id)),
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

#[cfg(test)]
mod tests;
