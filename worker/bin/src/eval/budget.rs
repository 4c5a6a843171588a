//! How much memory all evaluations of this worker may have together, and how much each of them. Evaluates nothing.
//!
//! A container whose limit is passed ends as a whole, with the work of everybody: so it is the sum that is bounded, by a part of what the
//! container has, and an evaluation waits until there is enough for it.

use escapement_sdk::StepError;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Shared by all evaluations. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Budget {
    /// MiB that are free.
    free: Arc<Semaphore>,
    /// How many may run at a time.
    places: Arc<Semaphore>,
    mib: u32,
    mib_each: u32,
}

/// What one evaluation may have, for as long as this lives.
#[derive(Debug)]
pub struct Share {
    /// Bytes beyond what its program takes by itself.
    pub bytes: u64,
    _memory: OwnedSemaphorePermit,
    _place: OwnedSemaphorePermit,
}

impl Budget {
    /// So many MiB, for so many evaluations at a time.
    pub fn new(mib: u32, places: usize) -> Self {
        let mib = mib.max(MIB_MIN);
        // Fewer at a time rather than with less than a filter needs to begin.
        let places = places.clamp(1, (mib / MIB_MIN) as usize);
        Self {
            free: Arc::new(Semaphore::new(mib as usize)),
            places: Arc::new(Semaphore::new(places)),
            mib,
            mib_each: mib / u32::try_from(places).unwrap_or(u32::MAX),
        }
    }

    /// A quarter of what the container of this process may have, and [`MIB_DEFAULT`] at most; as many at a time as there are processors.
    pub fn of_machine() -> Self {
        let limit = memory_max(Path::new("/proc/self/cgroup"), Path::new("/sys/fs/cgroup"));
        let quarter = limit.map_or(MIB_DEFAULT, |bytes| {
            u32::try_from((bytes / 4) >> 20).unwrap_or(u32::MAX)
        });
        Self::with_mib(quarter.min(MIB_DEFAULT))
    }

    /// So many MiB; as many at a time as there are processors.
    pub fn with_mib(mib: u32) -> Self {
        Self::new(mib, std::thread::available_parallelism().map_or(1, usize::from))
    }

    /// Waits for what an evaluation of a document of this length may have: the part of a place, or more for a long document.
    ///
    /// # Errors
    /// Never, as long as the budget lives.
    pub async fn share(&self, document_bytes: usize) -> Result<Share, StepError> {
        let for_document =
            u32::try_from((document_bytes * BYTES_PER_DOCUMENT_BYTE) >> 20).unwrap_or(u32::MAX);
        let mib = self.mib_each.max(for_document).min(self.mib);
        // The place first: an evaluation that has one waits for memory that others give back, and none waits for a place with memory.
        let place = Arc::clone(&self.places).acquire_owned().await;
        let memory = Arc::clone(&self.free).acquire_many_owned(mib).await;
        Ok(Share {
            bytes: u64::from(mib) << 20,
            _memory: memory.map_err(StepError::unknown)?,
            _place: place.map_err(StepError::unknown)?,
        })
    }
}

/// Returns the least of the limits of the control groups that a process is in; `None` if there is none.
fn memory_max(own: &Path, mount: &Path) -> Option<u64> {
    let groups = std::fs::read_to_string(own).ok()?;
    let limits = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?.trim_start_matches('/'));
        match controllers {
            "" => least(mount, path, "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                least(&mount.join("memory"), path, "memory.limit_in_bytes")
            }
            _ => None,
        }
    });
    limits.min()
}

/// Returns the least limit of a group and those around it. What a container sees of its own group is the mount itself.
fn least(mount: &Path, path: &str, file: &str) -> Option<u64> {
    let mut groups: Vec<PathBuf> = mount.join(path).ancestors().map(Path::to_owned).collect();
    groups.retain(|group| group.starts_with(mount));
    let limits = groups.iter().filter_map(|group| {
        let text = std::fs::read_to_string(group.join(file)).ok()?;
        text.trim().parse::<u64>().ok().filter(|bytes| *bytes < NO_LIMIT)
    });
    limits.min()
}

/// MiB of all evaluations together where nothing limits the process.
pub const MIB_DEFAULT: u32 = 1024;
/// MiB with which an evaluation can begin.
const MIB_MIN: u32 = 64;
/// Bytes that values take for each byte of their text, at most: an empty list in a list is two bytes there.
const BYTES_PER_DOCUMENT_BYTE: usize = 24;
/// What version 1 of control groups says where there is no limit, rounded down.
const NO_LIMIT: u64 = 1 << 62;

#[cfg(test)]
mod tests {
    use super::{Budget, memory_max};
    use std::time::Duration;

    #[test]
    fn the_least_limit_around_the_process_counts() {
        let directory = tempfile::TempDir::new().unwrap();
        let at = |path: &str| directory.path().join(path);
        let write = |path: &str, text: &str| {
            std::fs::create_dir_all(at(path).parent().unwrap()).unwrap();
            std::fs::write(at(path), text).unwrap();
        };
        let own = at("cgroup");
        let limit = || memory_max(&own, &at("mount"));
        write("cgroup", "0::/pod/worker\n");
        assert_eq!(limit(), None);
        write("mount/pod/worker/memory.max", "max\n");
        assert_eq!(limit(), None);
        write("mount/pod/memory.max", "536870912\n");
        write("mount/memory.max", "1073741824\n");
        assert_eq!(limit(), Some(512 << 20));
        write("cgroup", "0::/\n");
        assert_eq!(limit(), Some(1 << 30), "what a container sees of its own");
        write("cgroup", "5:cpu:/a\n4:memory,x:/a\n");
        write("mount/memory/a/memory.limit_in_bytes", "134217728\n");
        write("mount/memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(limit(), Some(128 << 20));
        assert_eq!(memory_max(&at("nothing"), &at("mount")), None);
    }

    #[tokio::test]
    async fn what_all_have_together_is_bounded_and_given_back() {
        let budget = Budget::new(256, 16);
        let mut shares = Vec::new();
        for _ in 0..4 {
            shares.push(budget.share(0).await.unwrap());
        }
        assert!(
            shares.iter().all(|share| share.bytes == 64 << 20),
            "fewer at a time, and none with less"
        );
        let fifth = budget.share(0);
        let mut fifth = std::pin::pin!(fifth);
        assert!(
            tokio::time::timeout(Duration::from_millis(1), &mut fifth)
                .await
                .is_err()
        );
        shares.clear();
        drop(fifth.await.unwrap());
        let whole = budget.share(16 << 20).await.unwrap();
        assert_eq!(whole.bytes, 256 << 20, "a long document has all there is at most");
    }
}
