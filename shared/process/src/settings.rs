//! Flags and `ESCAPEMENT_*` variables as both programs read them. Knows no setting and checks no value.
//!
//! A variable that is empty counts as not set. A mistake names the variable if it comes from one.
//! An unknown variable, flag or command is reported with the known name that is nearest.

use crate::telemetry::{self, Exported, Format, InitError};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, Parser};
use escapement_model::spelling::Speller;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use tracing::warn;

/// What to log and how. Flatten it into the arguments of a program with `#[command(flatten)]`.
#[derive(Clone, Debug, clap::Args)]
pub struct Logging {
    /// What to log: a level, or directives such as `info,escapement_sdk=debug`.
    #[arg(
        long = "log",
        env = "ESCAPEMENT_LOG",
        value_name = "FILTER",
        default_value = "info"
    )]
    pub filter: String,
    /// How to write a log line.
    #[arg(
        long = "log-format",
        env = "ESCAPEMENT_LOG_FORMAT",
        value_name = "FORMAT",
        default_value = "plain"
    )]
    pub format: Format,
}

impl Logging {
    /// Begins to log, and exports spans and the log, see [`telemetry::init_with`].
    ///
    /// # Errors
    /// The same.
    pub fn init_with(&self, exported: Exported) -> Result<(), InitError> {
        telemetry::init_with(&self.filter, self.format, exported)
    }
}

/// Reads the arguments, the program's name first, and the variables of this process.
///
/// # Errors
/// A value is missing or does not parse, or help was asked for.
pub fn parse<T: Parser>(arguments: impl IntoIterator<Item = OsString>) -> Result<(T, Given), clap::Error> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let mut command = without_empty_variables(T::command());
    let matches = command
        .try_get_matches_from_mut(arguments.iter().cloned())
        .map_err(|error| naming_its_variable(error, &command, &arguments))
        .map_err(|error| naming_the_nearest(error, &command, &arguments))?;
    let values = T::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
    Ok((values, Given::of(&command, &matches)))
}

/// What was set, by a flag or by a variable. Shows it as it was given, secrets left out.
#[derive(Clone, Debug, Default)]
pub struct Given {
    settings: Vec<Setting>,
    unknown: Vec<String>,
}

#[derive(Clone, Debug)]
struct Setting {
    flag: String,
    /// None for a flag.
    variable: Option<String>,
    value: String,
}

impl Given {
    fn of(command: &Command, matches: &ArgMatches) -> Self {
        let setting = |arg: &Arg| {
            let id = arg.get_id().as_str();
            let variable = match matches.value_source(id)? {
                ValueSource::EnvVariable => Some(variable_of(arg)?),
                ValueSource::CommandLine => None,
                _ => return None,
            };
            let values = matches.get_raw(id)?.map(|value| value.to_string_lossy());
            let value = if arg.is_hide_env_values_set() {
                "(secret)".to_owned()
            } else {
                values.collect::<Vec<_>>().join(",")
            };
            Some(Setting {
                flag: format!("--{}", arg.get_long()?),
                variable,
                value,
            })
        };
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        Self {
            settings: command.get_arguments().filter_map(setting).collect(),
            unknown: names.filter(|name| is_unknown(name)).collect(),
        }
    }

    /// Puts the variable in front of the flag that a text begins with, if the setting comes from a variable.
    pub fn naming_variable(&self, text: &str) -> String {
        let flag = text.split(' ').next().unwrap_or_default();
        let given = self.settings.iter().find(|setting| setting.flag == flag);
        match given.and_then(|setting| setting.variable.as_ref()) {
            Some(variable) => format!("{variable} ({flag}){}", &text[flag.len()..]),
            None => text.to_owned(),
        }
    }

    /// Logs the variables that no program knows.
    pub fn warn_of_unknown(&self) {
        let known = BTreeSet::from(VARIABLES);
        for variable in &self.unknown {
            match nearest(variable.trim_start_matches(PREFIX), &known) {
                Some(name) => warn!(variable, "unknown variable is ignored; is {PREFIX}{name} meant?"),
                None => warn!(variable, "unknown variable is ignored"),
            }
        }
    }
}

impl fmt::Display for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, Setting { flag, value, .. }) in self.settings.iter().enumerate() {
            let space = if i == 0 { "" } else { " " };
            write!(f, "{space}{flag}={value}")?;
        }
        Ok(())
    }
}

fn variable_of(arg: &Arg) -> Option<String> {
    arg.get_env().map(|name| name.to_string_lossy().into_owned())
}

