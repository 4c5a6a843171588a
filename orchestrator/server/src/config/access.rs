//! What the operator may set about who may do what. Opens no file.

use super::CENTURY_MS;
use clap::Args;
use clap::builder::BoolishValueParser;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Who may do what. The help takes the texts of the fields.
#[derive(Args, Clone, Debug)]
// Its name is that of the crate's other groups of flags, too.
#[group(skip)]
pub struct AccessFlags {
    /// The policy: who may do what, in TOML; see deploy/AUTHORIZATION.md. It is read again while the
    /// orchestrator serves, as --tls-reload-interval-ms says. Default: everybody may do everything, on loopback.
    #[arg(long, env = "ESCAPEMENT_ACCESS_POLICY", value_name = "FILE")]
    pub access_policy: Option<PathBuf>,

    /// Let everybody do everything who reaches an address that other machines can reach. Needed there without a policy.
    #[arg(long, env = "ESCAPEMENT_ALLOW_ANONYMOUS", value_parser = BoolishValueParser::new())]
    pub allow_anonymous: bool,

    /// Milliseconds that the record of what operators did is kept; 1000 to 3153600000000 (a century). Default: 400 days. What is
    /// older goes when the next act is recorded.
    #[arg(long, env = "ESCAPEMENT_KEEP_OPERATOR_ACTIONS_MS", value_name = "MS", default_value_t = KEEP_OPERATOR_ACTIONS_MS,
          value_parser = clap::value_parser!(u64).range(1_000..=CENTURY_MS))]
    pub keep_operator_actions_ms: u64,
}

impl AccessFlags {
    /// Returns the flag that cannot be kept, and why.
    pub(super) fn problem(&self, listen: SocketAddr) -> Option<(&'static str, String)> {
        if self.access_policy.is_some() && self.allow_anonymous {
            let problem = "says that everybody may do everything, and --access-policy says who may; leave one of them out";
            return Some(("--allow-anonymous", problem.to_owned()));
        }
        if listen.ip().is_loopback() || self.access_policy.is_some() || self.allow_anonymous {
            return None;
        }
        let problem = format!(
            "{listen} can be reached from other machines and everybody there may do everything; listen on 127.0.0.1, give \
             --access-policy, or give --allow-anonymous if that is meant"
        );
        Some(("--listen", problem))
    }
}

/// 400 days.
const KEEP_OPERATOR_ACTIONS_MS: u64 = 400 * 24 * 3_600_000;
