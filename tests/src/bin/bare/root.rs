//! The root of a fresh Debian, with the packages of the README and a clone of the checkout.

use super::inside::{self, CLONE};
use super::machine::{Machine, Package};
use super::{said, succeed};
use std::ffi::OsString;
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder with such a root, or that will have one.
pub(crate) struct Root(PathBuf);

impl Root {
    pub(crate) fn at(folder: PathBuf) -> Self {
        Self(folder)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.0
    }

    /// Makes it anew; `command` installs what the README asks for.
    pub(crate) fn make(&self, machine: &Machine, command: &str) -> Result<()> {
        need_debootstrap()?;
        match std::fs::remove_dir_all(&self.0) {
            Err(fault) if fault.kind() != ErrorKind::NotFound => return Err(fault),
            Ok(()) | Err(_) => std::fs::create_dir_all(&self.0)?,
        }
        println!("making a root of {} in {} ...", machine.release, self.0.display());
        let mut debootstrap = Command::new("debootstrap");
        debootstrap
            .args(["--variant=minbase", &machine.release])
            .arg(&self.0);
        // Quiet: debootstrap prints a line for each package.
        said(debootstrap.arg(&machine.sources[0].address))?;
        let sources: String = machine.sources.iter().map(Package::line).collect();
        self.write("etc/apt/sources.list", &sources)?;
        self.write("etc/apt/apt.conf.d/90fetching", &machine.apt)?;
        for (file, place) in machine.files() {
            self.copy(&file, &place)?;
        }
        println!("installing what README.md asks for ...");
        let install = format!(
            "apt-get update --quiet=2 && DEBIAN_FRONTEND=noninteractive {command} --quiet=2 >/dev/null"
        );
        let install = ["sh", "-ec", &install].map(OsString::from);
        match inside::run(&self.0, machine, &install)? {
            true => Ok(()),
            false => Err(Error::other(format!("`{command}` fails in the root"))),
        }
    }

    /// Clones the last commit, or brings the clone that is there up to it.
    pub(crate) fn clone_from(&self, checkout: &Path) -> Result<()> {
        let git = || {
            let mut git = Command::new("git");
            git.arg("-C").arg(checkout);
            git
        };
        if !said(git().args(["status", "--porcelain"]))?.is_empty() {
            println!("what is not committed is not tried");
        }
        let clone = self.0.join(CLONE.trim_start_matches('/'));
        if clone.join(".git").is_dir() {
            let last = said(git().args(["rev-parse", "HEAD"]))?;
            let mut git = Command::new("git");
            git.arg("-C").arg(&clone);
            succeed(git.args(["fetch", "--quiet"]).arg(checkout).arg("HEAD"))?;
            let mut git = Command::new("git");
            git.arg("-C").arg(&clone);
            return succeed(git.args(["reset", "--quiet", "--hard", last.trim()]));
        }
        succeed(
            git()
                .args(["clone", "--quiet", "--no-hardlinks"])
                .arg(checkout)
                .arg(clone),
        )
    }

    fn write(&self, file: &str, text: &str) -> Result<()> {
        std::fs::write(self.0.join(file), text)
    }

    fn copy(&self, file: &Path, place: &Path) -> Result<()> {
        let place = self.0.join(place);
        if let Some(folder) = place.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::copy(file, place).map(drop)
    }
}

/// Installs debootstrap where it is missing.
fn need_debootstrap() -> Result<()> {
    if Command::new("debootstrap").arg("--version").output().is_ok() {
        return Ok(());
    }
    println!("installing debootstrap by apt-get install ...");
    let _ = said(Command::new("apt-get").args(["update", "--quiet"]));
    said(Command::new("apt-get").args(["install", "--yes", "--quiet", "debootstrap"])).map(drop)
}
