//! Figures whose labels are known before anything happens.

use crate::catalogue::{self, Entry};
use crate::families::{Counters, Families};
use escapement_transport::Carrier;

/// Shows them at 0, so that a first failure is a rise.
pub(crate) fn begin_at_zero(families: &Families) {
    let counters: [(&Counters, &Entry, &[&'static str]); 4] = [
        (
            &families.connections_refused,
            &catalogue::CONNECTIONS_REFUSED,
            &["too_many", "broken", "displaced"],
        ),
        (
            &families.handshake_failures,
            &catalogue::HANDSHAKE_FAILURES,
            &[
                "tls_on_plaintext",
                "plaintext_on_tls",
                "too_slow",
                "too_many",
                "handshake",
                "no_alpn",
                "no_http2",
            ],
        ),
        (
            &families.auth_failures,
            &catalogue::AUTH_FAILURES,
            &[
                "CREDENTIALS_MISSING",
                "CREDENTIALS_INVALID",
                "CREDENTIALS_EXPIRED",
            ],
        ),
        (
            &families.late_outcomes,
            &catalogue::LATE_OUTCOMES,
            &["duplicate", "stale", "already_ended", "unknown", "invalid"],
        ),
    ];
    for (counters, entry, values) in counters {
        for value in values {
            drop(counters.get_or_create(&entry.with([*value])));
        }
    }
    for what in ["certificates", "policy", "sinks"] {
        for outcome in ["replaced", "refused"] {
            drop(
                families
                    .reloads
                    .get_or_create(&catalogue::RELOADS.with([what, outcome])),
            );
        }
    }
    for carrier in [Carrier::Plaintext, Carrier::Tls, Carrier::MutualTls] {
        let labels = catalogue::CONNECTIONS.with([carrier_label(carrier)]);
        drop(families.connections.get_or_create(&labels));
    }
}

pub(crate) fn carrier_label(carrier: Carrier) -> &'static str {
    match carrier {
        Carrier::Plaintext => "plaintext",
        Carrier::Tls => "tls",
        Carrier::MutualTls => "mtls",
    }
}
