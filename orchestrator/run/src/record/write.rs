//! Writes a record, part by part. Holds no part.

use super::{End, FIRST_LINE, Header, Linked, Tag};
use crate::ids::RunId;
use crate::journal::Entry;
use alloc::collections::BTreeSet;
use alloc::string::ToString;
use alloc::vec::Vec;
use bytes::Bytes;
use escapement_model::chain::Link;
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};
use sha2::{Digest, Sha256};

/// Appends the parts of a record to a buffer that the caller empties as it likes; all bytes one after the other are the file.
///
/// First [`RecordWriter::begin`]; then each entry of the journal with [`RecordWriter::entry`], and behind it the contents that
/// this asks for with [`RecordWriter::content`]; then [`RecordWriter::end`].
#[derive(Debug)]
pub struct RecordWriter {
    /// Over all bytes so far.
    digest: Sha256,
    n_entries: u64,
    n_contents: u64,
    /// Contents that stand in the file, or must stand there next.
    known: BTreeSet<[u8; 32]>,
}

impl RecordWriter {
    /// Begins the record of a run.
    pub fn begin(run_id: RunId, out: &mut Vec<u8>) -> Self {
        let mut writer = Self {
            digest: Sha256::new(),
            n_entries: 0,
            n_contents: 0,
            known: BTreeSet::new(),
        };
        out.extend_from_slice(FIRST_LINE);
        writer.digest.update(FIRST_LINE);
        let header = Header {
            run_id: run_id.to_string(),
        };
        writer.frame(Tag::Header, &header.encode_to_vec(), out);
        writer
    }

    /// Appends the next entry. Returns which contents must follow, in this order: those that no earlier entry refers to.
    ///
    /// # Errors
    /// [`prost::DecodeError`] if the entry is unreadable: then nothing is appended.
    pub fn entry(
        &mut self,
        link: &Link,
        entry: &Bytes,
        out: &mut Vec<u8>,
    ) -> Result<Vec<[u8; 32]>, prost::DecodeError> {
        let contents = Entry::decode(entry.clone())?.contents();
        let linked = Linked {
            link: Bytes::copy_from_slice(link),
            entry: entry.clone(),
        };
        self.frame(Tag::Entry, &linked.encode_to_vec(), out);
        self.n_entries += 1;
        Ok(new_ones(contents, &mut self.known))
    }

    /// Appends a content.
    pub fn content(&mut self, content: &[u8], out: &mut Vec<u8>) {
        self.frame(Tag::Content, content, out);
        self.n_contents += 1;
    }

    /// Appends the end.
    pub fn end(mut self, out: &mut Vec<u8>) {
        let digest: [u8; 32] = core::mem::take(&mut self.digest).finalize().into();
        let end = End {
            entries: self.n_entries,
            contents: self.n_contents,
            digest: Bytes::copy_from_slice(&digest),
        };
        self.frame(Tag::End, &end.encode_to_vec(), out);
    }

    fn frame(&mut self, tag: Tag, part: &[u8], out: &mut Vec<u8>) {
        let begins_at = out.len();
        let length = part.len() as u64;
        let n_bytes = key_len(tag as u32) + encoded_len_varint(length) + part.len();
        encode_varint(n_bytes as u64, out);
        encode_key(tag as u32, WireType::LengthDelimited, out);
        encode_varint(length, out);
        out.extend_from_slice(part);
        self.digest.update(&out[begins_at..]);
    }
}

/// Those that are not known yet, each once; they are known from now on.
pub(super) fn new_ones(digests: Vec<[u8; 32]>, known: &mut BTreeSet<[u8; 32]>) -> Vec<[u8; 32]> {
    digests
        .into_iter()
        .filter(|digest| known.insert(*digest))
        .collect()
}
