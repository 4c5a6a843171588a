//! What a test tells the fault layer, a library in C (`fault_layer.c`) that stands between a program and its files.
//! Knows no store and no workload, and reaches only processes that a test starts with it.

use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::{Fault, OrchestratorSettings, preload};

/// What becomes of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The process is killed (SIGKILL) before the call does anything.
    KillBefore,
    /// The process is killed right after the call.
    KillAfter,
    /// The call fails with EIO and does nothing.
    Io,
    /// The call fails with ENOSPC and does nothing.
    Full,
    /// A write does half of its work and says so; any other call fails with EIO.
    Short,
    /// A write does half of its work and fails with EIO; any other call fails with EIO.
    Torn,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Action::KillBefore => "kill-before",
            Action::KillAfter => "kill-after",
            Action::Io => "EIO",
            Action::Full => "ENOSPC",
            Action::Short => "short",
            Action::Torn => "torn",
        })
    }
}

/// A call that changes a file, as the layer recorded it before it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The phase in which it was made.
    pub phase: String,
    /// Its number in the phase, from 1.
    pub ordinal: u32,
    /// Number among the calls of this kind to this file in the phase, from 1.
    pub nth: u32,
    /// `write`, `fsync`, `fdatasync`, `truncate`, `allocate`, `create`, `mkdir`, `unlink` or `rename`.
    pub kind: String,
    /// How much a write writes; the new size of a truncation; otherwise 0.
    pub bytes: u64,
    /// The thread that made it.
    pub thread: String,
    /// The file's path below the directory; empty for the directory itself.
    pub file: String,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            phase,
            ordinal,
            nth,
            kind,
            bytes,
            thread,
            file,
        } = self;
        write!(
            f,
            "{phase} {ordinal}: {kind} {nth} of {file} ({bytes}) by {thread}"
        )
    }
}

impl Call {
    /// Returns true if the other call does the same in another run. Calls to different files may come in another order there.
    pub fn is_same(&self, other: &Self) -> bool {
        let key = |call: &Self| {
            (
                call.phase.clone(),
                call.kind.clone(),
                call.file.clone(),
                call.nth,
                call.bytes,
            )
        };
        key(self) == key(other)
    }
}

/// The layer for one process at a time. Its control directory lies outside of the directory whose files count.
#[derive(Debug)]
pub struct FaultLayer {
    library: PathBuf,
    control: PathBuf,
    below: PathBuf,
}

impl FaultLayer {
    /// Creates a layer that counts what happens to files below a directory; the control directory is made.
    ///
    /// # Errors
    /// There is no C compiler, or the file system's.
    pub fn new(control: &Path, below: &Path) -> Result<Self, Fault> {
        std::fs::create_dir_all(control)?;
        let layer = Self {
            library: library()?,
            control: control.to_owned(),
            below: below.to_owned(),
        };
        layer.write("below", &below.display().to_string())?;
        Ok(layer)
    }

    /// Settings of an orchestrator that runs with this layer.
    #[must_use]
    pub fn under(&self, settings: OrchestratorSettings) -> OrchestratorSettings {
        let variables = self.variables().into_iter();
        variables.fold(settings, |settings, (name, value)| settings.variable(name, value))
    }

