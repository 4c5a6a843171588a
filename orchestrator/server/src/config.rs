//! What the operator may set: flags and `ESCAPEMENT_*` variables. Opens nothing and starts nothing.

mod access;
mod no_config;
mod security;

use self::access::AccessFlags;
pub use self::no_config::NoConfig;
use self::security::SecurityFlags;
use crate::exit::Failure;
use crate::limits::{DECLARED_ACTIONS_MAX, PEER_BYTES_MAX, PEERS_MAX};
use clap::Args;
use clap::builder::BoolishValueParser;
use escapement_engine::EngineConfig;
use escapement_model::{BootId, limits};
use escapement_process::settings::{Given, Logging};
use escapement_runs_api::RunSettings;
use escapement_sinks::EventFlags;
use escapement_store::Removal;
use escapement_traces::TraceFlags;
use hyper::Uri;
use std::net::SocketAddr;
use std::path::PathBuf;

/// How the orchestrator serves. The help takes the texts of the fields.
#[derive(Args, Clone, Debug)]
pub struct Config {
    /// Address to listen on, IP:PORT; port 0 takes any free port.
    /// An address that is not loopback needs --tls-cert, or --allow-plaintext.
    #[arg(
        long,
        env = "ESCAPEMENT_LISTEN",
        value_name = "ADDRESS",
        default_value = "127.0.0.1:7400",
        value_parser = parse_address
    )]
    pub listen: SocketAddr,

    /// Address to take webhooks on, IP:PORT; port 0 takes any free port. Default: none are taken.
    /// They are signed and not encrypted: an address that is not loopback belongs behind a proxy, and needs --allow-plaintext.
    #[arg(long, env = "ESCAPEMENT_WEBHOOK_LISTEN", value_name = "ADDRESS", value_parser = parse_address)]
    pub webhook_listen: Option<SocketAddr>,

    /// Address or network (ADDRESS/BITS) of a proxy before --webhook-listen, which is trusted to say in x-forwarded-for who sends a
    /// webhook; may be given several times. Default: the sender is who connects.
    #[arg(long, env = "ESCAPEMENT_WEBHOOK_TRUSTED_PROXY", value_name = "NETWORK", value_delimiter = ',',
          value_parser = escapement_runs_api::parse_source)]
    pub webhook_trusted_proxy: Vec<String>,

    /// Address to serve figures for Prometheus and probes on, IP:PORT; port 0 takes any free port: /metrics, /livez, /readyz.
    /// Default: none are served, and nothing is counted. Every client that reaches it reads the names of actions and namespaces.
    #[arg(long, env = "ESCAPEMENT_METRICS_LISTEN", value_name = "ADDRESS", value_parser = parse_address)]
    pub metrics_listen: Option<SocketAddr>,

    /// Actions that have figures of their own, the first ones to come; 1 to 10000. All others together are `_other`.
    #[arg(long, env = "ESCAPEMENT_METRICS_MAX_ACTIONS", value_name = "COUNT", default_value_t = 256,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub metrics_max_actions: u32,

    /// Where traces go, and which.
    #[command(flatten)]
    pub traces: TraceFlags,

    /// How connections are encrypted, and whose certificates are believed.
    #[command(flatten)]
    pub security: SecurityFlags,

    /// Who may do what.
    #[command(flatten)]
    pub access: AccessFlags,

    /// Directory of the store; made if it does not exist.
    #[arg(
        long,
        env = "ESCAPEMENT_STORE_PATH",
        value_name = "DIRECTORY",
        default_value = "./escapement-data"
    )]
    pub store_path: PathBuf,

    /// Start although the store lacks executions that were acknowledged.
    #[arg(long, env = "ESCAPEMENT_ACCEPT_LOSS", value_parser = BoolishValueParser::new())]
    pub accept_loss: bool,

    /// Milliseconds that a settled execution is kept after it settled; 1000 to 3153600000000 (a century).
    /// Default: for ever. A removed execution answers EXECUTION_REMOVED, and its ids stay used.
    #[arg(long, env = "ESCAPEMENT_KEEP_SETTLED_MS", value_name = "MS",
          value_parser = clap::value_parser!(u64).range(1_000..=CENTURY_MS))]
    pub keep_settled_ms: Option<u64>,

    /// Settled executions that are kept, those that settled last; 1 to 1000000000000. Default: all. While runs are served, those that
    /// settled within the last hour are kept, too: runs read results late.
    #[arg(long, env = "ESCAPEMENT_KEEP_SETTLED_COUNT", value_name = "COUNT",
          value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    pub keep_settled_count: Option<u64>,

    /// Milliseconds that the ids of a removed execution are refused as used; 1000 to 3153600000000 (a century).
    /// Default: for ever. Behind it the same request runs again. Needs one of the two above.
    #[arg(long, env = "ESCAPEMENT_KEEP_IDS_MS", value_name = "MS",
          value_parser = clap::value_parser!(u64).range(1_000..=CENTURY_MS))]
    pub keep_ids_ms: Option<u64>,

    /// Milliseconds between two looks through the whole store for damage, in the background and slowly; 0 to
    /// 31536000000 (a year). 0 switches them off.
    #[arg(long, env = "ESCAPEMENT_SCRUB_INTERVAL_MS", value_name = "MS", default_value_t = DAY_MS,
          value_parser = clap::value_parser!(u64).range(0..=YEAR_MS))]
    pub scrub_interval_ms: u64,

    /// Executions that run at a time, nested ones not counted; 1 to 1000000, and at most --max-queued-executions.
    /// Default: 1024, or --max-queued-executions if that is lower.
    #[arg(long, env = "ESCAPEMENT_MAX_RUNNING_EXECUTIONS", value_name = "COUNT",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_running_executions: Option<u32>,

    /// Executions that are accepted and not settled at a time, those that run included; 1 to 10000000. One more is
    /// RESOURCE_EXHAUSTED.
    #[arg(long, env = "ESCAPEMENT_MAX_QUEUED_EXECUTIONS", value_name = "COUNT", default_value_t = 200_000,
          value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub max_queued_executions: u32,

    /// Queued executions that are kept in memory with their requests; 1 to 10000000. The requests of all others stand on
    /// the disk alone until their turn comes near.
    #[arg(long, env = "ESCAPEMENT_MAX_QUEUED_IN_MEMORY", value_name = "COUNT", default_value_t = 10_000,
          value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub max_queued_in_memory: u32,

    /// The largest max_concurrent_steps that a caller may ask for; 1 to 1024.
    #[arg(long, env = "ESCAPEMENT_MAX_CONCURRENT_STEPS", value_name = "COUNT", default_value_t = 1_024,
          value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub max_concurrent_steps: u32,

    /// Milliseconds of waiting that a deadline grants which the caller leaves open; 0 to 31536000000 (a year).
    #[arg(long, env = "ESCAPEMENT_QUEUE_ALLOWANCE_MS", value_name = "MS", default_value_t = 3_600_000,
          value_parser = clap::value_parser!(u64).range(0..=YEAR_MS))]
    pub queue_allowance_ms: u64,

    /// Milliseconds after the start in which every action counts as registered: workers come back; 0 to 86400000.
    #[arg(long, env = "ESCAPEMENT_REGISTRATION_GRACE_MS", value_name = "MS", default_value_t = 10_000,
          value_parser = clap::value_parser!(u64).range(0..=DAY_MS))]
    pub registration_grace_ms: u64,

    /// Milliseconds that an action stays registered after its last worker left; 0 to 31536000000 (a year). A time in
    /// which the orchestrator does not run does not count. Until then executions that begin with the action wait in the
    /// queue, bounded by their deadlines; after that they end with ACTION_NOT_FOUND.
    #[arg(long, env = "ESCAPEMENT_REGISTRATION_MEMORY_MS", value_name = "MS", default_value_t = 3_600_000,
          value_parser = clap::value_parser!(u64).range(0..=YEAR_MS))]
    pub registration_memory_ms: u64,

    /// Action that is registered though no worker ever offered it, 1 to 100 code points; a * at its end stands for
    /// anything. At most 1024, each with a flag of its own or separated by commas.
    #[arg(
        long = "declare-action",
        env = "ESCAPEMENT_DECLARE_ACTIONS",
        value_name = "NAME",
        value_delimiter = ',',
        value_parser = parse_action
    )]
    pub declared_actions: Vec<String>,

    /// Milliseconds that a worker may go on without an acknowledged heartbeat; 1000 to 600000. Its work is settled one
    /// second later.
    #[arg(long, env = "ESCAPEMENT_LEASE_MS", value_name = "MS", default_value_t = limits::LEASE_MS,
          value_parser = clap::value_parser!(u64).range(1_000..=600_000))]
    pub lease_ms: u64,

    /// Milliseconds between the heartbeats of a worker; 100 to 300000, and at most half of the lease.
    /// Default: three tenths of the lease.
    #[arg(long, env = "ESCAPEMENT_HEARTBEAT_INTERVAL_MS", value_name = "MS",
          value_parser = clap::value_parser!(u64).range(100..=300_000))]
    pub heartbeat_interval_ms: Option<u64>,

    /// Milliseconds that running executions get once the orchestrator stops; 0 to 86400000. The worker reads the same
    /// variable, within the same range; its default is 10000.
    #[arg(long, env = "ESCAPEMENT_DRAIN_GRACE_MS", value_name = "MS", default_value_t = 30_000,
          value_parser = clap::value_parser!(u64).range(0..=DAY_MS))]
    pub drain_grace_ms: u64,

    /// Connections at a time; 1 to 1000000. One more is closed at once. Each takes an open file: the limit of open
    /// files is raised to the hard one, and a lower one than needed lowers this number, with a warning unless it is the default.
    #[arg(long, env = "ESCAPEMENT_MAX_CONNECTIONS", value_name = "COUNT", default_value_t = escapement_transport::MAX_CONNECTIONS,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_connections: u32,

    /// Worker sessions at a time; 1 to 1000000.
    #[arg(long, env = "ESCAPEMENT_MAX_SESSIONS", value_name = "COUNT", default_value_t = 10_000,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_sessions: u32,

    /// Serve no runs. What is stored of them stays.
    #[arg(long, env = "ESCAPEMENT_NO_RUNS", value_parser = BoolishValueParser::new())]
    pub no_runs: bool,

    /// Runs that are under way at a time; more wait in the queue. Runs that wait for people or for other runs, and paused
    /// ones, do not count; 1 to 1000000.
    #[arg(long, env = "ESCAPEMENT_MAX_LIVE_RUNS", value_name = "COUNT", default_value_t = 4_096,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_live_runs: u32,

    /// Runs that have not ended at a time, those in the queue included; 1 to 10000000. One more is RESOURCE_EXHAUSTED.
    #[arg(long, env = "ESCAPEMENT_MAX_RUNS", value_name = "COUNT", default_value_t = 200_000,
          value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub max_runs: u32,

    /// Defaults of runs.
    #[command(flatten)]
    pub run_settings: RunSettings,

    /// Milliseconds that an ended run is kept after it ended; 1000 to 3153600000000 (a century). Default: for ever.
    /// A removed run answers RUN_REMOVED, and its ids stay used.
    #[arg(long, env = "ESCAPEMENT_KEEP_RUNS_MS", value_name = "MS",
          value_parser = clap::value_parser!(u64).range(1_000..=CENTURY_MS))]
    pub keep_runs_ms: Option<u64>,

    /// Ended runs that are kept, the newest ones; 1 to 1000000000000. Default: all.
    #[arg(long, env = "ESCAPEMENT_KEEP_RUNS_COUNT", value_name = "COUNT",
          value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    pub keep_runs_count: Option<u64>,

    /// Milliseconds that the ids of a removed run are refused as used; 1000 to 3153600000000 (a century). Default: for ever.
    #[arg(long, env = "ESCAPEMENT_KEEP_RUN_IDS_MS", value_name = "MS",
          value_parser = clap::value_parser!(u64).range(1_000..=CENTURY_MS))]
    pub keep_run_ids_ms: Option<u64>,

    /// Where events go.
    #[command(flatten)]
    pub events: EventFlags,

    /// File to append one line of JSON to for every execution that fails, best effort. It can be rotated by renaming:
    /// the next line goes to a new file of this name, without a signal.
    #[arg(long, env = "ESCAPEMENT_ERROR_HANDLER_PATH", value_name = "FILE")]
    pub error_handler_path: Option<PathBuf>,

    /// Address of another orchestrator, such as https://10.0.0.2:7400, with which workers keep a session as well;
    /// at most 64, each with a flag of its own or separated by commas. Workers follow those that have the scheme of the
    /// address that they came by.
    #[arg(
        long = "peer",
        env = "ESCAPEMENT_PEERS",
        value_name = "URL",
        value_delimiter = ',',
        value_parser = parse_peer
    )]
    pub peers: Vec<String>,

    /// File to append one line of JSON to for every message to and from workers, for people who write workers.
    /// It holds attempt tokens, and never payloads, environments, outputs or texts of errors. Rotated as above.
    #[arg(long, env = "ESCAPEMENT_SESSION_JOURNAL", value_name = "FILE")]
    pub session_journal: Option<PathBuf>,

    /// What to log and how.
    #[command(flatten)]
    pub logging: Logging,

    /// What was set, and by what.
    #[arg(skip)]
    pub given: Given,
}

