//! A run of libFuzzer: its output passed on in part, its executions and findings counted. Merges nothing.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::Place;
use crate::options::Options;

/// What a run came to.
pub(crate) struct Run {
    pub(crate) executions: u64,
    pub(crate) findings: usize,
}

/// Returns the bytes of an input, at most: more only make it slower.
fn input_bytes_max(target: &str) -> u32 {
    match target {
        // A few bytes are an event, and each event has its cost.
        "execution" => 192,
        "session" => 384,
        "store_file" => 64,
        "plan" => 640,
        _ => 1_024,
    }
}
/// Seconds after which one input is a finding.
const INPUT_SECONDS_MAX: u32 = 10;
/// Memory in MiB beyond which one input is a finding.
const MEMORY_MIB_MAX: u32 = 2_048;
/// Pause between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(10);

/// Returns a command that runs the program on a target.
pub(crate) fn command(program: &Path, target: &str, place: &Place) -> Command {
    let mut command = Command::new(program);
    command
        .env("ESCAPEMENT_FUZZ_TARGET", target)
        .env("ESCAPEMENT_FUZZ_SCRATCH", &place.scratch)
        .stdin(Stdio::null());
    command
}

/// Runs until the time is over, the executions are done, or something is found.
pub(crate) fn run(program: &Path, options: &Options, place: &Place) -> Result<Run, Box<dyn Error>> {
    let before = std::fs::read_dir(&place.findings)?.count();
    let mut command = command(program, &options.target, place);
    command
        .env("ESCAPEMENT_FUZZ_SEEDS", &place.seeds)
        .arg(format!("-max_total_time={}", options.minutes * 60))
        .arg(format!("-max_len={}", input_bytes_max(&options.target)))
        .arg(format!("-timeout={INPUT_SECONDS_MAX}"))
        .arg(format!("-rss_limit_mb={MEMORY_MIB_MAX}"))
        .arg(format!("-artifact_prefix={}/", place.findings.display()))
        .args(["-print_final_stats=1", "-use_value_profile=0"]);
    if options.runs > 0 {
        command.arg(format!("-runs={}", options.runs));
    }
    command.args([&place.learnt, &place.corpus, &place.seeds]);
    let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn()?;
    let mut log = std::fs::File::create(place.folder.join(format!("{}.log", options.target)))?;
    let lines = BufReader::new(child.stderr.take().ok_or("stderr is piped")?);
    let mut executions = 0;
    let mut told = Instant::now();
    for line in lines.split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        writeln!(log, "{line}")?;
        if let Some(count) = line.strip_prefix("stat::number_of_executed_units:") {
            executions = count.trim().parse()?;
        }
        let is_progress = line.starts_with('#');
        if is_progress && told.elapsed() > PROGRESS {
            println!("{line}");
            told = Instant::now();
        } else if line.contains("panicked at") || line.contains("SUMMARY") || line.contains("assertion") {
            println!("{line}");
        }
    }
    let is_well = child.wait()?.success();
    let new: Vec<_> = std::fs::read_dir(&place.findings)?.flatten().collect();
    let findings = new.len().saturating_sub(before).max(usize::from(!is_well));
    if findings > 0 {
        println!("found something; the input lies in {}", place.findings.display());
        for entry in new {
            println!(
                "ESCAPEMENT_FUZZ_TARGET={} ESCAPEMENT_FUZZ_INPUT={} cargo test -p escapement-tests --test fuzzing \
                 one_input_alone",
                options.target,
                entry.path().display()
            );
        }
    }
    Ok(Run { executions, findings })
}
