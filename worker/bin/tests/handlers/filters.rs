//! `json.query`.

use super::{closed, context, context_with, input, kind, with_root};
use escapement_sdk::testing::cancel;
use escapement_sdk::{StepContext, StepError};
use escapement_worker::config::Config;
use escapement_worker::eval::budget::Budget;
use escapement_worker::eval::parent::EVALUATE_ARGUMENT;
use escapement_worker::handlers::json_query::{Output, run};
use escapement_worker::handlers::{json_filter, template_fill};
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
        ("JQ_TIMEOUT", &json!("time_limit"))
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

#[tokio::test]
async fn a_file_keeps_its_digits_and_may_begin_with_a_byte_order_mark() {
    let (config, directory) = with_root();
    fs::write(
        directory.path().join("in.json"),
        "\u{feff}{\"id\": 2512292042121000001, \"n\": 1e23}",
    )
    .unwrap();
    let payload = json!({ "filter": "., (.id | tostring), .id + 1", "input_file": "in.json" });
    let output = query_in(config, payload, context()).await.unwrap();
    assert_eq!(
        output.results.unwrap(),
        [
            json!({ "id": "2512292042121000001", "n": 1e23 }),
            json!("2512292042121000001"),
            json!("2512292042121000002"),
        ]
    );
}

/// Returns the evaluations that this program runs now: their own MiB, and how early the kernel would end each.
fn evaluations(program: &std::path::Path) -> Vec<(u64, String)> {
    let evaluation = |process: fs::DirEntry| {
        let read = |file: &str| fs::read_to_string(process.path().join(file)).ok();
        let command = read("cmdline")?;
        if !command.starts_with(&format!("{}\0{EVALUATE_ARGUMENT}", program.display())) {
            return None;
        }
        let status = read("status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
        let kib: u64 = line.trim_end_matches("kB").trim().parse().ok()?;
        Some((kib >> 10, read("oom_score_adj")?.trim().to_owned()))
    };
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(evaluation)
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_evaluations_together_have_a_budget_and_all_of_them_end() {
    let (mib, places) = (128, 2);
    let directory = tempfile::TempDir::new().unwrap();
    // A name of its own, so that it is told from those of other tests.
    let program = directory.path().join("worker");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_worker"), &program).unwrap();
    let mut config = Config::closed(program.clone());
    config.evaluations = Budget::new(mib, places);
    let config = Arc::new(config);
    // Each fills what it gets.
    let greedy = json!({ "filter": "[range(100000000)] | length" });
    let running: Vec<_> = (0..6)
        .map(|_| tokio::spawn(run(input(greedy.clone()), context(), config.clone())))
        .collect();
    let mut seen = Vec::new();
    while running.iter().any(|run| !run.is_finished()) {
        seen.push(evaluations(&program));
        tokio::task::yield_now().await;
    }
    for run in running {
        assert_eq!(kind(&run.await.unwrap().unwrap_err()), "RESOURCE_EXHAUSTED fatal");
    }
    let sums = seen.iter().map(|all| all.iter().map(|(mib, _)| mib).sum::<u64>());
    assert!(sums.max().unwrap() <= u64::from(mib), "{seen:?}");
    assert!(seen.iter().all(|all| all.len() <= places), "{seen:?}");
    // Before it says so itself, a child is like any other.
    let mut grown = seen.iter().flatten().filter(|(mib, _)| *mib > 8).peekable();
    assert!(
        grown.peek().is_some() && grown.all(|(_, score)| score == "1000"),
        "{seen:?}"
    );
    let small = run(input(json!({ "filter": "1 + 1" })), context(), config)
        .await
        .unwrap();
    assert_eq!(small.result, Some(json!(2)), "all was given back");
}

#[tokio::test]
async fn a_filter_and_a_template_without_files_are_pure_and_know_no_file() {
    let payload = json!({ "filter": ".n + 1", "input": { "n": 1 } });
    let output = json_filter::run(input(payload), context(), Arc::new(closed()))
        .await
        .unwrap();
    assert_eq!((output.count, output.result), (1, Some(json!(2))));
    let payload = json!({ "template": "{{ n }}!", "data": { "n": 1 } });
    let output = template_fill::run(input(payload), context(), Arc::new(closed()))
        .await
        .unwrap();
    assert_eq!(output.text.as_deref(), Some("1!"));
    let with_file = json!({ "filter": ".", "template": "", "output_file": "a" });
    let refused = [
        serde_json::from_value::<json_filter::Input>(with_file.clone()).unwrap_err(),
        serde_json::from_value::<template_fill::Input>(with_file).unwrap_err(),
    ];
    assert!(
        refused
            .iter()
            .all(|error| error.to_string().contains("unknown field"))
    );
}
