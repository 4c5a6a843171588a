//! What the process is to do, as its arguments and its environment say: serve, or carry out a command. Does nothing of it.

use crate::config::{Config, NoConfig};
use clap::{Parser, Subcommand};
use escapement_commands::Command;
use escapement_process::settings;
use std::ffi::OsString;

/// Executes plans durably and hands their steps to workers.
///
/// Without a command it serves; every flag can also be given as the environment variable beside it; the flag wins.
/// Once it serves, one line of JSON stands on stdout: {"event":"serving","address":"HOST:PORT"}.
/// SIGTERM, SIGINT or SIGHUP drains it; a second one ends it at once.
/// With --tls-cert, --access-policy or --events SIGHUP has files read again instead; under systemd it never drains.
///
/// Exit codes, of the commands as well: 0 drained or done; 64 bad configuration; 65 input that cannot be drawn;
/// 69 address not to be had; 70 defect; 73 directory, lock or file not usable, or no space at a start; 74 store, backup
/// or record damaged, or store not writable any more; 75 stopped before everything that ran had ended,
/// attempts of runs included: the next start takes such runs up as after a crash; 1 anything else.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "orchestrator",
    version,
    max_term_width = 110,
    args_conflicts_with_subcommands = true
)]
pub struct Arguments {
    /// What to do instead of serving.
    #[command(subcommand)]
    command: Option<Other>,
    /// How to serve.
    #[command(flatten)]
    config: Config,
}

/// What to do instead of serving.
#[derive(Clone, Debug, Subcommand)]
enum Other {
    /// Something with a store or a record.
    #[command(flatten)]
    Command(Command),
    /// Checks how it would serve: the flags, and every file that they name and that is read at the start.
    ///
    /// Opens no store and no port. Says what is wrong, if anything is.
    ///
    /// Exit codes: 0 it can be served so; 64 it cannot.
    CheckConfig(Box<Config>),
}

/// What the process is to do.
#[derive(Clone, Debug)]
pub enum Task {
    /// Serve until a signal asks for the end.
    Serve(Box<Config>),
    /// Only look whether it could serve so.
    CheckConfig(Box<Config>),
    /// Something else, and end.
    Command(Command),
}

impl Task {
    /// Reads the arguments and the environment of this process.
    ///
    /// # Errors
    /// [`NoConfig`] if they are wrong, or help was asked for.
    pub fn from_arguments() -> Result<Self, NoConfig> {
        Self::from_iterator(std::env::args_os())
    }

    /// Reads these arguments, the program's name first, and the environment of this process.
    ///
    /// # Errors
    /// As [`Task::from_arguments`].
    pub fn from_iterator(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, NoConfig> {
        let (arguments, given) =
            settings::parse::<Arguments>(arguments).map_err(|error| NoConfig::Arguments(Box::new(error)))?;
        match arguments.command {
            Some(Other::Command(command)) => Ok(Task::Command(command)),
            Some(Other::CheckConfig(config)) => Ok(Task::CheckConfig(Box::new(config.checked(given)?))),
            None => Ok(Task::Serve(Box::new(arguments.config.checked(given)?))),
        }
    }
}
