//! Settings of TLS by the operator.

use super::identity::is_trust_domain;
use std::path::PathBuf;
use std::str::FromStr;

/// Files, and requirements on clients.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TlsSettings {
    /// The server's certificate and those between it and a root, in PEM, its own first.
    pub cert: PathBuf,
    /// Private key, in PEM.
    pub key: PathBuf,
    /// Authorities for clients. Empty: clients are not asked for certificates.
    pub client_cas: Vec<ClientCa>,
    /// Requirement on clients. Not [`ClientAuth::None`] exactly with a client CA.
    pub client_auth: ClientAuth,
    /// Revocation lists for certificates of clients, in PEM.
    pub crls: Vec<PathBuf>,
    /// The oldest version.
    pub min_version: MinVersion,
}

impl TlsSettings {
    /// Returns all files, each once.
    pub fn files(&self) -> Vec<PathBuf> {
        let cas = self.client_cas.iter().map(|ca| &ca.file);
        let mut files: Vec<PathBuf> = [&self.cert, &self.key]
            .into_iter()
            .chain(cas)
            .chain(&self.crls)
            .cloned()
            .collect();
        files.sort();
        files.dedup();
        files
    }
}

/// Roots that vouch for clients: `[DOMAIN=]FILE`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClientCa {
    /// The trust domain for whose SPIFFE ids these roots vouch, and for nothing else. `None`: they vouch for certificates
    /// without a SPIFFE id.
    pub trust_domain: Option<String>,
    /// The roots, in PEM.
    pub file: PathBuf,
}

impl FromStr for ClientCa {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (trust_domain, file) = match text.split_once('=') {
            Some(("", file)) => (None, file),
            Some((domain, file)) => (Some(domain), file),
            None => (None, text),
        };
        if file.is_empty() {
            return Err("names no file; give FILE, or DOMAIN=FILE".to_owned());
        }
        if let Some(domain) = trust_domain.filter(|domain| !is_trust_domain(domain)) {
            return Err(format!(
                "{domain:?} is no trust domain: 1 to 255 of a-z 0-9 . - _; a path that has an equals sign begins with one: =FILE"
            ));
        }
        Ok(Self {
            trust_domain: trust_domain.map(str::to_owned),
            file: file.into(),
        })
    }
}

/// Requirement on clients.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ClientAuth {
    /// No certificate is requested.
    None,
    /// A certificate, if it has one; a wrong one ends the handshake.
    Optional,
    /// A certificate.
    Required,
}

impl FromStr for ClientAuth {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        match text {
            "none" => Ok(Self::None),
            "optional" => Ok(Self::Optional),
            "required" => Ok(Self::Required),
            _ => Err("give none, optional or required"),
        }
    }
}

/// The oldest version of TLS that is spoken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MinVersion {
    /// 1.2.
    Tls12,
    /// 1.3.
    Tls13,
}

impl FromStr for MinVersion {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        match text {
            "1.2" => Ok(Self::Tls12),
            "1.3" => Ok(Self::Tls13),
            _ => Err("give 1.2 or 1.3"),
        }
    }
}
