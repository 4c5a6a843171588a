//! What templates become, against a second implementation over trees of `serde_json`.

use std::collections::BTreeMap;

use bytes::Bytes;
use escapement_model::opaque::{BudgetSpent, PaidView, ValueView, WalkBudget, value};
use escapement_run::plan::Template;
use escapement_run::template::{Found, Pointer, RenderError, Sources, list_index};
use proptest::prelude::*;
use prost::Message;
use serde_json::{Value, json};

use crate::documents::{decoded, encoded, json_of, proto_value};
use crate::paying::{render_object, render_text, render_value};

/// Outputs of steps. One that is a list under a name that begins with `list` is kept item by item.
pub(crate) struct Outputs(BTreeMap<String, Vec<Bytes>>);

impl Outputs {
    pub(crate) fn new(outputs: &Value) -> Self {
        let bytes = |value: &Value| Bytes::from(proto_value(value).encode_to_vec());
        let outputs = outputs.as_object().unwrap().iter();
        let all = outputs.map(|(key, output)| match output {
            Value::Array(items) if key.starts_with("list") => {
                (key.clone(), items.iter().map(bytes).collect())
            }
            output => (key.clone(), vec![bytes(output)]),
        });
        Self(all.collect())
    }
}

impl Sources for Outputs {
    fn value(
        &self,
        source: &str,
        pointer: &Pointer,
        budget: &mut WalkBudget,
    ) -> Result<Found<'_>, BudgetSpent> {
        if source == "failed" {
            return Ok(Found::Text("(FAILED: CODE: message)".to_owned()));
        }
        let Some(parts) = self.0.get(source) else {
            return Ok(Found::Missing);
        };
        let mut find = |pointer: &Pointer, value| {
            let found = pointer.find(PaidView::of(value), budget)?;
            Ok(found.map(PaidView::unpaid))
        };
        let all = || parts.iter().map(|part| value(part).unwrap());
        let found = match (source.starts_with("list"), pointer.split_first()) {
            (true, None) => return Ok(Found::List(parts.clone())),
            (true, Some((index, rest))) => match list_index(index).and_then(|index| all().nth(index)) {
                Some(item) => find(&rest, item)?,
                None => None,
            },
            (false, _) => find(pointer, value(&parts[0]).unwrap())?,
        };
        Ok(match found {
            Some(ValueView::Text(text)) if source == "encoded" => {
                Found::Encoded(proto_value(&json!(text)).encode_to_vec().into())
            }
            found => found.map_or(Found::Missing, Found::Value),
        })
    }
}

fn outputs() -> Outputs {
    Outputs::new(&json!({
        "a": {"text": "t", "n": 3, "list": [1, {"x": null}], "": 5, "a/b": {"m~n": "deep"}, "flag": true},
        "null": null,
        "plain": "as \"it\" is",
        "list": ["first", {"x": 2}],
        "encoded": "made",
    }))
}

fn text(template: &str) -> Result<String, RenderError> {
    render_text(template, &outputs())
}

fn object(template: &Value) -> Result<Value, RenderError> {
    render_object(&encoded(template), &outputs()).map(|object| decoded(&object))
}

fn rendered_value(template: &Value, sources: &Outputs) -> Result<Value, RenderError> {
    let template = Template(proto_value(template).encode_to_vec().into());
    let bytes = render_value(&template, sources)?;
    Ok(json_of(&prost_types::Value::decode(bytes).unwrap()))
}

