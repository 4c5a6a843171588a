//! What the operator may set about events. Opens no file.

use clap::Args;
use escapement_codec::event_json::SOURCE;
use escapement_credentials::keeps_secrets;
use hyper::Uri;
use std::path::PathBuf;

/// Where events go, and what they say of themselves. The help takes the texts of the fields.
#[derive(Args, Clone, Debug)]
// Its name is that of other groups of flags, too.
#[group(skip)]
pub struct EventFlags {
    /// Where to POST the terminal events as CloudEvents, best effort; an http:// URL. The log does not show it: it may hold a token.
    /// Results are in the events: an address that is not loopback needs --allow-plaintext; --events has sinks that are encrypted.
    #[arg(long, env = "ESCAPEMENT_EVENT_WEBHOOK", value_name = "URL", hide_env_values = true, value_parser = parse_webhook)]
    pub event_webhook: Option<Uri>,

    /// File of sinks that get every terminal event at least once, in the order of settling, or how each run ended, in TOML. It is read
    /// again while the orchestrator serves.
    #[arg(long, env = "ESCAPEMENT_EVENTS", value_name = "FILE")]
    pub events: Option<PathBuf>,

    /// `source` of all events; 1 to 256 characters without blanks. Receivers drop repeats by source and id, so orchestrators with
    /// stores of their own have different ones.
    #[arg(long, env = "ESCAPEMENT_EVENT_SOURCE", value_name = "URI", default_value = SOURCE, value_parser = parse_source)]
    pub event_source: String,

    /// Milliseconds after its end that an execution, or a run, is not removed while a sink of --events lacks its event; 0 to
    /// 31536000000 (a year). Behind it the event is lost, which the sink is told.
    #[arg(long, env = "ESCAPEMENT_FEED_PATIENCE_MS", value_name = "MS", default_value_t = WEEK_MS,
          value_parser = clap::value_parser!(u64).range(0..=YEAR_MS))]
    pub feed_patience_ms: u64,
}

impl EventFlags {
    /// Returns the flag that cannot be kept, and why. `allows_plaintext`: whether the operator trusts the network.
    pub fn problem(&self, allows_plaintext: bool) -> Option<(&'static str, String)> {
        let webhook = self.event_webhook.as_ref();
        let is_read = webhook.is_some_and(|url| !keeps_secrets(url));
        let problem = "leads to another machine and sends results unencrypted; give a proxy on 127.0.0.1, a sink of --events, or \
                       --allow-plaintext if the network itself is trusted";
        (is_read && !allows_plaintext).then(|| ("--event-webhook", problem.to_owned()))
    }
}

fn parse_webhook(text: &str) -> Result<Uri, String> {
    let uri: Uri = text.parse().map_err(|error| format!("is not a URL: {error}"))?;
    if uri.scheme_str() != Some("http") {
        return Err("must begin with http://; https is not supported, put a proxy in between".to_owned());
    }
    match uri.host() {
        Some(host) if !host.is_empty() => Ok(uri),
        _ => Err("names no host".to_owned()),
    }
}

fn parse_source(text: &str) -> Result<String, &'static str> {
    let is_reference =
        (1..=SOURCE_CHARS_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    is_reference
        .then(|| text.to_owned())
        .ok_or("give 1 to 256 ASCII characters without blanks, such as /escapement/eu-1")
}

const SOURCE_CHARS_MAX: usize = 256;
const WEEK_MS: u64 = 7 * 86_400_000;
const YEAR_MS: u64 = 365 * 86_400_000;
