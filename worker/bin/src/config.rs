//! The configuration after it was checked: a `Config` holds nothing that cannot work. Runs no handler.

use crate::actions::{self, Offer};
use crate::eval::budget::Budget;
use crate::handlers::{http_request, llm_chat, process_run};
use crate::http_client::{Target, port_of};
use crate::options::Options;
use crate::sandbox::Root;
use crate::secrets::Secrets;
use escapement_process::exposure::{Exposed, Guarded};
use escapement_sdk::{ClientTls, Credentials};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What the handlers may reach, and with what.
#[derive(Debug)]
pub struct Config {
    /// The directory of all files; `None`: no files.
    pub root: Option<Root>,
    /// Programs that may be started, from the name that a plan uses to the path.
    pub programs: BTreeMap<String, PathBuf>,
    /// Variables that programs get and that a plan may set.
    pub variables: BTreeSet<String>,
    /// Hosts that may be asked.
    pub hosts: AllowedHosts,
    /// The model endpoint; `None`: no models.
    pub llm: Option<LlmEndpoint>,
    /// With what the worker comes to its orchestrators.
    pub credentials: Credentials,
    /// What those who are asked may be shown and never said back.
    pub secrets: Secrets,
    /// The program that evaluates filters and templates: the worker itself.
    pub evaluator: PathBuf,
    /// The memory of all evaluations together.
    pub evaluations: Budget,
    /// The actions to offer.
    pub actions: BTreeSet<&'static str>,
}

/// The hosts that `http.request` may reach.
#[derive(Clone, Debug, Default)]
pub struct AllowedHosts(BTreeSet<(String, Option<u16>)>);

/// Where `llm.chat` asks.
#[derive(Clone, Debug)]
pub struct LlmEndpoint {
    /// The URL that ends in `/chat/completions`.
    pub url: http::Uri,
    /// The model that is asked if a step names none.
    pub model: Option<String>,
    /// The file that holds the key.
    pub api_key_file: Option<PathBuf>,
}

/// Reason why the worker cannot start with what it was given. The text says what to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError(String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// Returns everything closed: no files, no programs, no hosts, no model, every other action offered.
    pub fn closed(evaluator: PathBuf) -> Self {
        Self {
            root: None,
            programs: BTreeMap::new(),
            variables: BTreeSet::new(),
            hosts: AllowedHosts::default(),
            llm: None,
            credentials: Credentials::new(),
            secrets: Secrets::default(),
            evaluator,
            evaluations: Budget::of_machine(),
            actions: BTreeSet::new(),
        }
    }

    /// Checks the options, opens the root and looks up the programs.
    ///
    /// # Errors
    /// [`ConfigError`] names the flag and says what to do.
    pub fn from_options(options: &Options, evaluator: PathBuf) -> Result<Self, ConfigError> {
        let uri = options.orchestrator.parse::<http::Uri>().ok();
        let scheme = uri.as_ref().and_then(|uri| uri.scheme_str());
        if !matches!(scheme, Some("http" | "https")) || uri.as_ref().is_none_or(|uri| uri.host().is_none()) {
            let given = &options.orchestrator;
            return Err(wrong(format!(
                "--orchestrator {given:?} is no URL such as https://127.0.0.1:7400"
            )));
        }
        let mut config = Self::closed(evaluator);
        config.credentials = credentials(options, scheme == Some("https"))?;
        let files = [&options.token_file, &options.llm_api_key_file];
        config.secrets = Secrets::new(
            options.token.secret().map(str::to_owned),
            files.into_iter().flatten().cloned(),
        );
        if let Some(path) = &options.root {
            let opened = Root::open(path).map_err(|error| {
                wrong(format!(
                    "--root {}: {error}; name a directory that exists",
                    path.display()
                ))
            })?;
            config.root = Some(opened);
        }
        let search = std::env::var_os("PATH").unwrap_or_default();
        for name in &options.allow_program {
            config.programs.insert(name.clone(), program_path(name, &search)?);
        }
        for name in &options.allow_variable {
            config.variables.insert(variable(name)?);
        }
        for host in &options.allow_host {
            config.hosts.allow(host)?;
        }
        config.llm = llm_endpoint(options, &config)?;
        if let Some(mib) = options.evaluation_memory_mib {
            config.evaluations = Budget::with_mib(mib);
        }
        config.actions = chosen_actions(&config, &options.actions)?;
        Ok(config)
    }
}

