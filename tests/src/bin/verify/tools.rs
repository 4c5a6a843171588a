//! Tools that the checks need: found, or installed where that is allowed, or named with the command that installs them.
//! Never fails: what stays missing fails or skips the checks that need it.

use std::path::Path;
use std::process::{Command, Stdio};

/// Looks for every tool and installs what is missing. Answers one line for each that is missing still.
pub(crate) fn install(folder: &Path) -> Vec<String> {
    [
        component("rustfmt", &["fmt", "--version"]),
        component("clippy", &["clippy", "--version"]),
        debian_package("git", "git"),
        debian_package("faketime", "faketime"),
        grpcurl(folder),
        python(folder),
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

/// True where the package is there afterwards.
fn install_debian_package(package: &str) -> bool {
    let install = ["install", "--yes", "--quiet", "--no-install-recommends", package];
    may_install() && {
        let _ = succeeds("apt-get", &["update", "--quiet"]);
        succeeds("apt-get", &install)
    }
}

/// grpcurl, for the tests that show the API from outside.
fn grpcurl(folder: &Path) -> Result<(), String> {
    let own = folder.join("grpcurl");
    if own.is_file() || succeeds("grpcurl", &["--version"]) {
        return Ok(());
    }
    if succeeds("go", &["version"]) {
        tell("grpcurl", "go install");
        let mut go = Command::new("go");
        go.args(["install", GRPCURL])
            .env("GOBIN", folder)
            .env("GOFLAGS", "-trimpath");
        if quiet(&mut go) && own.is_file() {
            return Ok(());
        }
    }
    Err(format!(
        "grpcurl; run `go install {GRPCURL}`, or put a release of it on the PATH"
    ))
}

/// A Python of its own, with what the worker in Python imports, for the tests that judge that worker.
fn python(folder: &Path) -> Result<(), String> {
    let (own, list) = (folder.join("python"), Path::new(PYTHON_PACKAGES));
    let interpreter = own.join("bin/python");
    let wanted = std::fs::read(list).map_err(|fault| format!("{PYTHON_PACKAGES}: {fault}"))?;
    // What was installed is noted last, so that half an installation is made anew.
    let note = own.join("installed.txt");
    if interpreter.is_file() && std::fs::read(&note).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    debian_package("python3", "python3-venv")?;
    let make = |own: &Path| quiet(Command::new("python3").args(["-m", "venv", "--clear"]).arg(own));
    tell("the packages of the worker in Python", "pip");
    if !make(&own) {
        // Debian has the module apart from the program.
        install_debian_package("python3-venv");
    }
    let mut pip = Command::new(&interpreter);
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--requirement",
    ]);
    let is_installed = (interpreter.is_file() || make(&own)) && quiet(pip.arg(list));
    if is_installed && std::fs::write(&note, wanted).is_ok() {
        return Ok(());
    }
    let own = own.display();
    Err(format!(
        "grpcio for Python; run `python3 -m venv {own} && {own}/bin/pip install --requirement {PYTHON_PACKAGES}`"
    ))
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

/// The release that the tests were written against.
const GRPCURL: &str = "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4";
/// What the worker in Python imports, pinned.
const PYTHON_PACKAGES: &str = "worker/python/requirements.txt";
