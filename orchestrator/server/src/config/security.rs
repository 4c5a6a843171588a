//! What the operator may set about encryption and certificates. Opens no file.

use clap::Args;
use clap::builder::BoolishValueParser;
use escapement_transport::tls::{ClientAuth, ClientCa, MinVersion, TlsSettings};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// How connections are encrypted, and whose certificates are believed. The help takes the texts of the fields.
#[derive(Args, Clone, Debug)]
// The crate's other groups of flags bear names of their own.
#[group(skip)]
pub struct SecurityFlags {
    /// Serve without encryption on an address that other machines can reach, and post events of --event-webhook to one.
    #[arg(long, env = "ESCAPEMENT_ALLOW_PLAINTEXT", value_parser = BoolishValueParser::new())]
    pub allow_plaintext: bool,

    /// The certificate to show to clients, in PEM, with those between it and a root behind it. All connections speak TLS then.
    /// This file and all other --tls-* files are read again while the orchestrator serves. Needs --tls-key.
    #[arg(long, env = "ESCAPEMENT_TLS_CERT", value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,

    /// The private key of the certificate, in PEM.
    #[arg(long, env = "ESCAPEMENT_TLS_KEY", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,

    /// Roots that vouch for certificates of clients, in PEM, each with a flag of its own or separated by commas.
    /// With DOMAIN= they vouch for SPIFFE ids of that trust domain and for nothing else, without it for certificates
    /// without a SPIFFE id.
    #[arg(
        long = "tls-client-ca",
        env = "ESCAPEMENT_TLS_CLIENT_CA",
        value_name = "[DOMAIN=]FILE",
        value_delimiter = ','
    )]
    pub tls_client_cas: Vec<ClientCa>,

    /// Whether clients need a certificate: none, optional or required. A wrong one is refused unless this is none.
    /// Default: optional with --tls-client-ca, else none.
    #[arg(long, env = "ESCAPEMENT_TLS_CLIENT_AUTH", value_name = "WHEN")]
    pub tls_client_auth: Option<ClientAuth>,

    /// Certificates of clients that were revoked: a revocation list in PEM, each with a flag of its own or separated by
    /// commas. While the list of a CA is out of date, its certificates are refused.
    #[arg(
        long = "tls-client-crl",
        env = "ESCAPEMENT_TLS_CLIENT_CRL",
        value_name = "FILE",
        value_delimiter = ','
    )]
    pub tls_client_crls: Vec<PathBuf>,

    /// The oldest version of TLS: 1.3 or 1.2.
    #[arg(
        long,
        env = "ESCAPEMENT_TLS_MIN_VERSION",
        value_name = "VERSION",
        default_value = "1.3"
    )]
    pub tls_min_version: MinVersion,

    /// Milliseconds between two looks at these files and at that of --access-policy; 1000 to 3600000. 0: only at SIGHUP,
    /// which has them read in any case and drains only an orchestrator without such files.
    #[arg(
        long,
        env = "ESCAPEMENT_TLS_RELOAD_INTERVAL_MS",
        value_name = "MS",
        default_value_t = 5_000,
        value_parser = parse_interval
    )]
    pub tls_reload_interval_ms: u64,
}

impl SecurityFlags {
    /// Returns the flag that cannot be kept, and why.
    pub(super) fn problem(
        &self,
        listen: SocketAddr,
        webhook_listen: Option<SocketAddr>,
    ) -> Option<(&'static str, String)> {
        self.tls_problem()
            .map(|(flag, problem)| (flag, problem.to_owned()))
            .or_else(|| self.plaintext_problem(listen, webhook_listen))
    }

    fn tls_problem(&self) -> Option<(&'static str, &'static str)> {
        let (cert, key) = (self.tls_cert.is_some(), self.tls_key.is_some());
        let has_ca = !self.tls_client_cas.is_empty();
        if cert && !key {
            return Some((
                "--tls-cert",
                "needs --tls-key, the private key that belongs to it",
            ));
        }
        for (flag, is_given) in [
            ("--tls-key", key),
            ("--tls-client-ca", has_ca),
            ("--tls-client-auth", self.tls_client_auth.is_some()),
            ("--tls-client-crl", !self.tls_client_crls.is_empty()),
        ] {
            if is_given && !cert {
                return Some((flag, "needs --tls-cert: without it nothing is encrypted"));
            }
        }
        match self.tls_client_auth {
            Some(ClientAuth::None) if has_ca => Some((
                "--tls-client-auth",
                "is none, so no --tls-client-ca is asked; leave one of them out",
            )),
            Some(ClientAuth::Optional | ClientAuth::Required) if !has_ca => Some((
                "--tls-client-auth",
                "needs --tls-client-ca, the roots that vouch for clients",
            )),
            _ if !self.tls_client_crls.is_empty() && !has_ca => Some((
                "--tls-client-crl",
                "needs --tls-client-ca, the roots that vouch for clients",
            )),
            _ => None,
        }
    }

    fn plaintext_problem(
        &self,
        listen: SocketAddr,
        webhook_listen: Option<SocketAddr>,
    ) -> Option<(&'static str, String)> {
        if self.allow_plaintext {
            return None;
        }
        if !listen.ip().is_loopback() && self.tls_cert.is_none() {
            let problem = format!(
                "{listen} can be reached from other machines and nothing is encrypted; listen on 127.0.0.1, give \
                 --tls-cert and --tls-key, or give --allow-plaintext if the network itself is trusted"
            );
            return Some(("--listen", problem));
        }
        let address = webhook_listen.filter(|address| !address.ip().is_loopback())?;
        let problem = format!(
            "{address} can be reached from other machines and nothing is encrypted; listen on 127.0.0.1 \
             behind a proxy, or give --allow-plaintext if the network itself is trusted"
        );
        Some(("--webhook-listen", problem))
    }

    /// Which files TLS is made of; `None`: nothing is encrypted.
    pub(crate) fn tls(&self) -> Option<TlsSettings> {
        let (Some(cert), Some(key)) = (&self.tls_cert, &self.tls_key) else {
            return None;
        };
        let default = match self.tls_client_cas.is_empty() {
            true => ClientAuth::None,
            false => ClientAuth::Optional,
        };
        Some(TlsSettings {
            cert: cert.clone(),
            key: key.clone(),
            client_cas: self.tls_client_cas.clone(),
            client_auth: self.tls_client_auth.unwrap_or(default),
            crls: self.tls_client_crls.clone(),
            min_version: self.tls_min_version,
        })
    }

    /// How often the files are looked at; `None`: at SIGHUP alone.
    pub(crate) fn reload_interval(&self) -> Option<Duration> {
        (self.tls_reload_interval_ms > 0).then(|| Duration::from_millis(self.tls_reload_interval_ms))
    }
}

fn parse_interval(text: &str) -> Result<u64, &'static str> {
    match text.parse() {
        Ok(ms @ (0 | 1_000..=3_600_000)) => Ok(ms),
        _ => Err("give 0, or 1000 to 3600000"),
    }
}
