//! Files that are read again while the process runs: certificates, lists of what was revoked, the policy.
//! Knows nothing of what they hold: each kind brings a function that makes a value of their contents.
//!
//! All files of a kind are read in one go and replace the value together, or nothing does: whatever is wrong with them, the
//! value that works stays. A digest of the contents tells whether anything changed, since times of modification do not tell
//! it of a symbolic link that points elsewhere.

use sha2::{Digest, Sha256};
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::sync::watch;
use tracing::{error, info, warn};

/// What the files held when they were read.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Contents(Vec<(PathBuf, Vec<u8>)>);

impl Contents {
    /// Reads all of them.
    ///
    /// # Errors
    /// Names the file that cannot be read, or is larger than 16 MiB.
    pub fn read(files: &[PathBuf]) -> Result<Self, String> {
        let read = |path: &PathBuf| {
            let shown = path.display();
            let file = std::fs::File::open(path).map_err(|error| format!("{shown}: {error}"))?;
            let mut bytes = Vec::new();
            file.take(FILE_BYTES_MAX + 1)
                .read_to_end(&mut bytes)
                .map_err(|error| format!("{shown}: {error}"))?;
            if bytes.len() as u64 > FILE_BYTES_MAX {
                return Err(format!("{shown} is larger than {FILE_BYTES_MAX} bytes"));
            }
            Ok((path.clone(), bytes))
        };
        files.iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    /// Reads all of them, and those that follow from what they hold.
    ///
    /// # Errors
    /// As [`Contents::read`].
    fn read_following(files: &[PathBuf], follow: &dyn Fn(&Self) -> Vec<PathBuf>) -> Result<Self, String> {
        let mut contents = Self::read(files)?;
        contents.0.extend(Self::read(&follow(&contents))?.0);
        Ok(contents)
    }

    /// What one of them held.
    ///
    /// # Panics
    /// It was not among those that were read.
    pub fn of(&self, path: &Path) -> &[u8] {
        let read = self.0.iter().find(|(read, _)| read == path);
        &read.expect("the caller named it among the files to read").1
    }

    fn digest(&self) -> [u8; 32] {
        let mut all = Sha256::new();
        for (_, bytes) in &self.0 {
            all.update(Sha256::digest(bytes));
        }
        all.finalize().into()
    }
}

/// Names the further files that contents make necessary.
type Follow = Box<dyn Fn(&Contents) -> Vec<PathBuf> + Send>;

/// Makes a value of the contents. The error is a text for the operator, which names the file.
type Parse<T> = Box<dyn Fn(&Contents) -> Result<T, String> + Send>;

/// A value that is made of files, and made anew when they change.
pub struct Reloadable<T> {
    what: &'static str,
    files: Vec<PathBuf>,
    follow: Follow,
    parse: Parse<T>,
    digest: [u8; 32],
    /// What was last found wrong, so that it is logged once.
    problem: Option<String>,
    current: watch::Sender<Arc<T>>,
}

impl<T: fmt::Display> Reloadable<T> {
    /// Reads the files for the first time. `what` is what logs call them, for example `certificates`.
    ///
    /// # Errors
    /// The text says which file cannot be used, and why.
    pub fn load(
        what: &'static str,
        files: Vec<PathBuf>,
        parse: impl Fn(&Contents) -> Result<T, String> + Send + 'static,
    ) -> Result<Self, String> {
        Self::load_following(what, files, |_| Vec::new(), parse)
    }

    /// The same for files that name others: `follow` says which, of the contents of the first, and `parse` gets the contents of all.
    ///
    /// # Errors
    /// As [`Reloadable::load`].
    pub fn load_following(
        what: &'static str,
        files: Vec<PathBuf>,
        follow: impl Fn(&Contents) -> Vec<PathBuf> + Send + 'static,
        parse: impl Fn(&Contents) -> Result<T, String> + Send + 'static,
    ) -> Result<Self, String> {
        let contents = Contents::read_following(&files, &follow)?;
        let value = parse(&contents)?;
        Ok(Self {
            what,
            files,
            follow: Box::new(follow),
            digest: contents.digest(),
            parse: Box::new(parse),
            problem: None,
            current: watch::Sender::new(Arc::new(value)),
        })
    }

    /// The value, now and whenever it is replaced.
    pub fn current(&self) -> watch::Receiver<Arc<T>> {
        self.current.subscribe()
    }

    /// Reads the contents, and if they differ from those of the value, the value they make.
    fn changed(&self) -> Result<Option<([u8; 32], T)>, String> {
        let contents = Contents::read_following(&self.files, &self.follow)?;
        let digest = contents.digest();
        if digest == self.digest {
            return Ok(None);
        }
        (self.parse)(&contents).map(|value| Some((digest, value)))
    }
}

impl<T> fmt::Debug for Reloadable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reloadable")
            .field("what", &self.what)
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

/// What came of a look at files.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Looked {
    /// They hold what they held.
    Unchanged,
    /// They hold something else, which is in force now.
    Replaced,
    /// They cannot be used; what was in force stays.
    Refused,
}

/// Something that is made of files.
pub trait Reload: Send {
    /// Reads the files and replaces the value if they have changed and can be used.
    fn look(&mut self) -> Looked;
}

impl<T: fmt::Display + Send + Sync> Reload for Reloadable<T> {
    fn look(&mut self) -> Looked {
        let what = self.what;
        match self.changed() {
            Ok(None) => {
                self.problem = None;
                Looked::Unchanged
            }
            Ok(Some((digest, value))) => {
                info!(what, now = %value, "files read again");
                self.digest = digest;
                self.problem = None;
                self.current.send_replace(Arc::new(value));
                Looked::Replaced
            }
            // Tried again at the next look: a pair that is half written is whole then.
            Err(problem) => {
                if self.problem.as_ref() != Some(&problem) {
                    error!(
                        what,
                        problem, "changed files are refused; what was in force stays"
                    );
                }
                self.problem = Some(problem);
                Looked::Refused
            }
        }
    }
}

/// The thread that looks at files. Dropping it ends the thread.
#[derive(Debug)]
pub struct ReloadThread {
    looks: mpsc::Sender<()>,
}

impl ReloadThread {
    /// Looks at all of them once an interval; `None`: only when asked to.
    ///
    /// # Errors
    /// The operating system gives no thread.
    pub fn start(mut sources: Vec<Box<dyn Reload>>, interval: Option<Duration>) -> std::io::Result<Self> {
        let (looks, asked) = mpsc::channel();
        let wait = move || match interval {
            Some(interval) => asked.recv_timeout(interval),
            None => asked.recv().map_err(|_| mpsc::RecvTimeoutError::Disconnected),
        };
        std::thread::Builder::new()
            .name("reload".to_owned())
            .spawn(move || {
                while wait() != Err(mpsc::RecvTimeoutError::Disconnected) {
                    for source in &mut sources {
                        source.look();
                    }
                }
            })?;
        Ok(Self { looks })
    }

    /// Has the files looked at now.
    pub fn look_now(&self) {
        if self.looks.send(()).is_err() {
            warn!("the thread that reads files again has ended");
        }
    }
}

/// Bytes of one file.
const FILE_BYTES_MAX: u64 = 16 << 20;

#[cfg(test)]
mod tests;
