//! OpenMetrics, and the older text of Prometheus that is made from it.

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

/// The media type of OpenMetrics.
pub(crate) const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The media type of the older text.
pub(crate) const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns all metrics, in OpenMetrics.
pub fn open_metrics(registry: &Registry) -> String {
    let mut text = String::new();
    encode(&mut text, registry).expect("a string takes what is written to it");
    text
}

/// Returns the same metrics in the older text: it names counters with `_total` from their first line on, and has no end mark.
pub(crate) fn plain(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    let mut help = "";
    for line in open_metrics.lines() {
        // The help precedes the type, which decides the name.
        if line.starts_with("# HELP ") {
            help = line;
        } else if let Some(described) = line.strip_prefix("# TYPE ") {
            let (name, kind) = described.split_once(' ').unwrap_or((described, "untyped"));
            let suffix = if kind == "counter" { "_total" } else { "" };
            let help = help.get("# HELP ".len() + name.len()..).unwrap_or_default();
            text.push_str(&format!(
                "# HELP {name}{suffix}{help}\n# TYPE {name}{suffix} {kind}\n"
            ));
        } else if line != "# EOF" {
            // It knows no exemplars either.
            let sample = line.split_once(" # {").map_or(line, |(sample, _)| sample);
            text.push_str(sample);
            text.push('\n');
        }
    }
    text
}
