//! Builds the workloads and runs each of them under callgrind, in the same surroundings everywhere. Judges nothing.

use crate::figures::Measured;
use escapement_tests::checkout;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// The programs with the workloads, as a release builds them.
pub(crate) fn build() -> Vec<PathBuf> {
    PROGRAMS
        .iter()
        .map(|(package, example)| build_one(package, example))
        .collect()
}

fn build_one(package: &str, example: &str) -> PathBuf {
    let target = target_folder();
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        // Flags and profiles of whoever builds make another program.
        if name.starts_with("CARGO_PROFILE_") || FLAGS.contains(&name.as_str()) {
            cargo.env_remove(name);
        }
    }
    cargo
        .args([
            "build",
            "--release",
            "--quiet",
            "-p",
            package,
            "--example",
            example,
        ])
        .arg("--target-dir")
        .arg(&target)
        .current_dir(checkout::root())
        .env("CARGO_INCREMENTAL", "0");
    succeed(&mut cargo);
    target.join("release/examples").join(example)
}

/// Counts the instructions of every workload. The profiles stay in `target/instructions`.
pub(crate) fn measure(valgrind: &Path, programs: &[PathBuf]) -> Vec<Measured> {
    let folder = target_folder().join("instructions");
    std::fs::create_dir_all(&folder).unwrap();
    let mut workloads: Vec<(&Path, String)> = Vec::new();
    for program in programs {
        let listed = text_of(succeed(Command::new(program).arg("--list")));
        workloads.extend(listed.lines().map(|name| (program.as_path(), name.to_owned())));
    }
    let n_threads = thread::available_parallelism().map_or(1, |cores| cores.get());
    let (next, measured) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..n_threads {
            scope.spawn(|| {
                while let Some((program, workload)) = workloads.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let one = measure_one(valgrind, program, &folder, workload);
                    measured.lock().unwrap_or_else(PoisonError::into_inner).push(one);
                }
            });
        }
    });
    let mut measured = measured.into_inner().unwrap();
    measured.sort_by_key(|one| workloads.iter().position(|(_, name)| *name == one.workload));
    measured
}

fn measure_one(valgrind: &Path, program: &Path, folder: &Path, workload: &str) -> Measured {
    let profile = folder.join(format!("{workload}.out"));
    let mut command = Command::new(valgrind);
    command
        .args(["--tool=callgrind", "--quiet", "--vgdb=no"])
        // Nothing but what runs below this function counts.
        .args(["--collect-atstart=no", "--toggle-collect=*measured_by_callgrind*"])
        // Names are written out, so that they can be found in there.
        .arg("--compress-strings=no")
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .arg(program)
        .arg(workload)
        // No variable and no `.valgrindrc` of whoever runs this.
        .current_dir(folder)
        .env_clear()
        .env("GLIBC_TUNABLES", SAME_LIBRARY_CODE);
    let printed = text_of(succeed(&mut command));
    let text = String::from_utf8_lossy(&std::fs::read(&profile).unwrap()).into_owned();
    Measured::read(workload, &printed, &text).unwrap_or_else(|fault| panic!("{workload}: {fault}"))
}

/// Compiler and valgrind, in one line.
pub(crate) fn taken_with(valgrind: &Path) -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = |program: &mut Command| text_of(succeed(program.arg("--version"))).trim().to_owned();
    let rustc = version(Command::new(rustc).current_dir(checkout::root()));
    format!("{rustc}, {}", version(&mut Command::new(valgrind)))
}

/// Where this test was built.
fn target_folder() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let folder = program.ancestors().nth(3);
    folder
        .expect("a test program lies in `target/debug/deps`")
        .to_owned()
}

fn succeed(command: &mut Command) -> Output {
    let output = command
        .output()
        .unwrap_or_else(|fault| panic!("{command:?}: {fault}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    output
}

fn text_of(output: Output) -> String {
    String::from_utf8(output.stdout).expect("a word and numbers")
}

/// Packages, and the examples in which their workloads are.
const PROGRAMS: [(&str, &str); 2] = [
    ("escapement-engine", "instructions"),
    ("escapement-run", "run_instructions"),
];

const FLAGS: [&str; 4] = [
    "RUSTFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_BUILD_RUSTFLAGS",
    "CARGO_BUILD_TARGET",
];

/// The C library copies and compares by what the processor can do, and is told here that it can do little: all processors
/// take the same way then. Names of older and newer versions; it skips those that it does not know.
const SAME_LIBRARY_CODE: &str =
    "glibc.cpu.hwcaps=-AVX2,-AVX2_Usable,-AVX512VL,-AVX512F_Usable,-AVX_Fast_Unaligned_Load,-ERMS,-FSRM";
