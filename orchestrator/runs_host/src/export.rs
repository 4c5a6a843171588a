//! The record of a run out of the store, piece by piece. Holds a page of the journal and no reader.

use std::collections::VecDeque;
use std::fmt;

use bytes::Bytes;
use escapement_model::RunId;
use escapement_run::record::RecordWriter;
use escapement_store::StoreFault;
use escapement_store::runs::{JournalEntry, RunReader};

/// A record under way: the journal as far as it went when the export began.
///
/// Each piece is read anew, through whatever reader is at hand.
#[derive(Debug)]
pub struct RunExport {
    run_id: RunId,
    /// `None` once the end was written.
    writer: Option<RecordWriter>,
    /// The first entry that is not read yet, and the first that is not part of the record.
    next_seq: u64,
    end_seq: u64,
    page: VecDeque<JournalEntry>,
    /// Contents that stand next in the record.
    awaited: VecDeque<[u8; 32]>,
    /// Written, and not handed out.
    ready: Bytes,
}

/// Reason why a record cannot be made.
#[derive(Debug)]
pub enum ExportFault {
    /// The store cannot be read, or the run is damaged in it.
    Store(StoreFault),
    /// The run was removed meanwhile, the first entries of its journal were dropped, or it was discarded and a content went with it.
    Gone,
    /// An entry does not decode.
    Unreadable {
        /// Number.
        sequence: u64,
    },
}

impl From<StoreFault> for ExportFault {
    fn from(fault: StoreFault) -> Self {
        Self::Store(fault)
    }
}

impl fmt::Display for ExportFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExportFault::Store(_) => f.write_str("the run cannot be read"),
            ExportFault::Gone => f.write_str(
                "the run, a part of its journal, or a content that it refers to is not there any more",
            ),
            ExportFault::Unreadable { sequence } => write!(f, "entry {sequence} does not decode"),
        }
    }
}

impl std::error::Error for ExportFault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ExportFault::Store(fault) => Some(fault),
            ExportFault::Gone | ExportFault::Unreadable { .. } => None,
        }
    }
}

impl RunExport {
    /// Begins the record of a run; `None` if there is no such run.
    ///
    /// # Errors
    /// [`StoreFault`] if the store cannot be read.
    pub fn begin(reader: &dyn RunReader, run_id: RunId) -> Result<Option<Self>, StoreFault> {
        let Some(run) = reader.summary(run_id)? else {
            return Ok(None);
        };
        let mut ready = Vec::new();
        let writer = RecordWriter::begin(run_id, &mut ready);
        Ok(Some(Self {
            run_id,
            writer: Some(writer),
            next_seq: 1,
            end_seq: run.next_seq,
            page: VecDeque::new(),
            awaited: VecDeque::new(),
            ready: ready.into(),
        }))
    }

    /// Entries that the record has in the end.
    pub fn n_entries(&self) -> u64 {
        self.end_seq - 1
    }

    /// Returns the next bytes of the file, at most [`PIECE_BYTES_MAX`]; `None` behind its end.
    ///
    /// # Errors
    /// [`ExportFault`]: there will be no whole record.
    pub fn next_piece(&mut self, reader: &dyn RunReader) -> Result<Option<Bytes>, ExportFault> {
        if self.ready.is_empty() {
            let mut written = Vec::new();
            while written.len() < PIECE_BYTES_MAX && self.write_more(reader, &mut written)? {}
            self.ready = written.into();
        }
        let piece = self.ready.split_to(self.ready.len().min(PIECE_BYTES_MAX));
        Ok((!piece.is_empty()).then_some(piece))
    }

    /// Writes the next part; false if everything is written.
    fn write_more(&mut self, reader: &dyn RunReader, out: &mut Vec<u8>) -> Result<bool, ExportFault> {
        let Some(writer) = &mut self.writer else {
            return Ok(false);
        };
        if let Some(digest) = self.awaited.pop_front() {
            let content = reader.content(&digest)?.ok_or(ExportFault::Gone)?;
            writer.content(&content, out);
            return Ok(true);
        }
        if self.page.is_empty() && self.next_seq < self.end_seq {
            self.page = self.read_page(reader)?;
            return Ok(true);
        }
        let Some(entry) = self.page.pop_front() else {
            if let Some(writer) = self.writer.take() {
                writer.end(out);
            }
            return Ok(true);
        };
        let awaited = writer.entry(&entry.link, &entry.bytes, out);
        self.awaited = awaited
            .map_err(|_| ExportFault::Unreadable { sequence: entry.seq })?
            .into();
        Ok(true)
    }

    /// Returns the next entries; at least one.
    fn read_page(&mut self, reader: &dyn RunReader) -> Result<VecDeque<JournalEntry>, ExportFault> {
        let page = reader.journal(self.run_id, self.next_seq, PAGE_BYTES)?;
        let entries = page.ok_or(ExportFault::Gone)?.entries.into_iter();
        let page: VecDeque<_> = entries.take_while(|entry| entry.seq < self.end_seq).collect();
        match (page.front(), page.back()) {
            (Some(first), Some(last)) if first.seq == self.next_seq => self.next_seq = last.seq + 1,
            _ => return Err(ExportFault::Gone),
        }
        Ok(page)
    }
}

/// Bytes of one piece at most: 64 KiB.
pub const PIECE_BYTES_MAX: usize = 64 << 10;
/// Bytes of entries that are read at a time.
const PAGE_BYTES: usize = 1 << 20;
