//! Where what is exported goes, and with what. Opens no file but the one of headers, and connects nothing.

use crate::limits::{CONNECT_TIMEOUT, EXPORT_TIMEOUT, HEADERS_BYTES_MAX};
use escapement_credentials::{ClientTls, Credentials};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use tokio::time::timeout;
use tonic::metadata::{Ascii, MetadataKey, MetadataMap, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Extensions, Request, Response, Status};

/// A collector that takes OTLP (gRPC).
#[derive(Clone, Debug)]
pub struct Collector {
    /// Address, such as `https://collector:4317`.
    pub endpoint: String,
    /// A file of headers to send to it, a line `name: value` for each, at most 64 KiB; it is read at every export. They are never
    /// sent unencrypted to another machine.
    pub headers_file: Option<PathBuf>,
    /// The certificates to trust, in PEM, read at every connect. `None`: those that this machine trusts.
    pub ca: Option<PathBuf>,
    /// True if the operator lets it be read on the way to another machine. Headers never are.
    pub allows_plaintext: bool,
}

impl Collector {
    /// Returns the flag that cannot be kept, as both programs spell it, and why.
    pub fn problem(&self) -> Option<(&'static str, String)> {
        let endpoint = &self.endpoint;
        if let Some(problem) = self.credentials().problem(endpoint) {
            return Some(("--otlp-endpoint", format!("cannot be used: {problem}")));
        }
        let is_secret = self.headers_file.is_some();
        if is_secret && !self.credentials().may_show_secrets_to(endpoint) {
            let problem = format!("is not sent unencrypted to {endpoint}; give https://");
            return Some(("--otlp-headers-file", problem));
        }
        if !self.allows_plaintext && !self.credentials().may_show_secrets_to(endpoint) {
            let problem = format!(
                "{endpoint} leads to another machine and nothing is encrypted; give https://, or --otlp-allow-plaintext if the \
                 network itself is trusted"
            );
            return Some(("--otlp-endpoint", problem));
        }
        None
    }

    /// Reads the files as they are now, and keeps nothing.
    ///
    /// # Errors
    /// The flag of one that is wrong, and what is wrong.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        let checked = self.credentials().check(&self.endpoint);
        checked.map_err(|problem| ("--otlp-endpoint", format!("cannot be used: {problem}")))?;
        let headers = self.headers();
        headers
            .map(drop)
            .map_err(|problem| ("--otlp-headers-file", problem))
    }

    /// Returns the way there, which connects when it is used.
    ///
    /// # Errors
    /// What is wrong with a file.
    pub(crate) fn channel(&self) -> Result<Channel, String> {
        let times = |endpoint: Endpoint| endpoint.connect_timeout(CONNECT_TIMEOUT).timeout(EXPORT_TIMEOUT);
        self.credentials().channel(&self.endpoint, times)
    }

    /// Sets the collector, if it can be used with its files as they are now.
    ///
    /// # Errors
    /// The flag that cannot be kept, and why.
    pub(crate) fn checked(self) -> Result<Self, (&'static str, String)> {
        self.problem().map_or_else(|| self.check(), Err)?;
        Ok(self)
    }

    /// Returns a message with the headers as they are now.
    ///
    /// # Errors
    /// What is wrong with their file.
    pub(crate) fn request<T>(&self, message: T) -> Result<Request<T>, String> {
        Ok(Request::from_parts(
            self.headers()?,
            Extensions::default(),
            message,
        ))
    }

    /// Whom to trust there.
    fn credentials(&self) -> Credentials {
        let tls = ClientTls::new();
        Credentials::new().tls(match &self.ca {
            Some(ca) => tls.ca_file(ca),
            None => tls,
        })
    }

    /// Returns the headers as they stand in their file now.
    ///
    /// # Errors
    /// What is wrong with the file. A value is never told.
    fn headers(&self) -> Result<MetadataMap, String> {
        self.headers_file
            .as_deref()
            .map_or_else(|| Ok(MetadataMap::new()), read_headers)
    }
}

/// What the collector answers to a message, in time.
///
/// # Errors
/// That it does not, or what it refuses the message for.
pub(crate) async fn answered<T>(
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, String> {
    // Connecting is not part of the channel's own limit.
    let answer = timeout(EXPORT_TIMEOUT, call).await;
    let answer = answer.map_err(|_| "the collector does not answer".to_owned())?;
    let answer = answer.map_err(|status| format!("{:?}: {}", status.code(), status.message()))?;
    Ok(answer.into_inner())
}

fn read_headers(file: &Path) -> Result<MetadataMap, String> {
    let wrong = |problem: String| format!("cannot be used: {}: {problem}", file.display());
    let mut text = String::new();
    let opened = File::open(file).map(|opened| opened.take(HEADERS_BYTES_MAX + 1));
    opened
        .and_then(|mut opened| opened.read_to_string(&mut text))
        .map_err(|error| wrong(error.to_string()))?;
    if text.len() as u64 > HEADERS_BYTES_MAX {
        return Err(wrong(format!("has more than {HEADERS_BYTES_MAX} bytes")));
    }
    let mut headers = MetadataMap::new();
    let lines = (1..).zip(text.lines().map(str::trim));
    for (number, line) in lines.filter(|(_, line)| !line.is_empty()) {
        let header = header(line);
        let (name, value) = header.ok_or_else(|| wrong(format!("line {number} is not `name: value`")))?;
        headers.insert(name, value);
    }
    Ok(headers)
}

fn header(line: &str) -> Option<(MetadataKey<Ascii>, MetadataValue<Ascii>)> {
    let (name, value) = line.split_once(':')?;
    let name = MetadataKey::from_bytes(name.trim().to_ascii_lowercase().as_bytes()).ok()?;
    let mut value: MetadataValue<Ascii> = value.trim().parse().ok()?;
    value.set_sensitive(true);
    Some((name, value))
}

#[cfg(test)]
mod tests;
