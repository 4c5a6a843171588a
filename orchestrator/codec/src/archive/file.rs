//! A record as a file: frames behind a first line, with a digest over all of it at the end. Judges no content.
//!
//! `proto/RECORD.md` is the format.

use super::Archive;
use crate::stored::parts::delimited;
use bytes::{Buf, Bytes, BytesMut};
use escapement_model::limits::{CALLER_MESSAGE_BYTES_MAX, INPUT_LOG_BYTES_MAX, RESULT_BYTES_MAX};
use escapement_wire::v1;
use prost::Message;
use prost::encoding::{WireType, decode_key, encode_key, encode_varint, encoded_len_varint};
use sha2::{Digest, Sha256};
use std::fmt;

/// How every record file begins.
pub const FIRST_LINE: &[u8] = b"escapement record file 1\n";
/// Bytes of one piece at most: 64 KiB.
pub const PIECE_BYTES_MAX: usize = 64 << 10;

/// A file that was read: its record, and what is wrong with the file around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveFile {
    /// What the frames hold.
    pub archive: Archive,
    /// Reason why the file is not as it was written, although its frames can be read. Empty for a whole file.
    pub faults: Vec<FileFault>,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFault {
    /// Bytes before it.
    pub at: usize,
    /// Frames before it.
    pub n_frames: u64,
    /// The entry that should stand here; `None` if another part should.
    pub sequence: Option<u64>,
    /// What it is.
    pub what: &'static str,
}

impl fmt::Display for FileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            at, n_frames, what, ..
        } = self;
        write!(f, "behind {n_frames} frames, at byte {at}: {what}")
    }
}

impl std::error::Error for FileFault {}

/// Returns true for bytes that begin as a record file does.
pub fn is_archive(bytes: &[u8]) -> bool {
    bytes.starts_with(FIRST_LINE)
}

/// Returns the file of a record, piece by piece. Holds the archive and one piece.
pub fn pieces(archive: Archive) -> Pieces {
    let header = v1::RecordHeader {
        execution_id: archive.execution_id.to_string(),
        request_digest: archive.request_digest.to_vec(),
    };
    let entries = archive.entries.into_iter().map(|entry| (Tag::Entry, entry));
    let frames = [
        (Tag::Header, Bytes::from(header.encode_to_vec())),
        (Tag::Accepted, archive.accepted),
    ];
    let frames = frames
        .into_iter()
        .chain(entries)
        .chain(archive.inputs.map(|inputs| (Tag::Inputs, inputs)))
        .chain([(Tag::Result, archive.result)])
        .chain(archive.seal.map(|seal| (Tag::Seal, seal)));
    Pieces {
        frames: Box::new(frames),
        prefix: Bytes::from_static(FIRST_LINE),
        body: Bytes::new(),
        n_frames: 0,
        digest: Some(Sha256::new()),
    }
}

/// See [`pieces`].
pub struct Pieces {
    frames: Box<dyn Iterator<Item = (Tag, Bytes)> + Send>,
    /// What comes next.
    prefix: Bytes,
    /// What comes behind it.
    body: Bytes,
    n_frames: u64,
    /// Over all bytes so far; `None` once the end was written.
    digest: Option<Sha256>,
}

impl fmt::Debug for Pieces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pieces")
            .field("n_frames", &self.n_frames)
            .finish_non_exhaustive()
    }
}

impl Pieces {
    /// Makes the next frame the one that is written; false if the end was written.
    fn next_frame(&mut self) -> bool {
        let (tag, body) = match self.frames.next() {
            Some(frame) => frame,
            None => {
                let Some(digest) = self.digest.take() else {
                    return false;
                };
                let end = v1::RecordEnd {
                    frames: self.n_frames,
                    digest: digest.finalize().to_vec(),
                };
                (Tag::End, Bytes::from(end.encode_to_vec()))
            }
        };
        let mut key = Vec::with_capacity(KEY_BYTES);
        encode_key(tag as u32, WireType::LengthDelimited, &mut key);
        encode_varint(body.len() as u64, &mut key);
        let mut prefix = BytesMut::with_capacity(2 * KEY_BYTES);
        encode_varint((key.len() + body.len()) as u64, &mut prefix);
        prefix.extend_from_slice(&key);
        self.prefix = prefix.freeze();
        self.body = body;
        self.n_frames += 1;
        true
    }
}

