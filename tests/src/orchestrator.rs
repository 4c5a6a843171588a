//! A real orchestrator process on a free port, and clients for it.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use escapement_model::limits::{ANSWER_MESSAGE_BYTES_MAX, CALLER_MESSAGE_BYTES_MAX};
use escapement_wire::v1::access_service_client::AccessServiceClient;
use escapement_wire::v1::event_service_client::EventServiceClient;
use escapement_wire::v1::fleet_service_client::FleetServiceClient;
use escapement_wire::v1::plan_execution_service_client::PlanExecutionServiceClient;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};

use crate::{Binaries, ChildProcess, Fault, TlsTunnel};

/// How an orchestrator is started. The same settings again start it again on the same store.
#[derive(Clone, Debug)]
pub struct OrchestratorSettings {
    store_path: PathBuf,
    stderr: PathBuf,
    listen: String,
    flags: Vec<String>,
    variables: Vec<(String, String)>,
    /// How callers come to it; `None`: unencrypted.
    tls: Option<ClientTlsConfig>,
    /// How callers come to it without speaking TLS, although it does.
    tunnel: Option<Arc<TlsTunnel>>,
}

impl OrchestratorSettings {
    /// Its store and its stderr lie in this directory; it listens on a free port of loopback.
    pub fn new(directory: &Path) -> Self {
        Self {
            store_path: PathBuf::new(),
            stderr: PathBuf::new(),
            listen: ANY_PORT.to_string(),
            flags: Vec::new(),
            variables: Vec::new(),
            tls: None,
            tunnel: None,
        }
        .at(directory)
    }

    /// Has its store and its stderr in another directory.
    #[must_use]
    pub fn at(mut self, directory: &Path) -> Self {
        self.store_path = directory.join("store");
        self.stderr = directory.join("orchestrator.stderr");
        self
    }

    /// Adds a flag with its value, for example `--max-running-executions` and `1`.
    #[must_use]
    pub fn flag(mut self, name: &str, value: impl ToString) -> Self {
        self.flags.extend([name.to_owned(), value.to_string()]);
        self
    }

    /// Adds a flag that takes no value.
    #[must_use]
    pub fn switch(mut self, name: &str) -> Self {
        self.flags.push(name.to_owned());
        self
    }

    /// Sets an environment variable of the process.
    #[must_use]
    pub fn variable(mut self, name: &str, value: impl ToString) -> Self {
        self.variables.push((name.to_owned(), value.to_string()));
        self
    }

    /// Writes its stderr to another file.
    #[must_use]
    pub fn stderr(mut self, file: impl Into<PathBuf>) -> Self {
        self.stderr = file.into();
        self
    }

    /// Listens where an orchestrator listened before, so that its workers find it again.
    #[must_use]
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = address.to_string();
        self
    }

    /// Has callers come to it by TLS. Its own certificate is set by flags.
    #[must_use]
    pub fn called_by_tls(mut self, tls: ClientTlsConfig) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Has it speak TLS if `ESCAPEMENT_OVER_TLS` is set, behind a tunnel for those who do not: a suite runs once more, over TLS.
    /// The tunnel's address is the orchestrator's, over restarts too.
    ///
    /// # Errors
    /// The tunnel cannot be opened.
    pub fn over_tls_if_asked(self, directory: &Path) -> Result<Self, Fault> {
        if is_over_tls() && self.tunnel.is_none() {
            return self.over_tls(directory);
        }
        Ok(self)
    }

    /// Has it speak TLS, behind a tunnel for those who do not.
    ///
    /// # Errors
    /// The tunnel cannot be opened.
    pub fn over_tls(mut self, directory: &Path) -> Result<Self, Fault> {
        let tunnel = TlsTunnel::open(directory)?;
        self.flags.extend_from_slice(tunnel.flags());
        self.tunnel = Some(Arc::new(tunnel));
        Ok(self)
    }

    /// Starts it and waits until it serves.
    ///
    /// # Errors
    /// It cannot be built or started, or does not serve within 30 s; the text holds the end of its stderr.
    pub async fn start(&self) -> Result<Orchestrator, Fault> {
        let orchestrator = match &self.tunnel {
            None => Orchestrator::of(self.launch()?).await?,
            Some(tunnel) => {
                let mut process = self.clone().listen(ANY_PORT).launch()?;
                tunnel.lead_to(Orchestrator::announced(&mut process).await?);
                let orchestrator = Orchestrator::at(process, tunnel.address())?;
                Orchestrator {
                    tunnel: Some(Arc::clone(tunnel)),
                    ..orchestrator
                }
            }
        };
        match &self.tls {
            None => Ok(orchestrator),
            Some(tls) => orchestrator.called_by_tls(tls.clone()),
        }
    }

    /// Starts it and waits for nothing: it may never serve.
    ///
    /// # Errors
    /// It cannot be built or started.
    pub fn launch(&self) -> Result<ChildProcess, Fault> {
        let mut command = Command::new(Binaries::build()?.orchestrator);
        command
            .args(["--listen", &self.listen])
            .arg("--store-path")
            .arg(&self.store_path)
            .args(&self.flags)
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        ChildProcess::start("orchestrator", &mut command, &self.stderr)
    }
}

