//! Runs `cargo demo` and `cargo verify` on a bare machine: makes the root of a fresh Debian, installs the packages that the README asks
//! for, and clones this checkout into it. Uses the standard library alone.

#![allow(clippy::print_stdout, reason = "stdout is what this program is for")]

mod inside;
mod machine;
mod root;

use machine::Machine;
use root::Root;
use std::ffi::OsString;
use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

const USAGE: &str = "\
usage: cargo bare [--again] [COMMAND…]

Makes the root of a fresh Debian by debootstrap in target/bare/root, runs there the apt-get command of README.md, clones the last commit of
this checkout into it, and runs `cargo demo` and `cargo verify` in it, where no test may be skipped.
The root gets the toolchain of this machine, its sources of packages, its certificates, and its settings of cargo, pip and Go.

  --again    goes on with the root that is there, with its build and its tools, at the last commit
  COMMAND…   is run in the clone in the place of both commands, say `bash`

Needs root and Debian's debootstrap, which it installs. The first build in a new root takes long.
Exits with 0 if everything holds, 1 if something does not, and 64 if it does not understand its arguments.";

fn main() -> ExitCode {
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let first = arguments
        .first()
        .and_then(|first| first.to_str())
        .unwrap_or_default();
    let again = first == "--again";
    match first {
        "--help" | "-h" => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        "--again" => drop(arguments.remove(0)),
        option if option.starts_with('-') => {
            eprintln!("cargo bare does not know `{option}`\n\n{USAGE}");
            return ExitCode::from(EXIT_USAGE);
        }
        _ => {}
    }
    match bare(again, arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(fault) => {
            eprintln!("cargo bare cannot go on: {fault}");
            ExitCode::FAILURE
        }
    }
}

/// Returns true if every command succeeds.
fn bare(again: bool, command: Vec<OsString>) -> Result<bool> {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
    let machine = Machine::look()?;
    let root = Root::at(folder()?);
    if !again {
        root.make(&machine, &readme_command(&checkout)?)?;
    }
    root.clone_from(&checkout)?;
    let commands = match command.is_empty() {
        true => vec![words("cargo demo"), words("cargo verify")],
        false => vec![command],
    };
    let mut ended = Vec::new();
    for command in commands {
        let said: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
        let said = said.join(" ");
        println!("\n==> on a bare machine: {said}");
        let began = Instant::now();
        let holds = inside::run(root.folder(), &machine, &command)?;
        ended.push((said, holds, began.elapsed()));
    }
    println!();
    for (command, holds, took) in &ended {
        let verdict = if *holds { "ok" } else { "FAILED" };
        println!(
            "{command:<14} {verdict:<7} {:>7.1} s on a bare machine",
            took.as_secs_f32()
        );
    }
    Ok(ended.iter().all(|(_, holds, _)| *holds))
}

/// Returns the folder of the root, which lies in the target folder.
fn folder() -> Result<PathBuf> {
    let this = std::env::current_exe()?;
    let target = this.ancestors().nth(2);
    let target = target.ok_or_else(|| Error::other("this program lies in no target folder"))?;
    Ok(target.join("bare/root"))
}

/// Returns the command by which the README installs packages.
fn readme_command(checkout: &Path) -> Result<String> {
    let page = std::fs::read_to_string(checkout.join("README.md"))?;
    let line = page.lines().find(|line| line.starts_with("apt-get install "));
    line.map(str::to_owned)
        .ok_or_else(|| Error::other("README.md names no packages to install"))
}

fn words(command: &str) -> Vec<OsString> {
    command.split(' ').map(OsString::from).collect()
}

/// Runs a command, which must succeed.
fn succeed(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .map_err(|fault| Error::other(format!("cannot run {}: {fault}", command.get_program().display())))?;
    match status.success() {
        true => Ok(()),
        false => Err(Error::other(format!("{} fails", command.get_program().display()))),
    }
}

/// Returns the stdout of a command, which must succeed.
fn said(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_owned();
    let fails = |why: String| Error::other(format!("{} fails: {why}", program.display()));
    let output = command.output().map_err(|fault| fails(fault.to_string()))?;
    if !output.status.success() {
        return Err(fails(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    String::from_utf8(output.stdout).map_err(|fault| fails(fault.to_string()))
}

/// The code of `sysexits.h` for a command line that is not understood.
const EXIT_USAGE: u8 = 64;