impl Iterator for Pieces {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let mut piece = BytesMut::new();
        while piece.len() < PIECE_BYTES_MAX {
            let part = if self.prefix.is_empty() {
                &mut self.body
            } else {
                &mut self.prefix
            };
            if part.is_empty() {
                if self.next_frame() {
                    continue;
                }
                break;
            }
            let taken = part.split_to(part.len().min(PIECE_BYTES_MAX - piece.len()));
            if let Some(digest) = &mut self.digest {
                digest.update(&taken);
            }
            piece.extend_from_slice(&taken);
        }
        (!piece.is_empty()).then(|| piece.freeze())
    }
}

/// Reads a file; copies nothing of it.
///
/// # Errors
/// [`FileFault`] if it is no record file, a frame cannot be read, or a part is missing.
pub fn read(bytes: &Bytes) -> Result<ArchiveFile, FileFault> {
    let mut reader = Reader {
        bytes,
        at: 0,
        n_frames: 0,
        expects_entry: false,
        n_entries: 0,
    };
    if !is_archive(bytes) {
        return Err(reader.fault("this is no record file"));
    }
    reader.at = FIRST_LINE.len();
    let header = reader.frame_of(Tag::Header)?;
    let header = v1::RecordHeader::decode(header).map_err(|_| reader.fault("the header does not decode"))?;
    let execution_id = header.execution_id.parse();
    let execution_id = execution_id.map_err(|_| reader.fault("the execution id of the header is none"))?;
    let request_digest = header.request_digest.try_into();
    let request_digest = request_digest.map_err(|_| reader.fault("the request digest has not 32 bytes"))?;
    let accepted = reader.frame_of(Tag::Accepted)?;
    reader.expects_entry = true;
    let (mut entries, mut inputs, mut seal) = (Vec::new(), None, None);
    let (mut tag, mut body, mut begins_at) = reader.frame()?;
    while tag == Tag::Entry {
        entries.push(body);
        reader.n_entries += 1;
        if entries.len() > ENTRIES_MAX {
            return Err(reader.fault("there are more entries than any execution makes"));
        }
        (tag, body, begins_at) = reader.frame()?;
    }
    // What is neither may be an entry that was bent.
    reader.expects_entry = !matches!(tag, Tag::Inputs | Tag::Result);
    if tag == Tag::Inputs {
        inputs = Some(body);
        (tag, body, begins_at) = reader.frame()?;
    }
    if tag != Tag::Result {
        return Err(reader.fault_of_frame(begins_at, "the result should stand here"));
    }
    let archive = |seal| Archive {
        execution_id,
        request_digest,
        accepted,
        entries,
        inputs,
        result: body,
        seal,
    };
    let mut next = reader.frame();
    if let Ok((Tag::Seal, body, _)) = next {
        seal = Some(body);
        next = reader.frame();
    }
    let faults = match next {
        Ok((Tag::End, end, begins_at)) => reader.faults_of_end(end, begins_at),
        Ok((_, _, begins_at)) => {
            vec![reader.fault_of_frame(begins_at, "the end should stand here")]
        }
        Err(fault) => vec![fault],
    };
    Ok(ArchiveFile {
        archive: archive(seal),
        faults,
    })
}

struct Reader<'a> {
    bytes: &'a Bytes,
    at: usize,
    n_frames: u64,
    expects_entry: bool,
    n_entries: u64,
}

