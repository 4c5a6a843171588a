//! What one durable write costs at least. Knows no store.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use escapement_tests::Fault;

/// Writes a page in place and waits for the disk, so many times; sorted by duration.
///
/// In place, because a log that is used again does not grow: that is the least that a commit can cost.
///
/// # Errors
/// The file system's.
pub(crate) fn durable_writes(directory: &Path, n_writes: usize) -> Result<Vec<Duration>, Fault> {
    let mut file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(directory.join("disk"))?;
    let page = [0x5a; PAGE_BYTES];
    for _ in 0..PAGES {
        file.write_all(&page)?;
    }
    file.sync_all()?;
    let mut durations = Vec::with_capacity(n_writes);
    for index in 0..n_writes {
        let offset = (index % PAGES) * PAGE_BYTES;
        file.seek(SeekFrom::Start(offset as u64))?;
        let began = Instant::now();
        file.write_all(&page)?;
        file.sync_data()?;
        durations.push(began.elapsed());
    }
    durations.sort();
    Ok(durations)
}

const PAGE_BYTES: usize = 4 << 10;
const PAGES: usize = 256;