impl Config {
    /// Refuses values that do not go together.
    pub(crate) fn checked(self, given: Given) -> Result<Self, NoConfig> {
        let config = Self { given, ..self };
        match config.problem() {
            None => Ok(config),
            Some((setting, problem)) => Err(NoConfig::Refused(Failure::Configuration {
                setting: config.given.naming_variable(setting),
                problem,
            })),
        }
    }

    /// Returns the flag that cannot be kept, and why.
    fn problem(&self) -> Option<(&'static str, String)> {
        let problem = self.security.problem(self.listen, self.webhook_listen);
        if problem.is_some() {
            return problem;
        }
        let problem = self
            .access
            .problem(self.listen)
            .or_else(|| self.traces.otlp.problem())
            .or_else(|| self.events.problem(self.security.allow_plaintext));
        if problem.is_some() {
            return problem;
        }
        if self.webhook_listen.is_some() && self.no_runs {
            let problem = "takes webhooks, which start runs; leave out --no-runs or this";
            return Some(("--webhook-listen", problem.to_owned()));
        }
        if self.heartbeat_interval_ms() > self.lease_ms / 2 {
            let problem = format!(
                "{} is more than half of the lease of {} ms, so one lost heartbeat would end it",
                self.heartbeat_interval_ms(),
                self.lease_ms
            );
            return Some(("--heartbeat-interval-ms", problem));
        }
        if self.peers.len() > PEERS_MAX {
            let problem = format!("is given {} times; the most is {PEERS_MAX}", self.peers.len());
            return Some(("--peer", problem));
        }
        if self.declared_actions.len() > DECLARED_ACTIONS_MAX {
            let n = self.declared_actions.len();
            let problem = format!("is given {n} times; the most is {DECLARED_ACTIONS_MAX}");
            return Some(("--declare-action", problem));
        }
        let keeps_everything = self.keep_settled_ms.is_none() && self.keep_settled_count.is_none();
        if self.keep_ids_ms.is_some() && keeps_everything {
            let problem = "forgets ids of removed executions, and none is ever removed; give --keep-settled-ms or \
                           --keep-settled-count too, or leave it out";
            return Some(("--keep-ids-ms", problem.to_owned()));
        }
        if !self.no_runs
            && self
                .keep_settled_ms
                .is_some_and(|keep_ms| keep_ms < RUNS_KEEP_SETTLED_MS_MIN)
        {
            let problem = format!(
                "removes results before runs have surely read them, which takes them up to {RUNS_KEEP_SETTLED_MS_MIN} ms; \
                 give that or more, or --no-runs"
            );
            return Some(("--keep-settled-ms", problem));
        }
        if self.max_running_executions() > self.max_queued_executions {
            let problem = format!(
                "{} is more than the {} that --max-queued-executions allows, which counts those that run too",
                self.max_running_executions(),
                self.max_queued_executions
            );
            return Some(("--max-running-executions", problem));
        }
        None
    }

