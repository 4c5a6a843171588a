//! A file that is only appended to, under its name: once the file of that name is another one or none, as a log rotation
//! leaves it, that name is opened anew. Knows nothing of what is written, and keeps nothing.

use escapement_store::embedded::open_private;
use std::fs::{File, Metadata, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The file, and its name.
#[derive(Debug)]
pub struct AppendFile {
    path: PathBuf,
    file: File,
    /// False within a line, which ends where it began.
    may_change: bool,
}

impl AppendFile {
    /// Opens the file to append to it, and makes one for its owner alone if there is none.
    ///
    /// # Errors
    /// As the file system fails.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            file: append_to(path)?,
            may_change: true,
        })
    }

    /// What the file system knows of the file.
    ///
    /// # Errors
    /// As the file system fails.
    pub fn metadata(&self) -> std::io::Result<Metadata> {
        self.file.metadata()
    }

    /// Opens the name anew if that is another file now. What cannot be opened changes nothing.
    fn follow(&mut self) -> std::io::Result<()> {
        let open = self.metadata()?;
        // Pipes and terminals are not rotated.
        let is_ours = |named: Metadata| (named.dev(), named.ino()) == (open.dev(), open.ino());
        if open.is_file() && !std::fs::metadata(&self.path).is_ok_and(is_ours) {
            self.file = append_to(&self.path)?;
        }
        Ok(())
    }
}

impl Write for AppendFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.may_change {
            let _still_the_old_one = self.follow();
        }
        let n_written = self.file.write(bytes)?;
        self.may_change = bytes[..n_written].last().is_none_or(|last| *last == b'\n');
        Ok(n_written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

fn append_to(path: &Path) -> std::io::Result<File> {
    open_private(OpenOptions::new().append(true).create(true), path)
}

#[cfg(test)]
mod tests;