#[test]
fn a_reference_inside_text_is_the_text_of_its_value() {
    let rows = [
        ("", ""),
        ("plain $ text {}", "plain $ text {}"),
        ("${a:/text}", "t"),
        ("<${a:/text}>${a:/n}", "<t>3"),
        ("${plain}", "as \"it\" is"),
        ("${a:/list}", r#"[1,{"x":null}]"#),
        ("${a:/list/1/x} ${null}", "null null"),
        ("${a:/flag}", "true"),
        ("${a:/}", "5"),
        ("${a:/a~1b/m~0n}", "deep"),
        (
            "${a:}",
            r#"{"":5,"a/b":{"m~n":"deep"},"flag":true,"list":[1,{"x":null}],"n":3,"text":"t"}"#,
        ),
        ("${failed:/any/thing}!", "(FAILED: CODE: message)!"),
        ("${list} ${list:/0} ${list:/1/x}", r#"["first",{"x":2}] first 2"#),
        ("${encoded}", "made"),
        ("$${a}", "${a}"),
        ("$$${a}", "$${a}"),
        ("$$", "$$"),
        ("$", "$"),
        ("}${a:/n}}", "}3}"),
        ("ü${a:/n}ü", "ü3ü"),
    ];
    for (template, expected) in rows {
        assert_eq!(text(template).as_deref(), Ok(expected), "{template}");
    }
}

#[test]
fn a_reference_alone_keeps_its_type() {
    let template = json!({
        "number": "${a:/n}", "text": "${plain}", "list": "${a:/list}", "null": "${null}", "all": "${list}",
        "inside": ["n=${a:/n}", {"deep": "${list:/1}"}], "escaped": "$${a}", "failed": "${failed}", "plain": [1, true, null],
        "long": {"$from": "a", "path": "/a~1b"}, "whole": {"$from": "plain"}, "made": "${encoded}",
        "default": {"$from": "a", "path": "/none", "default": {"x": "${a}"}},
        "null default": {"$from": "nobody", "default": null}, "found": {"$from": "a", "path": "/n", "default": 0},
        "${a}": "a key stays",
    });
    let expected = json!({
        "number": 3.0, "text": "as \"it\" is", "list": [1.0, {"x": null}], "null": null, "all": ["first", {"x": 2.0}],
        "inside": ["n=3", {"deep": {"x": 2.0}}], "escaped": "${a}", "failed": "(FAILED: CODE: message)",
        "plain": [1.0, true, null],
        "long": {"m~n": "deep"}, "whole": "as \"it\" is", "made": "made",
        "default": {"x": "${a}"}, "null default": null, "found": 3.0,
        "${a}": "a key stays",
    });
    assert_eq!(object(&template), Ok(expected));
}

#[test]
fn an_object_can_be_a_reference_as_a_whole() {
    assert_eq!(
        object(&json!({"$from": "list", "path": "/1"})),
        Ok(json!({"x": 2.0}))
    );
    assert_eq!(
        object(&json!({"$from": "a", "path": "/no", "default": {"y": 1}})),
        Ok(json!({"y": 1.0}))
    );
    let not_an_object = |source: &str, pointer: &str| {
        Err(RenderError::NotAnObject {
            source: source.to_owned(),
            pointer: pointer.to_owned(),
        })
    };
    assert_eq!(
        object(&json!({"$from": "a", "path": "/n"})),
        not_an_object("a", "/n")
    );
    assert_eq!(object(&json!({"$from": "failed"})), not_an_object("failed", ""));
}

#[test]
fn a_pointer_that_leads_nowhere_is_told() {
    let pointers = [
        "/none",
        "/n/0",
        "/list/2",
        "/list/01",
        "/list/-",
        "/list/-1",
        "/list/+1",
        "/list/",
        "/list/1/x/y",
        "/text/0",
    ];
    for pointer in pointers {
        let unresolved = RenderError::Unresolved {
            source: "a".to_owned(),
            pointer: pointer.to_owned(),
        };
        assert_eq!(text(&format!("x${{a:{pointer}}}")), Err(unresolved.clone()));
        assert_eq!(
            object(&json!({"x": format!("${{a:{pointer}}}")})),
            Err(unresolved)
        );
    }
    let nobody = RenderError::Unresolved {
        source: "nobody".to_owned(),
        pointer: String::new(),
    };
    assert_eq!(object(&json!({"x": {"$from": "nobody"}})), Err(nobody));
}

#[test]
fn what_no_checked_plan_has_is_an_error() {
    for template in ["${", "x ${a", "${}", "${a b}", "${a:x}", "${a:/~}"] {
        assert!(
            matches!(text(template), Err(RenderError::Malformed(_))),
            "{template}"
        );
    }
    assert!(matches!(
        object(&json!({"$from": "a", "x": 1})),
        Err(RenderError::Malformed(_))
    ));
}

#[test]
fn numbers_are_told_in_their_shortest_form() {
    let rows = [
        (0.0, "0"),
        (-0.0, "0"),
        (3.0, "3"),
        (-17.0, "-17"),
        (0.1, "0.1"),
        (1.5e-7, "1.5e-7"),
        (0.000_001, "0.000001"),
        (9_007_199_254_740_993.0, "9007199254740992"),
        (1e20, "100000000000000000000"),
        (1e21, "1e21"),
        (f64::MAX, "1.7976931348623157e308"),
        (5e-324, "5e-324"),
    ];
    for (number, expected) in rows {
        let told = render_text("${x}", &Outputs::new(&json!({"x": number}))).unwrap();
        assert_eq!(told, expected);
        assert_eq!(told.parse::<f64>().unwrap(), number);
    }
}

/// A value without numbers whose text could be told in several ways.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(|number| json!(f64::from(number))),
        "[a-c\"\\\\\n\u{1}ü/$ {}]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(any_key(), inner, 0..4)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

fn any_key() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("a"),
        Just("b"),
        Just("a/b"),
        Just("m~n"),
        Just(""),
        Just("0"),
        Just("1"),
        Just("10")
    ]
    .prop_map(str::to_owned)
}

