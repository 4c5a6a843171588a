//! Counts the entries of a message's lists before they are decoded.
//! Knows no limit of a single list and no other limit of a message.
//!
//! An empty entry takes two bytes on the wire and some two hundred once it is decoded,
//! so a message of 4 MiB could take hundreds of them.

mod callers;
#[cfg(any(feature = "client", feature = "server"))]
mod codec;
#[cfg(feature = "runs")]
mod runs;

#[cfg(any(feature = "client", feature = "server"))]
pub use codec::{CountingCodec, CountingDecoder};

use crate::worker::v1;
use prost::bytes::Buf;
use prost::encoding::{DecodeContext, decode_key, decode_varint, skip_field};

use Holds::{Entries, Heavy, One};

/// Entries of all lists and maps of one message together; those of [`Holds::Heavy`] lists count as several.
///
/// No valid message comes near: what is within its bytes and has more holds mostly empty entries.
pub const LIST_ENTRIES_MAX: usize = 4 * 65_536;

/// Where a message has lists, its submessages included.
pub trait Counted {
    /// Lists, maps, and the submessages that have some.
    const LISTS: Lists;
    /// True for what callers and operators ask: a refusal says what is wrong with the request, with a reason.
    const IS_ASKED: bool = false;
}

/// The lists of a message, by their tags.
pub type Lists = &'static [(u32, Holds)];

/// What a field holds.
#[derive(Clone, Copy, Debug)]
pub enum Holds {
    /// Entries, each of which counts, and what each of them has inside.
    Entries(Lists),
    /// The same, but each entry counts this many times.
    Heavy(usize, Lists),
    /// A submessage.
    One(Lists),
}

impl Counted for v1::SessionRequest {
    const LISTS: Lists = &[
        (
            2,
            One(&[(7, Entries(ACTION_SPEC)), (9, Entries(&[])), (10, Entries(&[]))]),
        ), // Hello
        (3, One(&[(2, Entries(ACTION_SPEC))])), // RegisterActions
        (4, One(&[(3, Entries(&[]))])),         // Capacity
        (6, One(&[(1, Entries(&[])), (2, Entries(&[])), (3, Entries(&[]))])), // AttemptAcks
        (7, One(OUTCOMES)),
        (8, One(&[(3, Entries(&[]))])), // Snapshot
    ];
}

impl Counted for v1::SessionResponse {
    const LISTS: Lists = &[
        (2, One(&[(7, Entries(&[])), (8, Entries(&[])), (9, Entries(&[]))])), // Welcome
        (3, One(&[(2, Entries(&[]))])),                                       // HeartbeatAck
        (4, One(&[(1, Entries(&[(10, Entries(&[]))]))])),                     // Assignments
        (5, One(&[(1, Entries(&[]))])),                                       // OutcomeAcks
        (6, One(&[(1, Entries(&[]))])),                                       // Cancels
    ];
}

impl Counted for v1::ReportOutcomesRequest {
    const LISTS: Lists = OUTCOMES;
}

impl Counted for v1::ReportOutcomesResponse {
    const LISTS: Lists = &[(1, Entries(&[]))];
}

/// `ActionSpec`: the lists of its traits.
const ACTION_SPEC: Lists = &[(6, One(&[(5, Entries(&[])), (6, Entries(&[]))]))];

/// `Outcomes` and `ReportOutcomesRequest`: items, and the warnings of each success.
const OUTCOMES: Lists = &[(1, Entries(&[(3, One(&[(2, Entries(&[]))]))]))];

/// Returns true if the lists of an encoded message have more entries together.
///
/// Where the message is malformed it counts as far as a decoder would get.
pub fn has_more_entries(mut message: &[u8], lists: Lists, max: usize) -> bool {
    // Each entry has a key and a length of its own, so most messages are too small for too many.
    if (message.len() / 2).saturating_mul(heaviest(lists)) <= max {
        return false;
    }
    let mut left = max;
    count(&mut message, 0, lists, &mut left) == Some(Enough)
}

/// What one entry counts as at the most.
fn heaviest(lists: Lists) -> usize {
    let weights = lists.iter().map(|(_, holds)| match holds {
        One(inner) => heaviest(inner),
        Entries(inner) => heaviest(inner).max(1),
        Heavy(weight, inner) => heaviest(inner).max(*weight),
    });
    weights.max().unwrap_or(0)
}

/// There are more entries than there may be.
#[derive(Debug, PartialEq, Eq)]
struct Enough;

/// Takes the entries from what is left, until `n_behind` bytes remain. Descends as deep as `lists` are.
///
/// The last field of a submessage may reach beyond its end: the decoder reads such a field whole before it refuses it.
fn count(message: &mut &[u8], n_behind: usize, lists: Lists, left: &mut usize) -> Option<Enough> {
    while message.len() > n_behind {
        let (tag, wire_type) = decode_key(message).ok()?;
        // Whatever its wire type: the decoder takes the entry of a map for one with a length in any case,
        // and ends at any other field that has another wire type than it should.
        let Some((_, holds)) = lists.iter().find(|(listed, _)| *listed == tag) else {
            skip_field(wire_type, tag, message, DecodeContext::default()).ok()?;
            continue;
        };
        let length = usize::try_from(decode_varint(message).ok()?).ok()?;
        // What is cut off is decoded up to the cut.
        let n_behind_it = message.len().saturating_sub(length);
        let (weight, inner) = match holds {
            One(inner) => (0, inner),
            Entries(inner) => (1, inner),
            Heavy(weight, inner) => (*weight, inner),
        };
        let Some(fewer) = left.checked_sub(weight) else {
            return Some(Enough);
        };
        *left = fewer;
        if !inner.is_empty()
            && let Some(enough) = count(message, n_behind_it, inner, left)
        {
            return Some(enough);
        }
        // Nothing is decoded behind a field in which something reached too far.
        let n_left_over = message.len().checked_sub(n_behind_it)?;
        message.advance(n_left_over);
    }
    None
}
