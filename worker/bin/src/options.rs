//! What the operator may set: flags and `ESCAPEMENT_*` variables. Checks nothing beyond the form of a value.

use clap::builder::BoolishValueParser;
use clap::{Parser, Subcommand};
use escapement_otlp::OtlpFlags;
use escapement_process::probe::Probe;
use escapement_process::settings::{self, Given, Logging};
use std::convert::Infallible;
use std::ffi::OsString;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// Runs ready-made handlers for the steps of plans:
/// files, programs, HTTP, jq, templates, models, nested plans.
///
/// Every flag can also be given as the environment variable beside it;
/// the flag wins, and a list is separated by commas there.
/// Whatever reaches out of the worker is off until a flag opens it.
/// Once it has a session, one line of JSON stands on stdout:
/// {"event":"connected","orchestrator":"http://...","worker_id":"..."};
/// one such line for every orchestrator, if the first names peers.
/// SIGTERM, SIGINT or SIGHUP drains it.
///
/// Exit codes: 0 drained; 64 bad configuration; 75 stopped before every outcome was acknowledged;
/// 1 anything else.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "worker",
    version,
    max_term_width = 110,
    args_conflicts_with_subcommands = true
)]
// The flattened options of telemetry bear the same name, and clap wants the names of groups to differ.
#[group(skip)]
pub struct Options {
    /// What to do instead of working.
    #[command(subcommand)]
    pub command: Option<Other>,

