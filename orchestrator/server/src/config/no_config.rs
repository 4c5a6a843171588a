//! Why there is no configuration to start with, and how that is said.

use crate::exit::{EXIT_USAGE, Failure};
use std::process::ExitCode;

/// Why there is no configuration to start with.
#[derive(Debug)]
pub enum NoConfig {
    /// A flag or variable does not parse, or help was asked for.
    Arguments(Box<clap::Error>),
    /// The values do not go together.
    Refused(Failure),
}

impl NoConfig {
    /// Says what is wrong, or prints the help, and gives the exit code.
    pub fn report(&self) -> ExitCode {
        match self {
            NoConfig::Arguments(error) if error.use_stderr() => {
                escapement_process::say(error.to_string().trim_end());
                ExitCode::from(EXIT_USAGE)
            }
            NoConfig::Arguments(error) => {
                // Help or version; a closed stdout loses it, and nothing else.
                let _closed = error.print();
                ExitCode::SUCCESS
            }
            NoConfig::Refused(failure) => failure.report(),
        }
    }
}
