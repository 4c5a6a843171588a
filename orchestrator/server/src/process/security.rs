//! What connections are let in by and callers are judged by, made of files that are read again while the process serves.

use crate::config::Config;
use crate::exit::{Failure, no_thread};
use escapement_keys::Keys;
use escapement_metrics::Metrics;
use escapement_model::{AttemptSeal, hex};
use escapement_operators::Operators;
use escapement_process::exposure::{Exposed, Guarded};
use escapement_process::say;
use escapement_sinks::SinksFile;
use escapement_traces::{CannotStart, Flush, Traces};
use escapement_transport::reload::{Cause, Looked, Looks, Reload, Reloadable, Report};
use escapement_transport::tls::TlsServer;
use escapement_transport::{AccessRules, CallerThreads, Connections, PolicyFile};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tracing::{info, warn};

/// Reads every file that serving would read, and keeps nothing.
///
/// # Errors
/// [`Failure::Configuration`] names the flag and the file that cannot be used.
pub fn check(config: &Config) -> Result<(), Failure> {
    let security = Security::load(config)?;
    for exposed in security.exposed(config) {
        say(&format!("warning: {exposed}"));
    }
    Ok(())
}

/// What the files of the configuration held at the start.
pub(crate) struct Security {
    /// `None`: nothing is encrypted.
    pub(crate) tls: Option<watch::Receiver<Arc<TlsServer>>>,
    /// Everybody may do everything where there is no policy.
    pub(crate) rules: AccessRules,
    /// Those that get events at least once.
    pub(crate) sinks: Option<watch::Receiver<Arc<SinksFile>>>,
    /// Of the issuers that the policy knows.
    pub(crate) keys: Option<Keys>,
    sources: Vec<Box<dyn Reload>>,
    interval: Option<Duration>,
}

impl Security {
    /// Reads all of them.
    ///
    /// # Errors
    /// [`Failure::Configuration`] names the flag and the file that cannot be used.
    pub(crate) fn load(config: &Config) -> Result<Self, Failure> {
        let traces = config.traces.otlp.check();
        traces.map_err(|(flag, problem)| wrong_traces(config, flag, problem))?;
        let mut sources: Vec<Box<dyn Reload>> = Vec::new();
        let mut tls = None;
        if let Some(settings) = config.security.tls() {
            let reloadable = TlsServer::reloadable(settings).map_err(|problem| {
                // The problem begins with the flag, where it is about one.
                let (setting, problem) = match problem.split_once(' ') {
                    Some((flag, rest)) if flag.starts_with("--") => (flag, rest.to_owned()),
                    _ => (
                        "--tls-cert",
                        format!("or another --tls-* file cannot be read: {problem}"),
                    ),
                };
                Failure::Configuration {
                    setting: config.given.naming_variable(setting),
                    problem,
                }
            })?;
            let current = reloadable.current();
            info!(certificate = %*current.borrow(), "connections are encrypted");
            tls = Some(current);
            sources.push(Box::new(reloadable));
        }
        let mut rules = AccessRules::none();
        let mut keys = None;
        if let Some(path) = &config.access.access_policy {
            let policy = PolicyFile::load(path);
            let policy =
                policy.map_err(|problem| wrong(config.given.naming_variable("--access-policy"), problem))?;
            info!(path = %path.display(), %policy, "callers are judged by a policy");
            rules = policy.rules();
            keys = Some(policy.keys());
            sources.push(Box::new(policy));
        }
        let sinks = config.events.events.as_deref().map(SinksFile::reloadable);
        let sinks = sinks.transpose();
        let sinks = sinks.map_err(|problem| wrong(config.given.naming_variable("--events"), problem))?;
        let current = sinks.as_ref().map(Reloadable::current);
        sources.extend(sinks.map(|sinks| Box::new(sinks) as Box<dyn Reload>));
        let security = Self {
            tls,
            rules,
            sinks: current,
            keys,
            sources,
            interval: config.security.reload_interval(),
        };
        for Exposed { flag, path, how } in security.exposed(config) {
            warn!(flag, path = %path.display(), how, "a file is open to other users of this machine");
        }
        Ok(security)
    }

