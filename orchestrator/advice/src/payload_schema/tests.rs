#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
//! What is found, what is passed over, and what a hostile schema costs.

use super::*;
use escapement_wire::json::to_opaque;
use serde_json::json;

fn found(schema: &Value, payload: Value) -> Vec<String> {
    let payload = to_opaque(payload.as_object().unwrap());
    let mut budget = 10_000;
    mismatches(schema, payload.as_encoded(), &mut budget, |_| false)
        .into_iter()
        .map(|mismatch| format!("{} {}", mismatch.path, mismatch.problem))
        .collect()
}

#[test]
fn fields_that_are_missing_unknown_or_of_another_type_are_found() {
    let schema = json!({
        "type": "object", "additionalProperties": false, "required": ["ms"],
        "properties": {
            "ms": { "type": "integer", "minimum": 0, "maximum": 10 },
            "headers": { "type": "object", "additionalProperties": { "type": "string" } },
            "tags": { "type": "array", "minItems": 1, "items": { "enum": ["a", 1, null] } },
            "text": { "type": ["string", "array"], "maxLength": 2 },
            "above": { "exclusiveMinimum": 0 },
        },
    });
    let table = [
        (
            json!({ "ms": 1, "headers": { "a": "b" }, "tags": ["a", 1, null], "text": [] }),
            vec![],
        ),
        (
            json!({ "mss": 1 }),
            vec![" lacks \"ms\"", ".mss is a field that there is not"],
        ),
        (json!({ "ms": "1" }), vec![".ms must be an integer, is a string"]),
        (json!({ "ms": 1.5 }), vec![".ms must be an integer, is 1.5"]),
        (json!({ "ms": -1 }), vec![".ms must be at least 0, not -1"]),
        (json!({ "ms": 11 }), vec![".ms must be at most 10, not 11"]),
        (
            json!({ "ms": 1, "headers": { "a": 1 } }),
            vec![".headers.a must be a string, is 1"],
        ),
        (
            json!({ "ms": 1, "tags": ["a", "b"] }),
            vec![".tags[1] is none of the allowed values"],
        ),
        (
            json!({ "ms": 1, "tags": [] }),
            vec![".tags must have at least 1 items, not 0"],
        ),
        (
            json!({ "ms": 1, "text": "äöü" }),
            vec![".text must have at most 2 characters, not 3"],
        ),
        (
            json!({ "ms": 1, "text": 1 }),
            vec![".text must be a string or an array, is 1"],
        ),
        (
            json!({ "ms": 1, "above": 0 }),
            vec![".above must be above 0, is 0"],
        ),
    ];
    for (payload, expected) in table {
        assert_eq!(found(&schema, payload.clone()), expected, "{payload}");
    }
}

#[test]
fn alternatives_and_references_are_followed() {
    let schema = json!({
        "oneOf": [{ "required": ["url"] }, { "required": ["file"] }],
        "properties": { "url": { "$ref": "#/$defs/url" }, "next": { "$ref": "#" } },
        "$defs": { "url": { "type": "string" } },
    });
    assert!(found(&schema, json!({ "url": "x" })).is_empty());
    assert_eq!(
        found(&schema, json!({ "url": 1 })),
        [".url must be a string, is 1"]
    );
    assert_eq!(found(&schema, json!({})), [" fits none of the 2 alternatives"]);
    assert_eq!(
        found(&schema, json!({ "file": "x", "next": {} })),
        [".next fits none of the 2 alternatives"]
    );
}

#[test]
fn what_is_not_understood_is_allowed() {
    for schema in [
        json!(true),
        json!("no schema"),
        json!({ "type": "odd" }),
        json!({ "$ref": "https://example.com/schema" }),
        json!({ "$ref": "#/nowhere" }),
        json!({ "not": {}, "if": {}, "pattern": "[" }),
        json!({ "additionalProperties": false, "patternProperties": { "^x": {} } }),
        // Which of the two is meant only the pattern tells.
        json!({ "oneOf": [{ "pattern": "a" }, { "pattern": "b" }] }),
        json!({ "properties": { "x": { "type": "string", "nullable": true } } }),
        json!({ "properties": { "x": { "enum": [[1], null] } } }),
    ] {
        assert_eq!(
            found(&schema, json!({ "x": null })),
            Vec::<String>::new(),
            "{schema}"
        );
    }
}

#[test]
fn a_hostile_schema_ends_with_its_budget_and_finds_nothing_beyond() {
    let doubling = json!({ "allOf": [{ "$ref": "#" }, { "$ref": "#" }] });
    let itself = json!({ "$ref": "#" });
    let trials = json!({ "anyOf": [{ "allOf": [{ "$ref": "#" }, { "$ref": "#" }] }, { "required": ["x"] }] });
    for schema in [doubling, itself, trials] {
        assert_eq!(
            found(&schema, json!({ "y": 1 })),
            Vec::<String>::new(),
            "{schema}"
        );
    }
    // Many findings are cut, and so are long names.
    let names: Vec<String> = (0..100).map(|n| format!("{n}{}", "x".repeat(1_000))).collect();
    let schema = json!({ "required": names });
    let found = found(&schema, json!({}));
    assert_eq!(found.len(), MISMATCHES_MAX);
    assert!(found.iter().all(|text| text.len() < 100));
}

#[test]
fn a_reference_fits_every_schema() {
    let schema = json!({
        "type": "object", "additionalProperties": false, "required": ["ms", "list"],
        "properties": {
            "ms": { "type": "integer" }, "list": { "type": "array", "items": { "enum": [1, 2] } }, "flag": { "type": "boolean" },
        },
    });
    let payload = json!({"ms": "open", "list": [1, "open", 3], "flag": "closed"});
    let payload = to_opaque(payload.as_object().unwrap());
    let is_open = |value: ValueView<'_>| value == ValueView::Text("open");
    let found = mismatches(&schema, payload.as_encoded(), &mut 10_000, is_open);
    let found: Vec<&str> = found.iter().map(|mismatch| mismatch.path.as_str()).collect();
    assert_eq!(found, [".flag", ".list[2]"]);
}