/// Files of settings hold empty variables, and mean that they are not set.
fn without_empty_variables(command: Command) -> Command {
    command
        .mut_args(|arg| {
            let name = arg.get_env().unwrap_or_default();
            debug_assert!(
                name.is_empty() || name.to_str().is_some_and(|name| !is_unknown(name)),
                "{name:?} is missing in VARIABLES"
            );
            let is_empty = std::env::var_os(name).is_some_and(|value| value.is_empty());
            if is_empty { arg.env(None::<&str>) } else { arg }
        })
        .mut_subcommands(without_empty_variables)
}

/// Names the variable beside the flag if the flag was not given.
fn naming_its_variable(mut error: clap::Error, command: &Command, arguments: &[OsString]) -> clap::Error {
    let Some(ContextValue::String(shown)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let Some(arg) = command.get_arguments().find(|arg| arg.to_string() == *shown) else {
        return error;
    };
    let flag = format!("--{}", arg.get_long().unwrap_or_default());
    let is_given = arguments.iter().any(|argument| {
        let argument = argument.to_string_lossy();
        argument == flag || argument.starts_with(&format!("{flag}="))
    });
    if let Some(variable) = variable_of(arg)
        && !is_given
    {
        let both = format!("{variable}', the variable of '{shown}");
        error.insert(ContextKind::InvalidArg, ContextValue::String(both));
    }
    error
}

fn is_unknown(variable: &str) -> bool {
    let Some(name) = variable.strip_prefix(PREFIX) else {
        return false;
    };
    // Kubernetes sets such variables for each service, and there may be one of our name.
    let is_of_a_service =
        ["_PORT_", "_SERVICE_"].iter().any(|part| variable.contains(part)) || name.ends_with("PORT");
    !is_of_a_service && !VARIABLES.contains(&name)
}

/// Adds the flag or the command that was probably meant, if the one that was given is unknown.
fn naming_the_nearest(mut error: clap::Error, command: &Command, arguments: &[OsString]) -> clap::Error {
    let unknown = [ContextKind::InvalidArg, ContextKind::InvalidSubcommand].map(|kind| error.get(kind));
    let Some(ContextValue::String(unknown)) = unknown.into_iter().flatten().next() else {
        return error;
    };
    let command = asked(command, arguments);
    let (known, kind, dashes): (BTreeSet<&str>, _, _) = match (error.kind(), unknown.strip_prefix("--")) {
        (ErrorKind::UnknownArgument, Some(_)) => {
            let flags = command.get_arguments().filter(|arg| !arg.is_hide_set());
            (
                flags.filter_map(Arg::get_long).collect(),
                ContextKind::SuggestedArg,
                "--",
            )
        }
        (ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand, None) => {
            let commands = command.get_subcommands().filter(|command| !command.is_hide_set());
            (
                commands.map(Command::get_name).collect(),
                ContextKind::SuggestedSubcommand,
                "",
            )
        }
        _ => return error,
    };
    if let Some(meant) = nearest(unknown.trim_start_matches('-'), &known) {
        error.insert(kind, ContextValue::String(format!("{dashes}{meant}")));
    }
    error
}

/// Returns the innermost command that the arguments name.
fn asked<'a>(command: &'a Command, arguments: &[OsString]) -> &'a Command {
    arguments.iter().skip(1).fold(command, |command, argument| {
        let named = argument.to_str().and_then(|name| command.find_subcommand(name));
        named.unwrap_or(command)
    })
}

/// Returns the known name that is nearest, if it is near.
fn nearest(name: &str, known: &BTreeSet<&str>) -> Option<String> {
    Speller::new(known).suggestions(name).into_iter().next()
}