    /// Returns the files that other users of the machine could read or change and should not.
    fn exposed(&self, config: &Config) -> Vec<Exposed> {
        let secrets = [
            ("--tls-key", &config.security.tls_key),
            ("--otlp-headers-file", &config.traces.otlp.otlp_headers_file),
        ];
        let secrets = secrets
            .into_iter()
            .filter_map(|(flag, path)| Some(Guarded::secret(flag, path.as_ref()?)));
        let named = self.sources.iter().flat_map(|source| source.files());
        secrets
            .chain(named.map(Guarded::from))
            .filter_map(|file| file.exposed())
            .collect()
    }

    /// Adds the seal that distinguishes the tokens of this process's attempts from others.
    pub(crate) fn of_attempts(mut self, attempts: AttemptSeal) -> Self {
        self.rules = self.rules.of_attempts(attempts);
        self
    }

    /// The rules, as they are now and whenever they are replaced.
    pub(crate) fn rules(&self) -> AccessRules {
        self.rules.clone()
    }

    /// Begins to look at the files, if there are any, and to ask issuers for their keys.
    ///
    /// # Errors
    /// [`Failure::System`] if there is no thread for it.
    pub(crate) fn open(
        self,
        connections_max: u32,
        callers: CallerThreads,
        operators: &Operators,
        metrics: Option<&Metrics>,
    ) -> Result<Entrance, Failure> {
        let tally = metrics.map(Metrics::tally).unwrap_or_default();
        let reloads = match self.sources.is_empty() {
            true => None,
            false => Some(
                Looks::start(
                    self.sources,
                    self.interval,
                    tally.clone(),
                    recorded(operators.clone()),
                )
                .map_err(no_thread)?,
            ),
        };
        if let Some(keys) = self.keys {
            callers.small.spawn(keys.serve());
        }
        Ok(Entrance {
            connections: Arc::new(Connections::new(
                connections_max,
                callers,
                self.tls,
                self.rules,
                tally,
            )),
            reloads,
        })
    }
}

/// Writes down what is put in force. A store that takes nothing does not hold it up: a narrower policy must not wait for a disk.
fn recorded(operators: Operators) -> impl FnMut(Cause, &Report, &mut dyn FnMut()) + Send + 'static {
    move |cause, report, replace| {
        let rpc = match cause {
            // The call itself is recorded.
            Cause::Call => return replace(),
            Cause::Interval => "reload/interval",
            Cause::Hangup => "reload/hangup",
        };
        let Looked::Replaced { sha256 } = &report.looked else {
            return replace();
        };
        let request = json!({"what": report.what, "paths": report.files, "sha256": hex::text(sha256)});
        operators.perform_in_any_case(rpc, &request, || {
            replace();
            json!({"what": report.what, "result": "replaced"})
        });
    }
}

/// Begins to export traces; `None` if there is nowhere to.
///
/// # Errors
/// [`Failure`]: what is wrong with a file, or that there is no thread.
pub(crate) fn start_traces(config: &Config) -> Result<Option<(Traces, Flush)>, Failure> {
    Traces::start(&config.traces, env!("CARGO_PKG_VERSION")).map_err(|fault| cannot_export(config, fault))
}

/// Returns the reason why the process does not start without its export.
pub(crate) fn cannot_export(config: &Config, fault: CannotStart) -> Failure {
    match fault {
        CannotStart::Flag(flag, problem) => wrong_traces(config, flag, problem),
        CannotStart::Thread(source) => Failure::System {
            what: "thread for the export",
            source,
        },
    }
}

fn wrong_traces(config: &Config, flag: &str, problem: String) -> Failure {
    wrong(config.given.naming_variable(flag), problem)
}

pub(super) fn few_files(problem: String) -> Failure {
    wrong("the limit of open files".to_owned(), problem)
}

fn wrong(setting: String, problem: String) -> Failure {
    Failure::Configuration { setting, problem }
}

/// The way in.
pub(crate) struct Entrance {
    pub(crate) connections: Arc<Connections>,
    /// What reads files again; `None` if there are none.
    pub(crate) reloads: Option<Looks>,
}
