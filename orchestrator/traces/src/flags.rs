//! What the operator may set about traces. Opens no file but the one of headers, and connects nothing.

use crate::limits::HEADERS_BYTES_MAX;
use clap::{Args, ValueEnum};
use escapement_codec::trace::Sampling;
use escapement_credentials::{ClientTls, Credentials};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use tonic::metadata::{Ascii, MetadataKey, MetadataMap, MetadataValue};

/// Where traces go, and which. The help takes the texts of the fields.
#[derive(Args, Clone, Debug)]
// Its name is that of other groups of flags, too.
#[group(skip)]
pub struct TraceFlags {
    /// Address of a collector that takes traces over OTLP, such as https://collector:4317. Default: none are exported.
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", value_name = "URL")]
    pub otlp_endpoint: Option<String>,

    /// How the collector is spoken to: grpc alone.
    #[arg(
        long,
        env = "OTEL_EXPORTER_OTLP_PROTOCOL",
        value_name = "PROTOCOL",
        default_value = "grpc"
    )]
    pub otlp_protocol: String,

    /// File of headers to send to the collector, a line `name: value` for each; it is read at every export. They are never
    /// sent unencrypted to another machine.
    #[arg(long, env = "ESCAPEMENT_OTLP_HEADERS_FILE", value_name = "FILE")]
    pub otlp_headers_file: Option<PathBuf>,

    /// The certificates to trust at the collector, in PEM. Default: those that this machine trusts. Read at every connect.
    #[arg(long, env = "OTEL_EXPORTER_OTLP_CERTIFICATE", value_name = "FILE")]
    pub otlp_ca: Option<PathBuf>,

    /// `service.name` of what is exported.
    #[arg(
        long,
        env = "OTEL_SERVICE_NAME",
        value_name = "NAME",
        default_value = "escapement-orchestrator"
    )]
    pub otlp_service_name: String,

    /// Executions that are traced, of those whose callers name no trace; 0 to 1. The id decides, so that every process and
    /// every restart decides alike.
    #[arg(long, env = "OTEL_TRACES_SAMPLER_ARG", value_name = "RATIO", default_value = "0.1", value_parser = parse_ratio)]
    pub trace_ratio: f64,

    /// What a caller's `traceparent` means: respect (its trace goes on, and it decides whether it is exported) or ignore
    /// (it is linked alone).
    #[arg(
        long,
        env = "ESCAPEMENT_TRACE_PARENT",
        value_name = "RULE",
        value_enum,
        default_value = "respect"
    )]
    pub trace_parent: ParentRule,
}

/// What a caller's span means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ParentRule {
    /// It is the parent of the execution, and decides whether that is traced.
    Respect,
    /// It decides nothing, so that no caller makes the orchestrator trace.
    Ignore,
}

impl TraceFlags {
    /// The flag that cannot be kept, and why.
    pub fn problem(&self) -> Option<(&'static str, String)> {
        let Some(endpoint) = &self.otlp_endpoint else {
            // The certificate may stand in the environment of every process.
            let headers = self.otlp_headers_file.as_ref();
            return headers.map(|_| ("--otlp-headers-file", "needs --otlp-endpoint".to_owned()));
        };
        if self.otlp_protocol != "grpc" {
            let problem = format!("is {:?}; only grpc is supported", self.otlp_protocol);
            return Some(("--otlp-protocol", problem));
        }
        if let Some(problem) = self.credentials().problem(endpoint) {
            return Some(("--otlp-endpoint", format!("cannot be used: {problem}")));
        }
        let is_secret = self.otlp_headers_file.is_some();
        if is_secret && !self.credentials().may_show_secrets_to(endpoint) {
            let problem = format!("is not sent unencrypted to {endpoint}; give https://");
            return Some(("--otlp-headers-file", problem));
        }
        None
    }

    /// Reads the files as they are now, and keeps nothing.
    ///
    /// # Errors
    /// The flag of one that is wrong, and what is wrong.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        let Some(endpoint) = &self.otlp_endpoint else {
            return Ok(());
        };
        let checked = self.credentials().check(endpoint);
        checked.map_err(|problem| ("--otlp-endpoint", format!("cannot be used: {problem}")))?;
        let headers = self.headers();
        headers
            .map(drop)
            .map_err(|problem| ("--otlp-headers-file", problem))
    }

    /// Which executions are traced; `None` if none are exported.
    pub fn sampling(&self) -> Option<Sampling> {
        let respects_parents = self.trace_parent == ParentRule::Respect;
        let sampling = || Sampling::new(self.trace_ratio, respects_parents);
        self.otlp_endpoint.as_ref().map(|_| sampling())
    }

    /// Whom to trust at the collector.
    pub(crate) fn credentials(&self) -> Credentials {
        let tls = ClientTls::new();
        Credentials::new().tls(match &self.otlp_ca {
            Some(ca) => tls.ca_file(ca),
            None => tls,
        })
    }

    /// The headers as they stand in their file now.
    ///
    /// # Errors
    /// What is wrong with the file. A value is never told.
    pub(crate) fn headers(&self) -> Result<MetadataMap, String> {
        self.otlp_headers_file
            .as_deref()
            .map_or_else(|| Ok(MetadataMap::new()), read_headers)
    }
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

fn parse_ratio(text: &str) -> Result<f64, &'static str> {
    let ratio = text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
    ratio.ok_or("give a number from 0 to 1, such as 0.1")
}

#[cfg(test)]
mod tests;
