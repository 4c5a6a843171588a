//! Wrong settings, stores and files: refused with the documented exit code, also if the reason cannot be said.

use std::path::Path;
use std::process::{Output, Stdio};

use escapement_tests::Binaries;

use crate::place::{ORDINARY, Place, SILENT};
use crate::stage::Stage;

/// Program, arguments, exit code, and a word of the sentence.
const REFUSED: [(&str, &[&str], i32, &str); 9] = [
    ("orchestrator", &["--listen", "nonsense"], 64, "--listen"),
    (
        "orchestrator",
        &["--listen", "127.0.0.1:0", "--store-path", "file/store"],
        73,
        "file",
    ),
    (
        "orchestrator",
        &[
            "--listen",
            "192.0.2.1:1",
            "--allow-plaintext",
            "--allow-anonymous",
            "--store-path",
            "other",
        ],
        69,
        "192.0.2.1",
    ),
    (
        "orchestrator",
        &["check", "--store-path", "nowhere"],
        73,
        "nowhere",
    ),
    (
        "orchestrator",
        &["backup", "--store-path", "nowhere", "--to", "backup"],
        73,
        "nowhere",
    ),
    (
        "orchestrator",
        &["restore", "--store-path", "new", "--from", "nowhere"],
        73,
        "nowhere",
    ),
    ("orchestrator", &["render", "file"], 65, "file"),
    ("worker", &["--no-such-flag"], 64, "--no-such-flag"),
    ("worker", &["--orchestrator", "nonsense"], 64, "--orchestrator"),
];

fn run(place: &Place, program: &str, arguments: &[&str], here: &Path) -> Output {
    let binaries = Binaries::build().unwrap();
    let program = if program == "worker" {
        binaries.worker
    } else {
        binaries.orchestrator
    };
    let mut command = place.command(&program, here);
    command.args(arguments).current_dir(here).stdin(Stdio::null());
    command.output().unwrap()
}

#[test]
fn a_refusal_says_why_and_keeps_its_exit_code_without_stderr() {
    let stage = Stage::new();
    let here = stage.directory.path();
    std::fs::write(here.join("file"), "no store and no plan").unwrap();
    for (program, arguments, code, word) in REFUSED {
        let output = run(&ORDINARY, program, arguments, here);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{program} {arguments:?}: {said}"
        );
        assert!(said.contains(word), "{program} {arguments:?}: {said}");
        assert!(!said.contains("panicked"), "{program} {arguments:?}: {said}");
        // A sentence waits for a reader that is there.
        for place in SILENT
            .iter()
            .filter(|place| !place.name.ends_with("does not read"))
        {
            let output = run(place, program, arguments, here);
            assert_eq!(
                output.status.code(),
                Some(code),
                "{program} {arguments:?}: {}",
                place.name
            );
        }
    }
}

#[test]
fn help_without_a_reader_is_no_failure() {
    let stage = Stage::new();
    let places = crate::place::ODD
        .iter()
        .filter(|place| place.name.starts_with("stdout"));
    for place in places.chain(&SILENT) {
        for program in ["orchestrator", "worker"] {
            let output = run(place, program, &["--help"], stage.directory.path());
            assert_eq!(output.status.code(), Some(0), "{program}: {}", place.name);
        }
    }
}
