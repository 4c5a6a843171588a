//! Files below one directory, which no path can leave:
//! no `..`, no absolute path, no symbolic link at any place.
//! Does not decide who may use it, and does not know what a file means.
//!
//! Every path is walked name by name from a directory that is held open, and no link is followed,
//! so a link that is put there between a check and its use changes nothing.
//! A child process gets its directory by an open descriptor, too;
//! what the child itself opens from there on is beyond this module.

use crate::digest::{sha256_hex, sha256_hex_of};
use crate::limits::{MAGIC_BYTES, OUTPUT_FILE_BYTES_MAX, PATH_CHARS_MAX};
use escapement_sdk::{StepError, codes};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, fsync, linkat, mkdirat, open, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use serde::Serialize;
use serde_json::json;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The directory that `--root` names, held open. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Root {
    directory: Arc<OwnedFd>,
}

/// A directory at or below the root, held open, for a child process to start in.
///
/// Its path names the descriptor and not the place, so it leads there whatever happens to the place.
/// The path counts as long as the value lives, in this process and in a child that is just being started,
/// and needs `/proc`.
#[derive(Debug)]
pub struct Directory {
    _handle: OwnedFd,
    path: PathBuf,
}

impl AsRef<Path> for Directory {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

/// A file that was written, as a step's output shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Written {
    /// The path below the root, as given.
    pub path: String,
    /// Length.
    pub bytes: usize,
    /// The digest of its content, 64 hexadecimal digits.
    pub sha256: String,
}

/// What a regular file is, without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Length.
    pub size_bytes: u64,
    /// The digest of its content, 64 hexadecimal digits; `None` if it is larger than asked for.
    pub sha256: Option<String>,
    /// First bytes, at most 16.
    pub magic: Vec<u8>,
}