const PREFIX: &str = "ESCAPEMENT_";
/// The variables of all programs: they may stand in one file of settings. The prefix is left out.
const VARIABLES: [&str; 80] = [
    "ACCEPT_LOSS",
    "ACCESS_POLICY",
    "ACTIONS",
    "ALLOW_ANONYMOUS",
    "ALLOW_HOST",
    "ALLOW_PLAINTEXT",
    "ALLOW_PROGRAM",
    "ALLOW_VARIABLE",
    "DECLARE_ACTIONS",
    "DEFAULT_ATTEMPT_MS",
    "DEFAULT_AUTONOMY_LEVEL",
    "DEFAULT_BATCH_SIZE",
    "DEFAULT_MAX_CONCURRENCY",
    "DEFAULT_MAX_RETRIES",
    "DEFAULT_MAX_TURNS",
    "DEFAULT_RESUME",
    "DRAIN_GRACE_MS",
    "ERROR_HANDLER_PATH",
    "EVALUATION_MEMORY_MIB",
    "EVENTS",
    "EVENT_SOURCE",
    "EVENT_WEBHOOK",
    "FEED_PATIENCE_MS",
    "HEARTBEAT_INTERVAL_MS",
    "KEEP_IDS_MS",
    "KEEP_OPERATOR_ACTIONS_MS",
    "KEEP_RUNS_COUNT",
    "KEEP_RUNS_MS",
    "KEEP_RUN_IDS_MS",
    "KEEP_SETTLED_COUNT",
    "KEEP_SETTLED_MS",
    "LEASE_MS",
    "LISTEN",
    "LLM_API_KEY_FILE",
    "LLM_ENDPOINT",
    "LLM_MODEL",
    "LOG",
    "LOG_FORMAT",
    "MAX_CONCURRENT_STEPS",
    "MAX_CONNECTIONS",
    "MAX_IN_FLIGHT",
    "MAX_LIVE_RUNS",
    "MAX_QUEUED_EXECUTIONS",
    "MAX_QUEUED_IN_MEMORY",
    "MAX_RUNNING_EXECUTIONS",
    "MAX_RUNS",
    "MAX_SESSIONS",
    "METRICS_LISTEN",
    "METRICS_MAX_ACTIONS",
    "NO_RUNS",
    "ORCHESTRATOR",
    "OTLP_ALLOW_PLAINTEXT",
    "OTLP_HEADERS_FILE",
    "OTLP_SIGNALS",
    "PEERS",
    "PLANNER_LIMIT_MS",
    "PLANTED_BUG",
    "PROTO_DIR",
    "QUEUE_ALLOWANCE_MS",
    "REGISTRATION_GRACE_MS",
    "REGISTRATION_MEMORY_MS",
    "ROOT",
    "SCRUB_INTERVAL_MS",
    "SESSION_JOURNAL",
    "STORE_PATH",
    "TLS_CA",
    "TLS_CERT",
    "TLS_CLIENT_AUTH",
    "TLS_CLIENT_CA",
    "TLS_CLIENT_CRL",
    "TLS_KEY",
    "TLS_MIN_VERSION",
    "TLS_RELOAD_INTERVAL_MS",
    "TLS_SERVER_NAME",
    "TOKEN",
    "TOKEN_FILE",
    "TRACE_PARENT",
    "WEBHOOK_LISTEN",
    "WEBHOOK_TRUSTED_PROXY",
    "WORKER_ID",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_told_and_a_distant_one_is_not() {
        let known = BTreeSet::from(VARIABLES);
        assert_eq!(nearest("LISTN", &known).as_deref(), Some("LISTEN"));
        assert_eq!(nearest("STORE_DIR", &known), None);
        assert!(is_unknown("ESCAPEMENT_LISTN"));
        for known in [
            "ESCAPEMENT_LISTEN",
            "ESCAPEMENT_SERVICE_HOST",
            "ESCAPEMENT_PORT_7400_TCP",
            "PATH",
        ] {
            assert!(!is_unknown(known), "{known}");
        }
    }

    #[derive(Debug, Parser)]
    struct Program {
        #[arg(long)]
        listen: Option<String>,
        #[command(subcommand)]
        other: Option<Other>,
    }

    #[derive(Debug, clap::Subcommand)]
    enum Other {
        Export {
            #[arg(long)]
            store_path: Option<String>,
        },
    }

    #[test]
    fn an_unknown_flag_or_command_is_refused_with_the_nearest_one() {
        let said = |arguments: &[&str]| {
            let arguments = ["program"].iter().chain(arguments).map(OsString::from);
            parse::<Program>(arguments).unwrap_err().to_string()
        };
        let near = [
            (["--listne", "x"].as_slice(), "'--listen'"),
            (&["--listne=x"], "'--listen'"),
            (&["exprot"], "'export'"),
            (&["export", "--storepath", "x"], "'--store-path'"),
            (&["--listen", "x", "export", "--store_path"], "'--store-path'"),
        ];
        for (arguments, meant) in near {
            let said = said(arguments);
            assert!(said.contains("similar") && said.contains(meant), "{said}");
        }
        for far in [["--zzzzzz"].as_slice(), &["zzzzzz"], &["export", "--listen"]] {
            assert!(!said(far).contains("similar"), "{}", said(far));
        }
    }
}
