//! The limit of open files, and the free space of a file system.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::path::Path;

/// Raises the limit of open files of this process to the hard one and returns it; `None` without a limit.
///
/// The soft one is often 1024, for programs that wait with `select`; this one does not.
pub fn raise_limit() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    // Above what the kernel allows, as some containers are set up, the soft one stays.
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    }
}

/// Returns the bytes that this process may still write to the file system of a file or a directory; `None` if the system does not say.
pub fn free_bytes(path: &Path) -> Option<u64> {
    let room = rustix::fs::statvfs(path).ok()?;
    Some(room.f_bavail.saturating_mul(room.f_frsize))
}
