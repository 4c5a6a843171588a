//! What the tests that failed said, kept for the end, so that nobody has to look for it in thousands of lines.

/// Lines that libtest prints under `failures:`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Failures {
    lines: Vec<String>,
    within: bool,
}

impl Failures {
    /// Reads one line of libtest's, and keeps it if a test that failed said it.
    pub(crate) fn read(&mut self, line: &str) {
        if line.starts_with("---- ") && line.ends_with(" ----") {
            self.within = true;
        } else if line == "failures:" || line.starts_with("test result: ") {
            // The names follow once more, which are known by then.
            self.within = false;
        }
        if self.within && self.lines.len() < LINES_MAX {
            self.lines.push(line.to_owned());
        }
    }

    /// Returns the lines, at most 400.
    pub(crate) fn lines(&self) -> &[String] {
        &self.lines
    }
}

/// If everything fails, the first say why.
const LINES_MAX: usize = 400;

#[cfg(test)]
mod tests {
    use super::Failures;

    #[test]
    fn what_failed_is_kept_and_nothing_else() {
        let mut failures = Failures::default();
        for line in [
            "running 2 tests",
            "test a ... ok",
            "test b ... FAILED",
            "",
            "failures:",
            "",
            "---- b stdout ----",
            "thread 'b' panicked at src/b.rs:1:1:",
            "expected 1, got 2",
            "",
            "failures:",
            "    b",
            "",
            "test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out",
        ] {
            failures.read(line);
        }
        let kept = [
            "---- b stdout ----",
            "thread 'b' panicked at src/b.rs:1:1:",
            "expected 1, got 2",
            "",
        ];
        assert_eq!(failures.lines(), kept);
    }
}
