//! Builds the programs that are needed, tells how far it is, and becomes the one that was asked for.
//! Uses the standard library alone, so that it is there a second after the command was typed.

#![allow(clippy::print_stdout, reason = "stdout is what this program is for")]

use std::error::Error;
use std::io::{BufRead, BufReader, IsTerminal, stderr};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

fn main() -> ExitCode {
    match launch() {
        Ok(never) => match never {},
        Err(fault) => {
            eprintln!("{fault}");
            ExitCode::FAILURE
        }
    }
}

fn launch() -> Result<std::convert::Infallible, Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let program = arguments
        .next()
        .ok_or("say which program to build and run, for example `demo`")?;
    let own = std::env::current_exe()?;
    let folder = own.parent().ok_or("a program lies in a folder")?;
    build(folder, selection(&program.to_string_lossy()))?;
    let fault = Command::new(folder.join(&program))
        .args(arguments)
        .env("ESCAPEMENT_BINARIES", folder)
        .exec();
    Err(format!("cannot run {}: {fault}", Path::new(&program).display()).into())
}

/// What a program needs beside itself. The workspace, so that no dependency is built twice for the tests; but the bars are
/// built with the release profile, where every program more takes a minute.
fn selection(program: &str) -> &'static [&'static str] {
    match program {
        "bars" => &[
            "--package=escapement-codec",
            "--package=escapement-orchestrator",
            "--package=escapement-runs-host",
            "--package=escapement-worker",
            "--package=escapement-tests",
            "--bin=orchestrator",
            "--bin=worker",
            "--bin=bars",
            "--example=fill_store",
            "--example=fill_runs",
        ],
        _ => &["--workspace", "--bins"],
    }
}

/// Builds these programs into `folder`, with the profile that this program was built with.
fn build(folder: &Path, selection: &[&str]) -> Result<(), Box<dyn Error>> {
    let target = folder
        .parent()
        .ok_or("the profile's folder lies in the target folder")?;
    let profile = if folder.ends_with("debug") {
        "dev".as_ref()
    } else {
        folder.file_name().unwrap_or_default()
    };
    let began = Instant::now();
    eprintln!("building the programs (the first time takes some minutes) ...");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--quiet", "--message-format", "json-render-diagnostics"])
        .args(selection)
        .arg("--profile")
        .arg(profile)
        .arg("--target-dir")
        .arg(target)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let messages = BufReader::new(cargo.stdout.take().ok_or("stdout is piped")?);
    let (mut ready, mut fresh) = (0_u32, 0_u32);
    for message in messages.lines() {
        let message = message?;
        if message.contains(r#""reason":"compiler-artifact""#) {
            ready += 1;
            fresh += u32::from(message.contains(r#""fresh":true"#));
            tell(ready, fresh, began);
        }
    }
    if stderr().is_terminal() {
        eprint!("\r\x1b[2K");
    }
    if !cargo.wait()?.success() {
        return Err("cargo could not build; what it said stands above".into());
    }
    eprintln!(
        "built in {:.1} s ({} units, {} of them new)",
        began.elapsed().as_secs_f32(),
        ready,
        ready - fresh
    );
    Ok(())
}

/// On a terminal a line that is redrawn, elsewhere a line now and then.
fn tell(ready: u32, fresh: u32, began: Instant) {
    let seconds = began.elapsed().as_secs();
    if stderr().is_terminal() {
        eprint!("\r\x1b[2K  {ready} units ready after {seconds} s");
    } else if ready > fresh && ready.is_multiple_of(UNITS_PER_LINE) {
        eprintln!("  {ready} units ready after {seconds} s");
    }
}

const UNITS_PER_LINE: u32 = 50;
