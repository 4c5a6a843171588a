//! The file with the figures that were agreed to: one line for each workload. Judges nothing.

use crate::figures::Measured;
use std::fmt;

/// The figures of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Baseline {
    /// Compiler and valgrind.
    pub(crate) taken_with: String,
    /// In the order in which the workloads are listed.
    pub(crate) figures: Vec<Measured>,
}

impl Baseline {
    /// Reads what `to_string` writes.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let taken_with = text.lines().find_map(|line| line.strip_prefix(TAKEN_WITH));
        let lines = text
            .lines()
            .filter(|line| !line.starts_with('#') && !line.is_empty());
        Ok(Self {
            taken_with: taken_with.unwrap_or_default().to_owned(),
            figures: lines.map(parse_line).collect::<Result<_, _>>()?,
        })
    }

    /// With other figures. Those within a hundredth stay: a diff shows what has changed, and what creeps up in small
    /// steps is held against where it began.
    pub(crate) fn renewed(&self, measured: Vec<Measured>, taken_with: &str) -> Self {
        let figures = measured.into_iter().map(|new| {
            let before = self.figures.iter().find(|old| old.workload == new.workload);
            match before {
                Some(old) if is_close(old, &new) => old.clone(),
                _ => new,
            }
        });
        Self {
            taken_with: taken_with.to_owned(),
            figures: figures.collect(),
        }
    }
}

fn is_close(old: &Measured, new: &Measured) -> bool {
    let close = |old: u64, new: u64| old.abs_diff(new) * 100 <= old;
    (old.operations, &old.operation) == (new.operations, &new.operation)
        && close(old.instructions, new.instructions)
        && close(old.hashing, new.hashing)
}

fn parse_line(line: &str) -> Result<Measured, String> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [workload, instructions, _, hashing, _, operations, operation] = fields[..] else {
        return Err(format!("not a line of a baseline: {line}"));
    };
    let number = |field: &str| {
        field
            .parse::<u64>()
            .map_err(|_| format!("{field} is no number: {line}"))
    };
    Ok(Measured {
        workload: workload.into(),
        operations: number(operations)?,
        operation: operation.into(),
        instructions: number(instructions)?,
        hashing: number(hashing)?,
    })
}

impl fmt::Display for Baseline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "# Instructions of each workload; tests/instructions/README.md says what they mean."
        )?;
        writeln!(f, "# Written by: {}", crate::RENEW)?;
        writeln!(f, "{TAKEN_WITH}{}", self.taken_with)?;
        writeln!(
            f,
            "#{:<33} {:>12} {:>10} {:>12} {:>10} {:>6}",
            "", "instructions", "each", "in SHA-256", "each", "of"
        )?;
        for one in &self.figures {
            let each = |count: u64| count / one.operations.max(1);
            writeln!(
                f,
                "{:<34} {:>12} {:>10} {:>12} {:>10} {:>6} {}",
                one.workload,
                one.instructions,
                each(one.instructions),
                one.hashing,
                each(one.hashing),
                one.operations,
                one.operation
            )?;
        }
        Ok(())
    }
}

const TAKEN_WITH: &str = "# Taken with: ";

#[cfg(test)]
mod tests {
    use super::Baseline;
    use crate::figures::Measured;

    fn measured(workload: &str, instructions: u64, hashing: u64) -> Measured {
        Measured {
            workload: workload.into(),
            operations: 10,
            operation: "step".into(),
            instructions,
            hashing,
        }
    }

    fn baseline(figures: Vec<Measured>) -> Baseline {
        Baseline {
            taken_with: "rustc 1".into(),
            figures,
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let written = baseline(vec![
            measured("validate-1", 123_456, 0),
            measured("execute-1", 7, 10_000),
        ]);
        assert_eq!(Baseline::parse(&written.to_string()).unwrap(), written);
        for damaged in ["validate-1 1 2 3", "validate-1 x 2 3 4 5 step"] {
            assert!(Baseline::parse(damaged).is_err(), "{damaged}");
        }
    }

    #[test]
    fn a_renewal_leaves_alone_what_has_hardly_changed() {
        let old = baseline(vec![measured("same", 1_000, 1_000), measured("gone", 1_000, 0)]);
        let renewed = |instructions, hashing| {
            let new = vec![measured("same", instructions, hashing)];
            old.renewed(new, "rustc 2").figures.remove(0)
        };
        assert_eq!(renewed(1_010, 990), old.figures[0]);
        assert_eq!(renewed(1_011, 990), measured("same", 1_011, 990));
        assert_eq!(renewed(1_000, 1_011), measured("same", 1_000, 1_011));
        let all = old.renewed(vec![measured("new", 5, 5)], "rustc 2");
        assert_eq!(all.figures, [measured("new", 5, 5)]);
        assert_eq!(all.taken_with, "rustc 2");
    }
}
