//! Fuzz targets: plain functions over bytes that panic where something is wrong, with seeds and mutations for them;
//! and what compares the contract crate with its second writing, for them and for the exhaustive exploration.
//! Knows neither libFuzzer nor where the corpus lies: the program beside it and the tests do.

mod certificates;
pub mod execution;
mod fixture;
pub mod lockstep;
mod mutate;
mod pages;
mod plan;
mod policies;
mod records;
mod scratch;
mod second_validator;
mod seeds;
mod session;
mod source;
mod store_file;
mod tokens;
mod tree;
mod wire;

pub use mutate::Mutator;

use std::io;
use std::path::Path;

/// A target.
#[derive(Debug)]
pub struct Target {
    /// Same as in `tests/corpus/NAME`.
    pub name: &'static str,
    run: fn(&[u8]),
    seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets.
pub const TARGETS: [Target; 10] = [
    Target {
        name: "wire",
        run: wire::run,
        seeds: wire::seeds,
    },
    Target {
        name: "plan",
        run: plan::run,
        seeds: plan::seeds,
    },
    Target {
        name: "session",
        run: session::run,
        seeds: session::seeds,
    },
    Target {
        name: "execution",
        run: execution::run,
        seeds: execution::seeds,
    },
    Target {
        name: "pages",
        run: pages::run,
        seeds: pages::seeds,
    },
    Target {
        name: "records",
        run: records::run,
        seeds: records::seeds,
    },
    Target {
        name: "store_file",
        run: store_file::run,
        seeds: store_file::seeds,
    },
    Target {
        name: "certificates",
        run: certificates::run,
        seeds: certificates::seeds,
    },
    Target {
        name: "policies",
        run: policies::run,
        seeds: policies::seeds,
    },
    Target {
        name: "tokens",
        run: tokens::run,
        seeds: tokens::seeds,
    },
];

/// Returns the target of that name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

impl Target {
    /// Judges one input.
    ///
    /// # Panics
    /// If something is wrong: that is a finding.
    pub fn run(&self, input: &[u8]) {
        (self.run)(input);
    }

    /// Inputs made from real messages.
    pub fn seeds(&self) -> Vec<Vec<u8>> {
        (self.seeds)()
    }

    /// Writes the seeds into a folder, a file for each.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub fn write_seeds(&self, folder: &Path) -> io::Result<()> {
        std::fs::create_dir_all(folder)?;
        for (number, seed) in self.seeds().iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{number:03}")), seed)?;
        }
        Ok(())
    }
}
