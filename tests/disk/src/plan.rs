//! What goes wrong, and what was counted. Does nothing itself.

/// What is to go wrong from now on. Calls are counted from 1 on, from the moment the plan is given.
///
/// Counted are all calls that change something: writes, syncs (of a file or of a directory), truncations,
/// deletions, and openings that create a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// This call fails, once, in this way.
    pub fail_nth: Option<(u64, Failure)>,
    /// At this call the machine or the process stops: nothing works any more until
    /// [`Disk::power_cut`](crate::Disk::power_cut) or [`Disk::process_killed`](crate::Disk::process_killed)
    /// says what it was.
    pub stop_at: Option<(u64, Stop)>,
    /// This read, counted apart, fails once with an I/O error.
    pub fail_nth_read: Option<u64>,
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No space: nothing was done.
    Full,
    /// I/O error: nothing was done.
    Io,
    /// A write wrote the first half and then had no space; other calls do nothing.
    ShortWrite,
    /// A sync fails, and as on Linux what was to be synced counts as clean: reads show it until the page cache
    /// is dropped, and no later sync makes it durable. Every other sector of it reached the disk all the same.
    /// Other calls fail with an I/O error and do nothing.
    SyncFails,
}

/// On which side of a call everything stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The call does nothing.
    Before,
    /// The call is done, and nobody hears of it.
    After,
}

/// Calls since the disk was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Writes, to the shared memory's file too when it grows.
    pub writes: u64,
    /// Syncs of files and directories.
    pub syncs: u64,
    /// Truncations.
    pub truncates: u64,
    /// Deletions.
    pub deletes: u64,
    /// Openings that created a file.
    pub creates: u64,
    /// Reads; not part of [`Counts::calls`].
    pub reads: u64,
}

impl Counts {
    /// Returns all calls that change something.
    pub fn calls(&self) -> u64 {
        self.writes + self.syncs + self.truncates + self.deletes + self.creates
    }
}

/// A counted call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Write,
    Sync,
    Truncate,
    Delete,
    Create,
}

/// Reason why a call was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No space.
    Full,
    /// I/O error, or the handle is of a process that is no more.
    Io,
    /// No such name.
    Missing,
    /// Somebody else holds the lock.
    Busy,
}
