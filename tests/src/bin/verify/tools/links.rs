//! Folder that is the whole PATH of the tests, with a link to each program that the table declares. Installs nothing.

use super::debian;
use super::programs::{PROGRAMS, Source};
use std::io::{ErrorKind, Result};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes the folder anew, and returns a line for each program that is not on this machine.
pub(super) fn make(folder: &Path, tools: &Path) -> Result<Vec<String>> {
    match std::fs::remove_dir_all(folder) {
        Err(fault) if fault.kind() != ErrorKind::NotFound => return Err(fault),
        Ok(()) | Err(_) => std::fs::create_dir_all(folder)?,
    }
    let rust = toolchain();
    let mut missing = Vec::new();
    for (source, programs) in PROGRAMS {
        for program in *programs {
            match place(*source, program, tools, rust.as_deref()) {
                Some(found) => symlink(found, folder.join(program))?,
                None => missing.push(format!("{program}, which tests start")),
            }
        }
    }
    Ok(missing)
}

fn place(source: Source, program: &str, tools: &Path, rust: Option<&Path>) -> Option<PathBuf> {
    let in_folder = |folder: &Path| Some(folder.join(program)).filter(|program| program.is_file());
    match source {
        // The one on the PATH may be a script of a manager of versions, which needs a PATH of its own.
        Source::Debian(_) if program == "python3" => {
            let real = tools.join("python/bin/python3").canonicalize().ok();
            real.or_else(|| debian::find(program))
        }
        Source::Debian(_) => debian::find(program),
        Source::Rust => rust.and_then(in_folder).or_else(|| debian::find(program)),
        Source::Ours => in_folder(tools).or_else(|| debian::find(program)),
    }
}

/// Returns the toolchain's own programs. Those of rustup would put folders of the user in front of the PATH.
fn toolchain() -> Option<PathBuf> {
    let asked = Command::new("rustc").args(["--print", "sysroot"]).output().ok()?;
    let sysroot = String::from_utf8(asked.stdout).ok()?;
    Some(Path::new(sysroot.trim()).join("bin"))
}
