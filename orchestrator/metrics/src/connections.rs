//! What connections and calls come to, as the transport tells it.

use crate::catalogue::{self, Entry};
use crate::figures::Metrics;
use crate::kinds::Counters;
use crate::known::carrier_label;
use crate::label::{self, Value};
use escapement_transport::{Answered, CallClass, Happened, Tally};
use tonic::Code;

impl Metrics {
    /// What the transport is to tell.
    pub fn tally(&self) -> Tally {
        let metrics = self.clone();
        Tally::new(move |happened| metrics.happened(happened))
    }

    fn happened(&self, happened: Happened) {
        let families = &self.0.families;
        let of_carrier = |carrier| {
            let labels = catalogue::CONNECTIONS.with([carrier_label(carrier)]);
            families.connections.get_or_create_owned(&labels)
        };
        let of_class = |class| {
            let labels = catalogue::RPC_OPEN.with([class_label(class)]);
            families.rpc_open.get_or_create_owned(&labels)
        };
        match happened {
            Happened::Connected(carrier) => {
                of_carrier(carrier).inc();
            }
            Happened::Disconnected(carrier) => {
                of_carrier(carrier).dec();
            }
            Happened::ConnectionRefused(reason) => {
                count(
                    &families.connections_refused,
                    &catalogue::CONNECTIONS_REFUSED,
                    [reason],
                );
            }
            Happened::HandshakeMade(took) => families.handshake.observe(took.as_secs_f64()),
            Happened::HandshakeFailed(reason) => {
                count(
                    &families.handshake_failures,
                    &catalogue::HANDSHAKE_FAILURES,
                    [reason],
                );
            }
            Happened::AuthenticationFailed(reason) => {
                count(&families.auth_failures, &catalogue::AUTH_FAILURES, [reason]);
            }
            Happened::CallBegan(class) => {
                of_class(class).inc();
            }
            Happened::CallEnded(class) => {
                of_class(class).dec();
            }
            Happened::Answered(answered) => self.answered(answered),
            Happened::Reloaded(what, is_replaced) => {
                let outcome = if is_replaced { "replaced" } else { "refused" };
                count(&families.reloads, &catalogue::RELOADS, [what, outcome]);
            }
        }
    }

    fn answered(&self, answered: Answered) {
        let families = &self.0.families;
        let method = answered.method.map_or(Value::from(label::OTHER), Value::from);
        if let Some(took) = answered.took {
            let labels = catalogue::RPC_DURATION.with([method.clone()]);
            let duration = families.rpc_duration.get_or_create(&labels);
            duration.observe(took.as_secs_f64());
        }
        let code = Value::from(code_label(answered.code));
        count(&families.rpc_requests, &catalogue::RPC_REQUESTS, [method, code]);
    }
}

fn count<V: Into<Value>, const N: usize>(counters: &Counters, entry: &Entry, values: [V; N]) {
    counters.get_or_create(&entry.with(values)).inc();
}

fn class_label(class: CallClass) -> &'static str {
    match class {
        CallClass::Writes => "writes",
        CallClass::Executes => "executes",
        CallClass::Reads => "reads",
        CallClass::Waits => "waits",
        CallClass::Watches => "watches",
        CallClass::Subscriptions => "subscriptions",
        CallClass::Controls => "controls",
        CallClass::Reports => "reports",
        CallClass::Sessions => "sessions",
        CallClass::Health => "health",
        CallClass::HealthWatches => "health_watches",
        CallClass::Reflections => "reflections",
    }
}

/// Returns the name of a status, as gRPC writes it.
fn code_label(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}
