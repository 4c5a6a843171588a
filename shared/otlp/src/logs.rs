//! Events of `tracing` as log records. Decides nothing about what is logged, and never waits.

use crate::attributes::{attribute, nanoseconds_of, number, text};
use crate::export::Export;
use crate::limits::LOG_TEXT_BYTES_MAX;
use escapement_model::hex;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, SeverityNumber};
use prost::Message;
use std::fmt;
use std::time::SystemTime;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// Exports the events that it is given, as a part of a subscriber; those of the libraries that speak HTTP are left out, for each
/// export would make more of them.
///
/// A record has the fields of the line in JSON: `message` is its body, `trace_id` and `span_id` are its own, and `target` and all
/// others are attributes. Texts beyond 16 KiB are cut.
pub fn layer<S: Subscriber>(export: &Export) -> impl Layer<S> + Send + Sync + use<S> {
    Logs(export.clone())
}

struct Logs(Export);

impl<S: Subscriber> Layer<S> for Logs {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let (level, target) = (event.metadata().level(), event.metadata().target());
        if crate::is_foreign(target) {
            return;
        }
        let now = nanoseconds_of(SystemTime::now());
        let mut record = Record(LogRecord {
            time_unix_nano: now,
            observed_time_unix_nano: now,
            severity_number: severity(*level) as i32,
            severity_text: level.as_str().to_owned(),
            attributes: vec![text("target", target)],
            ..LogRecord::default()
        });
        event.record(&mut record);
        let encoded = record.0.encode_to_vec();
        self.0.hand_in(encoded.len(), move || Ok(vec![encoded]));
    }
}

fn severity(level: Level) -> SeverityNumber {
    match level {
        Level::ERROR => SeverityNumber::Error,
        Level::WARN => SeverityNumber::Warn,
        Level::INFO => SeverityNumber::Info,
        Level::DEBUG => SeverityNumber::Debug,
        Level::TRACE => SeverityNumber::Trace,
    }
}

/// Takes the fields of an event.
struct Record(LogRecord);

impl Record {
    fn attribute(&mut self, attribute: KeyValue) {
        self.0.attributes.push(attribute);
    }
}

impl Visit for Record {
    fn record_str(&mut self, field: &Field, value: &str) {
        let value = &value[..value.floor_char_boundary(LOG_TEXT_BYTES_MAX)];
        match field.name() {
            "message" => {
                let value = Some(Value::StringValue(value.to_owned()));
                self.0.body = Some(AnyValue { value });
            }
            "trace_id" if let Some(id) = hex::array::<16>(value) => self.0.trace_id = id.to_vec(),
            "span_id" if let Some(id) = hex::array::<8>(value) => self.0.span_id = id.to_vec(),
            name => self.attribute(text(name, value)),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.attribute(number(field.name(), value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match i64::try_from(value) {
            Ok(value) => self.record_i64(field, value),
            Err(_) => self.record_str(field, &value.to_string()),
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.attribute(attribute(field.name(), Value::BoolValue(value)));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.attribute(attribute(field.name(), Value::DoubleValue(value)));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests;
