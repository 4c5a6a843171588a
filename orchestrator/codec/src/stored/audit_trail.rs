//! A stored audit trail, an entry or a few at a time. Decodes the entries that are asked for and no others.

use super::Unreadable;
use super::parts::Parts;
use bytes::Bytes;
use escapement_engine::Piece;
use escapement_wire::v1;
use prost::Message;

/// An encoded `StoredAudit`. Cheap to clone.
#[derive(Clone, Debug)]
pub struct AuditTrail(Bytes);

/// A few entries of a trail.
#[derive(Debug, Default)]
pub struct TrailPiece {
    /// In order, without gaps.
    pub entries: Vec<v1::AuditEntry>,
    /// True if the last of them is not the last of the trail.
    pub has_more: bool,
}

/// A place in a trail, in front of one of its entries. It stays right for as long as the execution is settled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    offset: usize,
}

/// An entry of a trail, and what follows it.
#[derive(Debug)]
pub struct Placed {
    /// The entry.
    pub entry: v1::AuditEntry,
    /// `None` behind the last one.
    pub next: Option<Place>,
}

impl AuditTrail {
    /// Returns the trail in a stored record.
    pub fn new(record: Bytes) -> Self {
        Self(record)
    }

    /// Returns the bytes of the record.
    pub fn n_bytes(&self) -> usize {
        self.0.len()
    }

    /// Returns the entries from a sequence number on, as many as there are and fit. One fits, however large.
    ///
    /// # Errors
    /// [`Unreadable`] if an entry up to the last one wanted does not decode.
    pub fn piece(&self, from_sequence: u64, wanted: Piece) -> Result<TrailPiece, Unreadable> {
        let mut piece = TrailPiece::default();
        let mut bytes = 0;
        for (found, sequence) in self.entries(Place::default()).zip(1..) {
            let (entry, _) = found?;
            if sequence < from_sequence {
                continue;
            }
            bytes += entry.len();
            let fits = piece.entries.len() < wanted.entries_max && bytes <= wanted.bytes_max;
            if !fits && !piece.entries.is_empty() {
                piece.has_more = true;
                break;
            }
            piece.entries.push(decode(entry)?);
        }
        Ok(piece)
    }

    /// Returns the place of an entry, or of the last one if there are fewer; `None` if the entry before it does not have the
    /// hash `after`.
    ///
    /// # Errors
    /// [`Unreadable`] if an entry up to it does not decode, or there is none.
    pub fn find(&self, from_sequence: u64, after: Option<&[u8]>) -> Result<Option<Place>, Unreadable> {
        let mut place = None;
        let mut before = None;
        let mut next_offset = 0;
        for (found, sequence) in self.entries(Place::default()).zip(1..=from_sequence.max(1)) {
            let (entry, behind) = found?;
            if sequence + 1 == from_sequence {
                before = Some(entry);
            }
            place = Some(Place { offset: next_offset });
            next_offset = behind;
        }
        if let Some(after) = after {
            let before = before.map(decode).transpose()?;
            if before.is_none_or(|before| before.hash != after) {
                return Ok(None);
            }
        }
        place.map(Some).ok_or_else(nothing_there)
    }

    /// Returns the entry at a place.
    ///
    /// # Errors
    /// [`Unreadable`] if it does not decode, or there is none.
    pub fn at(&self, place: Place) -> Result<Placed, Unreadable> {
        let mut entries = self.entries(place);
        let (entry, offset) = entries.next().ok_or_else(nothing_there)??;
        let has_more = entries.next().transpose()?.is_some();
        Ok(Placed {
            entry: decode(entry)?,
            next: has_more.then_some(Place { offset }),
        })
    }

    /// Returns the encoded entries from a place on, each with the offset behind it.
    fn entries(&self, from: Place) -> impl Iterator<Item = Result<(Bytes, usize), Unreadable>> {
        let n_bytes = self.0.len();
        let mut parts = Parts::of(self.0.slice(from.offset.min(n_bytes)..));
        std::iter::from_fn(move || {
            loop {
                match parts.next()? {
                    Ok((ENTRIES_TAG, entry)) => return Some(Ok((entry, n_bytes - parts.n_bytes_left()))),
                    Ok(_) => {}
                    Err(unreadable) => return Some(Err(unreadable)),
                }
            }
        })
    }
}

fn decode(entry: Bytes) -> Result<v1::AuditEntry, Unreadable> {
    v1::AuditEntry::decode(entry).map_err(Unreadable::Wire)
}

/// What ended has entries.
fn nothing_there() -> Unreadable {
    Unreadable::Meaningless("it has no such entry".to_owned())
}

/// `entries` of `StoredAudit`.
pub(crate) const ENTRIES_TAG: u32 = 1;

#[cfg(test)]
mod tests;
