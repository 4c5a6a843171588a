//! The machine and the versions that figures belong to. Names no host.

use std::fs;
use std::process::Command;
use std::time::Duration;

use escapement_tests::{Binaries, Fault, PrivateDirectory};
use serde::{Deserialize, Serialize};

use crate::floor::disk;
use crate::statistics::quantile;

/// What figures depend on, as a reader would want to know it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Machine {
    /// Such as `2 cores of Intel(R) Xeon(R)`.
    pub(super) processor: String,
    /// Such as `24 GiB`.
    pub(super) memory: String,
    /// The file system of the store.
    pub(super) disk: String,
    /// The median of one durable write of 4 KiB in place, in milliseconds.
    pub(super) durable_write_ms: f64,
    /// The kernel's version.
    pub(super) kernel: String,
    /// The product's own.
    pub(super) product: String,
    /// The compiler's.
    pub(super) compiler: String,
}

impl Machine {
    /// This one.
    pub(super) fn here() -> Result<Self, Fault> {
        let cores = std::thread::available_parallelism()?;
        let model = field("/proc/cpuinfo", "model name")?;
        let memory = field("/proc/meminfo", "MemTotal")?;
        let kib: f64 = memory.trim_end_matches(" kB").parse()?;
        let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
        Ok(Self {
            processor: format!("{cores} cores of {model}"),
            memory: format!("{:.0} GiB", kib / f64::from(1 << 20)),
            disk: file_system()?,
            durable_write_ms: durable_write()?.as_micros() as f64 / 1_000.0,
            kernel: release.trim().split('-').next().unwrap_or_default().to_owned(),
            product: said_by(Command::new(Binaries::build()?.orchestrator).arg("--version"))?,
            compiler: said_by(Command::new("rustc").arg("--version"))?,
        })
    }
}

/// Returns the date, in UTC.
pub(super) fn today() -> Result<String, Fault> {
    said_by(Command::new("date").args(["-u", "+%Y-%m-%d"]))
}

fn said_by(command: &mut Command) -> Result<String, Fault> {
    let output = command.output()?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// Returns the first line of this name in one of the kernel's files.
fn field(file: &str, name: &str) -> Result<String, Fault> {
    let text = fs::read_to_string(file)?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'));
    // Some processors give no name.
    Ok(line.unwrap_or("unknown").trim().to_owned())
}

/// Returns the type of the file system that temporary directories lie on.
fn file_system() -> Result<String, Fault> {
    let directory = PrivateDirectory::parent().canonicalize()?;
    let mounts = fs::read_to_string("/proc/mounts")?;
    let holding = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (place, kind) = (words.next()?, words.next()?);
        directory.starts_with(place).then_some((place.len(), kind))
    });
    // A later mount hides an earlier one at the same place.
    let innermost = holding.max_by_key(|(depth, _)| *depth);
    Ok(innermost
        .ok_or("the temporary directory lies on a file system")?
        .1
        .to_owned())
}

fn durable_write() -> Result<Duration, Fault> {
    let directory = PrivateDirectory::new("machine")?;
    Ok(quantile(&disk::durable_writes(directory.path(), WRITES)?, 0.5))
}

const WRITES: usize = 300;
