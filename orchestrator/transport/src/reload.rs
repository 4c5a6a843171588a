//! Files that are reloaded while the process runs: certificates, revocation lists, the policy.
//! Each kind brings a function that makes a value of their contents.
//!
//! All files of a kind are read together and replace the value together, or not at all. If one of them is invalid, the
//! current value stays. Changes are found by a digest of the contents. Times of modification do not show that
//! a symbolic link points elsewhere.

use crate::tally::{Happened, Tally};
use sha2::{Digest, Sha256};
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tracing::{error, info, warn};

/// Contents of the files when they were read.
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

    /// Returns the contents of one of them.
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
    /// Last problem, so that it is logged once.
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

    /// Loads files that name others: `follow` returns these, from the contents of the first, and `parse` gets the contents of all.
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

    /// Returns the value and its replacements.
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

/// Result of a reload.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Looked {
    /// They hold what they held.
    Unchanged {
        /// SHA-256 over the digests of what they hold.
        sha256: [u8; 32],
    },
    /// They hold something else, which is in force now.
    Replaced {
        /// SHA-256 over the digests of what they hold.
        sha256: [u8; 32],
    },
    /// They cannot be used; what was in force stays.
    Refused {
        /// Reason, a text for the operator that names the file.
        problem: String,
    },
}

/// Report of a reload.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Report {
    /// Name of the kind in logs.
    pub what: &'static str,
    /// Files of the kind.
    pub files: Vec<PathBuf>,
    /// Result of the reload.
    pub looked: Looked,
}

/// Observes replacements: it gets the report of one, and carries it out by calling the function, once.
pub type Witness<'a> = &'a mut dyn FnMut(&Report, &mut dyn FnMut());

/// Something that is made of files.
pub trait Reload: Send {
    /// Reads the files and replaces the value, before a witness, if they have changed and can be used.
    fn look(&mut self, witness: Witness<'_>) -> Report;

    /// Returns all files, each with its name in logs and whether it holds a secret; none if they cannot be read, which a reload reports.
    fn files(&self) -> Vec<(&'static str, PathBuf, bool)>;
}

/// Cause of a reload.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cause {
    /// The interval is over.
    Interval,
    /// The process got SIGHUP.
    Hangup,
    /// A caller requested it.
    Call,
}

impl<T: fmt::Display + Send + Sync> Reload for Reloadable<T> {
    /// Files that others name hold secrets, unless what is made of them knows better.
    fn files(&self) -> Vec<(&'static str, PathBuf, bool)> {
        let contents = Contents::read_following(&self.files, &self.follow).unwrap_or_default();
        let files = contents.0.into_iter().enumerate();
        files
            .map(|(index, (file, _))| (self.what, file, index >= self.files.len()))
            .collect()
    }

    fn look(&mut self, witness: Witness<'_>) -> Report {
        let what = self.what;
        let report = |looked| Report {
            what,
            files: self.files.clone(),
            looked,
        };
        match self.changed() {
            Ok(None) => {
                self.problem = None;
                report(Looked::Unchanged { sha256: self.digest })
            }
            Ok(Some((digest, value))) => {
                let report = report(Looked::Replaced { sha256: digest });
                self.problem = None;
                let mut value = Some(Arc::new(value));
                witness(&report, &mut || {
                    if let Some(value) = value.take() {
                        info!(what, now = %value, "files read again");
                        self.digest = digest;
                        self.current.send_replace(value);
                    }
                });
                report
            }
            // Tried again at the next reload: a pair that is half written is complete then.
            Err(problem) => {
                if self.problem.as_ref() != Some(&problem) {
                    error!(
                        what,
                        problem, "changed files are refused; what was in force stays"
                    );
                }
                let report = report(Looked::Refused {
                    problem: problem.clone(),
                });
                self.problem = Some(problem);
                report
            }
        }
    }
}

/// Reason why the thread is woken.
#[derive(Debug)]
enum Wake {
    Hangup,
    Call(oneshot::Sender<Vec<Report>>),
}

/// Handle of the reloading thread. Cheap to clone; the thread ends with the last clone.
#[derive(Clone, Debug)]
pub struct Looks(mpsc::Sender<Wake>);

impl Looks {
    /// Starts the thread: it reads all files once an interval, or with `None` only on request. `witness` sees replacements
    /// and their causes; `tally` counts all replacements and refusals.
    ///
    /// # Errors
    /// The operating system gives no thread.
    pub fn start(
        mut sources: Vec<Box<dyn Reload>>,
        interval: Option<Duration>,
        tally: Tally,
        mut witness: impl FnMut(Cause, &Report, &mut dyn FnMut()) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (wakes, woken) = mpsc::channel();
        let wait = move || match interval {
            Some(interval) => woken.recv_timeout(interval),
            None => woken.recv().map_err(|_| mpsc::RecvTimeoutError::Disconnected),
        };
        let mut look = move |cause| {
            let witness: Witness<'_> = &mut |report, replace| witness(cause, report, replace);
            let reports = sources.iter_mut().map(|source| source.look(&mut *witness));
            let reports: Vec<_> = reports.collect();
            for report in &reports {
                match report.looked {
                    Looked::Unchanged { .. } => {}
                    Looked::Replaced { .. } => tally.tell(Happened::Reloaded(report.what, true)),
                    Looked::Refused { .. } => tally.tell(Happened::Reloaded(report.what, false)),
                }
            }
            reports
        };
        std::thread::Builder::new()
            .name("reload".to_owned())
            .spawn(move || {
                loop {
                    match wait() {
                        Err(mpsc::RecvTimeoutError::Timeout) => drop(look(Cause::Interval)),
                        Ok(Wake::Hangup) => drop(look(Cause::Hangup)),
                        Ok(Wake::Call(reported)) => {
                            // Who called may have gone; the files are read all the same.
                            let _gone = reported.send(look(Cause::Call));
                        }
                        Err(mpsc::RecvTimeoutError::Disconnected) => return,
                    }
                }
            })?;
        Ok(Self(wakes))
    }

    /// Requests a reload soon, for a hangup.
    pub fn hangup(&self) {
        if self.0.send(Wake::Hangup).is_err() {
            warn!("the thread that reads files again has ended");
        }
    }

    /// Reloads the files, and returns the reports; `None` if the thread has ended.
    pub async fn look_now(&self) -> Option<Vec<Report>> {
        let (reported, report) = oneshot::channel();
        self.0.send(Wake::Call(reported)).ok()?;
        report.await.ok()
    }
}

/// Bytes of one file.
const FILE_BYTES_MAX: u64 = 16 << 20;

#[cfg(test)]
mod tests;
