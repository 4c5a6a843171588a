//! The dearest of what one request may have evaluated. Sends nothing.

use bytes::Bytes;
use escapement_model::Opaque;
use escapement_model::opaque::StructBuilder;
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::trigger::Config;
use serde_json::{Value, json};

use crate::plans::object;

/// Returns an object of that many bytes, with as many keys as fit.
pub fn many_keys(bytes_max: usize) -> Opaque {
    let mut encoded = Vec::new();
    for n in 0..bytes_max / 13 {
        // A key of five digits and `true`.
        encoded.extend([10, 11, 10, 5]);
        encoded.extend(format!("{n:05}").bytes());
        encoded.extend([18, 2, 32, 1]);
    }
    Opaque::from_encoded(Bytes::from(encoded))
}

/// Returns an object with one key, below which all others are.
pub fn nested_keys(bytes_max: usize) -> Opaque {
    let keys = many_keys(bytes_max - 16);
    StructBuilder::new().object("o", keys.as_encoded()).build()
}

/// Returns a filter of events with [`nested_keys`] that compares as much as a filter may, and matches none.
pub fn values_filter(kind: &str) -> Config {
    // Short ones: a filter has 64 KiB. Each key but the last one has the last of its values.
    let wanted = |n: usize| {
        let mut values = vec![json!(""); 239];
        values.push(json!(n < 63));
        values
    };
    let keys = (0..64).map(|n| (format!("/o/{n:05}"), json!(wanted(n))));
    Config::Event(v1::EventFilter {
        r#type: kind.to_owned(),
        any_of: Some(object(Value::Object(keys.collect()))),
        ..v1::EventFilter::default()
    })
}

/// Returns a filter that measures the same object that many times, and matches no event.
pub fn sizes_filter(kind: &str, n_times: usize) -> Config {
    Config::Event(v1::EventFilter {
        r#type: kind.to_owned(),
        expression: format!("{} < 0", sizes("input.o", n_times)),
        ..v1::EventFilter::default()
    })
}

/// Returns a condition about a session whose state has [`nested_keys`]. It measures them that many times, and has that value.
pub fn sizes_condition(session_id: &str, n_times: usize, is_true: bool) -> Config {
    let operator = if is_true { ">" } else { "<" };
    Config::Condition(v1::Condition {
        expression: format!("{} {operator} 0", sizes("input.session.o", n_times)),
        check_interval_ms: Some(1_000),
        session_id: session_id.to_owned(),
        ..v1::Condition::default()
    })
}

fn sizes(of: &str, n_times: usize) -> String {
    vec![format!("size({of})"); n_times].join(" + ")
}

/// Returns the document of a plan that runs each of these.
pub fn sub_plans<'a>(plan_ids: impl IntoIterator<Item = &'a String>) -> Opaque {
    let steps = plan_ids.into_iter().enumerate();
    let steps = steps.map(
        |(n, plan_id)| json!({"key": format!("s{n}"), "type": "sub_plan", "config": {"plan_id": plan_id}}),
    );
    let steps: Vec<Value> = steps.collect();
    object(json!({"schema": "escapement.plan/1", "name": "large", "steps": steps}))
}
