//! Texts that models wrote, read as JSON: what counts, what does not, and that serde_json reads the same.

use escapement_model::opaque::{ValueView, value, value_of};
use escapement_run::json::{arguments_of_json, document_of_json, object_of_json, value_of_json};
use escapement_run::template::json_text;
use proptest::prelude::*;
use serde_json::Value;

fn read(text: &str) -> Result<String, String> {
    let read = value_of_json(text).map_err(|why| why.to_string())?;
    Ok(json_text(value(&read).unwrap()))
}

#[test]
fn what_is_json_reads_as_what_it_says() {
    for (text, same) in [
        (" {} ", "{}"),
        ("[]\n", "[]"),
        (
            r#"{"a":[1,-2.5,1e3,true,false,null,"x"]}"#,
            r#"{"a":[1,-2.5,1000,true,false,null,"x"]}"#,
        ),
        (r#""A\n\"\\\/ 😀""#, r#""A\n\"\\/ 😀""#),
        ("0", "0"),
        ("-0.5E-1", "-0.05"),
    ] {
        assert_eq!(read(text).as_deref(), Ok(same), "{text}");
    }
}

#[test]
fn what_is_no_json_is_refused_at_its_place() {
    for (text, why) in [
        ("", "the text ends where a value is expected at byte 0"),
        ("{} {}", "there is something behind the value at byte 3"),
        ("{", "a key is expected at byte 1"),
        ("{\"a\":", "the text ends where a value is expected at byte 5"),
        ("[1,]", "a value is expected at byte 3"),
        ("-", "a number is none, or is too large at byte 0"),
        ("{\"a\":1,}", "a key is expected at byte 7"),
        ("{\"a\":1,\"a\":2}", "a key of this object comes twice at byte 12"),
        ("{'a':1}", "a key is expected at byte 1"),
        ("[1 2]", "a comma or the end of the list is expected at byte 3"),
        ("01", "a number is none, or is too large at byte 0"),
        ("1e999", "a number is none, or is too large at byte 0"),
        ("1.", "a number is none, or is too large at byte 0"),
        ("\"a", "a text has no end at byte 1"),
        ("\"a\nb\"", "a text holds a control character at byte 3"),
        ("\"\\ud800\"", "an escape is half a character at byte 7"),
        ("\"\\ud800\\u0041\"", "an escape is half a character at byte 13"),
        ("\"\\u00é\"", "an escape is no hexadecimal number at byte 3"),
        ("\"\\é\"", "an escape is none at byte 2"),
        ("nul", "a value is expected at byte 0"),
        ("NaN", "a value is expected at byte 0"),
    ] {
        assert_eq!(read(text), Err(why.to_owned()), "{text}");
    }
}

#[test]
fn a_text_of_a_million_brackets_is_refused_at_once() {
    let why = |text: &str| value_of_json(text).unwrap_err().what;
    assert_eq!(why(&"[".repeat(1 << 20)), "more than 40 levels are nested");
    assert_eq!(why(&"{\"a\":".repeat(1000)), "more than 40 levels are nested");
    assert!(value_of_json(&format!("{}{}", "[".repeat(40), "]".repeat(40))).is_ok());
    assert!(value_of_json(&format!("{}{}", "[".repeat(41), "]".repeat(41))).is_err());
}

// RUN-11.5
#[test]
fn an_object_within_a_text_says_where_it_ends() {
    let text = r#"é {"b":1, "a":{"":[]}} and more"#;
    let (object, end) = object_of_json(text, 3).unwrap();
    assert_eq!(
        json_text(ValueView::Struct(object.as_encoded())),
        r#"{"b":1,"a":{"":[]}}"#
    );
    assert_eq!(&text[end..], " and more");
    for (begin, why) in [
        (0, "an object is expected"),
        (2, "an object is expected"),
        (99, "an object is expected"),
    ] {
        assert_eq!(object_of_json(text, begin).unwrap_err().what, why, "{begin}");
    }
    assert_eq!(
        object_of_json("{\"a\"", 0).unwrap_err().what,
        "a colon is expected"
    );
}

// RUN-11.5
#[test]
fn an_integer_that_a_double_does_not_hold_is_refused_in_a_document_with_its_path() {
    let document =
        r#"{"steps": [{"key": "a"}, {"config": {"tool_args": {"ids": [1, -2512292042121000001]}}}]}"#;
    let why = document_of_json(document, 0).unwrap_err();
    assert_eq!(why.path, "steps[1].config.tool_args.ids[1]");
    assert!(why.what.contains("-2512292042121000001"), "{why}");
    assert!(object_of_json(document, 0).is_ok(), "a schema is rounded");
    let held = r#"{"n": [9007199254740992, 1e21, 2512292042121000001.0], "2512292042121000001": "2512292042121000001"}"#;
    assert_eq!(document_of_json(held, 0), object_of_json(held, 0));
    assert_eq!(document_of_json("{\"a\"", 0).unwrap_err().path, "");
}

// RUN-13.3
#[test]
fn arguments_keep_the_digits_of_every_integer() {
    let text = r#"{"id": 2512292042121000001, "all": [9007199254740993, 7]}"#;
    let read = arguments_of_json(text).unwrap();
    let expected = value_of_json(r#"{"id": "2512292042121000001", "all": ["9007199254740993", 7]}"#);
    assert_eq!(read, expected.unwrap());
    assert!(arguments_of_json(r#"{"a": 1, "a": 2}"#).is_err());
}

// RUN-11.5
#[test]
fn deep_and_wide_objects_cost_little() {
    let deep = |levels| format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
    assert!(object_of_json(&deep(30), 0).is_ok());
    let why = object_of_json(&deep(31), 0).unwrap_err().what;
    assert_eq!(why, "more than 30 levels are nested");
    assert!(object_of_json(&r#"{"a":["#.repeat(100_000), 0).is_err());
    let wide: Vec<String> = (0..50_000).map(|n| format!(r#""k{n}":{{}}"#)).collect();
    let (object, _) = object_of_json(&format!("{{{}}}", wide.join(",")), 0).unwrap();
    assert!(value_of(object.as_encoded(), "k49999").is_some());
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        // serde_json reads doubles with many digits less exactly than they are written.
        any::<i32>().prop_map(|n| Value::from(f64::from(n) / 8.0)),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(".{0,4}", inner, 0..6)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

fn as_doubles(value: &Value) -> Value {
    match value {
        Value::Number(number) => Value::from(number.as_f64().unwrap()),
        Value::Array(items) => items.iter().map(as_doubles).collect(),
        Value::Object(entries) => Value::Object(
            entries
                .iter()
                .map(|(key, value)| (key.clone(), as_doubles(value)))
                .collect(),
        ),
        other => other.clone(),
    }
}

proptest! {
    #[test]
    fn serde_json_reads_the_same(value in any_json(), pretty in any::<bool>()) {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
        let again: Value = serde_json::from_str(&read(&text.unwrap()).unwrap()).unwrap();
        prop_assert_eq!(as_doubles(&again), as_doubles(&value));
    }

    #[test]
    fn what_serde_json_refuses_is_refused(text in "[\\[\\]{}:,\"\\\\a0-9eE.+ -]{0,12}") {
        if serde_json::from_str::<Value>(&text).is_err() {
            prop_assert!(read(&text).is_err());
        }
    }
}
