//! The tally over all runs: executions by target, in one line of JSON. Knows no other JSON.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Result};
use std::path::Path;

const FILE: &str = "state.json";

/// Executions by target.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct State(BTreeMap<String, u64>);

impl State {
    /// What earlier runs came to; nothing where there were none.
    pub(crate) fn read(folder: &Path) -> Result<Self> {
        match std::fs::read_to_string(folder.join(FILE)) {
            Ok(text) => Ok(Self::parse(&text)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }

    /// Adds a run and gives the sum.
    pub(crate) fn add(&mut self, target: &str, executions: u64) -> u64 {
        let sum = self.0.entry(target.to_owned()).or_default();
        *sum += executions;
        *sum
    }

    /// Replaces the file.
    pub(crate) fn write(&self, folder: &Path) -> Result<()> {
        std::fs::write(folder.join(FILE), self.text())
    }

    fn text(&self) -> String {
        let pairs: Vec<String> = self
            .0
            .iter()
            .map(|(name, sum)| format!("\"{name}\":{sum}"))
            .collect();
        format!("{{{}}}\n", pairs.join(","))
    }

    /// Reads what [`State::text`] wrote.
    fn parse(text: &str) -> Self {
        let inside = text.trim().trim_start_matches('{').trim_end_matches('}');
        let pairs = inside.split(',').filter_map(|pair| {
            let (name, sum) = pair.split_once(':')?;
            Some((name.trim().trim_matches('"').to_owned(), sum.trim().parse().ok()?))
        });
        Self(pairs.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::State;

    #[test]
    fn the_tally_comes_back_as_it_was_written() {
        let mut state = State::default();
        assert_eq!(state.add("wire", 5), 5);
        assert_eq!((state.add("wire", 2), state.add("plan", 1)), (7, 1));
        assert_eq!(state.text(), "{\"plan\":1,\"wire\":7}\n");
        assert_eq!(State::parse(&state.text()), state);
        assert_eq!(State::parse(""), State::default());
    }
}