impl AllowedHosts {
    /// Adds `HOST` or `HOST:PORT`.
    ///
    /// # Errors
    /// It is neither.
    pub fn allow(&mut self, text: &str) -> Result<(), ConfigError> {
        let authority: Option<http::uri::Authority> = text.parse().ok();
        let named = authority.and_then(|named| Some((named.host().to_ascii_lowercase(), port_of(&named)?)));
        let Some(named) = named else {
            return Err(wrong(format!(
                "--allow-host {text:?} is neither HOST nor HOST:PORT, such as example.com:8443"
            )));
        };
        self.0.insert(named);
        Ok(())
    }

    /// Returns true if none was named.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if the target's host was named with its port,
    /// or without one and the port is the scheme's default.
    pub fn contains(&self, target: &Target) -> bool {
        let named = |port| self.0.contains(&(target.host.clone(), port));
        named(Some(target.port)) || (target.port == target.scheme.default_port() && named(None))
    }
}

/// The list as the flag takes it.
impl fmt::Display for AllowedHosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (host, port)) in self.0.iter().enumerate() {
            f.write_str(if i == 0 { "" } else { "," })?;
            f.write_str(host)?;
            port.map_or(Ok(()), |port| write!(f, ":{port}"))?;
        }
        Ok(())
    }
}

/// With what the worker comes to the orchestrator. Every file is read once, so that a wrong one ends the start.
fn credentials(options: &Options, is_encrypted: bool) -> Result<Credentials, ConfigError> {
    let mut tls = ClientTls::new();
    if let Some(ca) = &options.tls_ca {
        tls = tls.ca_file(ca);
    }
    match (&options.tls_cert, &options.tls_key) {
        (None, None) => {}
        (Some(cert), Some(key)) => tls = tls.identity_files(cert, key),
        (Some(_), None) => return Err(wrong("--tls-cert needs --tls-key".to_owned())),
        (None, Some(_)) => return Err(wrong("--tls-key needs --tls-cert".to_owned())),
    }
    if let Some(name) = &options.tls_server_name {
        tls = tls.server_name(name);
    }
    for (flag, is_given) in [
        ("--tls-ca", options.tls_ca.is_some()),
        ("--tls-cert", options.tls_cert.is_some()),
        ("--tls-server-name", options.tls_server_name.is_some()),
    ] {
        if is_given && !is_encrypted {
            let given = &options.orchestrator;
            let problem = format!("{flag} is for https://, and --orchestrator is {given}");
            return Err(wrong(problem));
        }
    }
    let mut credentials = Credentials::new().tls(tls);
    // The file wins: it can be replaced while the worker runs.
    if let Some(file) = &options.token_file {
        credentials = credentials.token_file(file);
    } else if let Some(token) = options.token.secret() {
        credentials = credentials.token(token);
    }
    if options.allow_plaintext {
        credentials = credentials.allow_plaintext();
    }
    let checked = credentials.check(&options.orchestrator);
    checked.map_err(|problem| {
        wrong(format!(
            "--orchestrator {:?} cannot be dialled: {problem}",
            options.orchestrator
        ))
    })?;
    Ok(credentials)
}

fn llm_endpoint(options: &Options, config: &Config) -> Result<Option<LlmEndpoint>, ConfigError> {
    let Some(text) = &options.llm_endpoint else {
        return match (&options.llm_api_key_file, &options.llm_model) {
            (None, None) => Ok(None),
            (Some(_), _) => Err(wrong("--llm-api-key-file needs --llm-endpoint".to_owned())),
            (None, Some(_)) => Err(wrong("--llm-model needs --llm-endpoint".to_owned())),
        };
    };
    let base = text.trim_end_matches('/');
    let whole = if base.ends_with(CHAT_PATH) {
        base.to_owned()
    } else {
        format!("{base}{CHAT_PATH}")
    };
    let url: http::Uri = whole.parse().map_err(|_| {
        wrong(format!(
            "--llm-endpoint {text:?} is no URL such as http://127.0.0.1:8080/v1"
        ))
    })?;
    Target::of(&url).map_err(|why| wrong(format!("--llm-endpoint {text:?} {why}")))?;
    if let Some(path) = &options.llm_api_key_file {
        read_api_key(path)?;
        if !config.credentials.may_show_secrets_to(&whole) {
            return Err(wrong(format!(
                "--llm-api-key-file is not sent unencrypted to {whole}, which other machines can read; give https://, or \
                 --allow-plaintext if the network itself is trusted"
            )));
        }
    }
    Ok(Some(LlmEndpoint {
        url,
        model: options.llm_model.clone().filter(|model| !model.is_empty()),
        api_key_file: options.llm_api_key_file.clone(),
    }))
}

