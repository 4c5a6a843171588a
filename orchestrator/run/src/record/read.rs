//! Reads a record and checks all of it that can be checked without the law: frames, chain, contents, digest.

use super::write::new_ones;
use super::{End, FIRST_LINE, Header, Linked, Tag};
use crate::ids::RunId;
use crate::input::Blobs;
use crate::journal::{Entry, Event};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::ToString;
use alloc::vec::Vec;
use bytes::{Buf, Bytes};
use core::fmt;
use escapement_model::chain::{Link, chain_begin, chain_next};
use escapement_model::encoder::sha256;
use prost::Message;
use prost::encoding::{WireType, decode_key, decode_varint, encoded_len_varint};

/// A record, as far as it could be read.
#[derive(Clone, Debug)]
pub struct RunRecord {
    /// Whose it is.
    pub run_id: RunId,
    /// The journal, from its first entry on.
    pub entries: Vec<RecordedEntry>,
    /// What the entries refer to, by SHA-256.
    pub contents: BTreeMap<[u8; 32], Bytes>,
}

/// An entry as it was recorded.
#[derive(Clone, Debug)]
pub struct RecordedEntry {
    /// Its hash in the chain, as the file has it.
    pub link: Link,
    /// The encoded entry.
    pub bytes: Bytes,
    /// The same, readable.
    pub entry: Entry,
}

impl RunRecord {
    /// True if the last entry is the end of the run.
    pub fn is_complete(&self) -> bool {
        let last = self.entries.last().and_then(|last| last.entry.event.as_ref());
        last.is_some_and(Event::is_end)
    }
}

impl Blobs for RunRecord {
    /// Empty if the record has no content of that digest; in one that was read without a fault every entry has its own.
    fn blob(&self, digest: &[u8; 32]) -> Bytes {
        self.contents.get(digest).cloned().unwrap_or_default()
    }
}

/// Why a file is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordFault {
    /// Bytes of the file before what is wrong.
    pub at: usize,
    /// The entry that is wrong, or whose content is, or that should stand here; `None` if another part of the file is wrong.
    pub sequence: Option<u64>,
    /// What it is.
    pub what: &'static str,
}

impl fmt::Display for RecordFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, what, .. } = self;
        write!(f, "at byte {at}: {what}")
    }
}

impl core::error::Error for RecordFault {}

/// True for bytes that begin as a record of a run does.
pub fn is_record(bytes: &[u8]) -> bool {
    bytes.starts_with(FIRST_LINE)
}

/// Reads a file; copies nothing of it. Returns what could be read, and what is wrong: nothing for a whole file. Goes on behind
/// an entry whose hash is wrong, and stops where no frame can be read any more.
///
/// # Errors
/// [`RecordFault`] if there is no record: another file, or a header that cannot be read.
pub fn read(bytes: &Bytes) -> Result<(RunRecord, Vec<RecordFault>), RecordFault> {
    let mut reader = Reader {
        bytes,
        at: 0,
        begins_at: 0,
        sequence: None,
        faults: Vec::new(),
    };
    if !is_record(bytes) {
        return Err(reader.fault("this is no record of a run"));
    }
    reader.at = FIRST_LINE.len();
    let run_id = match reader.frame()? {
        (Tag::Header, header) => reader.run_id(header)?,
        _ => return Err(reader.fault("the header should stand here")),
    };
    let mut record = RunRecord {
        run_id,
        entries: Vec::new(),
        contents: BTreeMap::new(),
    };
    if let Err(fault) = reader.entries(&mut record) {
        reader.faults.push(fault);
    }
    Ok((record, reader.faults))
}

struct Reader<'a> {
    bytes: &'a Bytes,
    at: usize,
    /// Where the last frame begins.
    begins_at: usize,
    /// What a fault is about.
    sequence: Option<u64>,
    faults: Vec<RecordFault>,
}

