//! What users are told, as the store takes it and gives it back: an outbox with streams. Looks into none.
//!
//! A notice has a number that is never given twice, and readers go on behind the last number that they saw.
//! Of each stream the newest are kept, and what is old goes with what comes: always those that came first.

use bytes::Bytes;

/// A notice that becomes durable with what it tells of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewNotice {
    /// Whose outbox it goes into.
    pub stream: String,
    /// Unix milliseconds.
    pub at: i64,
    /// Opaque to the store.
    pub record: Bytes,
    /// Of its stream, how many of the newest are kept, about.
    pub kept_max: u64,
}

/// A notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredNotice {
    /// Later notices have higher numbers.
    pub number: u64,
    /// Whose outbox it is in.
    pub stream: String,
    /// Counts the notices of the stream; begins anew once all of it is gone.
    pub n: u64,
    /// Unix milliseconds.
    pub at: i64,
    /// Opaque to the store.
    pub record: Bytes,
}