/// Reads the key of the model endpoint: one line of visible ASCII.
///
/// # Errors
/// The file cannot be read or holds something else.
pub fn read_api_key(path: &Path) -> Result<String, ConfigError> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| {
        wrong(format!(
            "--llm-api-key-file {shown}: {error}; name a file that this user may read"
        ))
    })?;
    let key = text.trim();
    if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(wrong(format!(
            "--llm-api-key-file {shown} must hold one key and nothing else"
        )));
    }
    Ok(key.to_owned())
}

/// Checks the name of a variable that programs get.
/// Variables that select the code of a program, and those of the worker's own settings, are refused.
fn variable(name: &str) -> Result<String, ConfigError> {
    let is_name = !name.is_empty() && !name.contains(['=', '\0']);
    let steers_loading = name == "PATH" || name.starts_with("LD_") || name.starts_with("DYLD_");
    if !is_name || steers_loading || name.starts_with("ESCAPEMENT_") {
        return Err(wrong(format!(
            "--allow-variable {name:?} must be the name of a variable, and not PATH, LD_*, DYLD_* or ESCAPEMENT_*"
        )));
    }
    Ok(name.to_owned())
}

fn program_path(name: &str, search: &std::ffi::OsStr) -> Result<PathBuf, ConfigError> {
    let runs = |path: &Path| {
        path.metadata()
            .is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
    };
    let path = Path::new(name);
    if path.is_absolute() {
        return if runs(path) {
            Ok(path.to_owned())
        } else {
            Err(wrong(format!(
                "--allow-program {name}: there is no such program; name one that may be executed"
            )))
        };
    }
    if name.is_empty() || name.contains('/') {
        return Err(wrong(format!(
            "--allow-program {name:?} is neither a name without / nor an absolute path"
        )));
    }
    std::env::split_paths(search)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(name))
        .find(|path| runs(path))
        .ok_or_else(|| {
            wrong(format!(
                "--allow-program {name}: not found in PATH; install it or name it by its path"
            ))
        })
}

fn chosen_actions(config: &Config, wanted: &[String]) -> Result<BTreeSet<&'static str>, ConfigError> {
    let offers = actions::offers(config);
    if wanted.is_empty() {
        return Ok(offers
            .into_iter()
            .filter_map(|(name, offer)| (offer == Offer::Open).then_some(name))
            .collect());
    }
    let choose = |text: &String| match offers.iter().find(|(name, _)| name == text) {
        Some((name, Offer::Open)) => Ok(*name),
        Some((name, Offer::Needs(flag))) => Err(wrong(format!("--actions names {name}, which needs {flag}"))),
        None => {
            let known = offers
                .iter()
                .map(|(name, _)| *name)
                .collect::<Vec<_>>()
                .join(", ");
            Err(wrong(format!(
                "--actions names {text:?}, which is none of {known}"
            )))
        }
    };
    let chosen = wanted.iter().map(choose).collect::<Result<BTreeSet<_>, _>>()?;
    for (flag, is_given, action) in [
        ("--allow-program", !config.programs.is_empty(), process_run::NAME),
        (
            "--allow-variable",
            !config.variables.is_empty(),
            process_run::NAME,
        ),
        ("--allow-host", !config.hosts.is_empty(), http_request::NAME),
        ("--llm-endpoint", config.llm.is_some(), llm_chat::NAME),
    ] {
        if is_given && !chosen.contains(action) {
            return Err(wrong(format!(
                "{flag} is for {action}, which --actions leaves out; add it there, or leave {flag} out"
            )));
        }
    }
    Ok(chosen)
}

/// Returns the files of the worker that other users of the machine could read or change and should not.
pub fn exposed(options: &Options) -> impl Iterator<Item = Exposed> {
    let secrets = [
        ("--token-file", &options.token_file),
        ("--tls-key", &options.tls_key),
        ("--llm-api-key-file", &options.llm_api_key_file),
        ("--otlp-headers-file", &options.otlp.otlp_headers_file),
    ];
    let rules = [
        ("--tls-ca", &options.tls_ca),
        ("--tls-cert", &options.tls_cert),
        ("--otlp-ca", &options.otlp.otlp_ca),
    ];
    let secrets = secrets.map(|(flag, path)| path.as_ref().map(|path| Guarded::secret(flag, path)));
    let rules = rules.map(|(flag, path)| path.as_ref().map(|path| Guarded::rules(flag, path)));
    let files = secrets.into_iter().chain(rules).flatten();
    files.filter_map(|file| file.exposed())
}

fn wrong(text: String) -> ConfigError {
    ConfigError(text)
}

const CHAT_PATH: &str = "/chat/completions";
