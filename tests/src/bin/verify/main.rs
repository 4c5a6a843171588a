//! Every check of the project in one command: `cargo verify`. Installs what is missing where it may, else says how to.
//! Changes no file of the checkout. Uses the standard library alone, so that it starts at once.

#![allow(clippy::print_stdout, reason = "stdout is what this program is for")]

mod check;
mod count;
mod failures;
mod runner;
mod times;
mod tools;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use check::Check;
use count::Count;
use times::Times;

const USAGE: &str = "\
usage: cargo verify [--tools]

Runs every check: format, lints, documentation and all tests, each one even if others failed.
Installs the tools that the tests need where it may, and names those that are missing.
Tests find no other programs on their PATH than those that tests/src/bin/verify/tools/programs.rs declares.
Ends with the seconds of each part and suite, and the twenty slowest tests.
With --tools it only installs, and names what is missing.
Exits with 0 if everything holds, 1 if something does not, and 64 if it does not understand its arguments.

Settings of the environment:
  ESCAPEMENT_SKIP_NOTHING   if it is set, a test that is skipped for want of a tool is a failure
  CARGO_TARGET_DIR          where it builds; tools are installed into its folder `tools`

One test target alone: cargo test -p escapement-tests --test TARGET [FILTER]
The same with the PATH of cargo verify: cargo --config SETTING test …, where `cargo verify --tools` says the SETTING";

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let answer = match arguments.next() {
        None => verify(),
        Some(argument) if argument == runner::RUN => {
            eprintln!("{}", runner::run(arguments));
            return ExitCode::FAILURE;
        }
        Some(argument) if argument == "--tools" => install(),
        Some(argument) if argument == "--help" || argument == "-h" => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Some(argument) => {
            eprintln!("cargo verify does not know `{}`\n\n{USAGE}", argument.display());
            return ExitCode::from(EXIT_USAGE);
        }
    };
    match answer {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(fault) => {
            eprintln!("cargo verify cannot go on: {fault}");
            ExitCode::FAILURE
        }
    }
}

/// Installs the tools alone. Returns true if none is missing.
fn install() -> std::io::Result<bool> {
    let folders = Folders::enter()?;
    let tools = tools::install(&folders.tools)?;
    tools.missing.iter().for_each(|line| println!("{line}"));
    println!("{}", runner::setting(&folders.this, &tools.path));
    Ok(tools.missing.is_empty())
}

/// Runs all checks, each one even where others failed. True if everything holds.
fn verify() -> std::io::Result<bool> {
    let folders = Folders::enter()?;
    let skipped_list = &folders.skipped_list;
    if skipped_list.exists() {
        std::fs::remove_file(skipped_list)?;
    }
    let tools = tools::install(&folders.tools)?;
    let runner = runner::setting(&folders.this, &tools.path);

    let (mut count, mut times) = (Count::default(), Times::default());
    let checks = checks(&folders, &runner);
    let (mut summary, mut said) = (Vec::new(), Vec::new());
    for check in &checks {
        let outcome = check.run()?;
        summary.push(outcome.line(check));
        count.add(&outcome.count);
        said.extend_from_slice(outcome.failures.lines());
        times.add(outcome.times, check.name());
        if !outcome.success && outcome.count.failed == 0 {
            // No test failed, and yet the check did: lints, say, or tests that do not compile.
            count.failed += 1;
        }
    }
    let skipped = std::fs::read_to_string(skipped_list).unwrap_or_default();
    count.move_to_skipped(skipped.lines().count());
    let may_skip = std::env::var_os("ESCAPEMENT_SKIP_NOTHING").is_none();

    println!("\n{times}");
    said.iter().for_each(|line| println!("{line}"));
    summary
        .iter()
        .chain(&tools.missing)
        .for_each(|line| println!("{line}"));
    skipped.lines().for_each(|line| println!("{line}"));
    if count.skipped > 0 && !may_skip {
        println!("ESCAPEMENT_SKIP_NOTHING is set, so a skipped test is a failure");
    }
    println!("{count}");
    Ok(count.failed == 0 && (may_skip || count.skipped == 0))
}

/// Returns every check, in the order in which they run.
fn checks(folders: &Folders, runner: &str) -> [Check; 6] {
    // Most tests wait for processes more than they compute: with three threads, half of two cores is idle.
    let n_cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let n_threads = 2 * n_cores + 1;
    let tests = |name, command| {
        Check::new(name, command)
            .setting(runner.to_owned())
            .threads(n_threads)
            // A backtrace through a runtime leads nowhere, and hides what failed.
            .variable("RUST_BACKTRACE", "0")
            .variable("ESCAPEMENT_BINARIES", &folders.programs)
    };
    // `--locked` wherever cargo knows it: a stale Cargo.lock is a failure and not rewritten.
    [
        Check::new("format", "fmt --all --check"),
        Check::new(
            "lints",
            "clippy --locked --workspace --all-targets --quiet -- -D warnings",
        ),
        Check::new("documentation", "doc --locked --workspace --no-deps --quiet")
            .variable("RUSTDOCFLAGS", "-D warnings"),
        // With the tests, so that the programs get the same features of their dependencies, and nothing is built twice.
        Check::new("programs", "build --locked --workspace --bins --tests --quiet"),
        tests("tests", "test --locked --workspace --no-fail-fast")
            .variable("ESCAPEMENT_TOOLS", &folders.tools)
            .variable("ESCAPEMENT_SKIPPED_LIST", &folders.skipped_list),
        // The suites that attack by bytes, frames and broken connections once more, against an orchestrator that speaks TLS.
        tests("over TLS", OVER_TLS).variable("ESCAPEMENT_OVER_TLS", "1"),
    ]
}

/// Without what TLS does not touch: what is made of a request that was read, lists, the queue, and workers that are replaced;
/// and without the handshakes, which are attacked by TLS in the first pass, too. Tests of callers without credentials, and of
/// several callers, are left out as well, since the tunnel shows a certificate.
const OVER_TLS: &str = "test --locked --workspace --no-fail-fast --test hostile --test sessions -- \
    --skip costs:: --skip decoding:: --skip handshakes:: --skip made_up:: --skip pages:: --skip queue:: --skip simulations:: \
    --skip sinks:: --skip health:: --skip registrations:: --skip watchers_of_runs:: --skip deploys::workers_ \
    --skip deploys::a_single_worker_";
/// The code of `sysexits.h` for a command line that is not understood.
const EXIT_USAGE: u8 = 64;

/// Folders and files of a run.
struct Folders {
    /// This program.
    this: PathBuf,
    programs: PathBuf,
    tools: PathBuf,
    skipped_list: PathBuf,
}

impl Folders {
    /// Finds them, from the folder of the checkout, which is the current one from now on.
    fn enter() -> std::io::Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
        std::env::set_current_dir(&root)?;
        // This program lies beside those of the workspace, in `<target>/<profile>/`.
        let this = std::env::current_exe()?;
        let programs = folder_above(&this)?;
        let target = folder_above(&programs)?;
        Ok(Self {
            this,
            programs,
            tools: target.join("tools"),
            skipped_list: target.join("skipped-tests.txt"),
        })
    }
}

fn folder_above(path: &Path) -> std::io::Result<PathBuf> {
    path.parent()
        .map(Path::to_owned)
        .ok_or_else(|| std::io::Error::other("no target folder"))
}
