//! JSON that others wrote: digits, keys and byte order marks.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test fails by panicking, and its name is its documentation"
)]

use escapement_wire::json::outside::{exact, lost_integers, value};
use proptest::prelude::*;
use serde_json::{Value, json};

fn read(text: &str) -> Value {
    value(text.as_bytes()).unwrap()
}

#[test]
fn an_integer_that_a_double_does_not_hold_becomes_a_text_with_all_its_digits() {
    let text = r#"{"id": 2512292042121000001, "all": [-9007199254740993, 9007199254740992, 1e400]}"#;
    assert!(value(text.as_bytes()).is_err(), "1e400 is no number for anybody");
    let text = r#"{"id": 2512292042121000001, "all": [-9007199254740993, 9007199254740992, 0.1, 1e21],
        "deep": {"n": 123456789012345678901234567890}}"#;
    let expected = json!({
        "id": "2512292042121000001", "all": ["-9007199254740993", 9_007_199_254_740_992_u64, 0.1, 1e21],
        "deep": { "n": "123456789012345678901234567890" }
    });
    assert_eq!(read(text), expected);
    assert_eq!(read("2512292042121000001"), json!("2512292042121000001"));
    assert_eq!(read("2512292042121000001.5"), json!(2.512292042121e18));
}

#[test]
fn what_stands_in_texts_and_keys_stays_as_it_is() {
    let text = r#"{"a \" 2512292042121000001": "2512292042121000001, \\\" 9007199254740993"}"#;
    assert_eq!(read(text), serde_json::from_str::<Value>(text).unwrap());
    for none in [
        "{2512292042121000001: 1}",
        "02512292042121000001",
        "[2512292042121000001",
        "-",
        "\"2512292042121000001",
        "1 2512292042121000001",
        "",
    ] {
        assert!(value(none.as_bytes()).is_err(), "{none}");
    }
}

#[test]
fn a_key_that_comes_twice_is_refused_at_every_depth() {
    for twice in [r#"{"a": 1, "a": 2}"#, r#"[{"b": {"a": 1, "\u0061": 1}}]"#] {
        let error = value(twice.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("comes twice"), "{error}");
    }
    assert_eq!(read(r#"[{"a": 1}, {"a": 2}]"#), json!([{ "a": 1 }, { "a": 2 }]));
}

#[test]
fn a_byte_order_mark_may_stand_before_a_text() {
    assert_eq!(value(b"\xef\xbb\xbf {\"a\": 1}").unwrap(), json!({ "a": 1 }));
    assert!(value(b"\xef\xbb\xbf\xef\xbb\xbf{}").is_err());
}

#[test]
fn a_document_is_told_where_its_digits_would_be_lost() {
    let text = br#"{"steps": [{"payload": {"ids": [1, 2512292042121000001]}}], "n": 9007199254740993, "2512292042121000001": 1}"#;
    assert_eq!(
        lost_integers(text).unwrap(),
        [
            ("n".to_owned(), "9007199254740993".to_owned()),
            (
                "steps[0].payload.ids[1]".to_owned(),
                "2512292042121000001".to_owned()
            ),
        ]
    );
    assert!(lost_integers(b"{\"n\": 9007199254740992}").unwrap().is_empty());
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e300..1e300).prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(".{0,6}", inner, 0..6)
                .prop_map(|object| Value::Object(object.into_iter().collect())),
        ]
    })
}

/// The value with texts in the place of integers that a double does not hold.
fn expected(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => value.clone(),
        Value::Number(number) => {
            let digits = number.to_string();
            let held = number.as_f64().unwrap() as i128;
            if held.to_string() == digits {
                value.clone()
            } else {
                digits.into()
            }
        }
        Value::Array(items) => items.iter().map(expected).collect(),
        Value::Object(object) => {
            let entries = object.iter().map(|(key, value)| (key.clone(), expected(value)));
            Value::Object(entries.collect())
        }
        other => other.clone(),
    }
}

proptest! {
    #[test]
    fn any_text_is_read_as_serde_json_reads_it_but_for_its_long_integers(given in any_json(), pretty in any::<bool>()) {
        let text = if pretty { serde_json::to_string_pretty(&given) } else { serde_json::to_string(&given) }.unwrap();
        // Not what was given: its floats may come out of a text as their neighbours.
        let read: Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(value(text.as_bytes()).unwrap(), expected(&read));
    }

    #[test]
    fn nothing_panics_and_nothing_becomes_json_that_was_none(text in "[-0-9eE.+\":,{}\\[\\] \\\\a]{0,60}") {
        let was_json = serde_json::from_str::<Value>(&text).is_ok();
        // Numbers too large for a double are texts now.
        let long = text.bytes().filter(u8::is_ascii_digit).count() > 15;
        let is_json = serde_json::from_slice::<Value>(&exact(text.as_bytes())).is_ok();
        prop_assert!(is_json == was_json || (long && is_json), "{}", text);
    }
}
