//! What the operator may set about another orchestrator that executes the attempts of runs. Opens no file.

use super::parse_peer;
use clap::Args;
use escapement_credentials::{ClientTls, Credentials};
use std::path::PathBuf;

/// Which orchestrator executes the attempts of runs, and how to come to it. The help takes the texts of the fields.
#[derive(Args, Clone, Debug)]
// Its name is that of the crate's other groups of flags, too.
#[group(skip)]
pub struct ContractFlags {
    /// Address of the orchestrator that executes the attempts of runs, such as https://10.0.0.2:7400.
    /// Default: this one.
    #[arg(long, env = "ESCAPEMENT_CONTRACT", value_name = "URL", value_parser = parse_peer)]
    pub contract: Option<String>,

    /// The certificates to trust there, in PEM. Default: those that this machine trusts. This file and the other
    /// --contract-* files are read at every connect, the token at every call.
    #[arg(long, env = "ESCAPEMENT_CONTRACT_TLS_CA", value_name = "FILE")]
    pub contract_tls_ca: Option<PathBuf>,

    /// The certificate to show there, in PEM. Needs --contract-tls-key.
    #[arg(long, env = "ESCAPEMENT_CONTRACT_TLS_CERT", value_name = "FILE")]
    pub contract_tls_cert: Option<PathBuf>,

    /// The private key of that certificate, in PEM.
    #[arg(long, env = "ESCAPEMENT_CONTRACT_TLS_KEY", value_name = "FILE")]
    pub contract_tls_key: Option<PathBuf>,

    /// The name to expect in the certificate there. Default: the host of --contract.
    #[arg(long, env = "ESCAPEMENT_CONTRACT_TLS_SERVER_NAME", value_name = "NAME")]
    pub contract_tls_server_name: Option<String>,

    /// The file of the token to show there. It is never sent unencrypted to another machine.
    #[arg(long, env = "ESCAPEMENT_CONTRACT_TOKEN_FILE", value_name = "FILE")]
    pub contract_token_file: Option<PathBuf>,
}

impl ContractFlags {
    /// Returns the flag that cannot be kept, and why.
    pub(super) fn problem(&self) -> Option<(&'static str, String)> {
        let is_encrypted = self.contract.as_ref().map(|url| url.starts_with("https://"));
        for (flag, is_given, needs_tls) in [
            ("--contract-tls-ca", self.contract_tls_ca.is_some(), true),
            ("--contract-tls-cert", self.contract_tls_cert.is_some(), true),
            ("--contract-tls-key", self.contract_tls_key.is_some(), true),
            (
                "--contract-tls-server-name",
                self.contract_tls_server_name.is_some(),
                true,
            ),
            ("--contract-token-file", self.contract_token_file.is_some(), false),
        ] {
            match is_encrypted {
                None if is_given => return Some((flag, "needs --contract".to_owned())),
                Some(false) if is_given && needs_tls => {
                    return Some((flag, "is for a --contract that begins with https://".to_owned()));
                }
                _ => {}
            }
        }
        let problem = match (&self.contract_tls_cert, &self.contract_tls_key) {
            (Some(_), None) => Some(("--contract-tls-cert", "needs --contract-tls-key".to_owned())),
            (None, Some(_)) => Some(("--contract-tls-key", "needs --contract-tls-cert".to_owned())),
            _ => None,
        };
        let unsafe_token = || {
            let problem = self.credentials().problem(self.contract.as_deref()?);
            problem.map(|problem| ("--contract", format!("cannot be used: {problem}")))
        };
        problem.or_else(unsafe_token)
    }

    /// Whom to trust there, and what to show.
    pub(crate) fn credentials(&self) -> Credentials {
        let mut tls = ClientTls::new();
        if let Some(ca) = &self.contract_tls_ca {
            tls = tls.ca_file(ca);
        }
        if let (Some(cert), Some(key)) = (&self.contract_tls_cert, &self.contract_tls_key) {
            tls = tls.identity_files(cert, key);
        }
        if let Some(name) = &self.contract_tls_server_name {
            tls = tls.server_name(name);
        }
        let credentials = Credentials::new().tls(tls);
        match &self.contract_token_file {
            Some(file) => credentials.token_file(file),
            None => credentials,
        }
    }

    /// Reads the files as they are now, and keeps nothing.
    ///
    /// # Errors
    /// What is wrong with one of them.
    pub(crate) fn check(&self) -> Result<(), String> {
        match &self.contract {
            Some(url) => self.credentials().check(url),
            None => Ok(()),
        }
    }
}