impl Root {
    /// Opens the directory. It may itself be reached through links.
    ///
    /// # Errors
    /// It does not exist, is no directory, or may not be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        let directory = open(path, DIRECTORY, Mode::empty())?;
        Ok(Self {
            directory: Arc::new(directory),
        })
    }

    /// Returns the id of the directory, which is the same for every worker that sees it: what the file [`ID_FILE`] in it holds. The first
    /// worker makes it; `None` if it is not there and cannot be made.
    pub fn id(&self) -> Option<String> {
        if let Some(id) = self.written_id() {
            return Some(id);
        }
        let mut random = [0; 16];
        getrandom::fill(&mut random).ok()?;
        let id: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let temporary = format!(".escapement-{id}.tmp");
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(
            &self.directory,
            temporary.as_str(),
            flags,
            Mode::from_raw_mode(0o644),
        )
        .ok()?;
        if fill(File::from(file), id.as_bytes()).is_ok() {
            // Of several workers that start at once one is the first; the others find what it made.
            let (from, to) = (temporary.as_str(), ID_FILE);
            let _there_already = linkat(&self.directory, from, &self.directory, to, AtFlags::empty());
        }
        let _gone = unlinkat(&self.directory, temporary.as_str(), AtFlags::empty());
        self.written_id()
    }

    fn written_id(&self) -> Option<String> {
        let bytes = self.read_now(ID_FILE, ID_BYTES_MAX).ok()?;
        let id = String::from_utf8(bytes).ok()?.trim().to_owned();
        (!id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric())).then_some(id)
    }

    /// Reads a regular file of at most `bytes_max` bytes.
    ///
    /// # Errors
    /// `FILE_NOT_ALLOWED` (fatal), `FILE_NOT_FOUND`, `FILE_TOO_LARGE`, `FILE_FAILED`.
    pub async fn read(&self, path: &str, bytes_max: usize) -> Result<Vec<u8>, StepError> {
        let (root, path) = (self.clone(), path.to_owned());
        blocking(move || root.read_now(&path, bytes_max)).await
    }

    /// Looks at a regular file, and reads it as a whole if it has at most `hashed_bytes_max` bytes. `None` if there is none.
    ///
    /// # Errors
    /// `FILE_NOT_ALLOWED` (fatal), `FILE_FAILED`.
    pub async fn stat(&self, path: &str, hashed_bytes_max: u64) -> Result<Option<Stat>, StepError> {
        let (root, path) = (self.clone(), path.to_owned());
        let stat = blocking(move || root.stat_now(&path, hashed_bytes_max)).await;
        match stat {
            Err(error) if error.code() == NOT_FOUND => Ok(None),
            stat => stat.map(Some),
        }
    }

    /// Writes a file as a whole: readers see the old content or the new one, never a part,
    /// and never after a crash.
    ///
    /// A link that stands in its place is replaced, not followed.
    ///
    /// # Errors
    /// `FILE_NOT_ALLOWED` (fatal), `FILE_NOT_FOUND` if a directory is missing that is not to be made,
    /// `FILE_FAILED`.
    pub async fn write(
        &self,
        path: &str,
        content: Vec<u8>,
        make_directories: bool,
    ) -> Result<Written, StepError> {
        let (root, path) = (self.clone(), path.to_owned());
        blocking(move || root.write_now(&path, &content, make_directories)).await
    }

    /// Writes what a handler puts into its output file; makes the directories in between.
    ///
    /// # Errors
    /// As [`write`](Self::write); `FILE_TOO_LARGE` beyond 16 MiB.
    pub async fn write_output(&self, path: &str, content: Vec<u8>) -> Result<Written, StepError> {
        if content.len() > OUTPUT_FILE_BYTES_MAX {
            return Err(too_large(path, OUTPUT_FILE_BYTES_MAX));
        }
        self.write(path, content, true).await
    }

    /// Opens a directory for a child process to start in.
    ///
    /// # Errors
    /// `FILE_NOT_ALLOWED` (fatal), `FILE_NOT_FOUND`, `FILE_FAILED`.
    pub fn directory(&self, path: &str) -> Result<Directory, StepError> {
        let handle = self.walk(path, &names_of(path)?, false)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", handle.as_raw_fd()));
        Ok(Directory {
            _handle: handle,
            path,
        })
    }

    /// Returns a regular file and its length.
    fn regular(&self, path: &str) -> Result<(File, u64), StepError> {
        let (directory, name) = self.parent(path, false)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = openat(&directory, name, flags, Mode::empty()).map_err(|errno| refused(path, errno))?;
        let file = File::from(file);
        let metadata = file.metadata().map_err(|error| failed(path, &error))?;
        if metadata.is_file() {
            Ok((file, metadata.len()))
        } else {
            Err(not_allowed(path, "is no regular file"))
        }
    }

    fn stat_now(&self, path: &str, hashed_bytes_max: u64) -> Result<Stat, StepError> {
        let (mut file, size_bytes) = self.regular(path)?;
        let mut magic = Vec::new();
        let read = (&mut file).take(MAGIC_BYTES as u64).read_to_end(&mut magic);
        read.map_err(|error| failed(path, &error))?;
        let sha256 = (size_bytes <= hashed_bytes_max && hashed_bytes_max > 0).then(|| {
            // A file that grows meanwhile costs no more than one that does not.
            let rest = file.take(size_bytes.saturating_sub(magic.len() as u64));
            sha256_hex_of(magic.as_slice().chain(rest))
        });
        Ok(Stat {
            size_bytes,
            sha256: sha256.transpose().map_err(|error| failed(path, &error))?,
            magic,
        })
    }

    fn read_now(&self, path: &str, bytes_max: usize) -> Result<Vec<u8>, StepError> {
        let (file, _) = self.regular(path)?;
        let mut content = Vec::new();
        let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
        file.take(limit)
            .read_to_end(&mut content)
            .map_err(|error| failed(path, &error))?;
        if content.len() > bytes_max {
            Err(too_large(path, bytes_max))
        } else {
            Ok(content)
        }
    }

    fn write_now(&self, path: &str, content: &[u8], make_directories: bool) -> Result<Written, StepError> {
        let (directory, name) = self.parent(path, make_directories)?;
        may_be_replaced(path, &directory, name)?;
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(StepError::unknown)?;
        let temporary = format!(".escapement-{:016x}.tmp", u64::from_be_bytes(random));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&directory, temporary.as_str(), flags, Mode::from_raw_mode(0o644))
            .map_err(|errno| refused(path, errno))?;
        let written = fill(File::from(file), content)
            .and_then(|()| Ok(renameat(&directory, temporary.as_str(), &directory, name)?))
            .and_then(|()| Ok(fsync(&directory)?));
        if let Err(error) = written {
            // Gone already if the rename succeeded.
            let _ = unlinkat(&directory, temporary.as_str(), AtFlags::empty());
            return Err(failed(path, &error));
        }
        Ok(Written {
            path: path.to_owned(),
            bytes: content.len(),
            sha256: sha256_hex(content),
        })
    }

    /// Returns the directory that holds the file, opened, and the file's name in it.
    fn parent<'path>(&self, path: &'path str, make: bool) -> Result<(OwnedFd, &'path str), StepError> {
        let mut names = names_of(path)?;
        let name = names.pop().ok_or_else(|| not_allowed(path, "names no file"))?;
        Ok((self.walk(path, &names, make)?, name))
    }

    fn walk(&self, path: &str, names: &[&str], make: bool) -> Result<OwnedFd, StepError> {
        let own = self.directory.try_clone().map_err(|error| failed(path, &error))?;
        names.iter().try_fold(own, |directory, name| {
            if make {
                match mkdirat(&directory, *name, Mode::from_raw_mode(0o755)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(refused(path, errno)),
                }
            }
            openat(
                directory.as_fd(),
                *name,
                DIRECTORY | OFlags::NOFOLLOW,
                Mode::empty(),
            )
            .map_err(|errno| refused(path, errno))
        })
    }
}