    /// Returns the variables of a process that runs with this layer.
    pub fn variables(&self) -> [(&'static str, String); 2] {
        [
            ("ESCAPEMENT_FAULT_LAYER", self.control.display().to_string()),
            ("LD_PRELOAD", self.library.display().to_string()),
        ]
    }

    /// From now on calls are numbered from 1 under this word.
    ///
    /// # Errors
    /// The file system's.
    pub fn phase(&self, phase: &str) -> Result<(), Fault> {
        self.write("phase", phase)
    }

    /// Lets one call of a phase have this end.
    ///
    /// # Errors
    /// The file system's.
    pub fn arm(&self, phase: &str, ordinal: u32, action: Action) -> Result<(), Fault> {
        self.write("rule", &format!("{phase} {ordinal} {action}"))
    }

    /// Lets a call have this end that was recorded in an earlier run, wherever it comes among the calls to other files.
    ///
    /// # Errors
    /// The file system's.
    pub fn arm_at(&self, call: &Call, action: Action) -> Result<(), Fault> {
        let path = match call.file.as_str() {
            "" => self.below.clone(),
            file => self.below.join(file),
        };
        let Call { phase, nth, kind, .. } = call;
        self.write(
            "rule",
            &format!("{phase} {nth} {action} once {kind} {}", path.display()),
        )
    }

    /// Lets one call of a phase and every later one have this end.
    ///
    /// # Errors
    /// The file system's.
    pub fn arm_from(&self, phase: &str, ordinal: u32, action: Action) -> Result<(), Fault> {
        self.write("rule", &format!("{phase} {ordinal} {action} on"))
    }

    /// While the disk is full nothing grows.
    ///
    /// # Errors
    /// The file system's.
    pub fn set_full(&self, is_full: bool) -> Result<(), Fault> {
        if is_full {
            self.write("full", "")
        } else {
            Ok(std::fs::remove_file(self.control.join("full"))?)
        }
    }

    /// Every sync takes so much longer.
    ///
    /// # Errors
    /// The file system's.
    pub fn slow_syncs(&self, ms: u64) -> Result<(), Fault> {
        self.write("slow", &ms.to_string())
    }

    /// Returns every call so far.
    ///
    /// # Errors
    /// The trace cannot be read, or is none.
    pub fn trace(&self) -> Result<Vec<Call>, Fault> {
        let path = self.control.join("trace");
        if !path.exists() {
            return Ok(Vec::new());
        }
        self.calls_in(&std::fs::read_to_string(path)?)
    }

    /// Returns the last calls so far, at most so many; costs no more where there were many before.
    ///
    /// # Errors
    /// As [`FaultLayer::trace`].
    pub fn last_calls(&self, count: usize) -> Result<Vec<Call>, Fault> {
        let mut file = File::open(self.control.join("trace"))?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(END_BYTES)))?;
        let mut end = String::new();
        file.read_to_string(&mut end)?;
        // The first line may be cut.
        let whole = end.find('\n').map_or(end.len(), |first| first + 1);
        let mut calls = self.calls_in(&end[whole..])?;
        Ok(calls.split_off(calls.len().saturating_sub(count)))
    }

    fn calls_in(&self, text: &str) -> Result<Vec<Call>, Fault> {
        // A line that is being written is not there yet.
        let text = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
        let below = self.below.display().to_string();
        text.lines()
            .map(|line| call(line, &below).ok_or_else(|| format!("no line of a trace: {line}").into()))
            .collect()
    }

    /// Replaces a control file at once.
    fn write(&self, name: &str, text: &str) -> Result<(), Fault> {
        let fresh = self.control.join(format!("{name}.new"));
        std::fs::write(&fresh, text)?;
        Ok(std::fs::rename(fresh, self.control.join(name))?)
    }
}

/// Enough for the last calls of a trace.
const END_BYTES: u64 = 4_096;

fn call(line: &str, below: &str) -> Option<Call> {
    let mut words = line.splitn(7, ' ');
    Some(Call {
        phase: words.next()?.to_owned(),
        ordinal: words.next()?.parse().ok()?,
        nth: words.next()?.parse().ok()?,
        kind: words.next()?.to_owned(),
        bytes: words.next()?.parse().ok()?,
        thread: words.next()?.to_owned(),
        file: words
            .next()?
            .strip_prefix(below)?
            .trim_start_matches('/')
            .to_owned(),
    })
}

/// Compiles the library beside this program, once for each process.
fn library() -> Result<PathBuf, Fault> {
    static LIBRARY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    LIBRARY
        .get_or_init(|| compile().map_err(|fault| fault.to_string()))
        .clone()
        .map_err(Fault::from)
}

fn compile() -> Result<PathBuf, Fault> {
    let program = std::env::current_exe()?;
    let folder = program.parent().ok_or("a program lies in a folder")?;
    let library = folder.join("libfault_layer.so");
    preload::compile("fault_layer.c", &library)?;
    Ok(library)
}

#[cfg(test)]
mod tests;
