//! Builds what the campaign runs: the test programs and the programs that the kill rounds start, all in release. Runs nothing else.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::Fault;

/// What the campaign runs.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    pub(crate) simulation: PathBuf,
    /// The simulation of runs.
    pub(crate) runs: PathBuf,
    pub(crate) crashes: PathBuf,
    /// Where the orchestrator and the worker lie.
    pub(crate) binaries: PathBuf,
}

/// Returns the target directory: this program lies in `<target>/<profile>/`.
pub(crate) fn target_folder() -> Result<PathBuf, Fault> {
    let own = std::env::current_exe()?;
    let target = own.ancestors().nth(2).ok_or("no target folder")?;
    Ok(target.to_owned())
}

pub(crate) fn build(target: &Path) -> Result<Programs, Fault> {
    // The same selection as the harness makes, so that no dependency is built twice.
    cargo(
        target,
        &["build", "--release", "--workspace", "--bins", "--quiet"],
    )?;
    let tests = |package: &str, targets: &[&str]| {
        let mut arguments = [
            "test",
            "--release",
            "--no-run",
            "--quiet",
            "--message-format",
            "json",
        ]
        .to_vec();
        arguments.extend(["--package", package]);
        targets
            .iter()
            .for_each(|target| arguments.extend(["--test", target]));
        cargo(target, &arguments)
    };
    let messages = tests("escapement-tests", &["simulation", "crashes"])?;
    let of_runs = tests("escapement-runs-simulation", &["simulation"])?;
    Ok(Programs {
        simulation: executable(&messages, "simulation")?,
        runs: executable(&of_runs, "simulation")?,
        crashes: executable(&messages, "crashes")?,
        binaries: target.join("release"),
    })
}

fn cargo(target: &Path, arguments: &[&str]) -> Result<String, Fault> {
    println!("cargo {}", arguments.join(" "));
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(arguments)
        .arg("--target-dir")
        .arg(target)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("cargo {} failed", arguments.join(" ")).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Where cargo put a test program, by its messages: one JSON object a line.
pub(crate) fn executable(messages: &str, target: &str) -> Result<PathBuf, Fault> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["target"]["name"] == target && message["profile"]["test"] == true)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .ok_or_else(|| format!("cargo built no test program {target}").into())
}
