//! A check: a cargo command, announced, timed, its output passed on and its tests counted. Judges nothing itself.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Result};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::count::Count;
use crate::failures::Failures;
use crate::times::Times;

/// A cargo command with a name.
pub(crate) struct Check {
    name: &'static str,
    command: &'static str,
    settings: Vec<String>,
    variables: Vec<(&'static str, OsString)>,
    /// Number of tests that run at a time.
    n_threads: usize,
}

/// How a check ended.
pub(crate) struct Outcome {
    /// What the exit code says.
    pub(crate) success: bool,
    /// The tests that it ran.
    pub(crate) count: Count,
    /// What the tests that failed said.
    pub(crate) failures: Failures,
    /// Times of the suites and their tests.
    pub(crate) times: Times,
    took: Duration,
}

impl Check {
    /// `command` is what follows `cargo`, its arguments separated by single spaces.
    pub(crate) fn new(name: &'static str, command: &'static str) -> Self {
        Self {
            name,
            command,
            settings: Vec::new(),
            variables: Vec::new(),
            n_threads: 1,
        }
    }

    /// Returns the name.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Sets something of cargo's own configuration.
    pub(crate) fn setting(mut self, setting: String) -> Self {
        self.settings.push(setting);
        self
    }

    /// Sets how many tests run at a time.
    pub(crate) fn threads(mut self, n_threads: usize) -> Self {
        self.n_threads = n_threads;
        self.variable("RUST_TEST_THREADS", n_threads.to_string())
    }

    /// Sets an environment variable of the command.
    pub(crate) fn variable(mut self, name: &'static str, value: impl AsRef<OsStr>) -> Self {
        self.variables.push((name, value.as_ref().to_owned()));
        self
    }

    /// Runs the command and passes its output on line by line.
    pub(crate) fn run(&self) -> Result<Outcome> {
        println!("\n==> {}: cargo {}", self.name, self.command);
        let began = Instant::now();
        let mut child = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(self.settings.iter().flat_map(|setting| ["--config", setting]))
            .args(self.command.split(' '))
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut count = Count::default();
        let mut failures = Failures::default();
        let mut times = Times::default();
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let mut line = Vec::new();
        // By bytes: a test may print what is no UTF-8.
        while stdout.read_until(b'\n', &mut line)? > 0 {
            let text = String::from_utf8_lossy(&line);
            print!("{text}");
            failures.read(text.trim_end());
            times.read(text.trim_end(), Instant::now(), self.n_threads);
            if let Some(counted) = Count::of_line(text.trim_end()) {
                count.add(&counted);
            }
            line.clear();
        }
        let success = child.wait()?.success();
        let outcome = Outcome {
            success,
            count,
            failures,
            times,
            took: began.elapsed(),
        };
        println!("{}", outcome.line(self));
        Ok(outcome)
    }
}

impl Outcome {
    /// One line for people.
    pub(crate) fn line(&self, check: &Check) -> String {
        let verdict = if self.success { "ok" } else { "FAILED" };
        format!(
            "{:<14} {verdict:<7} {:>7.1} s",
            check.name,
            self.took.as_secs_f32()
        )
    }
}
