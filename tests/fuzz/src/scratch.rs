//! Folders that exist as long as somebody holds them, in memory where the system has such a place.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder, removed with its contents at the end.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// In the folder that `ESCAPEMENT_FUZZ_SCRATCH` names, or else in shared memory: a store there costs no disk.
    pub(crate) fn new(name: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let shared_memory = Path::new("/dev/shm");
        let place = if let Some(named) = std::env::var_os("ESCAPEMENT_FUZZ_SCRATCH") {
            PathBuf::from(named)
        } else if shared_memory.is_dir() {
            shared_memory.to_owned()
        } else {
            std::env::temp_dir()
        };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = place.join(format!("escapement-fuzz-{name}-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder for temporary files can be made");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays is small, and a missing folder is no loss.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
