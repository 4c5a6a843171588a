//! What was typed. Starts nothing.

use std::path::Path;

/// The arguments of one call.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) target: String,
    pub(crate) minutes: u64,
    /// Executions after which to stop; 0 for none.
    pub(crate) runs: u64,
    /// Copies what brings coverage into the checkout.
    pub(crate) keeps: bool,
}

impl Options {
    /// Reads `TARGET --minutes N --runs N --keep`.
    pub(crate) fn read(mut arguments: impl Iterator<Item = String>, root: &Path) -> Result<Self, String> {
        let names = targets(root);
        let usage = format!(
            "say `cargo fuzzing -- TARGET --minutes N`; the targets are {}",
            names.join(", ")
        );
        let target = arguments.next().ok_or_else(|| usage.clone())?;
        if !names.contains(&target) {
            return Err(usage);
        }
        let mut options = Self {
            target,
            minutes: 5,
            runs: 0,
            keeps: false,
        };
        while let Some(argument) = arguments.next() {
            let mut number = || {
                arguments
                    .next()
                    .and_then(|text| text.parse().ok())
                    .ok_or_else(|| usage.clone())
            };
            match argument.as_str() {
                "--minutes" => options.minutes = number()?,
                "--runs" => options.runs = number()?,
                "--keep" => options.keeps = true,
                _ => return Err(usage),
            }
        }
        Ok(options)
    }
}

/// Each target has a folder in the corpus.
fn targets(root: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(root.join("tests/corpus"))
        .into_iter()
        .flatten()
        .flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.path().is_dir())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}
