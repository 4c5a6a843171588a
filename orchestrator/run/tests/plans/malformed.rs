//! Documents with one thing wrong, each with the path and the code of its violation.

use std::collections::BTreeSet;

use escapement_model::Opaque;
use escapement_run::plan::{self, Code};
use serde_json::{Value, json};

use crate::documents::{encoded, full, read, told};

/// Where the full document is changed, what it says there as JSON (`-` removes it), the path of the violation
/// (`=` for the place of the change), and its code.
type Row = (&'static str, &'static str, &'static str, &'static str);

const INVALID: &str = "INVALID_FIELD";
const UNKNOWN: &str = "UNKNOWN_FIELD";
const REFERENCE: &str = "UNKNOWN_REFERENCE";
const UNRESOLVED: &str = "REFERENCE_UNRESOLVED";
const CONTRADICTION: &str = "CONSTRAINT_VIOLATED";
const BACKWARD: &str = "BACKWARD_JUMP";
const CYCLE: &str = "CYCLIC_DEPENDENCY";

#[rustfmt::skip]
const OF_THE_DOCUMENT: &[Row] = &[
    ("/schema", "-", "=", INVALID),
    ("/schema", "null", "=", INVALID),
    ("/schema", "1", "=", INVALID),
    ("/schema", r#""escapement.plan/2""#, "=", INVALID),
    ("/name", "-", "=", INVALID),
    ("/name", "null", "=", INVALID),
    ("/name", r#""""#, "=", INVALID),
    ("/name", "7", "=", INVALID),
    ("/name", r#"["P"]"#, "=", INVALID),
    ("/goal", "true", "=", INVALID),
    ("/description", "{}", "=", INVALID),
    ("/parallel", "1", "=", INVALID),
    ("/parallel", r#""true""#, "=", INVALID),
    ("/narrative", "[]", "=", INVALID),
    ("/output", r#""${nobody}""#, "=", UNRESOLVED),
    ("/output", r#"{"x": [1, "${call:no}"]}"#, "output.x[1]", UNRESOLVED),
    ("/output", r#""${call""#, "=", UNRESOLVED),
    ("/output", r#""${}""#, "=", UNRESOLVED),
    ("/output", r#""${call:/~2}""#, "=", UNRESOLVED),
    ("/output", r#""${a b}""#, "=", UNRESOLVED),
    ("/output", r#""${iteration}""#, "=", UNRESOLVED),
    ("/output", r#""${item}""#, "=", UNRESOLVED),
    ("/output", r#"{"$from": "call", "extra": 1}"#, "=", UNRESOLVED),
    ("/output", r#"{"$from": 1}"#, "=", UNRESOLVED),
    ("/output", r#"{"$from": "call", "path": 1}"#, "=", UNRESOLVED),
    ("/output", r#"{"$from": "call", "path": "x"}"#, "=", UNRESOLVED),
    ("/output", r#"{"$from": "nobody", "default": 1}"#, "=", UNRESOLVED),
    ("/output", r#"{"we ird": "${nobody}"}"#, r#"output."we ird""#, UNRESOLVED),
    ("/constraints", "1", "=", INVALID),
    ("/constraints/must_produce", r#""image""#, "=", INVALID),
    ("/constraints/must_produce", r#"["image", 1]"#, "constraints.must_produce[1]", INVALID),
    ("/constraints/must_produce", r#"[""]"#, "constraints.must_produce[0]", INVALID),
    ("/constraints/expected_artifact_type", "1", "=", INVALID),
    ("/constraints/extra", "1", "=", UNKNOWN),
    ("/steps", "-", "=", INVALID),
    ("/steps", "null", "=", INVALID),
    ("/extra", "1", "=", UNKNOWN),
    ("/extra", "null", "=", UNKNOWN),
    ("/Name", r#""P""#, "=", UNKNOWN),
];

#[rustfmt::skip]
const OF_STEPS: &[Row] = &[
    ("/steps/6/key", "-", "=", INVALID),
    ("/steps/6/key", "1", "=", INVALID),
    ("/steps/6/key", r#""""#, "=", INVALID),
    ("/steps/6/key", r#""a b""#, "=", INVALID),
    ("/steps/6/key", r#""ä""#, "=", INVALID),
    ("/steps/6/key", r#""0123456789012345678901234567890123456789012345678901234567890abcd""#, "=", INVALID),
    ("/steps/6/key", r#""input""#, "=", INVALID),
    ("/steps/6/key", r#""session""#, "=", INVALID),
    ("/steps/6/key", r#""run""#, "=", INVALID),
    ("/steps/6/key", r#""iteration""#, "=", INVALID),
    ("/steps/6/key", r#""item""#, "=", INVALID),
    ("/steps/6/key", r#""abort""#, "=", INVALID),
    ("/steps/6/key", r#""drain""#, "=", INVALID),
    ("/steps/6/key", r#""skip""#, "=", INVALID),
    ("/steps/3/key", r#""ask""#, "=", "DUPLICATE_KEY"),
    ("/steps/0/order", "-1", "=", INVALID),
    ("/steps/0/order", "1.5", "=", INVALID),
    ("/steps/0/order", "1000001", "=", INVALID),
    ("/steps/0/order", r#""1""#, "=", INVALID),
    ("/steps/0/type", "-", "=", INVALID),
    ("/steps/0/type", "1", "=", INVALID),
    ("/steps/0/type", r#""tool""#, "=", "UNKNOWN_STEP_TYPE"),
    ("/steps/0/type", r#""""#, "=", "UNKNOWN_STEP_TYPE"),
    ("/steps/0/type", r#""Tool_Call""#, "=", "UNKNOWN_STEP_TYPE"),
    ("/steps/0/name", r#""""#, "=", INVALID),
    ("/steps/0/name", "1", "=", INVALID),
    ("/steps/0/description", "1", "=", INVALID),
    ("/steps/0/config", "[]", "=", INVALID),
    ("/steps/0/config", "-", "steps[0].config.tool_name", INVALID),
    ("/steps/0/config", "null", "steps[0].config.tool_name", INVALID),
    ("/steps/0/depends_on", r#""call""#, "=", INVALID),
    ("/steps/0/depends_on", "[1]", "steps[0].depends_on[0]", INVALID),
    ("/steps/0/depends_on", r#"[""]"#, "steps[0].depends_on[0]", INVALID),
    ("/steps/1/depends_on", r#"["call", "nobody"]"#, "steps[1].depends_on[1]", REFERENCE),
    ("/steps/0/depends_on", r#"["call"]"#, "steps[0].depends_on[0]", CYCLE),
    ("/steps/0/required", "1", "=", INVALID),
    ("/steps/0/required", "false", "steps[0].on_failure", CONTRADICTION),
    ("/steps/0/on_failure", r#""skip""#, "=", CONTRADICTION),
    ("/steps/0/async", r#""no""#, "=", INVALID),
    ("/steps/0/timeout_ms", "0", "=", INVALID),
    ("/steps/0/timeout_ms", "86400001", "=", INVALID),
    ("/steps/0/timeout_ms", "0.5", "=", INVALID),
    ("/steps/0/timeout_ms", "1e300", "=", INVALID),
    ("/steps/0/retry", "3", "=", INVALID),
    ("/steps/0/retry/max_retries", "-1", "=", INVALID),
    ("/steps/0/retry/max_retries", "101", "=", INVALID),
    ("/steps/0/retry/backoff_ms", "-0.5", "=", INVALID),
    ("/steps/0/retry/backoff_ms", "86400001", "=", INVALID),
    ("/steps/0/retry/multiplier", "0.99", "=", INVALID),
    ("/steps/0/retry/multiplier", "10.5", "=", INVALID),
    ("/steps/0/retry/multiplier", r#""2""#, "=", INVALID),
    ("/steps/0/retry/max_backoff_ms", "86400001", "=", INVALID),
    ("/steps/0/retry/escalate", "1", "=", INVALID),
    ("/steps/0/retry/maxRetries", "1", "=", UNKNOWN),
    ("/steps/0/on_success", r#""nobody""#, "=", REFERENCE),
    ("/steps/0/on_success", "1", "=", INVALID),
    ("/steps/0/on_success", r#""call""#, "=", BACKWARD),
    ("/steps/1/on_success", r#""call""#, "=", BACKWARD),
    ("/steps/0/on_failure", r#""nobody""#, "=", REFERENCE),
    ("/steps/0/on_failure", "true", "=", INVALID),
    ("/steps/2/on_failure", r#""decide""#, "=", BACKWARD),
    ("/steps/0/on_dependency_failure", r#""null""#, "=", INVALID),
    ("/steps/0/on_dependency_failure", "1", "=", INVALID),
    ("/steps/0/verify", "true", "=", INVALID),
    ("/steps/0/verify", "{}", "steps[0].verify.tool_name", INVALID),
    ("/steps/0/verify/extra", "1", "=", UNKNOWN),
    ("/steps/0/verify/tool_args/last", r#""${nobody}""#, "=", UNRESOLVED),
    ("/steps/0/metadata", "[]", "=", INVALID),
    ("/steps/0/status", r#""pending""#, "=", UNKNOWN),
    ("/steps/0/dependsOn", "[]", "=", UNKNOWN),
    ("/steps/6", "7", "=", INVALID),
    ("/steps/6", "null", "=", INVALID),
];

#[rustfmt::skip]
const OF_CONFIGURATIONS: &[Row] = &[
    ("/steps/0/config/tool_name", "-", "=", INVALID),
    ("/steps/0/config/tool_name", r#""""#, "=", INVALID),
    ("/steps/0/config/tool_name", "1", "=", INVALID),
    ("/steps/0/config/tool_args", "[]", "=", INVALID),
    ("/steps/0/config/tool_args", r#""${input}""#, "=", INVALID),
    ("/steps/0/config/tool_args/path", r#""${inputs}""#, "=", UNRESOLVED),
    ("/steps/0/config/tool_args/path", r#""${iteration}""#, "=", UNRESOLVED),
    ("/steps/0/config/tool_args/path", r#""${item}""#, "=", UNRESOLVED),
    ("/steps/0/config/tool_args/path", r#""$ ${""#, "=", UNRESOLVED),
    ("/steps/0/config/tool_args/n/1/deep", r#""${run:}x${nobody}""#, "=", UNRESOLVED),
    ("/steps/0/config/tool_args/path", r#""${call}""#, "steps[0].config", CYCLE),
    ("/steps/0/config/tool_args/path", r#""${decide}""#, "steps[1].depends_on[0]", CYCLE),
    ("/steps/0/config/toolName", r#""f""#, "=", UNKNOWN),
    ("/steps/0/config/prompt", r#""f""#, "=", UNKNOWN),
    ("/steps/1/config/prompt", "-", "=", INVALID),
    ("/steps/1/config/prompt", r#""""#, "=", INVALID),
    ("/steps/1/config/prompt", r#""${nobody}""#, "=", UNRESOLVED),
    ("/steps/1/config/prompt", r#"{"$from": "call"}"#, "=", INVALID),
    ("/steps/1/config/choices", r#""yes""#, "=", INVALID),
    ("/steps/1/config/choices", "[1]", "steps[1].config.choices[0]", INVALID),
    ("/steps/1/config/choices", r#"["yes", ""]"#, "steps[1].config.choices[1]", INVALID),
    ("/steps/1/config/context", r#""some""#, "=", INVALID),
    ("/steps/1/config/context", r#"["nobody"]"#, "steps[1].config.context[0]", REFERENCE),
    ("/steps/1/config/context", r#"["ask"]"#, "steps[2].config", CYCLE),
    ("/steps/1/config/tools", r#"[""]"#, "steps[1].config.tools[0]", INVALID),
    ("/steps/1/config/tools", "{}", "=", INVALID),
    ("/steps/1/config/model", r#""""#, "=", INVALID),
    ("/steps/1/config/max_iterations", "0", "=", INVALID),
    ("/steps/1/config/max_iterations", "101", "=", INVALID),
    ("/steps/1/config/temperature", "1", "=", UNKNOWN),
    ("/steps/2/config/question", "-", "=", INVALID),
    ("/steps/2/config/question", r#""${nobody}""#, "=", UNRESOLVED),
    ("/steps/2/config/input_type", r#""number""#, "=", INVALID),
    ("/steps/2/config/input_type", "1", "=", INVALID),
    ("/steps/2/config/options", r#""a""#, "=", INVALID),
    ("/steps/2/config/options/0", r#""""#, "=", INVALID),
    ("/steps/2/config/options/1", r#""${nobody}""#, "=", UNRESOLVED),
    ("/steps/2/config/timeout_ms", "0", "=", INVALID),
    ("/steps/2/config/timeout_ms", "31536000001", "=", INVALID),
    ("/steps/2/config/default_answer", r#""c""#, "=", CONTRADICTION),
    ("/steps/2/config/default_answer", "1", "=", CONTRADICTION),
    ("/steps/2/config", r#"{"question": "?", "input_type": "choice"}"#, "steps[2].config.options", CONTRADICTION),
    ("/steps/2/config", r#"{"question": "?", "options": ["a"]}"#, "steps[2].config.options", CONTRADICTION),
    ("/steps/2/config", r#"{"question": "?", "default_answer": 1}"#, "steps[2].config.default_answer", CONTRADICTION),
    ("/steps/2/config", r#"{"question": "?", "input_type": "confirm", "default_answer": "yes"}"#,
        "steps[2].config.default_answer", CONTRADICTION),
    ("/steps/2/config", r#"{"question": "?", "input_type": "form", "default_answer": []}"#,
        "steps[2].config.default_answer", CONTRADICTION),
    ("/steps/2/config/timeout", "1", "=", UNKNOWN),
    ("/steps/3/config/condition", "-", "=", INVALID),
    ("/steps/3/config/condition", "true", "=", INVALID),
    ("/steps/3/config/condition", r#""""#, "=", INVALID),
    ("/steps/3/config/condition", r#""result:nobody""#, "=", REFERENCE),
    ("/steps/3/config/condition", r#""result:""#, "=", REFERENCE),
    ("/steps/3/config/condition", r#""result:branch""#, "steps[3].config", CYCLE),
    ("/steps/3/config/true_step", r#""nobody""#, "=", REFERENCE),
    ("/steps/3/config/true_step", r#""branch""#, "=", BACKWARD),
    ("/steps/3/config/true_step", "1", "=", INVALID),
    ("/steps/3/config/false_step", r#""call""#, "=", BACKWARD),
    ("/steps/3/config/false_step", r#""nobody""#, "=", REFERENCE),
    ("/steps/3/config/else", r#""all""#, "=", UNKNOWN),
    ("/steps/4/config/steps", "-", "=", INVALID),
    ("/steps/4/config/steps", r#""list""#, "=", INVALID),
    ("/steps/4/config/steps/0", r#""""#, "=", INVALID),
    ("/steps/4/config/steps/0", "1", "=", INVALID),
    ("/steps/4/config/steps/1/tool_name", "-", "=", INVALID),
    ("/steps/4/config/steps/1/tool_args/of", r#""${iteration}""#, "=", UNRESOLVED),
    ("/steps/4/config/steps/1/extra", "1", "=", UNKNOWN),
    ("/steps/4/config/batch_size", "0", "=", INVALID),
    ("/steps/4/config/batch_size", "257", "=", INVALID),
    ("/steps/4/config/wait_all", "0", "=", INVALID),
    ("/steps/4/config/waitAll", "true", "=", UNKNOWN),
    ("/steps/5/config/tool_name", "-", "=", INVALID),
    ("/steps/5/config/tool_args/n", r#""${item}""#, "=", UNRESOLVED),
    ("/steps/5/config/max_iterations", "1001", "=", INVALID),
    ("/steps/5/config/max_iterations", "-1", "=", INVALID),
    ("/steps/5/config/pass_iteration", "1", "=", INVALID),
    ("/steps/5/config/loop_condition", "true", "=", INVALID),
    ("/steps/5/config/loop_condition", r#""result:nobody""#, "=", REFERENCE),
    ("/steps/5/config/loop_condition", r#""result:again""#, "steps[5].config", CYCLE),
    ("/steps/5/config/loop_step", r#""call""#, "=", CONTRADICTION),
    ("/steps/5/config", r#"{"loop_step": "nobody"}"#, "steps[5].config.loop_step", REFERENCE),
    ("/steps/5/config", r#"{"loop_step": "decide"}"#, "steps[5].config.loop_step", INVALID),
    ("/steps/5/config", r#"{"loop_step": "again"}"#, "steps[5].config.loop_step", INVALID),
    ("/steps/5/config", r#"{"loop_step": 1}"#, "steps[5].config.loop_step", INVALID),
    ("/steps/6/config/plan_id", "-", "=", CONTRADICTION),
    ("/steps/6/config/plan_id", r#""plan_1706000000_abc""#, "=", INVALID),
    ("/steps/6/config/plan_id", "1", "=", INVALID),
    ("/steps/6/config", r#"{"revision_digest": "abc"}"#, "steps[6].config.revision_digest", INVALID),
    ("/steps/6/config", r#"{"revision_digest": "sha256:0A"}"#, "steps[6].config.revision_digest", INVALID),
    ("/steps/6/config/input", r#""${again}""#, "=", INVALID),
    ("/steps/6/config/input/seen", r#""${nobody}""#, "=", UNRESOLVED),
    ("/steps/6/config/subPlanId", r#""x""#, "=", UNKNOWN),
];

/// Changes the full document.
fn changed(pointer: &str, what: &str) -> Value {
    let mut document = full();
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    let parent = document.pointer_mut(parent).unwrap();
    match (parent, what) {
        (Value::Object(object), "-") => {
            object.remove(field);
        }
        (Value::Object(object), what) => {
            object.insert(field.to_owned(), serde_json::from_str(what).unwrap());
        }
        (Value::Array(items), what) => {
            items[field.parse::<usize>().unwrap()] = serde_json::from_str(what).unwrap()
        }
        (other, _) => panic!("{pointer}: {other}"),
    }
    document
}

/// `steps[0].key` for `/steps/0/key`.
fn path_of(pointer: &str) -> String {
    let parts = pointer.split('/').skip(1).enumerate();
    parts
        .map(|(n, part)| match part.parse::<usize>() {
            Ok(index) => format!("[{index}]"),
            Err(_) if n == 0 => part.to_owned(),
            Err(_) => format!(".{part}"),
        })
        .collect()
}

// RUN-1.1
#[test]
fn what_is_wrong_is_told_with_its_path_and_code() {
    let mut wrong = String::new();
    let mut codes = BTreeSet::new();
    let tables = [OF_THE_DOCUMENT, OF_STEPS, OF_CONFIGURATIONS];
    for (pointer, what, path, code) in tables.into_iter().flatten() {
        let path = if *path == "=" {
            path_of(pointer)
        } else {
            (*path).to_owned()
        };
        let expected = format!("{path} {code} ");
        codes.insert(*code);
        let found = match read(&changed(pointer, what)) {
            Ok(_) => "nothing".to_owned(),
            Err(violations) => told(Err(violations)),
        };
        // More follows from a field that is missing, and from a step that others name.
        let is_alone = found.lines().count() == 1 || *code == INVALID;
        if !is_alone || !found.lines().any(|line| line.starts_with(&expected)) {
            wrong.push_str(&format!(
                "{pointer} as {what}\n  expected {expected}\n  found {found}"
            ));
        }
    }
    assert_eq!(wrong, "");
    // The one that is left is that of sizes.
    let all: BTreeSet<&str> = Code::ALL
        .into_iter()
        .map(Code::as_str)
        .filter(|code| *code != "PLAN_SIZE")
        .collect();
    assert_eq!(codes, all);
}

#[test]
fn what_is_too_long_is_refused() {
    let rows = [
        ("/name", 256, INVALID),
        ("/goal", 5001, INVALID),
        ("/description", 5001, INVALID),
        ("/constraints/expected_artifact_type", 256, INVALID),
        ("/steps/0/name", 256, INVALID),
        ("/steps/0/description", 5001, INVALID),
        ("/steps/0/config/tool_name", 101, INVALID),
        ("/steps/1/config/model", 256, INVALID),
        ("/steps/1/config/choices/0", 1001, INVALID),
        ("/steps/1/config/tools/0", 101, INVALID),
        ("/steps/2/config/options/1", 1001, INVALID),
        ("/steps/3/config/condition", 4097, INVALID),
        ("/steps/4/config/steps/0", 101, INVALID),
        ("/steps/5/config/loop_condition", 4097, INVALID),
    ];
    for (pointer, n, code) in rows {
        let text = format!("{:?}", "x".repeat(n));
        let found = told(read(&changed(pointer, &text)));
        assert!(
            found.starts_with(&format!("{} {code} ", path_of(pointer))),
            "{pointer}: {found}"
        );
        let shorter = format!("{:?}", "x".repeat(n - 1));
        assert!(read(&changed(pointer, &shorter)).is_ok(), "{pointer}");
    }
}

#[test]
fn lists_that_are_too_long_are_refused() {
    let rows = [
        ("/constraints/must_produce", json!(vec!["x"; 17]), INVALID),
        ("/steps/1/depends_on", json!(vec!["call"; 1025]), INVALID),
        ("/steps/1/config/choices", json!(vec!["x"; 101]), INVALID),
        ("/steps/1/config/tools", json!(vec!["x"; 257]), INVALID),
        ("/steps/2/config/options", json!(vec!["a"; 101]), INVALID),
        ("/steps/4/config/steps", json!(vec!["x"; 257]), INVALID),
        ("/output", json!(vec!["${call}"; 1025]), "PLAN_SIZE"),
        (
            "/steps/1/config/prompt",
            json!("${call}".repeat(1025)),
            "PLAN_SIZE",
        ),
    ];
    for (pointer, list, code) in rows {
        let found = told(read(&changed(pointer, &list.to_string())));
        assert!(
            found.starts_with(&format!("{} {code} ", path_of(pointer))),
            "{pointer}: {found}"
        );
    }
}

#[test]
fn documents_that_are_too_large_too_deep_or_broken_are_refused_as_a_whole() {
    let large = changed(
        "/steps/0/metadata",
        &json!({"x": "x".repeat(1 << 20)}).to_string(),
    );
    assert!(told(read(&large)).starts_with("document PLAN_SIZE Must have at most 1048576 bytes"));
    let deep = (0..60).fold(json!(1), |inner, _| json!([inner]));
    let deep = changed("/steps/0/metadata", &json!({"x": deep}).to_string());
    assert!(told(read(&deep)).starts_with("document PLAN_SIZE The document is nested deeper than 90"));
    let full = encoded(&full()).as_encoded().clone();
    for cut in [1, full.len() / 2, full.len() - 1] {
        let broken = plan::read(&Opaque::from_encoded(full.slice(..cut)));
        assert_eq!(
            told(broken),
            "document INVALID_FIELD The document is not an encoded object.\n"
        );
    }
    assert_eq!(
        told(plan::read(&Opaque::from_encoded(
            b"\x0a\x03\x0a\x01\xff".as_slice().into()
        ))),
        "document INVALID_FIELD The document holds text that is not UTF-8.\n"
    );
    assert_eq!(told(plan::read(&Opaque::default())).lines().count(), 3);
}
