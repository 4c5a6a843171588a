//! Messages about unknown fields: they name the field that was probably meant, with its path, or the fields of the object.

use escapement_run::plan;
use serde_json::{Value, json};

use crate::documents::{encoded, full};

/// Adds a field to the object at a pointer, and returns the message about it.
#[track_caller]
fn message(pointer: &str, field: &str) -> String {
    let mut document: Value = full();
    let object = document.pointer_mut(pointer).unwrap().as_object_mut().unwrap();
    object.insert(field.to_owned(), json!(1));
    let violations = plan::read(&encoded(&document)).unwrap_err();
    let of_field = violations
        .iter()
        .find(|violation| violation.path.ends_with(field));
    of_field.unwrap().message.clone()
}

#[test]
fn the_field_that_was_meant_is_named_with_its_path() {
    let meant = [
        ("/steps/0", "dependsOn", "steps[0].depends_on"),
        ("/steps/0", "dependson", "steps[0].depends_on"),
        ("/steps/0", "max_retries", "steps[0].retry.max_retries"),
        ("/steps/0", "maxRetries", "steps[0].retry.max_retries"),
        ("/steps/0", "backof_ms", "steps[0].retry.backoff_ms"),
        ("/steps/0", "tool_name", "steps[0].config.tool_name"),
        ("/steps/0", "prompt", "steps[0].config.prompt"),
        ("/steps/0/retry", "maxRetries", "steps[0].retry.max_retries"),
        ("/steps/0/config", "depends_on", "steps[0].depends_on"),
        ("/steps/0/config", "timeout_ms", "steps[0].timeout_ms"),
        ("/steps/0/config", "toolName", "steps[0].config.tool_name"),
        ("/constraints", "mustProduce", "constraints.must_produce"),
        ("", "must_produce", "constraints.must_produce"),
        ("", "Name", "name"),
        ("", "depends_on", "steps[].depends_on"),
    ];
    for (pointer, field, path) in meant {
        let said = message(pointer, field);
        assert!(
            said.ends_with(&format!("did you mean `{path}`?")),
            "{pointer} {field}: {said}"
        );
    }
}

#[test]
fn fields_of_the_object_are_listed_if_none_is_near() {
    let said = message("/steps/0/retry", "zzzzzzzz");
    assert_eq!(
        said,
        "unknown field; the fields are max_retries, backoff_ms, multiplier, max_backoff_ms, escalate"
    );
}

#[test]
fn every_field_of_every_object_is_found_from_the_object_around_it() {
    let objects = [
        ("/constraints", "", "constraints"),
        ("/steps/0/retry", "/steps/0", "steps[0].retry"),
        ("/steps/0/config", "/steps/0", "steps[0].config"),
        ("/steps/1/config", "/steps/1", "steps[1].config"),
        ("/steps/2/config", "/steps/2", "steps[2].config"),
        ("/steps/3/config", "/steps/3", "steps[3].config"),
        ("/steps/4/config", "/steps/4", "steps[4].config"),
    ];
    let fields = |pointer: &str| -> Vec<String> {
        let said = message(pointer, "zzzzzzzz");
        let (_, fields) = said.split_once("the fields are ").unwrap();
        fields
            .trim_end_matches('.')
            .split(", ")
            .map(str::to_owned)
            .collect()
    };
    for (object, around, path) in objects {
        let there = fields(around);
        for field in fields(object).iter().filter(|field| !there.contains(field)) {
            let said = message(around, field);
            assert!(
                said.contains(&format!("`{path}.{field}`")),
                "{around} {field}: {said}"
            );
        }
    }
    let of_step = fields("/steps/0");
    let of_config = fields("/steps/0/config");
    for field in of_step.iter().filter(|field| !of_config.contains(field)) {
        let said = message("/steps/0/config", field);
        assert!(said.contains(&format!("`steps[0].{field}`")), "{field}: {said}");
    }
}

#[test]
fn many_unknown_fields_are_compared_within_a_bound() {
    let mut document: Value = full();
    let object = document.as_object_mut().unwrap();
    for n in 0..2_000 {
        object.insert(format!("unknown_{n:0>4}"), json!(1));
    }
    let violations = plan::read(&encoded(&document)).unwrap_err();
    let messages = || violations.iter().map(|violation| violation.message.as_str());
    assert_eq!(
        messages().filter(|said| said.contains("the fields are")).count(),
        32
    );
}