/// A running orchestrator. Killed on drop.
#[derive(Debug)]
pub struct Orchestrator {
    /// Process: signals, exit code, stderr.
    pub process: ChildProcess,
    address: SocketAddr,
    is_encrypted: bool,
    channel: Channel,
    /// The way to it for those who do not speak TLS, if it does.
    pub tunnel: Option<Arc<TlsTunnel>>,
}

impl Orchestrator {
    /// Waits until a process that was launched serves.
    ///
    /// # Errors
    /// It does not serve within 30 s, or ends before; the text holds the end of its stderr.
    pub async fn of(process: ChildProcess) -> Result<Self, Fault> {
        let mut process = process;
        let address = Self::announced(&mut process).await?;
        Self::at(process, address)
    }

    /// Waits until a process that was launched says where it serves; for one that may end before.
    ///
    /// # Errors
    /// As [`Orchestrator::of`].
    pub async fn announced(process: &mut ChildProcess) -> Result<SocketAddr, Fault> {
        let serving = process.announcement("serving", START_LIMIT).await?;
        Ok(serving["address"]
            .as_str()
            .ok_or("the announcement `serving` has no address")?
            .parse()?)
    }

    /// Creates a process that serves at an address.
    ///
    /// # Errors
    /// The address makes no URL.
    pub fn at(process: ChildProcess, address: SocketAddr) -> Result<Self, Fault> {
        let channel = Endpoint::from_shared(format!("http://{address}"))?.connect_lazy();
        Ok(Self {
            process,
            address,
            is_encrypted: false,
            channel,
            tunnel: None,
        })
    }

    fn called_by_tls(self, tls: ClientTlsConfig) -> Result<Self, Fault> {
        let endpoint = Endpoint::from_shared(format!("https://{}", self.address))?;
        Ok(Self {
            channel: endpoint.tls_config(tls)?.connect_lazy(),
            is_encrypted: true,
            ..self
        })
    }

    /// Where it serves.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same as a URL, as workers take it.
    pub fn url(&self) -> String {
        let scheme = if self.is_encrypted { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Returns a connection to it that is made at the first call, and again after a break.
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Returns the API for callers, with room for the largest messages.
    pub fn plans(&self) -> PlanExecutionServiceClient<Channel> {
        PlanExecutionServiceClient::new(self.channel())
            .max_encoding_message_size(CALLER_MESSAGE_BYTES_MAX * 2)
            .max_decoding_message_size(ANSWER_MESSAGE_BYTES_MAX)
    }

    /// Returns the events.
    pub fn events(&self) -> EventServiceClient<Channel> {
        EventServiceClient::new(self.channel()).max_decoding_message_size(ANSWER_MESSAGE_BYTES_MAX)
    }

    /// Who callers are.
    pub fn access(&self) -> AccessServiceClient<Channel> {
        AccessServiceClient::new(self.channel())
    }

    /// Returns the API for operators.
    pub fn fleet(&self) -> FleetServiceClient<Channel> {
        FleetServiceClient::new(self.channel())
    }

    /// Asks it to stop and checks that it stops cleanly.
    ///
    /// # Errors
    /// It still runs after 45 s, or its exit code is not 0.
    pub async fn stop(mut self) -> Result<(), Fault> {
        let status = self.process.terminate(STOP_LIMIT).await?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("the orchestrator stopped with {status}").into())
        }
    }
}

/// Returns true if the suites run once more, over TLS.
pub fn is_over_tls() -> bool {
    std::env::var_os("ESCAPEMENT_OVER_TLS").is_some()
}

const ANY_PORT: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0));
const START_LIMIT: Duration = Duration::from_secs(30);
/// Longer than the longest default drain, so that a hang is seen as one.
const STOP_LIMIT: Duration = Duration::from_secs(45);
