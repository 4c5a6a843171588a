//! Times of suites and their tests, measured at the lines that libtest prints.
//!
//! libtest does not say when a test begins. But it starts tests in the order of their names, as many at a time as there are threads,
//! and the next one as soon as one has ended: from that follows when each began.

use crate::runner;
use std::fmt;
use std::time::{Duration, Instant};

/// Times so far.
#[derive(Debug, Default)]
pub(crate) struct Times {
    /// Suites that have ended.
    suites: Vec<(String, Duration)>,
    tests: Vec<(String, Duration)>,
    running: Option<Suite>,
}

/// A suite that runs.
#[derive(Debug)]
struct Suite {
    name: String,
    began: Instant,
    /// Number of its tests, and the moment at which it was printed.
    said: Option<(usize, Instant)>,
    /// Tests that have ended, in that order.
    ended: Vec<(String, Instant)>,
}

impl Times {
    /// Reads a line that came at that time, of suites that run so many tests at a time.
    pub(crate) fn read(&mut self, line: &str, now: Instant, n_threads: usize) {
        if let Some(name) = runner::announced(line) {
            self.running = Some(Suite {
                name: name.to_owned(),
                began: now,
                said: None,
                ended: Vec::new(),
            });
            return;
        }
        let Some(suite) = &mut self.running else { return };
        if line.starts_with("test result: ") {
            let suite = self.running.take().expect("it was there a line ago");
            self.suites.push((suite.name.clone(), now - suite.began));
            self.tests.extend(suite.tests(n_threads));
        } else if let Some(n_tests) = running(line) {
            suite.said = Some((n_tests, now));
        } else if let Some(test) = ended(line) {
            suite.ended.push((test.to_owned(), now));
        }
    }

    /// Takes over the times of another part; `part` distinguishes its suites from those of the same name.
    pub(crate) fn add(&mut self, other: Self, part: &str) {
        let of_part = |(name, took): (String, Duration)| match part {
            "tests" => (name, took),
            part => (format!("{name} ({part})"), took),
        };
        self.suites.extend(other.suites.into_iter().map(of_part));
        self.tests.extend(other.tests.into_iter().map(of_part));
    }
}

impl Suite {
    /// Returns the time of each test, and none if a line of one was not understood.
    fn tests(mut self, n_threads: usize) -> Vec<(String, Duration)> {
        let Some((n_tests, began)) = self.said else {
            return Vec::new();
        };
        if self.ended.len() != n_tests {
            return Vec::new();
        }
        // The first ones begin at once, each other one when the next end makes room.
        let ends: Vec<Instant> = self.ended.iter().map(|(_, at)| *at).collect();
        let begins = std::iter::repeat_n(began, n_threads).chain(ends);
        self.ended.sort_by(|(one, _), (other, _)| one.cmp(other));
        let tests = self.ended.into_iter().zip(begins);
        tests
            .map(|((test, at), began)| {
                (
                    format!("{} {test}", self.name),
                    at.saturating_duration_since(began),
                )
            })
            .collect()
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (title, times, n_most) in [
            ("seconds by suite", &self.suites, usize::MAX),
            ("the slowest tests", &self.tests, SLOWEST),
        ] {
            if times.is_empty() {
                continue;
            }
            writeln!(f, "{title}:")?;
            let mut times: Vec<_> = times.iter().collect();
            times.sort_by_key(|(_, took)| std::cmp::Reverse(*took));
            for (name, took) in times.into_iter().take(n_most) {
                writeln!(f, "{:>9.1}  {name}", took.as_secs_f32())?;
            }
        }
        Ok(())
    }
}

/// Returns the number in `running 12 tests`.
fn running(line: &str) -> Option<usize> {
    let (number, word) = line.strip_prefix("running ")?.split_once(' ')?;
    matches!(word, "test" | "tests").then(|| number.parse().ok())?
}

/// Returns the test whose end a line announces, such as `test a::b ... ok`.
fn ended(line: &str) -> Option<&str> {
    let (test, outcome) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let is_outcome = ["ok", "FAILED", "ignored"]
        .iter()
        .any(|word| outcome.starts_with(word));
    is_outcome.then(|| test.strip_suffix(" - should panic").unwrap_or(test))
}

/// Number of tests that are named.
const SLOWEST: usize = 20;

#[cfg(test)]
mod tests {
    use super::Times;
    use std::time::{Duration, Instant};

    /// Returns the text for these lines, each at its second, with two threads.
    fn said(lines: &[(u64, &str)]) -> String {
        let (mut times, begin) = (Times::default(), Instant::now());
        for (second, line) in lines {
            times.read(line, begin + Duration::from_secs(*second), 2);
        }
        let mut all = Times::default();
        all.add(times, "over TLS");
        all.to_string()
    }

    #[test]
    fn each_test_begins_when_an_earlier_one_makes_room() {
        let said = said(&[
            (0, "==> suite tests hostile"),
            (1, "running 4 tests"),
            (3, "test b ... ok"),
            (4, "test c - should panic ... ok"),
            (60, "test d has been running for over 60 seconds"),
            (70, "test d ... FAILED"),
            (71, "test a ... ignored, not here"),
            (
                71,
                "test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out",
            ),
            (
                80,
                "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
            ),
        ]);
        let wanted = "seconds by suite:\n     71.0  tests hostile (over TLS)\nthe slowest tests:\n";
        let tests = [
            "     70.0  tests hostile a (over TLS)\n",
            "     66.0  tests hostile d (over TLS)\n",
            "      2.0  tests hostile b (over TLS)\n",
            "      1.0  tests hostile c (over TLS)\n",
        ];
        let tests = tests.concat();
        assert_eq!(said, format!("{wanted}{tests}"));
    }

    #[test]
    fn a_suite_with_a_line_that_is_not_understood_has_no_times_of_tests() {
        let said = said(&[
            (0, "==> suite model model"),
            (0, "running 2 tests"),
            (1, "words of a test a ... ok"),
            (2, "test b ... ok"),
            (
                2,
                "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
            ),
        ]);
        assert_eq!(said, "seconds by suite:\n      2.0  model model (over TLS)\n");
    }
}