    fn max_running_executions(&self) -> u32 {
        let default = MAX_RUNNING_EXECUTIONS.min(self.max_queued_executions);
        self.max_running_executions.unwrap_or(default)
    }

    fn heartbeat_interval_ms(&self) -> u64 {
        self.heartbeat_interval_ms.unwrap_or(self.lease_ms * 3 / 10)
    }

    /// What is kept.
    pub(crate) fn removal(&self) -> Removal {
        Removal {
            keep_settled_ms: self.keep_settled_ms,
            keep_settled_count: self.keep_settled_count,
            spare_younger_ms: match self.no_runs || self.keep_settled_count.is_none() {
                true => 0,
                false => RUNS_KEEP_SETTLED_MS_MIN,
            },
            keep_ids_ms: self.keep_ids_ms,
            held: None,
        }
    }

    /// Limits of all runs together.
    pub(crate) fn runs(&self) -> escapement_runs::Config {
        escapement_runs::Config {
            max_live_runs: self.max_live_runs as usize,
            max_runs: self.max_runs as usize,
        }
    }

    /// Which ended runs are kept.
    pub(crate) fn run_removal(&self) -> escapement_store::runs::RunRemoval {
        escapement_store::runs::RunRemoval {
            keep_ended_ms: self.keep_runs_ms,
            keep_ended_count: self.keep_runs_count,
            keep_ids_ms: self.keep_run_ids_ms,
            held: None,
        }
    }

