//! Joins runs and their store: which entries share a commit, what may leave once it is durable, what a start takes up.
//! Has no thread, no channel and no clock, and submits nothing: `handle_*` is told what has come, `poll_*` says what to do.

#![warn(clippy::too_many_lines)]

mod changes;
mod contents;
mod definitions;
mod export;
mod host;
mod limits;
mod lost;
mod plans;
mod recent;
mod recovery;
mod remains;
mod revisions;
mod sessions;
mod writes;

pub use changes::{Basis, Deciding, DurableChanges};
pub use definitions::{EventKind, event, stop_mark};
pub use export::{ExportFault, PIECE_BYTES_MAX, RunExport};
pub use host::{Create, Ended, Fork, Handled, NotCreated, NotForked, RunsHost};
pub use lost::guarded;
pub use recovery::{Damaged, StoredRunFault, look_at_stored, stored_session};
pub use remains::Remains;
pub use revisions::documents_below;
pub use sessions::SessionDeleted;
pub use writes::{Links, request_state_byte, state_byte};