/// A piece of a template, with no code that takes templates apart.
#[derive(Clone, Debug)]
enum Piece {
    Text(String),
    Escape,
    Reference(&'static str, String),
}

fn any_piece() -> impl Strategy<Value = Piece> {
    let source = prop_oneof![Just("one"), Just("two"), Just("list"), Just("none")];
    let token = prop_oneof![
        Just("a"),
        Just("b"),
        Just("a~1b"),
        Just("m~0n"),
        Just(""),
        Just("0"),
        Just("1"),
        Just("01")
    ];
    let pointer = proptest::collection::vec(token, 0..3).prop_map(|tokens| {
        tokens
            .into_iter()
            .map(|token| format!("/{token}"))
            .collect::<String>()
    });
    prop_oneof![
        "[a-c ü}:\"\\\\]{1,4}".prop_map(Piece::Text),
        Just(Piece::Escape),
        (source, pointer).prop_map(|(source, pointer)| Piece::Reference(source, pointer)),
    ]
}

/// The text of a value: whole numbers as integers, which is all that there are.
fn naive_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => integers(other).to_string(),
    }
}

fn integers(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64().unwrap() as i64),
        Value::Array(items) => items.iter().map(integers).collect(),
        Value::Object(entries) => Value::Object(
            entries
                .iter()
                .map(|(key, value)| (key.clone(), integers(value)))
                .collect(),
        ),
        other => other.clone(),
    }
}

/// What a text of these pieces becomes; `None` if a reference leads nowhere.
fn naive(pieces: &[Piece], outputs: &Value) -> Option<Value> {
    let find = |source: &str, pointer: &str| outputs.get(source).and_then(|output| output.pointer(pointer));
    if let [Piece::Reference(source, pointer)] = pieces {
        return find(source, pointer).cloned();
    }
    let mut text = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(plain) => text.push_str(plain),
            Piece::Escape => text.push_str("${"),
            Piece::Reference(source, pointer) => text.push_str(&naive_text(find(source, pointer)?)),
        }
    }
    Some(Value::String(text))
}

fn template_of(pieces: &[Piece]) -> Value {
    let texts = pieces.iter().map(|piece| match piece {
        Piece::Text(plain) => plain.clone(),
        Piece::Escape => "$${".to_owned(),
        Piece::Reference(source, pointer) if pointer.is_empty() => format!("${{{source}}}"),
        Piece::Reference(source, pointer) => format!("${{{source}:{pointer}}}"),
    });
    Value::String(texts.collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn rendering_agrees_with_a_second_implementation(
        one in any_value(),
        two in any_value(),
        list in proptest::collection::vec(any_value(), 0..3),
        texts in proptest::collection::vec(proptest::collection::vec(any_piece(), 0..4), 1..4),
        (long, default) in (any_piece(), proptest::option::of(any_value())),
    ) {
        let all = json!({"one": one, "two": two, "list": list});
        let mut template = json!({"texts": texts.iter().map(|pieces| template_of(pieces)).collect::<Vec<_>>()});
        let rendered: Option<Vec<Value>> = texts.iter().map(|pieces| naive(pieces, &all)).collect();
        let mut expected = rendered.map(|texts| json!({"texts": texts}));
        if let Piece::Reference(source, pointer) = &long {
            let mut form = json!({"$from": source, "path": pointer});
            if let Some(default) = &default {
                form["default"] = default.clone();
            }
            template["long"] = form;
            let found = naive(std::slice::from_ref(&long), &all).or(default);
            expected = expected.zip(found).map(|(mut expected, found)| {
                expected["long"] = found;
                expected
            });
        }
        let sources = Outputs::new(&all);
        let found = render_object(&encoded(&template), &sources).map(|object| decoded(&object));
        prop_assert_eq!(found.clone().ok(), expected.clone());
        prop_assert_eq!(rendered_value(&template, &sources).ok(), expected);
        if let Err(error) = found {
            let is_unresolved = matches!(error, RenderError::Unresolved { .. });
            prop_assert!(is_unresolved, "{}", error);
        }
    }
}