    /// What the engine needs of it.
    pub(crate) fn engine(&self, boot_id: BootId, token_key: [u8; 32]) -> EngineConfig {
        EngineConfig {
            max_running_executions: self.max_running_executions() as usize,
            max_live_executions: self.max_queued_executions as usize,
            queued_in_memory_max: self.max_queued_in_memory as usize,
            queue_allowance_ms: self.queue_allowance_ms,
            registration_grace_ms: self.registration_grace_ms,
            registration_memory_ms: self.registration_memory_ms,
            declared_actions: self
                .declared_actions
                .iter()
                .map(|name| name.as_str().into())
                .collect(),
            heartbeat_interval_ms: self.heartbeat_interval_ms(),
            lease_ms: self.lease_ms,
            max_sessions: self.max_sessions as usize,
            ..EngineConfig::new(boot_id, token_key)
        }
    }
}

fn parse_address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse()
        .map_err(|_| "give IP:PORT, such as 127.0.0.1:7402; names are not looked up")
}

fn parse_action(text: &str) -> Result<String, String> {
    if (1..=limits::ACTION_CHARS_MAX).contains(&text.chars().count()) {
        Ok(text.to_owned())
    } else {
        Err(format!("must have 1 to {} code points", limits::ACTION_CHARS_MAX))
    }
}

