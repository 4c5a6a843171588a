//! `json.query`.

use super::{closed, context, context_with, input, kind, with_root};
use escapement_sdk::testing::cancel;
use escapement_sdk::{StepContext, StepError};
use escapement_worker::config::Config;
use escapement_worker::handlers::json_query::{Output, run};
use serde_json::{Value, json};
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

async fn query_in(config: Config, payload: Value, context: StepContext) -> Result<Output, StepError> {
    run(input(payload), context, Arc::new(config)).await
}

async fn query(payload: Value) -> Result<Output, StepError> {
    query_in(closed(), payload, context()).await
}

#[tokio::test]
async fn the_first_result_and_all_results_come_back() {
    let output = query(json!({ "filter": ".[] | select(. > 1)", "input": [1, 2, 3.5] }))
        .await
        .unwrap();
    assert_eq!((output.count, output.result.unwrap()), (2, json!(2)));
    assert_eq!(output.results.unwrap(), [json!(2), json!(3.5)]);
    let nothing = query(json!({ "filter": "empty" })).await.unwrap();
    assert_eq!((nothing.count, nothing.result), (0, Some(Value::Null)));
}

#[tokio::test]
async fn the_standard_library_is_there() {
    let filter = r#"
        [.[] | ascii_downcase | test("^a")]
        | map(not)
        | {found: ., text: "\(length) of \(now | floor > 0)", uri: ("a b" | @uri)}
    "#;
    let output = query(json!({ "filter": filter, "input": ["A", "b"] }))
        .await
        .unwrap();
    assert_eq!(
        output.result.unwrap(),
        json!({ "found": [false, true], "text": "2 of true", "uri": "a%20b" })
    );
}

#[tokio::test]
async fn a_filter_that_does_not_compile_is_an_invalid_payload() {
    for filter in [
        "foo(",
        ". |",
        "undefined_filter",
        "$unbound",
        "\"",
        "import \"a\" as a; .",
    ] {
        let error = query(json!({ "filter": filter })).await.unwrap_err();
        assert_eq!(
            (error.code(), error.stated_severity().unwrap().as_str()),
            ("INVALID_PAYLOAD", "fatal"),
            "{filter}"
        );
    }
}

#[tokio::test]
async fn a_filter_that_fails_is_an_error_that_a_plan_may_skip() {
    let error = query(json!({ "filter": ".a.b", "input": { "a": 1 } }))
        .await
        .unwrap_err();
    assert_eq!(kind(&error), "JQ_ERROR");
    let error = query(json!({ "filter": "error(\"mine\")" })).await.unwrap_err();
    assert!(error.message().contains("mine"), "{error}");
}

#[tokio::test]
async fn a_halt_ends_the_filter_and_keeps_what_it_gave() {
    let output = query(json!({ "filter": "1, halt, 2" })).await.unwrap();
    assert_eq!((output.count, output.result), (1, Some(json!(1))));
    let error = query(json!({ "filter": "1, halt_error(3)" })).await.unwrap_err();
    assert_eq!(error.code(), "JQ_ERROR");
}

#[tokio::test]
async fn an_endless_filter_without_results_is_stopped() {
    let begin = Instant::now();
    let short = context_with(Duration::from_millis(300));
    let error = query_in(closed(), json!({ "filter": "def f: f; f" }), short)
        .await
        .unwrap_err();
    assert_eq!(
        (error.code(), &error.diagnostics()["reason"]),
        ("JQ_ERROR", &json!("time_limit"))
    );
    assert!(begin.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_cancellation_stops_an_endless_filter() {
    let attempt = context();
    let running = tokio::spawn(query_in(
        closed(),
        json!({ "filter": "def f: f; f" }),
        attempt.clone(),
    ));
    cancel(&attempt);
    assert_eq!(running.await.unwrap().unwrap_err().code(), "CANCELLED");
}

#[tokio::test]
async fn endless_results_are_stopped_at_the_limit() {
    let error = query(json!({ "filter": "repeat(1)", "results_max": 5 }))
        .await
        .unwrap_err();
    assert_eq!(error.code(), "JQ_ERROR");
    assert!(error.message().contains("more than 5 results"), "{error}");
    let exact = query(json!({ "filter": "range(5)", "results_max": 5 }))
        .await
        .unwrap();
    assert_eq!(exact.count, 5);
    let error = query(json!({ "filter": "\"0123456789\" * 100000" }))
        .await
        .unwrap_err();
    assert!(error.message().contains("bytes"), "{error}");
}

#[tokio::test]
async fn memory_and_stack_end_the_filter_and_not_the_worker() {
    for filter in ["\"0123456789\" * 1000000000 | length", "def f: 1 + f; f"] {
        let error = query(json!({ "filter": filter })).await.unwrap_err();
        assert_eq!(
            (error.code(), error.stated_severity().unwrap().as_str()),
            ("RESOURCE_EXHAUSTED", "fatal"),
            "{filter}"
        );
    }
}

#[tokio::test]
async fn a_filter_sees_nothing_of_the_worker_s_environment() {
    assert!(std::env::var_os("PATH").is_some());
    let output = query(json!({ "filter": "env" })).await.unwrap();
    assert_eq!(output.result.unwrap(), json!({}));
}

#[tokio::test]
async fn files_carry_data_in_and_out() {
    let (config, directory) = with_root();
    fs::write(directory.path().join("in.json"), r#"{"name": "Ada"}"#).unwrap();
    let payload =
        json!({ "filter": ".name", "input_file": "in.json", "output_file": "out/name", "raw": true });
    let output = query_in(config, payload, context()).await.unwrap();
    assert_eq!((output.count, output.result), (1, None));
    assert_eq!(output.output_file.unwrap().path, "out/name");
    assert_eq!(
        fs::read_to_string(directory.path().join("out/name")).unwrap(),
        "Ada"
    );
}

#[tokio::test]
async fn a_file_that_is_no_json_is_an_invalid_payload() {
    let (config, directory) = with_root();
    fs::write(directory.path().join("in"), "{").unwrap();
    let error = query_in(config, json!({ "filter": ".", "input_file": "in" }), context())
        .await
        .unwrap_err();
    assert_eq!(error.code(), "INVALID_PAYLOAD");
}

#[tokio::test]
async fn a_file_can_be_one_text_for_the_filter() {
    let (config, directory) = with_root();
    fs::write(directory.path().join("names.txt"), "ada\ngrace\n").unwrap();
    let payload = json!({ "input_file": "names.txt", "raw_input": true, "filter": "split(\"\\n\")[1]" });
    let output = query_in(config, payload, context()).await.unwrap();
    assert_eq!(output.result.unwrap(), json!("grace"));
    let error = query(json!({ "filter": ".", "raw_input": true }))
        .await
        .unwrap_err();
    assert_eq!(error.code(), "INVALID_PAYLOAD");
}

#[tokio::test]
async fn results_that_fit_as_json_and_not_as_an_output_are_an_error_that_a_plan_may_skip() {
    let deep = [63, 70, 125, 126, 127, 128].map(|n| format!("reduce range({n}) as $n (1; [.])"));
    for filter in deep.iter().map(String::as_str).chain(["[range(60000)]"]) {
        let error = query(json!({ "filter": filter })).await.unwrap_err();
        assert_eq!(
            (error.code(), error.stated_severity()),
            ("JQ_ERROR", None),
            "{filter}"
        );
    }
    // The same results fit into a file.
    let (config, _directory) = with_root();
    let payload = json!({ "filter": "[range(60000)]", "output_file": "numbers" });
    assert!(query_in(config, payload, context()).await.is_ok());
}
