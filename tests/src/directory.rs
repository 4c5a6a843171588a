//! Directories that one test owns. Removed at the end, kept when the test fails.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::Fault;

/// Parent of all directories of this process, if it is not the one for temporary files.
static PARENT: OnceLock<PathBuf> = OnceLock::new();

/// A directory of its own for one test. Removed on drop, unless the thread panics.
#[derive(Debug)]
pub struct PrivateDirectory(PathBuf);

impl PrivateDirectory {
    /// Makes all directories of this process in `parent`.
    ///
    /// # Errors
    /// It does not exist, or another parent is set.
    pub fn place_in(parent: &Path) -> Result<(), Fault> {
        let parent = parent
            .canonicalize()
            .map_err(|fault| format!("cannot use {}: {fault}", parent.display()))?;
        PARENT
            .set(parent)
            .map_err(|other| format!("directories of this process cannot move to {}", other.display()).into())
    }

    /// Returns the parent of all directories of this process.
    pub fn parent() -> PathBuf {
        PARENT.get().cloned().unwrap_or_else(std::env::temp_dir)
    }

    /// Makes an empty directory whose name tells what it is for.
    ///
    /// # Errors
    /// The file system's.
    pub fn new(purpose: &str) -> Result<Self, Fault> {
        let name = format!("escapement-{purpose}-{}", crate::fresh_id());
        let path = Self::parent().join(name);
        std::fs::create_dir_all(&path).map_err(|fault| format!("cannot make {}: {fault}", path.display()))?;
        // Workers compare resolved paths with their root.
        Ok(Self(path.canonicalize()?))
    }

    /// Where it is; absolute, without links.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns a path in it.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("kept for you to look at: {}", self.0.display());
        } else if let Err(fault) = std::fs::remove_dir_all(&self.0) {
            eprintln!("cannot remove {}: {fault}", self.0.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::PrivateDirectory;

    #[test]
    fn two_directories_never_share_a_path() {
        let one = PrivateDirectory::new("unit").unwrap();
        let two = PrivateDirectory::new("unit").unwrap();
        assert_ne!(one.path(), two.path());
    }

    #[test]
    fn a_directory_is_gone_after_its_owner() {
        let directory = PrivateDirectory::new("unit").unwrap();
        std::fs::write(directory.join("file"), "text").unwrap();
        let path = directory.path().to_owned();
        drop(directory);
        assert!(!path.exists());
    }
}
