//! Programs out of Debian's packages that are only unpacked: installing them would start a server, or takes root.

use super::{debian, succeeds, tell};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Installs valgrind, whose callgrind counts instructions. Where Debian's package cannot be installed it is unpacked into a folder
/// of ours, which takes no root.
pub(super) fn valgrind(folder: &Path) -> Result<(), String> {
    let own = folder.join("valgrind");
    let on_path = Path::new("valgrind");
    if counts(&own) || counts(on_path) && forget(&own) {
        return Ok(());
    }
    debian::install(&["valgrind"]);
    if counts(on_path) && forget(&own) {
        return Ok(());
    }
    tell("valgrind", "apt-get download");
    match unpack_valgrind(folder, &own) {
        Ok(()) if counts(&own) => Ok(()),
        Ok(()) | Err(_) => Err(
            "valgrind that works here; run `apt-get install valgrind` as root, or what your system has instead".to_owned(),
        ),
    }
}

/// Removes one that no longer works, say because the folder has moved, since it would be found first.
fn forget(own: &Path) -> bool {
    !own.exists() || std::fs::remove_file(own).is_ok()
}

/// Returns true if callgrind runs a program.
fn counts(valgrind: &Path) -> bool {
    let mut command = Command::new(valgrind);
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "true"]);
    command
        .stdin(Stdio::null())
        .output()
        .is_ok_and(|output| output.status.success())
}

/// Unpacks the package, and writes a script that runs it from there.
fn unpack_valgrind(folder: &Path, own: &Path) -> std::io::Result<()> {
    let root = debian::unpack(&folder.join("valgrind-package"), &["valgrind"])?;
    let missing = || std::io::Error::other("the package holds no callgrind");
    // Its tools lie there since Debian 11, and below the triple of the machine before.
    let mut libraries = vec![root.join("usr/libexec/valgrind"), root.join("usr/lib/valgrind")];
    libraries.extend(
        debian::entries(&root.join("usr/lib"))?
            .iter()
            .map(|triple| triple.join("valgrind")),
    );
    let is_library = |library: &PathBuf| library.join("default.supp").is_file();
    let library = libraries.into_iter().find(is_library).ok_or_else(missing)?;
    let (library, program) = (library.display(), root.join("usr/bin/valgrind.bin"));
    let script = format!(
        "#!/bin/sh\nVALGRIND_LIB='{library}' exec '{}' \"$@\"\n",
        program.display()
    );
    std::fs::write(own, script)?;
    std::fs::set_permissions(own, std::fs::Permissions::from_mode(0o755))
}

/// Unpacks Prometheus and its promtool, without installing it: where Debian's package is installed, a server is started.
pub(super) fn prometheus(folder: &Path) -> Result<(), String> {
    servers(folder, "prometheus", &["usr/bin/prometheus", "usr/bin/promtool"])
}

/// Unpacks a server of NATS, as Prometheus.
pub(super) fn nats_server(folder: &Path) -> Result<(), String> {
    servers(folder, "nats-server", &["usr/sbin/nats-server"])
}

/// Takes these programs out of a package.
fn servers(folder: &Path, package: &str, programs: &[&str]) -> Result<(), String> {
    let name = |program: &&str| Path::new(program).file_name().unwrap_or_default().to_owned();
    let work = || {
        let works = |program| succeeds(&folder.join(name(program)).display().to_string(), &["--version"]);
        programs.iter().all(works)
    };
    if work() {
        return Ok(());
    }
    tell(package, "apt-get download");
    let unpack = || -> std::io::Result<()> {
        let root = debian::unpack(&folder.join(format!("{package}-package")), &[package])?;
        for program in programs {
            std::fs::rename(root.join(program), folder.join(name(program)))?;
        }
        std::fs::remove_dir_all(root)
    };
    match unpack() {
        Ok(()) if work() => Ok(()),
        Ok(()) | Err(_) => Err(format!("{package}; put a release of it on the PATH")),
    }
}

/// Unpacks buildah, which builds images without a daemon, and the contents of stand-ins of their bases.
pub(super) fn buildah(folder: &Path) -> Result<(), String> {
    for (own, packages) in [("buildah-package", BUILDAH), ("base-package", BASE_OF_IMAGES)] {
        let (own, unfinished) = (folder.join(own), folder.join("unfinished-package"));
        if own.is_dir() {
            continue;
        }
        tell(packages[0], "apt-get download");
        let unpacked = debian::unpack(&unfinished, packages);
        if unpacked.and_then(|_| std::fs::rename(&unfinished, &own)).is_err() {
            let (own, packages) = (own.display(), packages.join(", "));
            return Err(format!(
                "{own}; unpack the packages {packages} of Debian 12 there"
            ));
        }
    }
    Ok(())
}

/// Package of buildah and the libraries that it needs and that a small machine lacks.
const BUILDAH: &[&str] = &[
    "buildah",
    "golang-github-containers-common",
    "libassuan0",
    "libdevmapper1.02.1",
    "libgpgme11",
];
/// Packages of a minimal image with glibc, and a shell for the stand-in of the one that builds.
const BASE_OF_IMAGES: &[&str] = &["busybox-static", "base-files", "libc6", "libgcc-s1", "netbase"];
