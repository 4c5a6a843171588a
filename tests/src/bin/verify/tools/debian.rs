//! Packages of Debian and of its children: installed where this user may, or unpacked into a folder, which takes no root.

use super::{quiet, succeeds, tell};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Finds a program on the PATH, or in the folders of root.
pub(super) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|program| program.is_file())
}

/// Installs these packages as far as they can be had.
pub(super) fn install(packages: &[&str]) {
    if packages.is_empty() || !may_install() {
        return;
    }
    tell(&packages.join(", "), "apt-get install");
    let install = |packages: &[&str]| {
        let mut apt = Command::new("apt-get");
        apt.args(["install", "--yes", "--quiet", "--no-install-recommends"]);
        quiet(apt.args(packages).env("DEBIAN_FRONTEND", "noninteractive"))
    };
    update();
    // A package that cannot be had keeps no other away.
    if !install(packages) {
        for package in packages {
            install(&[package]);
        }
    }
}

/// Unpacks packages into a folder, and returns the folder.
pub(super) fn unpack(root: &Path, packages: &[&str]) -> std::io::Result<PathBuf> {
    if root.exists() {
        std::fs::remove_dir_all(root)?;
    }
    std::fs::create_dir_all(root)?;
    let root = root.canonicalize()?;
    let missing = || std::io::Error::other("the package cannot be had");
    let download = || {
        let mut apt = Command::new("apt-get");
        quiet(
            apt.args(["download", "--quiet"])
                .args(packages)
                .current_dir(&root),
        )
    };
    // A fresh machine has no list of packages.
    if !(download() || may_install() && update() && download()) {
        return Err(missing());
    }
    let is_package = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "deb");
    let downloaded: Vec<PathBuf> = entries(&root)?.into_iter().filter(is_package).collect();
    if downloaded.len() != packages.len() {
        return Err(missing());
    }
    for package in downloaded {
        if !quiet(Command::new("dpkg-deb").arg("--extract").arg(&package).arg(&root)) {
            return Err(missing());
        }
        std::fs::remove_file(package)?;
    }
    Ok(root)
}

/// Returns the entries of a folder.
pub(super) fn entries(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    std::fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect()
}

fn update() -> bool {
    succeeds("apt-get", &["update", "--quiet"])
}

/// Returns true for root where apt-get is there.
fn may_install() -> bool {
    let root = Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|output| output.stdout.trim_ascii() == b"0");
    root && succeeds("apt-get", &["--version"])
}
