//! From the bytes of one direction of an HTTP/2 connection to the messages of its gRPC streams.
//! Reads no header: which call a stream is, its first messages tell.

use std::collections::BTreeMap;

/// What passed, with the number of its stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Passed {
    /// A message, without its prefix.
    Message(u32, Vec<u8>),
    /// The sender ended the stream in order.
    End(u32),
}

/// A direction.
#[derive(Debug)]
pub(super) struct Frames {
    /// Bytes of the client's preface that are still to come.
    n_preface: usize,
    /// The beginning of a frame.
    rest: Vec<u8>,
    /// The beginning of a message on each stream.
    streams: BTreeMap<u32, Vec<u8>>,
}

impl Frames {
    pub(super) fn new(has_preface: bool) -> Self {
        Self {
            n_preface: if has_preface { PREFACE_BYTES } else { 0 },
            rest: Vec::new(),
            streams: BTreeMap::new(),
        }
    }

    /// Takes the next bytes and gives what they complete.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Vec<Passed> {
        let n_preface = self.n_preface.min(bytes.len());
        self.n_preface -= n_preface;
        self.rest.extend_from_slice(&bytes[n_preface..]);
        let mut passed = Vec::new();
        let mut at = 0;
        while let Some(header) = self.rest.get(at..at + HEADER_BYTES) {
            let n = usize::from(header[0]) << 16 | usize::from(header[1]) << 8 | usize::from(header[2]);
            let (kind, flags) = (header[3], header[4]);
            let stream = u32::from_be_bytes([header[5] & 0x7f, header[6], header[7], header[8]]);
            let begin = at + HEADER_BYTES;
            let Some(frame) = self.rest.get(begin..begin + n) else {
                break;
            };
            if kind == DATA {
                let data = if flags & PADDED == 0 {
                    frame
                } else {
                    frame
                        .split_first()
                        .and_then(|(pad, data)| data.len().checked_sub(usize::from(*pad)).map(|n| &data[..n]))
                        .unwrap_or_default()
                };
                messages(stream, self.streams.entry(stream).or_default(), data, &mut passed);
            }
            if matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0 {
                self.streams.remove(&stream);
                passed.push(Passed::End(stream));
            }
            at = begin + n;
        }
        self.rest.drain(..at);
        passed
    }
}

fn messages(stream: u32, begun: &mut Vec<u8>, data: &[u8], passed: &mut Vec<Passed>) {
    begun.extend_from_slice(data);
    let mut at = 0;
    while let Some(prefix) = begun.get(at..at + PREFIX_BYTES) {
        let n = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
        let begin = at + PREFIX_BYTES;
        let Some(message) = begun.get(begin..begin + n) else {
            break;
        };
        passed.push(Passed::Message(stream, message.to_vec()));
        at = begin + n;
    }
    begun.drain(..at);
}

/// `PRI * HTTP/2.0`, and what follows it.
const PREFACE_BYTES: usize = 24;
const HEADER_BYTES: usize = 9;
/// True if a message is compressed, which none is, and its length.
const PREFIX_BYTES: usize = 5;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const END_STREAM: u8 = 1;
const PADDED: u8 = 8;
