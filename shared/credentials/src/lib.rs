//! Credentials of a client of an orchestrator: the authorities that it trusts, its certificate and its token.
//!
//! Files are read at every connect and at no other time, so new files count from the next connection on. The orchestrator
//! drains a connection when its certificate or its token expires.

mod tls;
mod token;

pub use crate::token::BearerToken;

mod connector;

pub use connector::{connect, secured};
pub use tls::ClientTls;

use crate::connector::EncryptedTo;
use crate::tls::read;

use escapement_process::with_causes;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tonic::metadata::MetadataMap;
use tonic::service::Interceptor;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Request, Status};

/// Source of the token.
#[derive(Clone, Default)]
enum TokenSource {
    /// No token.
    #[default]
    None,
    /// A given text, perhaps an invalid one.
    Text(String),
    /// A file that is read at every connect: the whole file, without white space around it.
    File(PathBuf),
    /// A function that is called at every connect.
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

    /// Sets the trust and the certificate for addresses that begin with `https://`.
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

    /// Sends the token also over connections that others can read.
    #[must_use]
    pub fn allow_plaintext(mut self) -> Self {
        self.allows_plaintext = true;
        self
    }

    /// Returns the reason why a connection to this address is impossible, as far as it is known without a file.
    pub fn problem(&self, address: &str) -> Option<String> {
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
        (has_token && !self.may_show_secrets_at(&uri)).then(|| {
            format!(
                "a token is not sent unencrypted to {address}, which other machines can read; give https://"
            )
        })
    }

    /// Returns true if others cannot read the connection to the address, or the program allows that.
    pub fn may_show_secrets_to(&self, address: &str) -> bool {
        Uri::try_from(address).is_ok_and(|uri| self.may_show_secrets_at(&uri))
    }

    fn may_show_secrets_at(&self, uri: &Uri) -> bool {
        self.allows_plaintext || keeps_secrets(uri)
    }

    /// Checks the files as they are now, for a program that wants to know at its start.
    ///
    /// # Errors
    /// What is wrong with the address, a file or the token.
    pub fn check(&self, address: &str) -> Result<(), String> {
        self.endpoint(address).map(drop)?;
        self.bearer().map(drop)
    }

    /// Returns an endpoint that trusts and shows what the files hold now. Connects nothing.
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

    /// Returns a connection that is made when it is used, and again if it is lost; each time with what the files hold then. `settings`
    /// are limits and times. To be called in a runtime.
    ///
    /// # Errors
    /// What is wrong with the address or a file.
    pub fn channel(
        &self,
        address: &str,
        settings: impl FnOnce(Endpoint) -> Endpoint,
    ) -> Result<Channel, String> {
        self.check(address)?;
        let endpoint = |address: &str| {
            Endpoint::from_shared(address.to_owned())
                .map(settings)
                .map_err(|error| with_causes(&error))
        };
        let Some(host_and_port) = address.strip_prefix("https://") else {
            return Ok(endpoint(address)?.connect_lazy());
        };
        // Without this, tonic would use the present contents of the files for ever.
        let endpoint = endpoint(&format!("http://{host_and_port}"))?;
        let uri = endpoint.uri().clone();
        let connector = EncryptedTo {
            tls: self.tls.clone(),
            host: uri.host().unwrap_or_default().to_owned(),
            port: uri.port_u16().unwrap_or(443),
        };
        let origin = Uri::try_from(address).map_err(|error| error.to_string())?;
        Ok(endpoint.origin(origin).connect_with_connector_lazy(connector))
    }

    /// Adds the current token, if any, to the metadata of a call.
    ///
    /// # Errors
    /// What is wrong with the token.
    pub fn authorize(&self, metadata: &mut MetadataMap) -> Result<(), String> {
        if let Some(token) = self.bearer()? {
            metadata.insert("authorization", token.to_metadata());
        }
        Ok(())
    }

    /// Returns the token of now.
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

/// Shows the token of now in every call.
impl Interceptor for Credentials {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        // A file that is being replaced is there again soon.
        self.authorize(request.metadata_mut())
            .map_err(Status::unavailable)?;
        Ok(request)
    }
}

/// Returns true if others cannot read the connection to the address: it is encrypted, or does not leave the machine.
///
/// At the start a program checks every address that gets its secrets, or data of its callers: orchestrators
/// and peers, models, collectors, sinks.
pub fn keeps_secrets(uri: &Uri) -> bool {
    matches!(uri.scheme_str(), Some("https" | "tls")) || is_loopback(uri)
}

/// Returns true for the machine itself, as far as the address says so.
fn is_loopback(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || address.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests;
