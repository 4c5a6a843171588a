//! The instrumented build: optimised, with its assertions, in a target folder of its own.
//! Instruments nothing that runs while it builds: with `--target`, build scripts and macros do not get the flags.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Flags of a stable compiler, as `cargo fuzz --sanitizer none` passes them.
const FLAGS: &str = "-Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Ccodegen-units=1 --cfg fuzzing";

/// The release profile, but with whatever finds mistakes.
const PROFILE: [(&str, &str); 6] = [
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1"),
    ("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true"),
    ("CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS", "true"),
    ("CARGO_PROFILE_RELEASE_STRIP", "none"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "line-tables-only"),
];

/// Builds the program that libFuzzer drives, and says where it lies.
pub(crate) fn build(root: &Path, folder: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let host = host()?;
    eprintln!("building the targets with instrumentation (the first time takes some minutes) ...");
    let status = Command::new(cargo())
        .args([
            "build",
            "--locked",
            "--quiet",
            "--release",
            "--package",
            "escapement-fuzz",
        ])
        .args(["--features", "fuzzing", "--bin", "libfuzzer", "--target", &host])
        .arg("--target-dir")
        .arg(folder)
        .current_dir(root)
        .env("RUSTFLAGS", FLAGS)
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .envs(PROFILE)
        .status()?;
    if !status.success() {
        return Err("cargo could not build; what it said stands above (a C++ compiler is needed)".into());
    }
    Ok(folder.join(host).join("release/libfuzzer"))
}

fn host() -> Result<String, Box<dyn Error>> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("-vV").output()?;
    let text = String::from_utf8(output.stdout)?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.ok_or("rustc does not say for which host it is")?.to_owned())
}

fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}
