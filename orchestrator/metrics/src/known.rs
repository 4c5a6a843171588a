//! Figures whose labels are known before anything happens.

use crate::catalogue::{self, Entry};
use crate::families::Families;
use crate::kinds::Counters;
use escapement_engine::{Refusal, SessionErrorCode};
use escapement_transport::Carrier;

/// Shows them at 0, so that a first failure is a rise.
pub(crate) fn begin_at_zero(families: &Families) {
    let counters: [(&Counters, &Entry, &[&'static str]); 6] = [
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
        (
            &families.session_errors,
            &catalogue::SESSION_ERRORS,
            &SESSION_ERRORS.map(error_label),
        ),
        (
            &families.submissions_refused,
            &catalogue::SUBMISSIONS_REFUSED,
            &[
                "EXECUTION_ID_IN_USE",
                "PLAN_ID_USED",
                "QUEUE_FULL",
                "NAMESPACE_QUOTA",
                "NESTED_TOO_DEEP",
                "TOO_MANY_CHILDREN",
                "DRAINING",
                "STORE_FULL",
                "STORE_FAILED",
            ],
        ),
    ];
    for (counters, entry, values) in counters {
        for value in values {
            drop(counters.get_or_create(&entry.with([*value])));
        }
    }
    families.of_runs.begin_at_zero();
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

/// Returns the reason that callers are told.
pub(crate) fn refusal_label(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::ExecutionIdUsed => "EXECUTION_ID_IN_USE",
        Refusal::PlanIdUsed { .. } => "PLAN_ID_USED",
        Refusal::QueueFull => "QUEUE_FULL",
        Refusal::NamespaceQuota { .. } => "NAMESPACE_QUOTA",
        Refusal::NestedTooDeep => "NESTED_TOO_DEEP",
        Refusal::TooManyChildren => "TOO_MANY_CHILDREN",
        Refusal::Draining => "DRAINING",
        Refusal::StoreFull => "STORE_FULL",
        Refusal::StoreFailed => "STORE_FAILED",
    }
}

pub(crate) fn error_label(code: SessionErrorCode) -> &'static str {
    match code {
        SessionErrorCode::ProtocolViolation => "protocol_violation",
        SessionErrorCode::UnsupportedProtocol => "unsupported_protocol",
        SessionErrorCode::Superseded => "superseded",
        SessionErrorCode::LimitExceeded => "limit_exceeded",
        SessionErrorCode::Unavailable => "unavailable",
        SessionErrorCode::LeaseExpired => "lease_expired",
        SessionErrorCode::DeclaredDead => "declared_dead",
    }
}

const SESSION_ERRORS: [SessionErrorCode; 7] = [
    SessionErrorCode::ProtocolViolation,
    SessionErrorCode::UnsupportedProtocol,
    SessionErrorCode::Superseded,
    SessionErrorCode::LimitExceeded,
    SessionErrorCode::Unavailable,
    SessionErrorCode::LeaseExpired,
    SessionErrorCode::DeclaredDead,
];
