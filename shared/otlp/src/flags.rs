//! What the operator of either program may set about the collector. The help takes the texts of the fields.

use crate::collector::Collector;
use crate::export::{CannotStart, Export, Flush};
#[cfg(feature = "logs")]
use crate::logs::layer;
#[cfg(feature = "metrics")]
use crate::push::Push;
use crate::service::Service;
use crate::signal::Signal;
use clap::Args;
use clap::builder::BoolishValueParser;
#[cfg(feature = "logs")]
use escapement_process::telemetry::{Exported, Part};
use std::path::PathBuf;
#[cfg(feature = "metrics")]
use std::time::Duration;

/// What is exported, and where it goes.
#[derive(Args, Clone, Debug)]
// Its name is that of other groups of flags, too.
#[group(skip)]
pub struct OtlpFlags {
    /// Address of a collector that takes OTLP, such as https://collector:4317. Default: nothing is exported.
    /// An http:// address of another machine needs --otlp-allow-plaintext.
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", value_name = "URL")]
    pub otlp_endpoint: Option<String>,

    /// What is exported: traces, metrics, logs, or several of them with commas between.
    #[arg(
        long,
        env = "ESCAPEMENT_OTLP_SIGNALS",
        value_name = "SIGNALS",
        value_enum,
        value_delimiter = ',',
        default_value = "traces"
    )]
    pub otlp_signals: Vec<Signal>,

    /// Milliseconds from one export of metrics to the next; 1000 to 3600000.
    #[arg(
        long,
        env = "OTEL_METRIC_EXPORT_INTERVAL",
        value_name = "MS",
        default_value = "60000",
        value_parser = clap::value_parser!(u64).range(1_000..=3_600_000)
    )]
    pub otlp_metrics_interval_ms: u64,

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

    /// Send what is exported even where everybody on the way can read it: to an http:// address of another machine.
    #[arg(long, env = "ESCAPEMENT_OTLP_ALLOW_PLAINTEXT", value_parser = BoolishValueParser::new())]
    pub otlp_allow_plaintext: bool,

    /// The certificates to trust at the collector, in PEM. Default: those that this machine trusts. Read at every connect.
    #[arg(long, env = "OTEL_EXPORTER_OTLP_CERTIFICATE", value_name = "FILE")]
    pub otlp_ca: Option<PathBuf>,

    /// `service.name` of what is exported. Default: escapement-orchestrator or escapement-worker.
    #[arg(long, env = "OTEL_SERVICE_NAME", value_name = "NAME")]
    pub otlp_service_name: Option<String>,
}

impl OtlpFlags {
    /// Whether traces are exported.
    pub fn exports_traces(&self) -> bool {
        self.collector_of(Signal::Traces).is_some()
    }

    /// Begins to export traces; `None` if none are. `name`: of the service, unless the operator gave another one.
    ///
    /// # Errors
    /// [`CannotStart`].
    pub fn export(&self, name: &str, version: &'static str) -> Result<Option<(Export, Flush)>, CannotStart> {
        let collector = self.collector_of(Signal::Traces);
        let start = |collector| Export::start(collector, self.service(name, version));
        collector.map(start).transpose()
    }

    /// Begins to export the log, as [`export`](Self::export) does traces. Returns what exports it, and the parts for the subscriber.
    ///
    /// # Errors
    /// [`CannotStart`].
    #[cfg(feature = "logs")]
    pub fn log(&self, name: &str, version: &'static str) -> Result<(Option<Export>, Exported), CannotStart> {
        let collector = self.collector_of(Signal::Logs);
        let start = |collector| Export::start_for(Signal::Logs, collector, self.service(name, version));
        let (export, flush) = collector.map(start).transpose()?.unzip();
        let exported = Exported {
            logs: export.as_ref().map(|export| Box::new(layer(export)) as Part),
            at_end: flush.into_iter().map(Flush::at_end).collect(),
            ..Exported::default()
        };
        Ok((export, exported))
    }

    /// Makes ready to export metrics, as [`export`](Self::export) does traces.
    ///
    /// # Errors
    /// [`CannotStart::Flag`].
    #[cfg(feature = "metrics")]
    pub fn push(&self, name: &str, version: &'static str) -> Result<Option<Push>, CannotStart> {
        let collector = self.collector_of(Signal::Metrics);
        let interval = Duration::from_millis(self.otlp_metrics_interval_ms);
        let start = |collector| Push::new(collector, self.service(name, version), interval);
        collector.map(start).transpose()
    }

    fn service(&self, name: &str, version: &'static str) -> Service {
        Service {
            name: self.otlp_service_name.as_deref().unwrap_or(name).to_owned(),
            version,
        }
    }

    fn collector_of(&self, signal: Signal) -> Option<Collector> {
        self.collector().filter(|_| self.otlp_signals.contains(&signal))
    }

    /// Returns the collector; `None` if none is given.
    fn collector(&self) -> Option<Collector> {
        let collector = |endpoint: &String| Collector {
            endpoint: endpoint.clone(),
            headers_file: self.otlp_headers_file.clone(),
            ca: self.otlp_ca.clone(),
            allows_plaintext: self.otlp_allow_plaintext,
        };
        self.otlp_endpoint.as_ref().map(collector)
    }

    /// Returns the flag that cannot be kept, and why.
    pub fn problem(&self) -> Option<(&'static str, String)> {
        let Some(collector) = self.collector() else {
            // The certificate may stand in the environment of every process.
            let headers = self.otlp_headers_file.as_ref();
            return headers.map(|_| ("--otlp-headers-file", "needs --otlp-endpoint".to_owned()));
        };
        if self.otlp_protocol != "grpc" {
            let problem = format!("is {:?}; only grpc is supported", self.otlp_protocol);
            return Some(("--otlp-protocol", problem));
        }
        collector.problem()
    }

    /// Reads the files as they are now, and keeps nothing.
    ///
    /// # Errors
    /// The flag of one that is wrong, and what is wrong.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        self.collector().map_or(Ok(()), |collector| collector.check())
    }
}

#[cfg(test)]
mod tests {
    use super::{OtlpFlags, Signal};
    use std::path::PathBuf;

    fn refused(endpoint: Option<&str>, protocol: &str, headers: Option<&str>) -> Option<&'static str> {
        let flags = OtlpFlags {
            otlp_endpoint: endpoint.map(str::to_owned),
            otlp_signals: vec![Signal::Traces],
            otlp_metrics_interval_ms: 60_000,
            otlp_protocol: protocol.to_owned(),
            otlp_headers_file: headers.map(PathBuf::from),
            otlp_allow_plaintext: false,
            otlp_ca: None,
            otlp_service_name: None,
        };
        flags.problem().map(|(flag, _)| flag)
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        let http = "http/protobuf";
        assert_eq!(refused(None, "grpc", None), None);
        assert_eq!(refused(None, http, None), None, "nothing is exported");
        assert_eq!(
            refused(Some("https://c:4318"), http, None),
            Some("--otlp-protocol")
        );
        assert_eq!(
            refused(None, "grpc", Some("headers")),
            Some("--otlp-headers-file")
        );
        assert_eq!(refused(Some("https://c:4317"), "grpc", Some("headers")), None);
        assert_eq!(
            refused(Some("http://c:4317"), "grpc", None),
            Some("--otlp-endpoint")
        );
        assert_eq!(refused(Some("http://127.0.0.1:4317"), "grpc", None), None);
    }
}
