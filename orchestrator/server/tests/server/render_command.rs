//! `orchestrator render` as the binary does it: what is written where, and with which code it ends.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Returns a file of the repository, from its top.
fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Returns a file beside the drawings.
fn sample_path(name: &str) -> PathBuf {
    in_repository("orchestrator/insight/tests/samples").join(name)
}

/// Runs the command with these arguments and this input.
fn render(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_orchestrator"))
        .arg("render")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that refuses its arguments does not read.
    let _unread = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

fn release_report() -> String {
    in_repository("tests/plans/release-report.json")
        .to_str()
        .unwrap()
        .to_owned()
}

fn name(file: &str) -> String {
    sample_path(file).to_str().unwrap().to_owned()
}

fn drawn(file: &str) -> String {
    std::fs::read_to_string(sample_path(file)).unwrap()
}

#[test]
fn a_plan_is_drawn_on_stdout_as_text() {
    let output = render(&[&release_report()], b"");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        drawn("release-report.txt")
    );
    assert!(output.stderr.is_empty());
}

#[test]
fn stdin_is_an_input_and_the_width_is_heard() {
    let document = std::fs::read(release_report()).unwrap();
    let output = render(&["--width", "80", "-"], &document);
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        drawn("release-report-80.txt")
    );
}

#[test]
fn a_picture_is_written_to_a_file_and_replaces_it() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = directory.join(format!("import-{}.svg", std::process::id()));
    std::fs::write(&file, "x".repeat(1 << 20)).unwrap();
    let to = file.to_str().unwrap();
    let (plan, record) = (name("import-plan.json"), name("import-record.json"));
    let output = render(&["--format", "svg", "--to", to, "--plan", &plan, &record], b"");
    assert_eq!(
        (output.status.code(), output.stdout.len()),
        (Some(0), 0),
        "{output:?}"
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), drawn("import.svg"));
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn one_view_is_drawn_where_one_is_wanted() {
    let (plan, record) = (name("import-plan.json"), name("import-record.json"));
    let draw = |view: &str| {
        let output = render(&["--view", view, "--plan", &plan, &record], b"");
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let (dag, timeline) = (draw("dag"), draw("timeline"));
    assert!(dag.contains("├─✓") && !dag.contains('█'), "{dag}");
    assert!(!timeline.contains("├─✓") && timeline.contains('█'), "{timeline}");
}

#[test]
fn wrong_flags_end_with_64() {
    let plan = release_report();
    let wrong: [&[&str]; 5] = [
        &[],
        &["--format", "png", &plan],
        &["--width", "59", &plan],
        &["--width", "1000", &plan],
        &["--format", "svg", "--width", "100", &plan],
    ];
    for arguments in wrong {
        let output = render(arguments, b"");
        assert_eq!(output.status.code(), Some(64), "{arguments:?} {output:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty());
    }
}

#[test]
fn what_cannot_be_drawn_ends_with_65_and_says_why() {
    let (plan, record) = (release_report(), name("import-record.json"));
    let (simulation, drawing) = (name("simulation.json"), name("diamond.txt"));
    let refused: [(&[&str], &str); 5] = [
        (&["-"], "-: the input is no JSON object"),
        (
            &[&drawing],
            "the input is no JSON object; expected a plan document",
        ),
        (&[&record], "give it with --plan FILE"),
        (&["--view", "timeline", &plan], "a plan by itself has no timeline"),
        (&["--view", "dag", &simulation], "give the plan with --plan FILE"),
    ];
    for (arguments, expected) in refused {
        let output = render(arguments, b"what is this?");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(65), "{arguments:?} {said}");
        assert!(
            said.starts_with("orchestrator: ") && said.contains(expected),
            "{said}"
        );
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_file_that_cannot_be_used_ends_with_73() {
    let (plan, missing) = (release_report(), name("missing.json"));
    let unusable: [&[&str]; 3] = [
        &[&missing],
        &["--plan", &missing, &plan],
        &["--to", "/nowhere/drawing.svg", &plan],
    ];
    for arguments in unusable {
        let output = render(arguments, b"");
        assert_eq!(output.status.code(), Some(73), "{arguments:?} {output:?}");
    }
}

#[test]
fn an_input_that_is_too_large_is_refused_before_it_is_read() {
    let output = render(&["-"], &b" ".repeat((256 << 20) + 1));
    assert_eq!(output.status.code(), Some(65), "{output:?}");
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("larger than 256 MiB")
    );
}
