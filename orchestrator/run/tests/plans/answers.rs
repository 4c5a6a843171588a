//! JSON in the answers of planners: what is an object, and that hostile text costs little.

use escapement_model::opaque::{ValueView, value_of};
use escapement_run::planner::read_object;
use escapement_run::template::json_text;

/// The object at the beginning of the text, written again; or the fault.
fn read(text: &str) -> Result<String, String> {
    match read_object(text, 0) {
        Ok((object, end)) if end == text.len() => Ok(json_text(ValueView::Struct(object.as_encoded()))),
        Ok((_, end)) => Err(format!("ends at {end}")),
        Err(fault) => Err(fault.message),
    }
}

// RUN-11.5
#[test]
fn objects_are_read_as_they_are_written() {
    for text in [
        "{}",
        r#"{"a":1,"b":-2.5,"c":1e-7,"d":[true,false,null,[],{}],"e":{"f":"g"}}"#,
        r#"{"":"\"\\/\n\t\u0001é😀"}"#,
    ] {
        assert_eq!(read(text).as_deref(), Ok(text));
    }
    assert_eq!(read(r#"{ "a" : [ 1 , 2 ] }"#).as_deref(), Ok(r#"{"a":[1,2]}"#));
    assert_eq!(read(r#"{"a":"\ud83d\ude00\/"}"#).as_deref(), Ok(r#"{"a":"😀/"}"#));
}

// RUN-11.5
#[test]
fn what_is_no_json_is_refused() {
    for (text, why) in [
        ("", "ends within"),
        ("{", "ends within"),
        (r#"{"a""#, "ends within"),
        (r#"{"a":"#, "ends within"),
        (r#"{"a":"x"#, "ends within"),
        (r#"{"a":1,}"#, "expected"),
        (r#"{"a":[1,]}"#, "expected a value"),
        (r#"{a:1}"#, "expected"),
        (r#"{'a':1}"#, "expected"),
        (r#"{"a":01}"#, "no number"),
        (r#"{"a":1.}"#, "no number"),
        (r#"{"a":-}"#, "no number"),
        (r#"{"a":1e999}"#, "no number"),
        (r#"{"a":NaN}"#, "expected a value"),
        (r#"{"a":"\x"}"#, "no escape"),
        (r#"{"a":"\u12"}"#, "four hexadecimal"),
        (r#"{"a":"\ud800"}"#, "expected"),
        (r#"{"a":"\ude00"}"#, "half of a pair"),
        ("{\"a\":\"\n\"}", "control character"),
        (r#"{"a":1,"a":2}"#, "key twice"),
    ] {
        let fault = read(text).expect_err(text);
        assert!(fault.contains(why), "{text}: {fault}");
    }
}

// RUN-11.5
#[test]
fn deep_and_long_texts_cost_little() {
    let deep = format!("{}1{}", r#"{"a":"#.repeat(30), "}".repeat(30));
    assert!(read(&deep).is_ok());
    let deeper = format!("{}1{}", r#"{"a":"#.repeat(31), "}".repeat(31));
    assert!(read(&deeper).unwrap_err().contains("30 levels"));
    assert!(read(&r#"{"a":["#.repeat(100_000)).is_err());
    let wide: Vec<String> = (0..50_000).map(|n| format!(r#""k{n}":{{}}"#)).collect();
    let (object, _) = read_object(&format!("{{{}}}", wide.join(",")), 0).unwrap();
    assert!(value_of(object.as_encoded(), "k49999").is_some());
}