impl Reader<'_> {
    fn fault(&self, what: &'static str) -> FileFault {
        FileFault {
            at: self.at,
            n_frames: self.n_frames,
            sequence: self.expects_entry.then_some(self.n_entries + 1),
            what,
        }
    }

    /// Returns the next frame, and where it begins.
    fn frame(&mut self) -> Result<(Tag, Bytes, usize), FileFault> {
        let begins_at = self.at;
        let mut rest = self.bytes.slice(self.at..);
        if rest.is_empty() {
            return Err(self.fault("the file ends without its end"));
        }
        let mut frame = delimited(&mut rest).map_err(|_| self.fault("the frame is cut off"))?;
        let length = frame.len();
        let header_bytes = self.bytes.len() - begins_at - rest.len() - length;
        if header_bytes != encoded_len_varint(length as u64) {
            return Err(self.fault("the length of the frame is spelt in more bytes than it needs"));
        }
        let no_frame = |_| self.fault("the frame holds no part");
        let (tag, wire_type) = decode_key(&mut frame).map_err(no_frame)?;
        let tag = Tag::of(tag).filter(|_| wire_type == WireType::LengthDelimited);
        let tag = tag.ok_or_else(|| self.fault("the frame holds a part of an unknown kind"))?;
        let body = delimited(&mut frame).map_err(|_| self.fault("the frame holds no part"))?;
        if body.len() > tag.bytes_max() {
            return Err(self.fault("the part is larger than any execution makes it"));
        }
        if frame.has_remaining() {
            return Err(self.fault("the frame holds more than one part"));
        }
        self.at = self.bytes.len() - rest.len();
        self.n_frames += 1;
        Ok((tag, body, begins_at))
    }

    fn frame_of(&mut self, expected: Tag) -> Result<Bytes, FileFault> {
        let (tag, body, begins_at) = self.frame()?;
        if tag == expected {
            return Ok(body);
        }
        Err(self.fault_of_frame(begins_at, "another part should stand here"))
    }

    /// Returns the frame that was just read, and began there, should be another one.
    fn fault_of_frame(&mut self, begins_at: usize, what: &'static str) -> FileFault {
        self.at = begins_at;
        self.n_frames -= 1;
        self.fault(what)
    }

    /// What the end says of the file before it and is not so.
    fn faults_of_end(&mut self, end: Bytes, begins_at: usize) -> Vec<FileFault> {
        let mut faults = Vec::new();
        if self.at < self.bytes.len() {
            faults.push(self.fault("there is something behind the end"));
        }
        self.at = begins_at;
        self.n_frames -= 1;
        match v1::RecordEnd::decode(end.clone()) {
            Err(_) => faults.push(self.fault("the end does not decode")),
            Ok(said) => {
                if said.frames != self.n_frames {
                    faults.push(self.fault("the end counts other frames"));
                }
                let digest = Sha256::digest(&self.bytes[..begins_at]);
                if said.digest != digest[..] {
                    faults.push(self.fault("the bytes of the file have another digest"));
                }
                if said.encode_to_vec() != end {
                    faults.push(self.fault("the end is not spelt as it is written"));
                }
            }
        }
        faults
    }
}

/// The fields of `RecordFrame`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tag {
    Header = 1,
    Accepted = 2,
    Entry = 3,
    Inputs = 4,
    Result = 5,
    Seal = 6,
    End = 7,
}

impl Tag {
    fn of(number: u32) -> Option<Self> {
        use Tag::{Accepted, End, Entry, Header, Inputs, Result, Seal};
        let tags = [Header, Accepted, Entry, Inputs, Result, Seal, End];
        tags.into_iter().find(|tag| *tag as u32 == number)
    }

    /// Returns the bytes of such a part at most: decoding a larger one could take any memory.
    fn bytes_max(self) -> usize {
        match self {
            Tag::Header | Tag::Seal | Tag::End => SMALL_PART_BYTES_MAX,
            Tag::Accepted => CALLER_MESSAGE_BYTES_MAX,
            Tag::Entry => ENTRY_BYTES_MAX,
            Tag::Inputs => INPUTS_BYTES_MAX,
            Tag::Result => RESULT_BYTES_MAX,
        }
    }
}

/// Bytes of a part without lists.
const SMALL_PART_BYTES_MAX: usize = 1 << 10;
/// Entries of a record: several times as many as there can be.
const ENTRIES_MAX: usize = 1 << 17;
/// Bytes of an entry: more than one with as many warnings as there can be.
const ENTRY_BYTES_MAX: usize = 4 << 20;
/// Bytes of the inputs: what is kept of them, and an output that was refused.
const INPUTS_BYTES_MAX: usize = 4 * INPUT_LOG_BYTES_MAX;

/// Bytes of a key and a length at most.
const KEY_BYTES: usize = 11;

#[cfg(test)]
mod tests;