    /// The orchestrator, an https:// or http:// URL. The scheme decides whether connections are encrypted.
    #[arg(
        long,
        env = "ESCAPEMENT_ORCHESTRATOR",
        value_name = "URL",
        default_value = "http://127.0.0.1:7400"
    )]
    pub orchestrator: String,

    /// The token that the worker shows to the orchestrator and to its peers, as `authorization: Bearer TOKEN`.
    /// It is not sent unencrypted to another machine unless --allow-plaintext is given.
    /// Better given in the environment than as a flag, which other users of the machine can read. Empty: none.
    #[arg(
        long,
        env = "ESCAPEMENT_TOKEN",
        value_name = "TOKEN",
        hide_env_values = true,
        default_value = "",
        hide_default_value = true
    )]
    pub token: Token,

    /// The file that holds the token, in the place of --token. Read at every connect.
    #[arg(long, env = "ESCAPEMENT_TOKEN_FILE", value_name = "FILE")]
    pub token_file: Option<PathBuf>,

    /// Send the token, and the key of --llm-api-key-file, even where everybody on the way can read it: to an http:// address of another
    /// machine.
    #[arg(long, env = "ESCAPEMENT_ALLOW_PLAINTEXT", value_parser = BoolishValueParser::new())]
    pub allow_plaintext: bool,

    /// The certificates to trust, in PEM. Default: those that this machine trusts. This and the other --tls-* files are
    /// read at every connect, so what replaces them counts from the next one on.
    #[arg(long, env = "ESCAPEMENT_TLS_CA", value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,

    /// The certificate to show to the orchestrator, in PEM. Needs --tls-key.
    #[arg(long, env = "ESCAPEMENT_TLS_CERT", value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,

    /// The private key of the certificate, in PEM.
    #[arg(long, env = "ESCAPEMENT_TLS_KEY", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,

    /// The name that the certificate of the orchestrator must have. Default: the host of its address.
    #[arg(long, env = "ESCAPEMENT_TLS_SERVER_NAME", value_name = "NAME")]
    pub tls_server_name: Option<String>,

    /// A label for people, 1 to 255 characters. Default: the name of the host, or else `worker`.
    #[arg(long, env = "ESCAPEMENT_WORKER_ID", value_name = "LABEL")]
    pub worker_id: Option<String>,

    /// Steps that run at a time; 1 to 4096.
    /// Steps that execute plans do not count: up to 1024 of them wait beside these.
    #[arg(long, env = "ESCAPEMENT_MAX_IN_FLIGHT", value_name = "COUNT", default_value_t = 16,
          value_parser = clap::value_parser!(u32).range(1..=4_096))]
    pub max_in_flight: u32,

    /// Milliseconds that running steps may go on after the worker was asked to stop; 0 to 86400000. The orchestrator
    /// reads the same variable, within the same range; its default is 30000.
    #[arg(long, env = "ESCAPEMENT_DRAIN_GRACE_MS", value_name = "MS", default_value_t = 10_000,
          value_parser = clap::value_parser!(u64).range(0..=86_400_000))]
    pub drain_grace_ms: u64,

    /// The directory that handlers may read and write below. Without it no handler sees any file.
    #[arg(long, env = "ESCAPEMENT_ROOT", value_name = "DIRECTORY")]
    pub root: Option<PathBuf>,

    /// A program that `process.run` may start:
    /// a name that is looked up in PATH once at the start, or an absolute path.
    /// A plan may give it any arguments. Repeatable. Opens `process.run`.
    #[arg(
        long,
        env = "ESCAPEMENT_ALLOW_PROGRAM",
        value_name = "NAME",
        value_delimiter = ','
    )]
    pub allow_program: Vec<String>,

    /// A variable of the environment that programs of `process.run` get from the worker, and that a plan may set.
    /// They always get PATH, HOME and LANG, which no plan sets. With a variable that makes programs load code a plan runs any code.
    /// Repeatable.
    #[arg(
        long,
        env = "ESCAPEMENT_ALLOW_VARIABLE",
        value_name = "NAME",
        value_delimiter = ','
    )]
    pub allow_variable: Vec<String>,

    /// A host that `http.request` may reach, HOST or HOST:PORT, compared exactly;
    /// without a port the default one of the scheme. Repeatable. Opens `http.request`.
    #[arg(
        long,
        env = "ESCAPEMENT_ALLOW_HOST",
        value_name = "HOST[:PORT]",
        value_delimiter = ','
    )]
    pub allow_host: Vec<String>,

    /// An endpoint that speaks the OpenAI protocol, such as http://127.0.0.1:8080/v1. Opens `llm.chat`.
    #[arg(long, env = "ESCAPEMENT_LLM_ENDPOINT", value_name = "URL")]
    pub llm_endpoint: Option<String>,

    /// The model that `llm.chat` asks if a step names none. Needs --llm-endpoint.
    #[arg(long, env = "ESCAPEMENT_LLM_MODEL", value_name = "NAME")]
    pub llm_model: Option<String>,

    /// The file that holds the key of the endpoint. Read anew for every call, so that a key can be replaced.
    /// It is not sent unencrypted to another machine unless --allow-plaintext is given.
    #[arg(long, env = "ESCAPEMENT_LLM_API_KEY_FILE", value_name = "FILE")]
    pub llm_api_key_file: Option<PathBuf>,

    /// MiB that all evaluations of `json.query` and `template.render` may have together; 64 to 1048576. Default: a quarter of what the
    /// container may have, and 1024 at most.
    #[arg(long, env = "ESCAPEMENT_EVALUATION_MEMORY_MIB", value_name = "MIB",
          value_parser = clap::value_parser!(u32).range(64..=1_048_576))]
    pub evaluation_memory_mib: Option<u32>,

    /// Offer these actions only, separated by commas. Default: every action that is open.
    #[arg(long, env = "ESCAPEMENT_ACTIONS", value_name = "LIST", value_delimiter = ',')]
    pub actions: Vec<String>,

    /// Address to serve figures for Prometheus and probes on, IP:PORT; port 0 takes any free port: /metrics, /livez, /readyz.
    /// Plain HTTP: every client that reaches it can read the names of the actions. Without it nothing is counted.
    #[arg(long, env = "ESCAPEMENT_METRICS_LISTEN", value_name = "ADDRESS")]
    pub metrics_listen: Option<SocketAddr>,

    /// Where the spans of handlers go.
    #[command(flatten)]
    pub otlp: OtlpFlags,

    /// Logging.
    #[command(flatten)]
    pub logging: Logging,

    /// What was set, and by what.
    #[arg(skip)]
    pub given: Given,
}

impl Options {
    /// Reads these arguments, the program's name first, and the variables of this process.
    ///
    /// # Errors
    /// A value is missing or does not parse, or help was asked for.
    pub fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let (options, given) = settings::parse::<Self>(arguments)?;
        Ok(Self { given, ..options })
    }
}

/// What to do instead of working.
#[derive(Clone, Debug, Subcommand)]
pub enum Other {
    /// Asks a worker on this machine whether it has a session that gives it work, for images that have no shell and no curl.
    ///
    /// It asks /readyz of the address that --metrics-listen gave the worker, for six seconds at most.
    ///
    /// Exit codes: 0 it has one; 1 it has none, or does not answer; 64 wrong flags.
    Health(Probe),
}

/// A secret, perhaps an empty one. Its text stands in no log.
#[derive(Clone, Default)]
pub struct Token(String);

impl Token {
    /// `None` for an empty one.
    pub fn secret(&self) -> Option<&str> {
        (!self.0.is_empty()).then_some(self.0.as_str())
    }
}

impl FromStr for Token {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "none" } else { "Token(..)" })
    }
}
