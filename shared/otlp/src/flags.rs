//! What the operator of either program may set about the collector. The help takes the texts of the fields.

use crate::collector::Collector;
use clap::Args;
use std::path::PathBuf;

/// Where traces go.
#[derive(Args, Clone, Debug)]
// Its name is that of other groups of flags, too.
#[group(skip)]
pub struct OtlpFlags {
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

    /// `service.name` of what is exported. Default: escapement-orchestrator or escapement-worker.
    #[arg(long, env = "OTEL_SERVICE_NAME", value_name = "NAME")]
    pub otlp_service_name: Option<String>,
}

impl OtlpFlags {
    /// The collector; `None` if none is given.
    pub fn collector(&self) -> Option<Collector> {
        let collector = |endpoint: &String| Collector {
            endpoint: endpoint.clone(),
            headers_file: self.otlp_headers_file.clone(),
            ca: self.otlp_ca.clone(),
        };
        self.otlp_endpoint.as_ref().map(collector)
    }

    /// The flag that cannot be kept, and why.
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
    use super::OtlpFlags;
    use std::path::PathBuf;

    fn refused(endpoint: Option<&str>, protocol: &str, headers: Option<&str>) -> Option<&'static str> {
        let flags = OtlpFlags {
            otlp_endpoint: endpoint.map(str::to_owned),
            otlp_protocol: protocol.to_owned(),
            otlp_headers_file: headers.map(PathBuf::from),
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
    }
}
