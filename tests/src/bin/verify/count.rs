//! Counts of tests, read from what libtest prints.

use std::fmt;

/// How many tests did what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
}

impl Count {
    /// Reads a line such as `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; …`.
    pub(crate) fn of_line(line: &str) -> Option<Self> {
        let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let number = |word: &str| {
            let part = counts.split("; ").find_map(|part| part.strip_suffix(word))?;
            part.trim().parse().ok()
        };
        Some(Self {
            passed: number("passed")?,
            failed: number("failed")?,
            skipped: number("ignored")?,
        })
    }

    /// Adds another count.
    pub(crate) fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    /// Tests that found a tool missing returned early, which libtest takes for passed.
    pub(crate) fn move_to_skipped(&mut self, number: usize) {
        self.passed = self.passed.saturating_sub(number);
        self.skipped += number;
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} passed, {} failed, {} skipped",
            self.passed, self.failed, self.skipped
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Count;

    #[test]
    fn the_line_of_libtest_is_understood() {
        let line = "test result: FAILED. 32 passed; 9 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.42s";
        assert_eq!(
            Count::of_line(line),
            Some(Count {
                passed: 32,
                failed: 9,
                skipped: 1
            })
        );
    }

    #[test]
    fn no_other_line_counts() {
        for line in [
            "",
            "test result: ",
            "running 3 tests",
            "test a ... ok",
            "says test result: ok. 1 passed",
        ] {
            assert_eq!(Count::of_line(line), None, "{line}");
        }
    }

    #[test]
    fn a_test_without_its_tool_is_skipped_and_not_passed() {
        let mut count = Count {
            passed: 5,
            failed: 0,
            skipped: 0,
        };
        count.move_to_skipped(2);
        assert_eq!(count.to_string(), "3 passed, 0 failed, 2 skipped");
    }
}