/// Workers dial it as it stands here, so it holds nothing but scheme, host and port.
fn parse_peer(text: &str) -> Result<String, String> {
    if text.len() > PEER_BYTES_MAX {
        return Err(format!("is longer than {PEER_BYTES_MAX} bytes"));
    }
    let uri: Uri = text.parse().map_err(|error| format!("is not a URL: {error}"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err("must begin with http:// or https://".to_owned());
    }
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    match (uri.host(), uri.port_u16()) {
        (None | Some(""), _) => Err("names no host".to_owned()),
        (_, None | Some(0)) => Err("names no port".to_owned()),
        _ if authority.contains('@') => Err("must not hold a user or a password".to_owned()),
        _ if uri.path() != "/" || uri.query().is_some() => Err("must end after the port".to_owned()),
        _ => Ok(text.to_owned()),
    }
}

/// Executions that run at a time, unless the operator says otherwise.
const MAX_RUNNING_EXECUTIONS: u32 = 1_024;
/// Runs read a result when it is there, and again after a restart: an hour is enough for both.
const RUNS_KEEP_SETTLED_MS_MIN: u64 = 3_600_000;
const DAY_MS: u64 = 86_400_000;
const YEAR_MS: u64 = 365 * DAY_MS;
const CENTURY_MS: u64 = 100 * YEAR_MS;
