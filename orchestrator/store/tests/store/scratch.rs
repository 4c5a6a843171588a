//! A directory of its own for each test, removed behind it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// The directory.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Creates a name that no other test of this or another process has; the directory is not created.
    pub(crate) fn new() -> Self {
        let name = format!(
            "store-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        // A process of the same id may have been killed before it could clean up.
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for Scratch {
    fn as_ref(&self) -> &Path {
        self.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
