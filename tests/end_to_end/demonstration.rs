//! `cargo demo` ends as it should: the program itself, on processes and files of its own.

use crate::traces::trees::{drawn, hold};
use crate::traces::{Collector, attribute};
use escapement_tests::{Binaries, checkout, fresh_id, tool};
use opentelemetry_proto::tonic::trace::v1::Span;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A folder where the demo finds the project above it. Removed on drop, unless the thread panics.
struct Output(PathBuf);

impl Output {
    /// Not the default, so that it does not meet a demo that a person runs.
    fn new() -> Self {
        Self(PathBuf::from(format!("target/demo-{}", fresh_id())))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        let path = checkout::root().join(&self.0);
        if std::thread::panicking() {
            eprintln!("kept for you to look at: {}", path.display());
        } else if let Err(fault) = std::fs::remove_dir_all(&path) {
            eprintln!("cannot remove {}: {fault}", path.display());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_ends_with_two_successes_one_partial_and_one_failure() {
    if tool("git", "the plans of the demo read the project's history").is_none() {
        return;
    }
    let programs = Binaries::build().unwrap();
    let output = Output::new();
    let collector = Collector::default();
    let endpoint = collector.serve().await;
    let mut demo = Command::new(env!("CARGO_BIN_EXE_demo"));
    demo.arg("--output")
        .arg(&output.0)
        .env("ESCAPEMENT_BINARIES", programs.orchestrator.parent().unwrap())
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        .env("OTEL_TRACES_SAMPLER_ARG", "1")
        .stdin(Stdio::null());
    let ran = tokio::task::block_in_place(|| demo.output()).unwrap();
    let (said, complained) = (
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr),
    );
    let told = format!("it said:\n{said}\n{complained}");
    assert_eq!(ran.status.code(), Some(0), "{told}");
    let last = said.lines().last();
    assert_eq!(
        last,
        Some(r#"{"plans":4,"success":2,"partial":1,"failure":1,"run":"completed","goal":"reached"}"#),
        "{told}"
    );
    let report = checkout::root().join(&output.0).join("files/release-report.md");
    let report = std::fs::read_to_string(report).unwrap();
    assert!(report.starts_with("# Release report\n"), "{report}");
    let changes = checkout::root().join(&output.0).join("files/goal/changes.md");
    let changes = std::fs::read_to_string(changes).unwrap();
    assert!(changes.starts_with("# Changes up to "), "{changes}");
    assert_eq!(
        changes.lines().filter(|line| line.starts_with("- ")).count(),
        5,
        "{changes}"
    );
    for told in [
        "generation 1 ✗ refused, nothing of it ran",
        "step `changelog` failed with FILE_NOT_FOUND",
        "no further plan may call file.read",
        "generation 3 ✓ plan 2",
    ] {
        assert!(said.contains(told), "{told:?} is not in what it said:\n{said}");
    }
    let spans = collector.got().spans;
    let is_report = |span: &&Span| {
        span.name == "execution" && attribute(span, "escapement.plan.name") == "Release report"
    };
    let report = spans.iter().find(is_report).unwrap();
    let of_report = spans.iter().filter(|span| span.trace_id == report.trace_id);
    hold(
        "The release report of the demo",
        &drawn(&of_report.cloned().collect::<Vec<_>>()),
    );
}
