//! A child process: a test program with its orders in the environment, and the report that it leaves. Adds nothing up.

use std::fs::File;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::Fault;
use crate::programs::Programs;
use crate::state::{Kind, Totals, Work};

/// What became of a piece of work.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// No rule was broken.
    Done(Totals),
    /// A rule was broken, or the child fell over: the end of what it said, and the command that repeats it.
    Broken(String),
}

/// After which a child hangs. Each takes seconds, on a busy machine minutes.
const LIMIT: Duration = Duration::from_secs(1800);
/// How often a child is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// The end of what a child said that is shown.
const LINES_SHOWN: usize = 60;

impl Kind {
    /// Returns the one test of the program that takes orders.
    fn test(self) -> &'static str {
        match self {
            Kind::Seeds => "whatever_happens_every_execution_settles_once_and_no_rule_is_broken",
            Kind::Runs => "whatever_happens_no_invariant_of_runs_is_broken",
            Kind::Kills => "kills_under_load_lose_nothing_that_was_told",
        }
    }

    fn orders(self, work: Work) -> [(&'static str, String); 2] {
        let count = match self {
            Kind::Seeds | Kind::Runs => "ESCAPEMENT_SEEDS",
            Kind::Kills => "ESCAPEMENT_KILLS",
        };
        [
            ("ESCAPEMENT_SEEDS_FROM", work.from.to_string()),
            (count, work.count.to_string()),
        ]
    }

    fn target(self) -> &'static str {
        match self {
            Kind::Seeds | Kind::Runs => "simulation",
            Kind::Kills => "crashes",
        }
    }

    fn package(self) -> &'static str {
        match self {
            Kind::Seeds | Kind::Kills => "escapement-tests",
            Kind::Runs => "escapement-runs-simulation",
        }
    }
}

/// Kills and fails a real orchestrator at every system call that changes a file; false if a test fails. Minutes.
///
/// # Errors
/// The child cannot be started, or its file cannot be written.
pub(crate) fn sweep(programs: &Programs, folder: &Path) -> Result<bool, Fault> {
    let output = folder.join("sweep.txt");
    println!("a sweep of every system call ...");
    let log = File::create(&output)?;
    let status = Command::new(&programs.crashes)
        .args(["sweep", "failing", "--nocapture"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR")))
        .env("ESCAPEMENT_LONG", "1")
        .env("ESCAPEMENT_BINARIES", &programs.binaries)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .status()?;
    if !status.success() {
        println!("{status}: {}", output.display());
    }
    Ok(status.success())
}

/// Runs one piece of work to its end. `folder` takes what the child writes.
///
/// # Errors
/// The child cannot be started, or its files cannot be read.
pub(crate) fn run(programs: &Programs, folder: &Path, work: Work) -> Result<Outcome, Fault> {
    let name = format!("{}-{}-{}", work.kind.package(), work.kind.target(), work.from);
    let (report, output) = (
        folder.join(format!("{name}.json")),
        folder.join(format!("{name}.txt")),
    );
    if report.exists() {
        std::fs::remove_file(&report)?;
    }
    let program = match work.kind {
        Kind::Seeds => &programs.simulation,
        Kind::Runs => &programs.runs,
        Kind::Kills => &programs.crashes,
    };
    let log = File::create(&output)?;
    let mut child = Command::new(program)
        .args([work.kind.test(), "--nocapture"])
        .envs(work.kind.orders(work))
        .env("ESCAPEMENT_REPORT", &report)
        .env("ESCAPEMENT_BINARIES", &programs.binaries)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR")))
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .map_err(|fault| format!("{}: {fault}", program.display()))?;
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if began.elapsed() > LIMIT {
            child.kill()?;
            child.wait()?;
            break None;
        }
        std::thread::park_timeout(LOOK);
    };
    let said = String::from_utf8_lossy(&std::fs::read(&output)?).into_owned();
    let outcome = judge(work, status, std::fs::read_to_string(&report).ok(), &said);
    if let Outcome::Done(_) = outcome {
        std::fs::remove_file(&output)?;
        std::fs::remove_file(&report)?;
    }
    Ok(outcome)
}

fn judge(work: Work, status: Option<ExitStatus>, report: Option<String>, said: &str) -> Outcome {
    let fault = match (status, report) {
        (None, _) => format!("it did not end within {} s", LIMIT.as_secs()),
        (Some(status), _) if !status.success() => format!("it ended with {status}"),
        (Some(_), None) => format!("it left no report: is there still a test {}?", work.kind.test()),
        (Some(_), Some(report)) => match read_report(work, &report) {
            Ok(totals) => return Outcome::Done(totals),
            Err(fault) => format!("its report cannot be read, {fault}: {report}"),
        },
    };
    let lines: Vec<&str> = said.lines().collect();
    let end = lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n");
    Outcome::Broken(format!(
        "{end}\n{} of {} from {}, {} of them: {fault}\nrepeat it with: {}",
        work.kind.target(),
        work.kind.package(),
        work.from,
        work.count,
        command(work, said)
    ))
}

/// Every piece of work must have done something, or it proves nothing.
fn read_report(work: Work, report: &str) -> Result<Totals, Fault> {
    let report: Value = serde_json::from_str(report)?;
    let number = |name: &str| {
        report[name]
            .as_u64()
            .ok_or_else(|| Fault::from(format!("no number {name}")))
    };
    let mut totals = Totals {
        operations: number("operations")?,
        faults: number("faults")?,
        ..Totals::default()
    };
    let done = match work.kind {
        Kind::Seeds => &mut totals.seeds,
        Kind::Runs => &mut totals.run_seeds,
        Kind::Kills => &mut totals.kills,
    };
    *done = number(match work.kind {
        Kind::Seeds | Kind::Runs => "seeds",
        Kind::Kills => "kills",
    })?;
    if *done < work.count || totals.operations == 0 {
        return Err(format!("it did less than the {} that it was to do", work.count).into());
    }
    Ok(totals)
}

/// What the child says repeats it, most exactly; else the whole piece of work.
fn command(work: Work, said: &str) -> String {
    let named = said
        .lines()
        .filter_map(|line| line.find("ESCAPEMENT_SEED").map(|at| line[at..].trim()))
        .find(|line| line.contains("cargo test"));
    if let Some(named) = named {
        return in_release(named);
    }
    let [from, count] = work.kind.orders(work);
    format!(
        "{}={} {}={} cargo test --release -p {} --test {} {}",
        from.0,
        from.1,
        count.0,
        count.1,
        work.kind.package(),
        work.kind.target(),
        work.kind.test()
    )
}

/// The campaign runs in release, so what repeats it does too.
fn in_release(command: &str) -> String {
    if command.contains("--release") {
        command.to_owned()
    } else {
        command.replacen("cargo test", "cargo test --release", 1)
    }
}
