//! Every bound of a write, in bytes or pieces. What goes beyond one is refused.

/// Bytes of one entry of a journal; what is larger goes into a [`Content`](super::Content).
pub const ENTRY_BYTES_MAX: usize = 2 << 20;
/// Bytes of a snapshot.
pub const SNAPSHOT_BYTES_MAX: usize = 80 << 20;
/// Bytes of one content.
pub const CONTENT_BYTES_MAX: usize = 20 << 20;
/// Bytes of the record of an input request.
pub const INPUT_REQUEST_BYTES_MAX: usize = 64 << 10;
/// Bytes of the record of a definition; the documents that it refers to are contents.
pub const DEFINITION_BYTES_MAX: usize = 2 << 20;
/// Bytes of what a page of definitions, or of input requests, has, about.
pub const PAGE_BYTES_MAX: usize = 4 << 20;
/// Rows that are looked at for one page of a list, about: beyond them a page ends, however few it has.
pub const ROWS_LOOKED_AT_MAX: usize = 10_000;
/// Bytes of the record of a notice.
pub const NOTICE_BYTES_MAX: usize = 128 << 10;
/// Notices of the stream of a user or a session that are kept, about.
pub const NOTICES_PER_STREAM_MAX: u64 = 1_000;
/// Notices of what becomes of requests that are kept, about: they are one stream for all users.
pub const INBOX_CHANGES_MAX: u64 = 100_000;
/// Milliseconds after which a notice is old: 7 days.
pub const NOTICE_AGE_MS_MAX: i64 = 7 * 86_400_000;
/// Bytes of a name in the index columns: owner, links, the client's request, definitions.
pub const NAME_BYTES_MAX: usize = 1024;
/// Entries of one run, ever.
pub const ENTRIES_MAX: u64 = u32::MAX as u64 - 1;
/// Runs that one step of removal removes at most, and removed ones whose ids it forgets.
pub const RUNS_REMOVED_PER_STEP_MAX: usize = 32;
/// Entries of their journals at which such a step ends early.
pub const ENTRIES_REMOVED_PER_STEP_MAX: u64 = 4096;