/// Refuses a name that stands for a pipe, a socket or a device: what waits at its other end would never hear of it.
fn may_be_replaced(path: &str, directory: &OwnedFd, name: &str) -> Result<(), StepError> {
    match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => match FileType::from_raw_mode(found.st_mode) {
            // The exchange itself fails for a directory.
            FileType::RegularFile | FileType::Symlink | FileType::Directory => Ok(()),
            _ => Err(not_allowed(path, "names no regular file")),
        },
        Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(refused(path, errno)),
    }
}

fn fill(mut file: File, content: &[u8]) -> io::Result<()> {
    file.write_all(content)?;
    file.sync_all()
}

/// The names that a path consists of. `.` counts as nothing; `..` is never a name.
fn names_of(path: &str) -> Result<Vec<&str>, StepError> {
    if path.chars().count() > PATH_CHARS_MAX || path.contains('\0') {
        return Err(not_allowed("the path", "is too long or holds a zero byte"));
    }
    if path.starts_with('/') {
        return Err(not_allowed(path, "is absolute; paths begin below the root"));
    }
    let names: Vec<_> = path
        .split('/')
        .filter(|name| !matches!(*name, "" | "."))
        .collect();
    if names.contains(&"..") {
        return Err(not_allowed(path, "leads out of its directory"));
    }
    Ok(names)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StepError> + Send + 'static,
) -> Result<T, StepError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(StepError::unknown)?
}

fn refused(path: &str, errno: Errno) -> StepError {
    match errno {
        Errno::NOENT => StepError::new(NOT_FOUND, format!("{path}: there is no such file or directory")),
        Errno::LOOP => not_allowed(path, "is a link; links are never followed"),
        Errno::NOTDIR => not_allowed(path, "passes a link or something else that is no directory"),
        Errno::NXIO => not_allowed(path, "is no regular file"),
        other => failed(path, &other.into()),
    }
}

fn not_allowed(path: &str, why: &str) -> StepError {
    StepError::new("FILE_NOT_ALLOWED", format!("{path} {why}"))
        .context(json!({ "path": path }))
        .fatal()
}

fn too_large(path: &str, bytes_max: usize) -> StepError {
    StepError::new(
        "FILE_TOO_LARGE",
        format!("{path} has more than {bytes_max} bytes"),
    )
    .context(json!({ "path": path, "bytes_max": bytes_max }))
}

fn failed(path: &str, error: &io::Error) -> StepError {
    StepError::new("FILE_FAILED", format!("{path}: {error}")).context(json!({ "path": path }))
}

/// `INVALID_PAYLOAD` for a file that does not hold what the handler needs.
pub(crate) fn wrong_content(path: &str, why: impl std::fmt::Display) -> StepError {
    StepError::new(codes::INVALID_PAYLOAD, format!("{path} {why}"))
        .context(json!({ "path": path }))
        .fatal()
}

/// The file that holds the id of the directory.
pub const ID_FILE: &str = ".escapement-root";
const ID_BYTES_MAX: usize = 64;
const NOT_FOUND: &str = "FILE_NOT_FOUND";
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
