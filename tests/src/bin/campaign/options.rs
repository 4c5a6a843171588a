//! The command line. Runs nothing.

use std::time::Duration;

use crate::Fault;

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// How long new work is begun.
    pub(crate) duration: Duration,
    /// Where to begin instead of where the last campaign stopped.
    pub(crate) seed: Option<u64>,
}

const USAGE: &str = "usage: cargo campaign -- --minutes N [--seed S]";

impl Options {
    pub(crate) fn of(arguments: impl Iterator<Item = String>) -> Result<Self, Fault> {
        let mut arguments = arguments;
        let (mut minutes, mut seed) = (None, None);
        while let Some(argument) = arguments.next() {
            let value = arguments.next().and_then(|value| value.parse::<u64>().ok());
            match (argument.as_str(), value) {
                ("--minutes", Some(value)) if value > 0 => minutes = Some(value),
                ("--seed", Some(value)) => seed = Some(value),
                _ => return Err(USAGE.into()),
            }
        }
        let minutes = minutes.ok_or(USAGE)?;
        Ok(Self {
            duration: Duration::from_secs(minutes.checked_mul(60).ok_or(USAGE)?),
            seed,
        })
    }
}
