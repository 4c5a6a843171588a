//! A run's journal as a file: frames behind a first line, with a digest over all of it at the end.
//! Opens no file, and decides nothing about the run.
//!
//! `proto/RUN_RECORD.md` is the format.

mod read;
mod write;

pub use read::{RecordFault, RecordedEntry, RunRecord, is_record, read};
pub use write::RecordWriter;

use alloc::string::String;
use bytes::Bytes;
use prost::Message;

/// How every file begins.
pub const FIRST_LINE: &[u8] = b"escapement run record file 1\n";
/// Bytes of an entry at most: 2 MiB.
pub const ENTRY_BYTES_MAX: usize = 2 << 20;
/// Bytes of a content at most: 20 MiB.
pub const CONTENT_BYTES_MAX: usize = 20 << 20;

/// The fields of a frame: what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tag {
    Header = 1,
    Entry = 2,
    Content = 3,
    End = 4,
}

impl Tag {
    fn of(number: u32) -> Option<Self> {
        let tags = [Tag::Header, Tag::Entry, Tag::Content, Tag::End];
        tags.into_iter().find(|tag| *tag as u32 == number)
    }

    /// Bytes of such a part at most: decoding a larger one could take any memory.
    fn bytes_max(self) -> usize {
        match self {
            Tag::Header | Tag::End => SMALL_PART_BYTES_MAX,
            Tag::Entry => ENTRY_BYTES_MAX + SMALL_PART_BYTES_MAX,
            Tag::Content => CONTENT_BYTES_MAX,
        }
    }
}

/// Whose record it is.
#[derive(Clone, PartialEq, Message)]
struct Header {
    /// A UUID in lower case.
    #[prost(string, tag = "1")]
    run_id: String,
}

/// An entry of the journal.
#[derive(Clone, PartialEq, Message)]
struct Linked {
    /// Its hash in the chain, 32 bytes.
    #[prost(bytes = "bytes", tag = "1")]
    link: Bytes,
    /// The encoded entry.
    #[prost(bytes = "bytes", tag = "2")]
    entry: Bytes,
}

/// What was written.
#[derive(Clone, PartialEq, Message)]
struct End {
    /// Entries.
    #[prost(uint64, tag = "1")]
    entries: u64,
    /// Contents.
    #[prost(uint64, tag = "2")]
    contents: u64,
    /// SHA-256 of all bytes before the last frame.
    #[prost(bytes = "bytes", tag = "3")]
    digest: Bytes,
}

/// Bytes of a part without an entry or a content, and of what stands around them.
const SMALL_PART_BYTES_MAX: usize = 1 << 10;
