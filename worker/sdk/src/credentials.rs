//! How a worker comes to an orchestrator: whom it trusts, and what it shows. Opens no connection.
//!
//! Files are read at every connect and at no other time, so what replaces them counts from the next connection on, and the
//! orchestrator ends a connection in good order when the certificate or the token that it began with does.

use crate::error::with_causes;
use crate::token::BearerToken;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tonic::metadata::MetadataMap;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity, Uri};

/// Whom a worker trusts and what it shows where an address begins with `https://`.
///
/// Without anything it trusts what the machine trusts, and shows no certificate.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ClientTls {
    ca: Option<PathBuf>,
    identity: Option<(PathBuf, PathBuf)>,
    server_name: Option<String>,
}

impl ClientTls {
    /// Trusts what the machine trusts, and shows no certificate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts the certificates in this file, in PEM, and no others.
    #[must_use]
    pub fn ca_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.ca = Some(file.into());
        self
    }

    /// Shows the certificate in the first file, with those between it and a root behind it; the second holds its private key.
    /// Both in PEM.
    #[must_use]
    pub fn identity_files(mut self, cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.identity = Some((cert.into(), key.into()));
        self
    }

    /// Expects this name in the server's certificate, in place of the host of the address.
    #[must_use]
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// Reads the files.
    fn config(&self) -> Result<ClientTlsConfig, String> {
        let mut config = match &self.ca {
            Some(file) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(file)?)),
            None => ClientTlsConfig::new().with_native_roots(),
        };
        if let Some((cert, key)) = &self.identity {
            config = config.identity(Identity::from_pem(read(cert)?, read(key)?));
        }
        Ok(match &self.server_name {
            Some(name) => config.domain_name(name.clone()),
            None => config,
        })
    }
}

/// Where the token comes from.
#[derive(Clone, Default)]
pub(crate) enum TokenSource {
    /// There is none.
    #[default]
    None,
    /// It was given as a text, perhaps a wrong one.
    Text(String),
    /// It is read at every connect: the whole file, without white space around it.
    File(PathBuf),
    /// It is asked for at every connect.
    With(Arc<TokenFunction>),
}

type TokenFunction = dyn Fn() -> Result<String, String> + Send + Sync;

impl fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TokenSource::None => f.write_str("None"),
            TokenSource::Text(_) => f.write_str("Text(..)"),
            TokenSource::File(file) => f.debug_tuple("File").field(file).finish(),
            TokenSource::With(_) => f.write_str("With(..)"),
        }
    }
}

/// Everything with which a client comes to an orchestrator. Cheap to clone.
///
/// A token is never sent unencrypted to an address that is not loopback, unless the program allows it.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    tls: ClientTls,
    token: TokenSource,
    allows_plaintext: bool,
}

impl Credentials {
    /// Trusts what the machine trusts, and shows nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whom it trusts and what it shows where an address begins with `https://`.
    #[must_use]
    pub fn tls(mut self, tls: ClientTls) -> Self {
        self.tls = tls;
        self
    }

    /// Shows this token, visible ASCII characters only, as `authorization: Bearer TOKEN`.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = TokenSource::Text(token.into());
        self
    }

    /// Shows the token that this file holds at each connect.
    #[must_use]
    pub fn token_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.token = TokenSource::File(file.into());
        self
    }

    /// Shows the token that this function gives at each connect. It may block for a moment.
    #[must_use]
    pub fn token_with(mut self, token: impl Fn() -> Result<String, String> + Send + Sync + 'static) -> Self {
        self.token = TokenSource::With(Arc::new(token));
        self
    }

    /// Sends the token even where everybody on the way can read it.
    #[must_use]
    pub fn allow_plaintext(mut self) -> Self {
        self.allows_plaintext = true;
        self
    }

    /// What makes it impossible to connect to this address, as far as can be known without a file.
    pub(crate) fn problem(&self, address: &str) -> Option<String> {
        if !address.starts_with("http://") && !address.starts_with("https://") {
            return Some(format!(
                "the address {address:?} must begin with http:// or https://"
            ));
        }
        let uri = match Uri::try_from(address) {
            Ok(uri) => uri,
            Err(error) => return Some(format!("the address {address:?} is not a URI: {error}")),
        };
        if let TokenSource::Text(token) = &self.token
            && BearerToken::new(token).is_none()
        {
            return Some("a token consists of visible ASCII characters".to_owned());
        }
        let has_token = !matches!(self.token, TokenSource::None);
        let is_encrypted = uri.scheme_str() == Some("https");
        (has_token && !is_encrypted && !self.allows_plaintext && !is_loopback(&uri)).then(|| {
            format!("a token is not sent unencrypted to {address}, which other machines can read; give https://, or allow plaintext")
        })
    }

    /// Checks the files as they are now, for a program that wants to know at its start.
    ///
    /// # Errors
    /// What is wrong with the address, a file or the token.
    pub fn check(&self, address: &str) -> Result<(), String> {
        self.endpoint(address).map(drop)?;
        self.bearer().map(drop)
    }

    /// An endpoint that trusts and shows what the files hold now. Connects nothing.
    ///
    /// # Errors
    /// What is wrong with the address or a file.
    pub fn endpoint(&self, address: &str) -> Result<Endpoint, String> {
        self.problem(address).map_or(Ok(()), Err)?;
        let endpoint = Endpoint::from_shared(address.to_owned()).map_err(|error| with_causes(&error))?;
        if !address.starts_with("https://") {
            return Ok(endpoint);
        }
        endpoint
            .tls_config(self.tls.config()?)
            .map_err(|error| with_causes(&error))
    }

    /// Puts the token of now among the metadata of a call, if there is one.
    ///
    /// # Errors
    /// What is wrong with the token.
    pub fn authorize(&self, metadata: &mut MetadataMap) -> Result<(), String> {
        if let Some(token) = self.bearer()? {
            metadata.insert("authorization", token.to_metadata());
        }
        Ok(())
    }

    /// The token of now.
    fn bearer(&self) -> Result<Option<BearerToken>, String> {
        let (text, from) = match &self.token {
            TokenSource::None => return Ok(None),
            TokenSource::Text(text) => (text.clone(), "the token".to_owned()),
            TokenSource::File(file) => {
                let bytes = read(file)?;
                let text = String::from_utf8_lossy(&bytes).trim().to_owned();
                (text, format!("the token in {}", file.display()))
            }
            TokenSource::With(function) => (function()?, "the token".to_owned()),
        };
        match BearerToken::new(&text) {
            Some(token) => Ok(Some(token)),
            None => Err(format!("{from} does not consist of visible ASCII characters")),
        }
    }
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))
}

/// True for the machine itself, as far as the address says so.
fn is_loopback(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || address.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests;
