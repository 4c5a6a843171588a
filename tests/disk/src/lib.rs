//! A disk in memory below the embedded store, for tests: power cuts, killed processes, full disks, failing
//! calls, flipped bits. Has no clock, no thread and no chance of its own: the same calls and the same dice give
//! the same disk.
//!
//! Below SQLite it is one VFS for the whole process; the first part of a path says which disk is meant.
//! Beside SQLite it is a [`Files`](escapement_store::Files).
//!
//! What the model knows of a disk: a write is in the page cache at once and durable behind a sync of its file;
//! until then a power cut keeps, loses or tears each sector of 512 bytes of it on its own, in any order. Names
//! are durable behind a sync of the directory. Bytes beside those that a write covers never change with it.
//! What it does not know: folders (every path below the root is a name), renames, file rights, slow calls.
//!
//! Waiting for a lock does not wait: give the store inline checkpoints and drive it from one thread, or expect
//! `Busy` at once.

mod disk;
mod files;
mod handle;
mod inode;
mod locks;
mod names;
mod plan;
mod state;
mod vfs;

pub use disk::Disk;
pub use plan::{Counts, Failure, Plan, Stop};
