//! Attributes and times as OTLP spells them. Knows no execution and no run.

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
#[cfg(any(feature = "live", feature = "logs"))]
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns an attribute whose value is a text.
pub(crate) fn text(key: &str, value: impl Into<String>) -> KeyValue {
    attribute(key, Value::StringValue(value.into()))
}

/// Returns an attribute whose value is a number; one that is too large is the largest.
#[cfg(feature = "logs")]
pub(crate) fn number(key: &str, value: impl TryInto<i64>) -> KeyValue {
    attribute(key, Value::IntValue(value.try_into().unwrap_or(i64::MAX)))
}

/// Unix nanoseconds of Unix milliseconds.
pub fn nanoseconds(unix_ms: i64) -> u64 {
    u64::try_from(unix_ms).unwrap_or(0).saturating_mul(1_000_000)
}

/// Unix nanoseconds of a time.
#[cfg(any(feature = "live", feature = "logs"))]
pub(crate) fn nanoseconds_of(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns an attribute with any value.
pub(crate) fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}
