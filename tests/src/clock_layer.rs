//! A wall clock that a test sets, for processes that it starts with it; the library is `clock_layer.c`.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::{Fault, preload};

/// How far the wall clock of some processes is off. Their monotonic clocks are right.
#[derive(Debug)]
pub struct WallClock {
    library: PathBuf,
    path: PathBuf,
    file: File,
}

impl WallClock {
    /// Creates a clock that is right. Its files lie in a directory of the test: the library `clock_layer.so`, and `clock_layer`,
    /// which holds what was set.
    ///
    /// # Errors
    /// There is no C compiler, or the file system's.
    pub fn new(directory: &Path) -> Result<Self, Fault> {
        let library = directory.join("clock_layer.so");
        preload::compile("clock_layer.c", &library)?;
        let path = directory.join("clock_layer");
        let file = File::create(&path)?;
        let clock = Self { library, path, file };
        clock.set(0)?;
        Ok(clock)
    }

    /// Returns the variables of a process that looks at this clock.
    #[must_use]
    pub fn variables(&self) -> [(&'static str, &Path); 2] {
        [
            ("ESCAPEMENT_CLOCK_LAYER", &self.path),
            ("LD_PRELOAD", &self.library),
        ]
    }

    /// Sets the clock off by so many seconds, at once and in one step.
    ///
    /// # Errors
    /// The file system's.
    pub fn set(&self, off_s: i64) -> Result<(), Fault> {
        Ok(self.file.write_all_at(&off_s.to_ne_bytes(), 0)?)
    }
}