impl Reader<'_> {
    fn fault(&self, what: &'static str) -> RecordFault {
        RecordFault {
            at: self.begins_at,
            sequence: self.sequence,
            what,
        }
    }

    fn note(&mut self, what: &'static str) {
        self.faults.push(self.fault(what));
    }

    fn frame(&mut self) -> Result<(Tag, Bytes), RecordFault> {
        self.begins_at = self.at;
        let mut rest = self.bytes.slice(self.at..);
        if rest.is_empty() {
            return Err(self.fault("the file ends without its end"));
        }
        let cut_off = || self.fault("the frame is cut off");
        let mut frame = delimited(&mut rest).ok_or_else(cut_off)?;
        let n_header_bytes = self.bytes.len() - self.at - rest.len() - frame.len();
        if n_header_bytes != encoded_len_varint(frame.len() as u64) {
            return Err(self.fault("the length of the frame is spelt in more bytes than it needs"));
        }
        let no_part = || self.fault("the frame holds no part");
        let (tag, wire_type) = decode_key(&mut frame).map_err(|_| no_part())?;
        let tag = Tag::of(tag).filter(|_| wire_type == WireType::LengthDelimited);
        let tag = tag.ok_or_else(|| self.fault("the frame holds a part of an unknown kind"))?;
        let part = delimited(&mut frame).ok_or_else(no_part)?;
        if part.len() > tag.bytes_max() {
            return Err(self.fault("the part is larger than any run makes it"));
        }
        if frame.has_remaining() {
            return Err(self.fault("the frame holds more than one part"));
        }
        self.at = self.bytes.len() - rest.len();
        Ok((tag, part))
    }

    fn run_id(&self, header: Bytes) -> Result<RunId, RecordFault> {
        let decoded = Header::decode(header).ok();
        let run_id: Option<RunId> = decoded.as_ref().and_then(|header| header.run_id.parse().ok());
        let spelt = run_id.filter(|id| decoded.is_some_and(|header| header.run_id == id.to_string()));
        spelt.ok_or_else(|| self.fault("the run id of the header is none"))
    }

    /// Everything behind the header.
    fn entries(&mut self, record: &mut RunRecord) -> Result<(), RecordFault> {
        let mut link = chain_begin(&record.run_id);
        let mut known = BTreeSet::new();
        let mut awaited: VecDeque<[u8; 32]> = VecDeque::new();
        loop {
            let n_entries = record.entries.len() as u64;
            // The contents of an entry stand behind it; else the next entry should stand here, or the end.
            let expects_entry = awaited.is_empty() && !record.is_complete();
            self.sequence = match (awaited.is_empty(), expects_entry) {
                (false, _) => Some(n_entries),
                (true, true) => Some(n_entries + 1),
                (true, false) => None,
            };
            match self.frame()? {
                (Tag::Content, content) => {
                    let digest = awaited.pop_front();
                    let digest = digest.ok_or_else(|| self.fault("no entry refers to this content"))?;
                    if sha256(&content) != digest {
                        self.note("the content is not the one that the entry refers to");
                    }
                    record.contents.insert(digest, content);
                }
                _ if !awaited.is_empty() => return Err(self.fault("a content of the entry is missing")),
                (Tag::Entry, linked) => {
                    self.sequence = Some(n_entries + 1);
                    let entry = self.entry(linked, &link, record)?;
                    link = entry.link;
                    awaited.extend(new_ones(entry.entry.contents(), &mut known));
                    record.entries.push(entry);
                }
                (Tag::End, end) => {
                    self.sequence = None;
                    self.end(end, record);
                    return Ok(());
                }
                (Tag::Header, _) => return Err(self.fault("an entry should stand here")),
            }
        }
    }

    fn entry(
        &mut self,
        linked: Bytes,
        before: &Link,
        record: &RunRecord,
    ) -> Result<RecordedEntry, RecordFault> {
        let unreadable = |_| self.fault("the entry is unreadable");
        let linked = Linked::decode(linked).map_err(unreadable)?;
        let entry = Entry::decode(linked.entry.clone()).map_err(unreadable)?;
        let sequence = record.entries.len() as u64 + 1;
        let computed = chain_next(before, sequence, &linked.entry);
        let stated = Link::try_from(&linked.link[..]).ok();
        if stated != Some(computed) {
            self.note("the hash of the entry is not the one that its bytes and the entry before have");
        } else if entry.sequence != sequence {
            self.note("the entry has another number");
        }
        if record.is_complete() {
            self.note("the entry stands behind the end of the run");
        }
        let created = match &entry.event {
            Some(Event::RunCreated(created)) => Some(created),
            _ => None,
        };
        match (sequence, created) {
            (1, Some(created)) if created.run_id[..] != record.run_id.as_bytes()[..] => {
                self.note("the entry is of another run");
            }
            (1, None) => self.note("the first entry does not make the run"),
            _ => {}
        }
        Ok(RecordedEntry {
            link: stated.unwrap_or(computed),
            bytes: linked.entry,
            entry,
        })
    }

    /// What the end says of the file before it and is not so.
    fn end(&mut self, bytes: Bytes, record: &RunRecord) {
        let before = &self.bytes[..self.begins_at];
        let written = End {
            entries: record.entries.len() as u64,
            contents: record.contents.len() as u64,
            digest: Bytes::copy_from_slice(&sha256(before)),
        };
        match End::decode(bytes.clone()) {
            Err(_) => self.note("the end does not decode"),
            Ok(end) if (end.entries, end.contents) != (written.entries, written.contents) => {
                self.note("the end counts other entries or contents");
            }
            Ok(end) if end.digest != written.digest => {
                self.note("the bytes of the file have another digest");
            }
            Ok(_) if bytes != written.encode_to_vec() => {
                self.note("the end is not spelt as it is written");
            }
            Ok(_) => {}
        }
        if record.entries.is_empty() {
            self.note("there is no entry");
        }
        if self.at < self.bytes.len() {
            self.begins_at = self.at;
            self.note("there is something behind the end");
        }
    }
}

/// The bytes behind a length; `None` if there are fewer.
fn delimited(rest: &mut Bytes) -> Option<Bytes> {
    let length = usize::try_from(decode_varint(rest).ok()?).ok()?;
    (length <= rest.len()).then(|| rest.split_to(length))
}
