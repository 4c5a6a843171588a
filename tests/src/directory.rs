//! Directories that one test owns. Removed at the end, kept when the test fails.

use std::path::{Path, PathBuf};

use crate::Fault;

/// A directory of its own for one test. Removed on drop, unless the thread panics.
#[derive(Debug)]
pub struct PrivateDirectory(PathBuf);

impl PrivateDirectory {
    /// Makes an empty directory whose name tells what it is for.
    ///
    /// # Errors
    /// The file system's.
    pub fn new(purpose: &str) -> Result<Self, Fault> {
        let name = format!("escapement-{purpose}-{}", crate::fresh_id());
        let path = std::env::temp_dir().join(name);
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
