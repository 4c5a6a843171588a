//! The frames of a record file, read and written. Looks into no content but that of the last frame.

use super::{Finding, Hash, Place};
use escapement_wire::v1;
use prost::Message;
use sha2::{Digest, Sha256};

/// How a record file begins.
pub const FIRST_LINE: &[u8] = b"escapement record file 1\n";

/// Which part a frame holds. Its number is that of the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the page names them")]
pub enum Kind {
    Header = 1,
    Accepted = 2,
    Entry = 3,
    Inputs = 4,
    Result = 5,
    Seal = 6,
    End = 7,
}

/// A frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Which part it holds.
    pub kind: Kind,
    /// That part, encoded.
    pub content: &'a [u8],
    /// Bytes of the file before it.
    pub from: usize,
    /// Bytes of the file up to its end.
    pub to: usize,
}

/// The frames up to the first that is not one, with what is wrong there: with it, with the order, or with the last frame.
pub fn frames(file: &[u8]) -> (Vec<Frame<'_>>, Option<Finding>) {
    let mut frames: Vec<Frame<'_>> = Vec::new();
    let finding = |place, what: &str| {
        Some(Finding {
            place,
            what: what.to_owned(),
        })
    };
    let Some(mut rest) = file.strip_prefix(FIRST_LINE) else {
        return (
            frames,
            finding(Place::FirstLine, "the file does not begin as one"),
        );
    };
    loop {
        let from = file.len() - rest.len();
        let place = next_place(&frames);
        if rest.is_empty() {
            return (frames, finding(place, "the file is cut off"));
        }
        let Some((kind, content)) = frame(&mut rest) else {
            return (frames, finding(place, "no frame can be read here"));
        };
        if !may_follow(&frames, kind) {
            return (
                frames,
                finding(place, "a frame is missing, or comes twice, or out of order"),
            );
        }
        frames.push(Frame {
            kind,
            content,
            from,
            to: file.len() - rest.len(),
        });
        if kind == Kind::End {
            let wrong = end_is_wrong(file, &frames, content, rest);
            return (frames, wrong.and_then(|what| finding(Place::End, what)));
        }
    }
}

/// Writes frames into a file, with an end that fits.
pub fn write<'a>(parts: impl IntoIterator<Item = (Kind, &'a [u8])>) -> Vec<u8> {
    let mut file = FIRST_LINE.to_vec();
    let mut n_frames = 0;
    for (kind, content) in parts.into_iter().filter(|(kind, _)| *kind != Kind::End) {
        put_frame(&mut file, kind, content);
        n_frames += 1;
    }
    let digest: Hash = Sha256::digest(&file).into();
    let end = v1::RecordEnd {
        frames: n_frames,
        digest: digest.to_vec(),
    };
    put_frame(&mut file, Kind::End, &end.encode_to_vec());
    file
}

fn put_frame(file: &mut Vec<u8>, kind: Kind, content: &[u8]) {
    let mut message = vec![(kind as u8) << 3 | 2];
    put_varint(&mut message, content.len());
    message.extend_from_slice(content);
    put_varint(file, message.len());
    file.extend_from_slice(&message);
}

fn put_varint(to: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        to.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Length, key, length of the content, content.
fn frame<'a>(rest: &mut &'a [u8]) -> Option<(Kind, &'a [u8])> {
    let length = usize::try_from(shortest_varint(rest)?).ok()?;
    let (mut message, behind) = rest.split_at_checked(length)?;
    let key = shortest_varint(&mut message)?;
    let kind = match (key >> 3, key & 7) {
        (1, 2) => Kind::Header,
        (2, 2) => Kind::Accepted,
        (3, 2) => Kind::Entry,
        (4, 2) => Kind::Inputs,
        (5, 2) => Kind::Result,
        (6, 2) => Kind::Seal,
        (7, 2) => Kind::End,
        _ => return None,
    };
    let length = usize::try_from(shortest_varint(&mut message)?).ok()?;
    // Exactly one field.
    (message.len() == length).then_some(())?;
    *rest = behind;
    Some((kind, message))
}

/// Where a reader stands behind these frames.
fn next_place(frames: &[Frame<'_>]) -> Place {
    let n_entries = frames.iter().filter(|frame| frame.kind == Kind::Entry).count() as u64;
    match frames.last().map(|frame| frame.kind) {
        None => Place::Header,
        Some(Kind::Header) => Place::Accepted,
        // Nobody knows how many there are.
        Some(Kind::Accepted | Kind::Entry) => Place::Entry(n_entries + 1),
        Some(Kind::Inputs) => Place::Result,
        Some(Kind::Result) => Place::Seal,
        Some(Kind::Seal | Kind::End) => Place::End,
    }
}

/// Returns the order of the page. Inputs and seal may be missing for a record of an earlier version, both or none.
fn may_follow(frames: &[Frame<'_>], kind: Kind) -> bool {
    let has_inputs = frames.iter().any(|frame| frame.kind == Kind::Inputs);
    match (frames.last().map(|frame| frame.kind), kind) {
        (None, Kind::Header)
        | (Some(Kind::Header), Kind::Accepted)
        | (Some(Kind::Accepted | Kind::Entry), Kind::Entry)
        | (Some(Kind::Accepted | Kind::Entry), Kind::Inputs | Kind::Result)
        | (Some(Kind::Inputs), Kind::Result)
        | (Some(Kind::Seal), Kind::End) => true,
        (Some(Kind::Result), Kind::Seal) => has_inputs,
        (Some(Kind::Result), Kind::End) => !has_inputs,
        _ => false,
    }
}

fn end_is_wrong(file: &[u8], frames: &[Frame<'_>], content: &[u8], rest: &[u8]) -> Option<&'static str> {
    let (last, before) = frames.split_last()?;
    let Ok(end) = v1::RecordEnd::decode(content) else {
        return Some("it does not decode");
    };
    let digest: Hash = Sha256::digest(&file[..last.from]).into();
    if end.frames != before.len() as u64 {
        Some("it counts other frames")
    } else if end.digest != digest {
        Some("the file has another digest")
    } else if end.encode_to_vec() != content {
        Some("it is spelt in another way")
    } else if !rest.is_empty() {
        Some("something follows the last frame")
    } else {
        None
    }
}

/// Returns a number of at most ten bytes; `None` if there is none.
pub(super) fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, behind) = rest.split_first()?;
        *rest = behind;
        number |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn shortest_varint(rest: &mut &[u8]) -> Option<u64> {
    let before = *rest;
    let number = varint(rest)?;
    let n_bytes = before.len() - rest.len();
    let is_shortest = n_bytes == 1 || before[n_bytes - 1] != 0;
    is_shortest.then_some(number)
}
